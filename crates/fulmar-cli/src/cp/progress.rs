//! How far a copy is: counters that every transfer feeds, and the line that shows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counters over all files of one command. They are shown, and decide nothing.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of all files known so far.
    pub total_bytes: AtomicU64,
    /// Bytes of them that are over there, whenever they came.
    pub present_bytes: AtomicU64,
    /// Bytes moved by this command.
    pub moved_bytes: AtomicU64,
    /// Files finished.
    pub files: AtomicU64,
}

/// The part of one attempt at one file. An attempt that fails takes its share back, for the next will count
/// it again.
#[derive(Debug)]
pub struct FileProgress {
    all: Arc<Progress>,
    present_bytes: AtomicU64,
}

impl FileProgress {
    /// A new attempt.
    pub fn new(all: &Arc<Progress>) -> Self {
        Self { all: Arc::clone(all), present_bytes: AtomicU64::new(0) }
    }

    /// So much was there already.
    pub fn on_resumed(&self, bytes: u64) {
        self.present_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.all.present_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much has been moved.
    pub fn on_bytes(&self, bytes: u64) {
        self.on_resumed(bytes);
        self.all.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The file is complete.
    pub fn finish(self) {
        self.present_bytes.store(0, Ordering::Relaxed);
        self.all.files.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for FileProgress {
    fn drop(&mut self) {
        let present = self.present_bytes.load(Ordering::Relaxed);
        self.all.present_bytes.fetch_sub(present, Ordering::Relaxed);
    }
}

/// The line on the terminal; nothing where there is none, or nobody wants it.
#[derive(Debug)]
pub struct Line {
    bar: ProgressBar,
    progress: Arc<Progress>,
}

impl Line {
    /// A line that shows these counters.
    pub fn new(progress: &Arc<Progress>, is_wanted: bool) -> Self {
        let target = if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(progress.total_bytes.load(Ordering::Relaxed)), target);
        let style = ProgressStyle::with_template(
            "{bar:20.cyan/dim} {percent:>3} %  {binary_bytes} of {binary_total_bytes}, {eta} left  {wide_msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, progress: Arc::clone(progress) }
    }

    /// Shows where things stand, with a word about the connection.
    pub fn show(&self, about: String) {
        self.bar.set_length(self.progress.total_bytes.load(Ordering::Relaxed));
        self.bar.set_position(self.progress.present_bytes.load(Ordering::Relaxed));
        self.bar.set_message(about);
    }

    /// Prints a line above.
    pub fn say(&self, text: &str) {
        if self.bar.is_hidden() { eprintln!("{text}") } else { self.bar.println(text) }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_takes_its_share_back() {
        let all = Arc::new(Progress::default());
        let first = FileProgress::new(&all);
        first.on_bytes(100);
        drop(first);
        let second = FileProgress::new(&all);
        second.on_resumed(100);
        second.on_bytes(50);
        second.finish();
        assert_eq!(all.present_bytes.load(Ordering::Relaxed), 150);
        assert_eq!(all.moved_bytes.load(Ordering::Relaxed), 150);
        assert_eq!(all.files.load(Ordering::Relaxed), 1);
    }
}
