//! The two ends of the bridge: a network namespace each, with a TUN device in it.
//!
//! The namespaces have no names. They live as long as a thread is in them or a descriptor to them is open,
//! and the devices as long as theirs, so the kernel removes everything when the process ends, however it
//! ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::thread;

use crate::sys;

/// Packets a device holds for the bridge to read.
const DEVICE_QUEUE_PACKETS: i32 = 20_000;
const DEVICE: &std::ffi::CStr = c"lab0";

/// What a user is told who may not.
pub(super) const NEEDS: &str = "The bridge makes network namespaces and TUN devices: it needs root, or a kernel that lets users \
    make namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0) and a \
    /dev/net/tun that they may open. `fulmar-lab sim` needs nothing.";

/// One end.
#[derive(Clone, Debug)]
pub struct End {
    /// The address of its device.
    pub address: [u8; 4],
    namespace: Arc<File>,
}

/// Settings of the kernel's TCP in both ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Selective acknowledgments (RFC 2018).
    pub has_sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub has_ecn: bool,
}

impl Default for TcpSettings {
    /// SACK without ECN, as Linux does.
    fn default() -> Self {
        Self { has_sack: true, has_ecn: false }
    }
}

/// Makes an end; returns it with its device.
pub(super) fn create(address: [u8; 4], tcp: TcpSettings) -> io::Result<(End, File)> {
    let made = thread::spawn(move || {
        sys::unshare(libc::CLONE_NEWNET)?;
        let device = sys::open_tun(DEVICE)?;
        sys::configure_interface(DEVICE, address, DEVICE_QUEUE_PACKETS)?;
        sys::switch_on(c"lo")?;
        settle(tcp)?;
        let namespace = Arc::new(File::open("/proc/thread-self/ns/net")?);
        Ok((End { address, namespace }, device))
    });
    made.join().unwrap_or_else(|_| Err(io::Error::other("the thread that makes a namespace died")))
}

/// Settings of the namespace the calling thread is in.
fn settle(tcp: TcpSettings) -> io::Result<()> {
    let set = |name: &str, value: &str| std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
    set("tcp_sack", if tcp.has_sack { "1" } else { "0" })?;
    set("tcp_ecn", if tcp.has_ecn { "1" } else { "0" })?;
    // What one run learned about the path must not help the next; and memory must not be what limits a
    // transport.
    set("tcp_no_metrics_save", "1")?;
    set("tcp_rmem", "4096 131072 67108864")?;
    set("tcp_wmem", "4096 65536 67108864")
}

impl End {
    /// Moves the calling thread into this end, for the rest of its life, and before the machine's other work.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        sys::be_preferred();
        sys::enter_network(self.namespace.as_fd())
    }

    /// A file that stands for its namespace, for processes that this one starts.
    pub fn path(&self) -> std::path::PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd()).into()
    }

    /// Runs something in a new thread inside this end.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> thread::JoinHandle<io::Result<T>> {
        let end = self.clone();
        thread::spawn(move || {
            end.enter()?;
            work()
        })
    }

    /// Packets the device dropped because the bridge did not read them in time.
    pub(super) fn device_drops(&self) -> io::Result<u64> {
        let table = self.spawn(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.join().unwrap_or_else(|_| Err(io::Error::other("the reading thread died")))?;
        // name: 8 numbers of reception, then bytes, packets, errors, drops of transmission.
        let line = table.lines().find_map(|line| line.trim().strip_prefix("lab0:").map(str::to_owned));
        Ok(line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0))
    }
}

/// Gets the right to make namespaces: as root there is nothing to do; others become root of a user namespace
/// of their own. To be called while the process has one thread.
///
/// # Errors
/// In words that say what is needed.
pub fn acquire_rights() -> Result<(), String> {
    let (user, group) = sys::effective_ids();
    if user == 0 {
        return Ok(());
    }
    let needs = |error: io::Error| format!("cannot make a user namespace: {error}. {NEEDS}");
    sys::unshare(libc::CLONE_NEWUSER).map_err(needs)?;
    std::fs::write("/proc/self/setgroups", "deny").map_err(needs)?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(needs)?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(needs)
}
