//! Windows: names are Unicode, files have no modes, and a user's processes meet at named pipes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, Metadata, OpenOptions};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions};
use tokio::signal::windows::{CtrlBreak, CtrlC, ctrl_break, ctrl_c};

use super::{since_epoch, windows_names};

/// Of a named pipe whose instances all have somebody (`ERROR_PIPE_BUSY`).
const PIPE_BUSY: i32 = 231;

/// A name as it is on the wire: UTF-8.
pub fn name_bytes(name: &OsStr) -> &[u8] {
    name.as_encoded_bytes()
}

/// A path as it is on the wire, with slashes.
pub fn path_bytes(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes.map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

/// The path that bytes of the wire stand for. None if Windows would read something else out of them.
pub fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.split('/').all(windows_names::is_kept).then(|| text.split('/').collect())
}

/// Whether this is a path here although there is a colon in it: `C:\a`.
pub fn is_here(bytes: &[u8]) -> bool {
    matches!(bytes, [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
}

/// Reads from a place in the file.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// When the content was changed: seconds since the Unix epoch, and nanoseconds.
pub fn modified(metadata: &Metadata) -> (i64, u32) {
    metadata.modified().map_or((0, 0), |time| since_epoch(time.into_std()))
}

/// Permission bits that stand for the attributes of Windows.
pub fn mode(metadata: &Metadata) -> u32 {
    let all = if metadata.is_dir() { 0o755 } else { 0o644 };
    if metadata.permissions().readonly() { all & 0o555 } else { all }
}

/// Bytes that the file takes on the disk: holes are not asked about.
pub fn held_bytes(metadata: &Metadata) -> u64 {
    metadata.len()
}

/// What it is that is neither file nor folder, for people.
pub fn odd_kind(metadata: &Metadata) -> &'static str {
    if metadata.is_symlink() { "a symbolic link" } else { "neither file nor folder" }
}

/// Opening does not wait here.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// A file inherits what its folder permits.
pub fn with_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
    options
}

/// There are no permission bits to set: a file has what its folder permits.
pub fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Neither for folders.
pub fn set_folder_mode(_: &Dir, _: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// NTFS writes names in its journal by itself, in their order.
pub fn sync_folder(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// Free room is not asked about: a full disk shows when it is written to.
pub fn disk_room(_: &Dir) -> Option<(u64, u64)> {
    None
}

/// A folder for this user only, as the one above is.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Where a command is asked by others of its user: a named pipe, whose name a file says. Others on the
/// machine may not write to it (Microsoft, "Named pipe security and access rights"), and nobody from
/// elsewhere.
#[derive(Debug)]
pub struct ControlListener {
    name: String,
    next: NamedPipeServer,
}

/// One who is asked.
pub type ControlStream = NamedPipeClient;

impl ControlListener {
    /// Listens under a new name, and writes it into this file.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let name = format!(r"\\.\pipe\fulmar-{:032x}", u128::from_ne_bytes(secret));
        let next =
            ServerOptions::new().first_pipe_instance(true).reject_remote_clients(true).create(&name)?;
        std::fs::write(path, &name)?;
        Ok(Self { name, next })
    }

    /// The next one who asks.
    pub async fn accept(&mut self) -> io::Result<NamedPipeServer> {
        self.next.connect().await?;
        let next = ServerOptions::new().reject_remote_clients(true).create(&self.name)?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// Asks whoever listens under the name in this file: `ConnectionRefused` if nobody does any more.
pub async fn ask_control(path: &Path) -> io::Result<ControlStream> {
    let name = std::fs::read_to_string(path)?;
    loop {
        match ClientOptions::new().open(&name) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            asked => return asked,
        }
    }
}

/// Ctrl-Break, by which services and scripts ask for the end.
pub fn on_terminate() -> io::Result<CtrlBreak> {
    ctrl_break()
}

/// Ctrl-C.
pub fn on_interrupt() -> io::Result<CtrlC> {
    ctrl_c()
}

/// A signal that never comes: there is none for files to be read again (`fulmar reload` asks for it).
#[derive(Debug)]
pub struct Never;

impl Never {
    /// Waits for ever.
    pub async fn recv(&mut self) -> Option<()> {
        std::future::pending().await
    }
}

/// Asks for files to be read again: never.
pub fn on_hangup() -> io::Result<Never> {
    Ok(Never)
}

/// There is no limit that could be raised, nor one that a program comes near to.
pub fn raise_descriptor_limit() -> u64 {
    u64::MAX
}

/// Nanoseconds on a monotonic clock of this process.
pub fn monotonic_ns() -> u64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time that this program has used so far: the system is not asked.
pub fn cpu_time() -> Duration {
    Duration::ZERO
}

/// There is no journal.
pub fn is_journal() -> bool {
    false
}
