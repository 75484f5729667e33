//! A line with a bar in it, below what is printed meanwhile.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The line.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// On standard error if that is a terminal.
    pub(super) fn new(is_wanted: bool) -> Self {
        let target = if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:20.cyan/dim} {percent:>3} %  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Shows how far all is, and these words.
    pub(super) fn show(&self, position: u64, end: u64, words: String) {
        self.0.set_length(end);
        self.0.set_position(position);
        self.0.set_message(words);
    }

    /// Prints a line above.
    pub(super) fn say(&self, text: &str) {
        if self.0.is_hidden() { eprintln!("{text}") } else { self.0.println(text) }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
