//! docs/security.md promises much, and names a test for each promise: those tests have to be there.

use std::collections::BTreeSet;

use tidy::{read, sources};

/// Words in code quotes that look like the names of tests: several words of lower case in a row.
fn names_of_tests(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| {
        word.matches('_').count() >= 1
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            // Files of keys.
            && !matches!(*word, "authorized_keys" | "known_hosts")
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

/// Functions that `cargo test` runs: those with the attribute of a test, unless they are ignored.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in source.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_ignored = true;
        } else if !line.is_empty() && !line.starts_with("#[") && !line.starts_with("//") {
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            found.extend(name.filter(|_| is_test && !is_ignored).map(str::to_owned));
            (is_test, is_ignored) = (false, false);
        }
    }
    found
}

#[test]
fn every_promise_has_its_test() {
    let names = names_of_tests(&read("docs/security.md"));
    assert!(names.len() > 40, "{names:?}");
    let tests: BTreeSet<String> = sources().iter().flat_map(|path| tests_of(&read(path))).collect();
    let missing: Vec<_> = names.difference(&tests).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that there are not: {missing:?}");
}

#[test]
fn only_what_is_run_as_a_test_is_one() {
    let source = "
        fn helper_of_tests() {}
        #[test]
        /// What it is for.
        #[should_panic]
        fn a_test() {}
        fn helper_after_a_test() {}
        #[tokio::test(flavor = \"multi_thread\")]
        async fn a_test_of_tokio() {}
        #[test]
        #[ignore = \"takes hours\"]
        fn an_ignored_test() {}
        #[test]
        const X: u8 = 0;
        fn not_a_test() {}
        proptest! {
            #[test]
            fn a_property(x in 0..9) {}
        }";
    let expected = ["a_property", "a_test", "a_test_of_tokio"].map(str::to_owned);
    assert_eq!(tests_of(source), BTreeSet::from(expected));
}
