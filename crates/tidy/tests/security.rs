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

#[test]
fn every_promise_has_its_test() {
    let names = names_of_tests(&read("docs/security.md"));
    assert!(names.len() > 40, "{names:?}");
    let mut tests = BTreeSet::new();
    for path in sources() {
        let text = read(&path);
        let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        tests.extend(functions.map(str::to_owned));
    }
    let missing: Vec<_> = names.difference(&tests).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that there are not: {missing:?}");
}
