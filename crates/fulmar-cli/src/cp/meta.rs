//! What a file system says of an entry, in the words of the protocol.

use cap_std::fs::Metadata;

use super::message::{FOLDER_MODE_MAX, Kind, Meta};
use crate::platform;

/// Longest name of one file or folder, in bytes, on the file systems in use.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// Of which kind an entry is, and what is told of it.
pub(super) fn describe(metadata: &Metadata) -> (Kind, Meta) {
    let kind = match () {
        () if metadata.is_file() => Kind::File,
        () if metadata.is_dir() => Kind::Folder,
        () => Kind::Other,
    };
    let (mtime_s, mtime_ns) = platform::modified(metadata);
    let meta = Meta {
        size_bytes: if kind == Kind::File { metadata.len() } else { 0 },
        mtime_s,
        mtime_ns,
        mode: platform::mode(metadata) & if kind == Kind::Folder { FOLDER_MODE_MAX } else { 0o777 },
    };
    (kind, meta)
}
