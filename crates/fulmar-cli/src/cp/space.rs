//! Room on the disk: looked at before the first byte of a file comes, so that a disk is not filled for
//! nothing.
//!
//! Files that are received at the same time share what is free: what one of them has been promised and has
//! not written yet, the others do not have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::Dir;

use super::error::{FileCode, FileError};
use crate::{platform, units};

/// What has been promised of each disk, by its number.
#[derive(Debug, Default)]
pub struct Space {
    promised_bytes: Mutex<BTreeMap<u64, u64>>,
}

/// Room for one file. What has not been written of it is free again when this is dropped.
#[derive(Debug)]
pub struct Promise {
    space: Arc<Space>,
    disk: u64,
    left_bytes: u64,
}

impl Space {
    /// Room for so many bytes in this folder, or how much there is. Where the system does not say, nobody is
    /// refused: quotas and the like show in writing.
    pub fn promise(self: &Arc<Self>, folder: &Dir, bytes: u64) -> Result<Promise, FileError> {
        let (disk, free) = platform::disk_room(folder).unwrap_or((0, u64::MAX));
        self.promise_of(disk, free, bytes)
    }

    fn promise_of(self: &Arc<Self>, disk: u64, free: u64, bytes: u64) -> Result<Promise, FileError> {
        let mut promised = self.promised_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = promised.get(&disk).copied().unwrap_or_default();
        let free = free.saturating_sub(taken);
        if bytes > free {
            let others = if taken > 0 { " beside other copies" } else { "" };
            let (bytes, free) = (units::bytes(bytes), units::bytes(free));
            let text = format!("the disk has no room: {bytes} needed, {free} free{others}");
            return Err(FileError::new(FileCode::Full, text));
        }
        promised.insert(disk, taken + bytes);
        Ok(Promise { space: Arc::clone(self), disk, left_bytes: bytes })
    }
}

impl Promise {
    /// So much of it is used: the system counts that itself now.
    pub fn on_written(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left_bytes);
        self.left_bytes -= bytes;
        let mut promised = self.space.promised_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = promised.get_mut(&self.disk) {
            *all = all.saturating_sub(bytes);
            if *all == 0 {
                promised.remove(&self.disk);
            }
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.on_written(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_to_one_is_not_there_for_the_others() {
        let space = Arc::<Space>::default();
        let mut first = space.promise_of(1, 1000 << 20, 600 << 20).unwrap();
        let refused = space.promise_of(1, 1000 << 20, 600 << 20).unwrap_err();
        assert_eq!(refused.code, FileCode::Full);
        assert_eq!(
            refused.text,
            "the disk has no room: 600.0 MiB needed, 400.0 MiB free beside other copies"
        );
        assert!(space.promise_of(2, 1000 << 20, 600 << 20).is_ok(), "another disk");
        first.on_written(500 << 20);
        assert!(space.promise_of(1, 500 << 20, 400 << 20).is_ok(), "100 of 500 are still promised");
        assert!(space.promise_of(1, 500 << 20, 401 << 20).is_err());
        drop(first);
        assert!(space.promise_of(1, 500 << 20, 500 << 20).is_ok());
        assert!(space.promised_bytes.lock().unwrap().is_empty(), "nothing stays");
    }
}
