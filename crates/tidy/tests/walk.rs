//! ARCHITECTURE names files for whoever follows it: they must be there.

use tidy::{read, root};

/// What ARCHITECTURE calls a crate, and where its files are.
const CRATES: [(&str, &str); 4] = [
    ("fulmar/", "crates/fulmar/src/"),
    ("proto/", "crates/fulmar-proto/src/"),
    ("control/", "crates/fulmar-control/src/"),
    ("fec/", "crates/fulmar-fec/src/"),
];

/// The files named in code quotes, as paths from the root.
fn named(text: &str) -> Vec<String> {
    let quoted =
        text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") && !word.contains("/x.rs"));
    let path = |word: &str| {
        let folder = CRATES.iter().find_map(|(name, folder)| Some((folder, word.strip_prefix(name)?)));
        folder.map_or_else(|| word.to_owned(), |(folder, rest)| format!("{folder}{rest}"))
    };
    quoted.map(path).collect()
}

#[test]
fn the_files_that_the_walk_names_exist() {
    let text = read("ARCHITECTURE.md");
    let from = text.find("## A walk through the files").expect("the walk");
    let to = text.find("## Crates").expect("what follows it");
    let files = named(&text[from..to]);
    assert!(files.len() > 40, "{}", files.len());
    let lacking: Vec<_> = files.iter().filter(|file| !root().join(file).is_file()).collect();
    assert!(lacking.is_empty(), "ARCHITECTURE names files that are not there: {lacking:?}");
}

#[test]
fn a_name_is_found_where_its_crate_is() {
    assert_eq!(
        named("of `proto/a/b.rs`, `crates/x/c.rs`, `fulmar/x.rs` and `d`"),
        ["crates/fulmar-proto/src/a/b.rs", "crates/x/c.rs"]
    );
}
