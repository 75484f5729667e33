//! What a file system says of an entry, in the words of the protocol.

use cap_std::fs::MetadataExt;
use rustix::fs::FileType;

use super::message::{FOLDER_MODE_MAX, Kind, Meta};

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
        mode: metadata.mode() & if kind == Kind::Folder { FOLDER_MODE_MAX } else { 0o777 },
    };
    (kind, meta)
}

/// What an entry is that is neither file nor folder.
pub(super) fn name_of_kind(metadata: &cap_std::fs::Metadata) -> &'static str {
    match FileType::from_raw_mode(metadata.mode()) {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "neither file nor folder",
    }
}
