//! The wall clock that everybody in the siege sees, which jumps: libfaketime, where it is installed. The
//! monotonic clock goes on as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chance::Chance;

/// Where Debian puts the library, below /usr/lib.
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// Seconds that it may be wrong by: ten years.
const JUMP_MAX_S: u64 = 10 * 365 * 86_400;

/// A clock that is as wrong as a file says.
#[derive(Debug)]
pub(crate) struct Clock {
    library: Option<PathBuf>,
    file: PathBuf,
}

impl Clock {
    /// Right as yet.
    pub(crate) fn new(folder: &Path) -> Self {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let library = folders.map(|entry| entry.path().join(LIBRARY)).find(|path| path.exists());
        if library.is_none() {
            println!("no jumps of the clock: those need libfaketime");
        }
        let clock = Self { library, file: folder.join("clock") };
        clock.set(0);
        clock
    }

    /// Lets a program see this clock.
    pub(crate) fn show(&self, command: &mut Command) {
        let Some(library) = &self.library else { return };
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_NO_CACHE", "1")
            .env("NO_FAKE_STAT", "1");
    }

    /// Jumps, forward or back; how far, if it can.
    pub(crate) fn jump(&self, chance: &mut Chance) -> Option<i64> {
        self.library.as_ref()?;
        let by = i64::try_from(chance.below(2 * JUMP_MAX_S)).ok()? - i64::try_from(JUMP_MAX_S).ok()?;
        self.set(by);
        Some(by)
    }

    /// Written beside and renamed: half an offset would be another one.
    fn set(&self, by_s: i64) {
        let beside = self.file.with_extension("new");
        let _ = fs::write(&beside, format!("{by_s:+}\n")).and_then(|()| fs::rename(beside, &self.file));
    }
}
