//! Pages that are named exist: links from page to page with their headings, and `docs/...` in sources.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use tidy::{files, read, root};

/// Paths without `..` in them.
fn plain(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = found.pop(),
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}

/// What a heading is called in links: `## C and C++` is `c-and-c`.
fn slug(line: &str) -> String {
    let text = line.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Links of a page to files, outside of code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2).flat_map(|part| part.split('`').step_by(2));
    let ends = prose.flat_map(|part| part.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    ends.filter(|link| !link.starts_with("http") && !link.contains("::") && !link.contains(' ')).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut broken = Vec::new();
    // The laboratory makes the pages of docs/results, with links to tables that may be left out.
    for page in files("", ".md").into_iter().filter(|page| !page.starts_with("docs/results/")) {
        let text = read(&page);
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => PathBuf::from(&page),
                file => plain(&Path::new(&page).parent().expect("a folder").join(file)),
            };
            let is_there = root().join(&target).exists();
            let has_heading = heading.is_empty()
                || is_there
                    && read(&target.to_string_lossy())
                        .lines()
                        .any(|line| line.starts_with('#') && slug(line) == heading);
            if !is_there || !has_heading {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Words of a source that name a page of ours.
fn pages_named(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    let words = text.split(move |c| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| (word.starts_with("docs/") || word.starts_with("notebook/")) && word.ends_with(".md"))
}

#[test]
fn pages_that_sources_name_exist() {
    let suffixes = [".rs", ".toml", ".md", ".lua", ".ts", ".tsx", ".py", ".sh", "Makefile", ".h", ".yml"];
    let sources: BTreeSet<String> = suffixes.iter().flat_map(|suffix| files("", suffix)).collect();
    let is_left_out = |path: &str| {
        path == "CHANGELOG.md" || path.starts_with("notebook/") || path == "crates/tidy/tests/links.rs"
    };
    let mut broken = Vec::new();
    for path in sources.into_iter().filter(|path| !is_left_out(path)) {
        let text = read(&path);
        // Pages of results are made when there are some.
        let is_missing = |page: &&str| !page.starts_with("docs/results/") && !root().join(page).exists();
        let missing = pages_named(&text).filter(is_missing);
        broken.extend(missing.map(|page| format!("{path}: {page}")));
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn links_and_pages_are_found() {
    let text =
        "See [a](b.md#c) and `[no](x.md)` and [web](https://x.org).\n```\n[no](y.md)\n```\n[d](../e/f.md)\n";
    assert_eq!(links(text), ["b.md#c", "../e/f.md"]);
    assert_eq!(plain(Path::new("docs/../a/./b.md")), Path::new("a/b.md"));
    assert_eq!(slug("## C and C++"), "c-and-c");
    let named: Vec<_> = pages_named("// (docs/a/b.md, 3.1) or docs/c.md.\n").collect();
    assert_eq!(named, ["docs/a/b.md", "docs/c.md"]);
}
