//! How far a copy is: counters that every transfer feeds, and the line that shows them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::bar::Bar;
use crate::units;

/// What a file counts beside its bytes, or many small ones would stand at the end from the beginning.
const FILE_BYTES: u64 = 4096;

/// Remarks that wait for somebody who shows them.
const REMARKS_MAX: usize = 1000;

/// Counters over all files of one command. They are shown, and decide nothing.
#[derive(Debug, Default)]
pub struct Progress {
    /// Files known so far.
    pub total_files: AtomicU64,
    /// Bytes of all files known so far.
    pub total_bytes: AtomicU64,
    /// Bytes of them that are over there, whenever they came.
    pub present_bytes: AtomicU64,
    /// Bytes moved by this command.
    pub moved_bytes: AtomicU64,
    /// Files finished.
    pub files: AtomicU64,
    /// Bytes of what is there already that have to be gone through.
    to_check_bytes: AtomicU64,
    /// Bytes of them that have been.
    checked_bytes: AtomicU64,
    remarks: Mutex<Vec<String>>,
}

impl Progress {
    fn load(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// How far all is, as a position and where the end is.
    fn position(&self) -> (u64, u64) {
        let (files, total_files) = (Self::load(&self.files), Self::load(&self.total_files));
        let (checked, to_check) = (Self::load(&self.checked_bytes), Self::load(&self.to_check_bytes));
        if checked < to_check {
            return (checked, to_check);
        }
        let with_files = |bytes: u64, files: u64| bytes.saturating_add(files.saturating_mul(FILE_BYTES));
        (
            with_files(Self::load(&self.present_bytes), files),
            with_files(Self::load(&self.total_bytes), total_files),
        )
    }

    /// The same in words; `mbps` is the rate of late.
    fn words(&self, mbps: f64) -> String {
        let (checked, to_check) = (Self::load(&self.checked_bytes), Self::load(&self.to_check_bytes));
        let (present, total) = (Self::load(&self.present_bytes), Self::load(&self.total_bytes));
        let (files, total_files) = (Self::load(&self.files), Self::load(&self.total_files));
        let mut words = Vec::new();
        if checked < to_check {
            let (checked, to_check) = (units::bytes(checked), units::bytes(to_check));
            words.push(format!("comparing what is there: {checked} of {to_check}"));
        }
        if total_files > 1 {
            words.push(format!("{files} of {total_files} files"));
        }
        words.push(format!("{} of {}", units::bytes(present), units::bytes(total)));
        // Nothing can be said of the end before something has moved.
        let seconds = total.saturating_sub(present) as f64 * 8.0 / 1e6 / mbps;
        if present < total && seconds.is_finite() && seconds < 1e9 {
            words.push(format!("{} left", units::duration(Duration::from_secs_f64(seconds))));
        }
        words.join(", ")
    }

    /// Bytes of what was there already that have been gone through.
    pub fn checked_bytes(&self) -> u64 {
        Self::load(&self.checked_bytes)
    }

    /// Something that people should know now.
    pub fn say(&self, remark: String) {
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        if remarks.len() < REMARKS_MAX {
            remarks.push(remark);
        }
    }

    /// What has been said since this was asked last.
    pub fn take_remarks(&self) -> Vec<String> {
        std::mem::take(&mut *self.remarks.lock().unwrap_or_else(PoisonError::into_inner))
    }
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

    /// Bytes of the file that are there, whenever they came.
    pub fn present_bytes(&self) -> u64 {
        self.present_bytes.load(Ordering::Relaxed)
    }

    /// So much has been moved.
    pub fn on_bytes(&self, bytes: u64) {
        self.on_resumed(bytes);
        self.all.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Something that people should know now.
    pub fn say(&self, remark: String) {
        self.all.say(remark);
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

/// What is there of one file, being gone through. What it leaves out when it ends counts as done.
#[derive(Debug)]
pub struct Checking {
    all: Arc<Progress>,
    left_bytes: u64,
}

impl Checking {
    /// Begins with so many bytes.
    pub fn begin(progress: &FileProgress, bytes: u64) -> Self {
        progress.all.to_check_bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { all: Arc::clone(&progress.all), left_bytes: bytes }
    }

    /// So many more.
    pub fn on_bytes(&mut self, count: u64) {
        let count = count.min(self.left_bytes);
        self.left_bytes -= count;
        self.all.checked_bytes.fetch_add(count, Ordering::Relaxed);
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.on_bytes(u64::MAX);
    }
}

/// The line on the terminal; nothing where there is none, or nobody wants it.
#[derive(Debug)]
pub struct Line {
    bar: Bar,
    progress: Arc<Progress>,
    says_remarks: bool,
}

impl Line {
    /// A line that shows these counters, and says remarks if somebody is there to read them.
    pub fn new(progress: &Arc<Progress>, is_wanted: bool, says_remarks: bool) -> Self {
        Self { bar: Bar::new(is_wanted), progress: Arc::clone(progress), says_remarks }
    }

    /// Shows where things stand at this rate, with a word about the connection.
    pub fn show(&self, mbps: f64, about: &str) {
        self.say_remarks();
        let (position, end) = self.progress.position();
        self.bar.show(position, end, format!("{}  {about}", self.progress.words(mbps)));
    }

    fn say_remarks(&self) {
        let remarks = self.progress.take_remarks();
        if self.says_remarks {
            remarks.iter().for_each(|remark| self.say(remark));
        }
    }

    /// Prints a line above.
    pub fn say(&self, text: &str) {
        self.bar.say(&units::printable_lines(text));
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.say_remarks();
        self.bar.clear();
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

    /// While a gigabyte was compared, the line said "0 %, 0 B, 0s left", and 20,000 empty files were at 100 %
    /// at once.
    #[test]
    fn the_line_says_what_is_going_on() {
        let all = Arc::new(Progress::default());
        all.total_files.store(1, Ordering::Relaxed);
        all.total_bytes.store(1000 << 20, Ordering::Relaxed);
        let file = FileProgress::new(&all);
        let mut checking = Checking::begin(&file, 600 << 20);
        checking.on_bytes(150 << 20);
        assert_eq!(all.position(), (150 << 20, 600 << 20));
        assert_eq!(all.words(0.0), "comparing what is there: 150.0 MiB of 600.0 MiB, 0 B of 1000.0 MiB");
        drop(checking);
        file.on_resumed(600 << 20);
        assert_eq!(all.words(8.0 * 1.048_576), "600.0 MiB of 1000.0 MiB, 6 min 40 s left");

        let many = Arc::new(Progress::default());
        many.total_files.store(20_000, Ordering::Relaxed);
        (0..5000).for_each(|_| FileProgress::new(&many).finish());
        let (position, end) = many.position();
        assert_eq!((4 * position, many.words(0.0)), (end, "5000 of 20000 files, 0 B of 0 B".into()));
    }
}
