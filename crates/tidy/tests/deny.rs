//! deny.toml agrees with Cargo.lock: `cargo deny`, which is not on every machine, could not pass otherwise.

use std::collections::BTreeSet;

use tidy::read;

/// The crates that depend on `name`, by Cargo.lock.
fn dependents(lock: &str, name: &str) -> BTreeSet<String> {
    let of = |package: &str| {
        let is_dependent = package.lines().any(|line| {
            let word = line.trim().trim_start_matches('"').split(['"', ' ']).next();
            line.starts_with(' ') && word == Some(name)
        });
        let own = package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        own.filter(|_| is_dependent).map(str::to_owned)
    };
    lock.split("[[package]]").skip(1).filter_map(of).collect()
}

/// What stands between `before` and the next `end`.
fn between<'a>(text: &'a str, before: &str, end: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(end).map(|(inside, _)| inside)
}

#[test]
fn what_is_banned_is_not_there_or_where_it_may_be() {
    let (lock, deny) = (read("Cargo.lock"), read("deny.toml"));
    let rules: Vec<&str> = deny.lines().filter(|line| line.contains("{ crate = ")).collect();
    assert!(!rules.is_empty());
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = between(rule, "crate = \"", "\"").expect("a name");
        assert!(names.insert(name), "{name} stands twice in deny.toml");
        let wrappers = between(rule, "wrappers = [", "]").unwrap_or_default();
        let wrappers = wrappers.split(',').map(|word| word.trim().trim_matches('"').to_owned());
        let wrappers: BTreeSet<String> = wrappers.filter(|word| !word.is_empty()).collect();
        assert_eq!(dependents(&lock, name), wrappers, "who depends on {name}");
    }
    assert!(names.contains("tokio"));
}
