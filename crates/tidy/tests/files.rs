//! Files that can be read in one sitting, and no unfinished work in them.

use std::collections::BTreeMap;

use tidy::{read, sources};

/// Longest file, in lines. Longer ones stand in `ratchet.txt` with their length, and may only shrink.
const LINES_MAX: usize = 500;

#[test]
fn files_are_short_enough_to_read() {
    let mut exceptions: BTreeMap<String, usize> = include_str!("../ratchet.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (path, lines) = line.split_once(' ').expect("path and length");
            (path.to_owned(), lines.trim().parse().expect("a length"))
        })
        .collect();
    let mut complaints = Vec::new();
    for path in sources() {
        let lines = read(&path).lines().count();
        match exceptions.remove(&path) {
            None if lines > LINES_MAX => {
                complaints.push(format!("{path}: {lines} lines, at most {LINES_MAX}: cut it"))
            }
            Some(was) if lines > was => {
                complaints.push(format!("{path}: grew from {was} to {lines} lines: cut it"))
            }
            Some(was) if lines <= LINES_MAX || lines + 20 < was => {
                complaints
                    .push(format!("{path}: only {lines} lines now: lower it in crates/tidy/ratchet.txt"));
            }
            _ => {}
        }
    }
    complaints.extend(
        exceptions.keys().map(|path| format!("{path} is gone: take it out of crates/tidy/ratchet.txt")),
    );
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn nothing_is_left_unfinished() {
    // Written in halves, so that this file does not find itself.
    let words = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("db", "g!("),
    ];
    for path in sources() {
        let text = read(&path);
        for word in words {
            assert!(!text.contains(word), "{path} contains {word}");
        }
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    for path in sources() {
        let text = read(&path);
        let first = text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("#!["));
        assert!(first.is_some_and(|l| l.starts_with("//!")), "{path} does not open with a `//!` line");
    }
}
