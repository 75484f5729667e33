//! What a file system says of an entry, in the words of the protocol.

use cap_std::fs::MetadataExt;

use super::message::{Kind, Meta};

/// Longest name of one file or folder, in bytes, on the file systems in use.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// Of which kind an entry is, and what is told of it.
pub(super) fn describe(metadata: &cap_std::fs::Metadata) -> (Kind, Meta) {
    let kind = match () {
        () if metadata.is_file() => Kind::File,
        () if metadata.is_dir() => Kind::Folder,
        () => Kind::Other,
    };
    let meta = Meta {
        size_bytes: if kind == Kind::File { metadata.len() } else { 0 },
        mtime_s: metadata.mtime(),
        mtime_ns: metadata.mtime_nsec().clamp(0, 999_999_999) as u32,
        mode: metadata.mode() & 0o777,
    };
    (kind, meta)
}
