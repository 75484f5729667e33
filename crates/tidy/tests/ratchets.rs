//! What grows unless somebody looks: wide lines, long functions, structs of many fields, the constants of
//! `auto`.
//!
//! Each number below is what there is, and may only become smaller: who makes one larger has to change it
//! here,
//! where a reader of the change sees it.

use std::collections::BTreeMap;

use tidy::{files, read, sources};

/// Columns of a Rust line, and how many lines are wider.
const RUST_COLUMNS: usize = 110;
const WIDE_RUST_LINES: usize = 209;

/// Columns of a line of prose in Markdown, and how many are wider. Tables, code and lines with links are what
/// they are; pages in `docs/results` are generated.
const PROSE_COLUMNS: usize = 120;
const WIDE_PROSE_LINES: usize = 422;

/// Lines of the longest function outside of tests, its signature and last brace among them.
const FUNCTION_LINES: usize = 75;

/// Fields of the largest struct.
const STRUCT_FIELDS: usize = 37;

/// The controller `auto`, tests left out: constants, fields of structs, lines of code.
const AUTO: &str = "crates/fulmar-control/src/congestion/auto";
const AUTO_CONSTANTS: usize = 208;
const AUTO_FIELDS: usize = 260;
const AUTO_LINES: usize = 5342;

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A source without its module of tests.
fn shipped(text: &str) -> Vec<&str> {
    let is_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

fn is_test_file(path: &str) -> bool {
    ["tests", "/examples/", "/benches/", "/compare/", "/fuzz/"].iter().any(|word| path.contains(word))
}

/// The lines of each item that begins with a line that `is_head` likes: down to the brace in its column.
/// `None`
/// for a head without a body.
fn items<'a>(lines: &'a [&'a str], is_head: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a [&'a str]> {
    let heads: Vec<usize> = (0..lines.len()).filter(|at| is_head(lines[*at].trim_start())).collect();
    heads.into_iter().filter_map(|start| {
        let margin = indent(lines[start]);
        if lines[start].ends_with(';') || lines[start].ends_with('}') {
            return None;
        }
        let is_end = |line: &str| indent(line) == margin && line.trim_start().starts_with('}');
        let length = lines[start..].iter().copied().position(is_end)?;
        Some(&lines[start..=start + length])
    })
}

fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => line,
    }
}

fn is_function(line: &str) -> bool {
    let words = without_visibility(line).split_whitespace();
    let mut words = words.skip_while(|word| ["const", "unsafe", "async", "extern", "\"C\""].contains(word));
    words.next() == Some("fn")
}

fn length(item: &[&str]) -> usize {
    item.len()
}

fn is_struct(line: &str) -> bool {
    without_visibility(line).starts_with("struct ")
}

fn fields(item: &[&str]) -> usize {
    let margin = indent(item[0]) + 4;
    let is_field = |line: &&&str| {
        let field = without_visibility(line.trim_start());
        let name: String = field.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        indent(line) == margin && !name.is_empty() && field[name.len()..].starts_with(": ")
    };
    item.iter().filter(is_field).count()
}

/// The largest of what `measure` finds in the shipped sources, with its place.
fn largest(is_head: impl Fn(&str) -> bool + Copy, measure: impl Fn(&[&str]) -> usize) -> (usize, String) {
    let mut found = BTreeMap::new();
    for path in sources().into_iter().filter(|path| !is_test_file(path)) {
        let text = read(&path);
        let lines = shipped(&text);
        for item in items(&lines, is_head) {
            found.insert(measure(item), format!("{path}: {}", item[0].trim()));
        }
    }
    found.pop_last().expect("there are some")
}

#[test]
fn lines_do_not_get_wider() {
    let is_wide = |line: &&str| line.chars().count() > RUST_COLUMNS;
    let wide: usize = sources().iter().map(|path| read(path).lines().filter(is_wide).count()).sum();
    assert!(wide <= WIDE_RUST_LINES, "{wide} lines of Rust are wider than {RUST_COLUMNS} columns");
}

#[test]
fn prose_does_not_get_wider() {
    let mut wide = 0;
    for path in files("", ".md").into_iter().filter(|path| !path.starts_with("docs/results")) {
        let text = read(&path);
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.trim_start().starts_with("```");
            let is_prose = !is_code && !line.trim_start().starts_with('|') && !line.contains("](");
            wide += usize::from(is_prose && line.chars().count() > PROSE_COLUMNS);
        }
    }
    assert!(wide <= WIDE_PROSE_LINES, "{wide} lines of Markdown are wider than {PROSE_COLUMNS} columns");
}

#[test]
fn functions_do_not_get_longer() {
    let (lines, place) = largest(is_function, length);
    assert!(lines <= FUNCTION_LINES, "{place} has {lines} lines, and the longest had {FUNCTION_LINES}");
}

#[test]
fn structs_do_not_get_more_fields() {
    let (count, place) = largest(is_struct, fields);
    assert!(count <= STRUCT_FIELDS, "{place} has {count} fields, and the largest had {STRUCT_FIELDS}");
}

/// A controller that nobody can review cannot be trusted: it had 46 constants on one day and 193 eight days
/// later.
#[test]
fn auto_does_not_grow_without_being_seen() {
    let (mut constants, mut count, mut code) = (0, 0, 0);
    for path in files(AUTO, ".rs").into_iter().filter(|path| !is_test_file(path)) {
        let text = read(&path);
        let lines = shipped(&text);
        let is_constant = |line: &&&str| {
            let line = without_visibility(line.trim_start());
            line.starts_with("const ") && !line.starts_with("const fn")
        };
        constants += lines.iter().filter(is_constant).count();
        count += items(&lines, is_struct).map(fields).sum::<usize>();
        code += lines.len();
    }
    assert!(constants <= AUTO_CONSTANTS, "auto has {constants} constants, and had {AUTO_CONSTANTS}");
    assert!(count <= AUTO_FIELDS, "auto has {count} fields, and had {AUTO_FIELDS}");
    assert!(code <= AUTO_LINES, "auto has {code} lines, and had {AUTO_LINES}");
}

#[test]
fn functions_and_fields_are_counted() {
    let lines: Vec<&str> =
        "pub struct A {\n    /// Doc: no field.\n    pub(crate) a: u8,\n    b: u8,\n}\n\nimpl A {\n    \
                            pub const fn f() {\n        g();\n    }\n\n    fn h();\n}"
            .lines()
            .collect();
    assert_eq!(items(&lines, is_struct).map(fields).collect::<Vec<_>>(), [2]);
    assert_eq!(items(&lines, is_function).map(length).collect::<Vec<_>>(), [3]);
}

/// The hook that CONTRIBUTING.md names.
#[cfg(unix)]
#[test]
fn subjects_of_commits_are_short_and_imperative() {
    let file = std::env::temp_dir().join(format!("fulmar-subject-{}", std::process::id()));
    let takes = |message: &str| {
        std::fs::write(&file, message).expect("a temporary file");
        let hook = tidy::root().join(".githooks/commit-msg");
        let output = std::process::Command::new(hook).arg(&file).output().expect("the hook runs");
        output.status.success()
    };
    assert!(takes("Refuse a key file that others may write\n\nBecause.\n# a comment\n"));
    assert!(takes(&format!("Use {}", "ü".repeat(68))), "characters, not bytes");
    for bad in [
        &format!("Use {}", "x".repeat(69)),
        "Refused a key",
        "Refusing a key",
        "refuse a key",
        "docs: changelog of the faults",
        "Refuse a key.",
        "Refuse a key\nBecause.",
    ] {
        assert!(!takes(bad), "{bad}");
    }
    std::fs::remove_file(file).expect("it is there");
}
