//! A bar on a terminal, a line now and then elsewhere; both on standard error.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two drawings of the bar.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Characters of the bar.
const WIDTH: u64 = 30;
/// What makes up the pace of late: so many words, or all of so long.
const RECENT_WORDS: usize = 16;
const RECENT_TIME: Duration = Duration::from_secs(60);

/// How far something is.
#[derive(Debug)]
pub(super) struct Bar {
    name: String,
    is_terminal: bool,
    /// The last words, and how much had been done by then: the pace of late is the best guess at what is to
    /// come.
    recent: VecDeque<(Instant, u64)>,
    shown_at: Option<Instant>,
}

impl Bar {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            is_terminal: std::io::stderr().is_terminal(),
            recent: VecDeque::new(),
            shown_at: None,
        }
    }

    /// So much of so much is done. Says so if the last word is some time ago, or all is done.
    pub(super) fn show(&mut self, done: u64, total: u64, label: &str) {
        let now = Instant::now();
        self.recent.push_back((now, done));
        while self.recent.len() > RECENT_WORDS && now - self.recent[0].0 > RECENT_TIME {
            self.recent.pop_front();
        }
        let (then, before) = self.recent[0];
        let interval = if self.is_terminal { DRAW_INTERVAL } else { LINE_INTERVAL };
        if done < total && self.shown_at.is_some_and(|at| now < at + interval) {
            return;
        }
        self.shown_at = Some(now);
        let left = remaining(now - then, done.saturating_sub(before), total.saturating_sub(done));
        let text = format!("{done}/{total}{left} {label}");
        let mut out = std::io::stderr().lock();
        // Nobody is helped by a failure to show progress.
        let _ = if self.is_terminal {
            let filled = (done * WIDTH).checked_div(total).unwrap_or(WIDTH).min(WIDTH) as usize;
            let (full, empty) = ("#".repeat(filled), " ".repeat(WIDTH as usize - filled));
            write!(out, "\r\x1b[K{} [{full}{empty}] {text}", self.name)
        } else {
            writeln!(out, "{} {text}", self.name)
        };
        let _ = out.flush();
    }

    /// A line that stays, above the bar.
    pub(super) fn say(&mut self, line: &str) {
        let erase = if self.is_terminal { "\r\x1b[K" } else { "" };
        eprintln!("{erase}{line}");
        self.shown_at = None;
    }

    /// Leaves the bar's line.
    pub(super) fn end(&mut self) {
        if self.is_terminal && !self.recent.is_empty() {
            eprintln!();
        }
    }
}

/// How long the rest takes if it goes on like that; nothing at the beginning and the end.
fn remaining(elapsed: Duration, done: u64, left: u64) -> String {
    if done == 0 || left == 0 {
        return String::new();
    }
    let seconds = (elapsed.as_secs_f64() * left as f64 / done as f64).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!(", {s} s left"),
        (0, m, s) => format!(", {m} min {s} s left"),
        (h, m, _) => format!(", {h} h {m} min left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_as_fast_as_what_was() {
        let of = |seconds, done, left| remaining(Duration::from_secs(seconds), done, left);
        assert_eq!(of(10, 0, 5), "");
        assert_eq!(of(10, 5, 0), "");
        assert_eq!(of(10, 5, 5), ", 10 s left");
        assert_eq!(of(60, 2, 3), ", 1 min 30 s left");
        assert_eq!(of(3600, 1, 2), ", 2 h 0 min left");
    }
}
