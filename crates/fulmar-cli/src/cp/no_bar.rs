//! A line without a bar: what a small program has in its place.

use std::io::{IsTerminal, stderr};

/// To the first column, and no wrapping of what is too long (DECAWM); then the rest of the line is emptied
/// (ECMA-48, EL).
const BEGIN: &str = "\r\x1b[?7l";
const END: &str = "\x1b[K\x1b[?7h";

/// The line.
#[derive(Debug)]
pub(super) struct Bar {
    is_shown: bool,
}

impl Bar {
    /// On standard error if that is a terminal.
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_shown: is_wanted && stderr().is_terminal() }
    }

    /// Shows how far all is, and these words.
    pub(super) fn show(&self, position: u64, end: u64, words: String) {
        let percent = (u128::from(position) * 100).checked_div(u128::from(end)).unwrap_or(0);
        self.draw(&format!("{percent:>3} %  {words}"));
    }

    /// Prints a line above.
    pub(super) fn say(&self, text: &str) {
        self.draw("");
        eprintln!("{text}");
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.draw("");
    }

    fn draw(&self, text: &str) {
        if self.is_shown {
            eprint!("{BEGIN}{text}{END}");
        }
    }
}
