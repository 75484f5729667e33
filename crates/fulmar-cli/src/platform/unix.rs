//! Unix: names are bytes, files have modes, and a user's processes meet at sockets in the file system.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::fs::{Dir, FileTypeExt, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::{UnixListener, UnixStream};
pub use tokio::signal::unix::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Unit of `st_blocks` (POSIX leaves it open; all systems that are built for have this).
const STAT_BLOCK_BYTES: u64 = 512;

/// A name as it is on the wire.
pub fn name_bytes(name: &OsStr) -> &[u8] {
    name.as_bytes()
}

/// A path as it is on the wire.
pub fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The path that bytes of the wire stand for: here every sequence of them stands for one.
pub fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    Some(OsString::from_vec(bytes.to_vec()).into())
}

/// Whether this is a path here although there is a colon in it.
pub fn is_here(_: &[u8]) -> bool {
    false
}

/// Reads from a place in the file, which stays where it is.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// When the content was changed: seconds since the Unix epoch, and nanoseconds.
pub fn modified(metadata: &Metadata) -> (i64, u32) {
    (metadata.mtime(), metadata.mtime_nsec().clamp(0, 999_999_999) as u32)
}

/// Type and permission bits.
pub fn mode(metadata: &Metadata) -> u32 {
    metadata.mode()
}

/// Bytes that the file takes on the disk: fewer than its length if it has holes.
pub fn held_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(STAT_BLOCK_BYTES)
}

/// What it is that is neither file nor folder, for people.
pub fn odd_kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "neither file nor folder",
    }
}

/// Opening shall not wait: for whoever opens the other end of a pipe, or for a device.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32)
}

/// What is made shall have these permissions.
pub fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Sets permission bits.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// Permission bits of a folder.
pub fn set_folder_mode(parent: &Dir, path: &Path, mode: u32) -> io::Result<()> {
    parent.set_permissions(path, cap_std::fs::Permissions::from_std(Permissions::from_mode(mode)))
}

/// Writes a folder's names to disk.
pub fn sync_folder(folder: &Dir) -> io::Result<()> {
    // The handle itself is good for names only (O_PATH).
    match folder.open(".")?.into_std().sync_all() {
        // Some file systems know no such thing: theirs is the order of names.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The disk below a folder, and its free bytes, where it is one that counts them.
pub fn disk_room(folder: &Dir) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstatvfs(folder).ok()?;
    (stat.f_blocks > 0).then(|| (stat.f_fsid, stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// A folder for this user only.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Where a command is asked by others of its user.
#[derive(Debug)]
pub struct ControlListener(UnixListener);

/// One who asks, or is asked.
pub type ControlStream = UnixStream;

impl ControlListener {
    /// Listens under this name, which a process of the same number may have left.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(Self(listener))
    }

    /// The next one who asks.
    pub async fn accept(&mut self) -> io::Result<ControlStream> {
        self.0.accept().await.map(|(stream, _)| stream)
    }
}

/// Asks whoever listens under this name: `ConnectionRefused` if nobody does any more.
pub async fn ask_control(path: &Path) -> io::Result<ControlStream> {
    UnixStream::connect(path).await
}

/// Asks for the end, as `systemctl stop` does.
pub fn on_terminate() -> io::Result<Signal> {
    signal(SignalKind::terminate())
}

/// Ctrl-C.
pub fn on_interrupt() -> io::Result<Signal> {
    signal(SignalKind::interrupt())
}

/// Asks for files to be read again.
pub fn on_hangup() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// As many open files as the system allows without asking; how many that is.
pub fn raise_descriptor_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::debug!(%error, "the number of open files stays as it is");
            current.unwrap_or(u64::MAX)
        }
    }
}

/// Nanoseconds on this machine's monotonic clock.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Processor time that this program has used so far, on all cores; zero where the system is not asked.
pub fn cpu_time() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::ProcessCPUTime))
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether standard error is systemd's journal, as it is for services (systemd.exec, `JOURNAL_STREAM`).
pub fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(rustix::stdio::stderr())
        .is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}
