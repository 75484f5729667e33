//! Every clause of docs/internals/wire.md stands in its table of tests, and every test that the table names
//! is there.

use std::collections::{BTreeMap, BTreeSet};

use tidy::{read, sources};

/// Clauses that no test of this project checks: what they ask for is done by the TLS library. The list may
/// only shrink.
const UNTESTED: [&str; 1] = ["3.1.5"];

/// The numbers at the beginning of clauses.
fn clauses(text: &str) -> BTreeSet<String> {
    let numbers = text.lines().filter_map(|line| line.strip_prefix("- ")?.split(' ').next());
    let is_number = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    numbers.filter(is_number).map(str::to_owned).collect()
}

/// The rows of the table: a clause, and the tests in code quotes.
fn table(text: &str) -> BTreeMap<String, Vec<String>> {
    let (_, table) = text.split_once("| clause | tests |").expect("a table of clauses");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    rows.map(|(clause, tests)| {
        (clause.to_owned(), tests.split('`').skip(1).step_by(2).map(str::to_owned).collect())
    })
    .collect()
}

#[test]
fn every_clause_has_its_tests() {
    let text = read("docs/internals/wire.md");
    let (clauses, table) = (clauses(&text), table(&text));
    assert!(clauses.len() > 70, "{clauses:?}");
    let rows: BTreeSet<String> = table.keys().cloned().collect();
    assert_eq!(rows, clauses, "clauses and rows of the table differ");
    let untested = table.iter().filter(|(_, tests)| tests.is_empty()).map(|(clause, _)| clause.as_str());
    assert_eq!(untested.collect::<Vec<_>>(), UNTESTED);
    let mut tests = BTreeSet::new();
    for path in sources() {
        let text = read(&path);
        let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        tests.extend(functions.map(str::to_owned));
    }
    let missing: Vec<_> = table.values().flatten().filter(|test| !tests.contains(*test)).collect();
    assert!(missing.is_empty(), "docs/internals/wire.md names tests that there are not: {missing:?}");
}
