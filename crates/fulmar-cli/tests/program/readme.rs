//! What the README and the guide say of the program is true: commands parse, the example compiles (a
//! documentation test of the library), files exist.

use std::path::Path;

use clap::{CommandFactory, Parser};
use fulmar_cli::args::Cli;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// Commands of blocks, with or without a prompt, and of spans of code. A command's name alone is none, nor is a
/// line that leaves something out or stands for many.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let prompted =
        blocks.map(|line| line.split_once("$ ").or(line.split_once("#  ")).map_or(line, |(_, rest)| rest));
    let prose: Vec<&str> =
        text.split("```").step_by(2).flat_map(|part| part.split('`').skip(1).step_by(2)).collect();
    prompted
        .chain(prose)
        .map(|line| line.split(" # ").next().unwrap_or_default().split("  #").next().unwrap_or_default())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter_map(|line| line.strip_prefix("fulmar ").map(str::to_owned))
        .filter(|line| line.contains(' '))
        .filter(|line| !["..", "|", "COMMAND", "SHELL", "TARGET"].iter().any(|word| line.contains(word)))
        .collect()
}

#[test]
fn commands_of_the_pages_are_commands() {
    let mut found = 0;
    for page in [
        "README",
        "docs/first-steps",
        "docs/guide",
        "docs/carry",
        "docs/service",
        "docs/troubleshooting",
        "docs/coming-from",
    ] {
        let text = std::fs::read_to_string(root().join(page).with_extension("md")).unwrap();
        for line in commands(&text) {
            let parsed = Cli::try_parse_from(std::iter::once("fulmar").chain(line.split_whitespace()));
            let is_a_page = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
            if let Err(error) = parsed {
                assert!(is_a_page(&error), "{page}: fulmar {line}: {error}");
            }
            found += 1;
        }
    }
    assert!(found >= 60, "only {found} commands were found: has the form of the pages changed?");
}

#[test]
fn its_make_targets_are_targets() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    for part in readme().split("make ").skip(1) {
        let target: String = part.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        assert!(makefile.contains(&format!("\n{target}: ")), "make {target}");
    }
}

#[test]
fn the_profiles_of_the_documentation_are_the_profiles() {
    let text = std::fs::read_to_string(root().join("docs/profiles/README.md")).unwrap();
    let table = text.split("\n| profile | source |").nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = table.lines().filter_map(|line| line.split('|').nth(1));
    let mut listed: Vec<_> =
        cells.flat_map(|cell| cell.split('[').skip(1).filter_map(|rest| rest.split(']').next())).collect();
    let mut known = fulmar::profile_names();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn its_numbers_are_those_of_the_workspace() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let wanted = manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    // A line may end between two words.
    let words = readme().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(&format!("Rust {wanted} or newer")),
        "the README names another version of Rust than {wanted}"
    );
    let script = std::fs::read_to_string(root().join("scripts/toolchain")).unwrap();
    assert!(script.contains(&format!("rust_wanted={wanted} ")), "scripts/toolchain wants another one");
    assert_eq!(Cli::command().get_version(), Some(env!("CARGO_PKG_VERSION")));
    assert!(
        words.contains(&format!("UDP port {}", fulmar_cli::reach::DEFAULT_PORT)),
        "the port is another one"
    );
}

#[test]
fn the_guide_lists_the_exit_codes_of_the_help() {
    let guide = std::fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let rows = fulmar_cli::exit::EXIT_CODES.lines().skip(1).map(|line| line.trim().split_once("  ").unwrap());
    for (code, meaning) in rows {
        let row = format!("| {code} | {} |", meaning.trim());
        assert!(guide.contains(&row), "docs/guide.md lacks {row}");
    }
}

#[test]
fn its_files_exist() {
    let text = readme();
    let mut links = 0;
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        links += 1;
        if link.starts_with("http") {
            continue;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let page = std::fs::read_to_string(root().join(if file.is_empty() { "README.md" } else { file }));
        let is_there = |text: &str| {
            heading.is_empty()
                || text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == heading)
        };
        assert!(
            root().join(file).exists() && page.map_or(heading.is_empty(), |text| is_there(&text)),
            "{link}"
        );
    }
    assert!(links >= 5);
}

/// What a heading is called in links: `## C and C++` is `c-and-c`.
fn slug(line: &str) -> String {
    let text = line.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
