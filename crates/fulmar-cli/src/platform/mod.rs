//! What differs between systems, each difference once: callers ask for none of them by name.
//!
//! | part | decides |
//! |---|---|
//! | names | which bytes stand for a name on the wire |
//! | files | what a file system keeps of a file, and what has to be asked of it |
//! | control | by what the commands of one user find each other |
//! | the process | signals, limits, clocks |
//! | the machine | when it slept, and when its addresses and routes change: on Linux |
//!
//! `unix` is that of Linux, macOS, FreeBSD and Android; `windows` that of Windows.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod not_linux;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
#[cfg(any(windows, test))]
mod windows_names;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(not(target_os = "linux"))]
pub use not_linux::*;
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

use std::time::SystemTime;

/// Seconds since the Unix epoch, and nanoseconds on top.
pub fn since_epoch(time: SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            match before.subsec_nanos() {
                0 => (whole, 0),
                nanos => (whole.saturating_sub(1), 1_000_000_000 - nanos),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_before_the_epoch_count_backwards_in_seconds_only() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(since_epoch(epoch + Duration::new(5, 7)), (5, 7));
        assert_eq!(since_epoch(epoch), (0, 0));
        assert_eq!(since_epoch(epoch - Duration::new(5, 0)), (-5, 0));
        assert_eq!(since_epoch(epoch - Duration::new(5, 7)), (-6, 999_999_993));
    }

    #[test]
    fn names_come_back_from_their_bytes() {
        for name in ["a", "a b", "ü.txt"] {
            let path = path_of(name_bytes(name.as_ref())).unwrap();
            assert_eq!(path.as_os_str(), name);
        }
        let path: std::path::PathBuf = ["a", "b"].iter().collect();
        assert_eq!(path_bytes(&path), b"a/b");
        assert_eq!(path_of(b"a/b").unwrap(), path);
    }
}
