//! The calls to Linux that the standard library does not have: the one place with `unsafe`.
//!
//! Each function wraps one system call, checks its result, and owns or borrows its file descriptors by type.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// The result of a system call that says -1 for "see errno".
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Moves the calling thread into new namespaces of its own.
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointer; concerns the calling thread only.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointer; the descriptor is open as long as it is borrowed.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// User and group of the process, as they count for privileges.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Opens a TUN device of this name in the network namespace of the calling thread: non-blocking, each packet
/// behind a header of 10 bytes (`virtio_net_hdr`), with TCP and, where the kernel can, UDP segmentation left
/// to the reader.
pub(crate) fn open_tun(name: &CStr) -> io::Result<File> {
    const TUN_F_CSUM: libc::c_ulong = 0x01;
    const TUN_F_TSO: libc::c_ulong = 0x02 | 0x04 | 0x08;
    const TUN_F_USO: libc::c_ulong = 0x20 | 0x40;
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = interface(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the request is a valid `ifreq` that outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
    let offload = |flags: libc::c_ulong| {
        // SAFETY: this request takes a number, no pointer.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, flags) })
    };
    // Linux before 6.2 knows no UDP segmentation on TUN devices.
    offload(TUN_F_CSUM | TUN_F_TSO | TUN_F_USO).or_else(|_| offload(TUN_F_CSUM | TUN_F_TSO))?;
    Ok(file)
}

fn interface(name: &CStr) -> libc::ifreq {
    // SAFETY: an `ifreq` of zeros is valid: it holds numbers only.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes_with_nul()).take(libc::IFNAMSIZ - 1) {
        *to = *from as libc::c_char;
    }
    request
}

/// Gives an interface of the calling thread's network namespace an IPv4 address in a /24, and switches it on.
pub(crate) fn configure_interface(name: &CStr, address: [u8; 4], queue_packets: i32) -> io::Result<()> {
    let socket = control_socket()?;
    let ask = |request: libc::c_ulong, ifreq: &mut libc::ifreq| {
        // SAFETY: all requests used here take a valid `ifreq` that outlives the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, ifreq) })
    };
    let inet = |address: [u8; 4]| {
        // SAFETY: both are plain old data, and a `sockaddr_in` fits a `sockaddr` exactly.
        unsafe {
            let mut inet: libc::sockaddr_in = zeroed();
            inet.sin_family = libc::AF_INET as _;
            inet.sin_addr.s_addr = u32::from_ne_bytes(address);
            std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet)
        }
    };
    let mut request = interface(name);
    request.ifr_ifru.ifru_addr = inet(address);
    ask(libc::SIOCSIFADDR, &mut request)?;
    request.ifr_ifru.ifru_netmask = inet([255, 255, 255, 0]);
    ask(libc::SIOCSIFNETMASK, &mut request)?;
    request.ifr_ifru.ifru_metric = queue_packets;
    ask(libc::SIOCSIFTXQLEN, &mut request)?;
    switch_on(name)
}

/// Switches an interface of the calling thread's network namespace on.
pub(crate) fn switch_on(name: &CStr) -> io::Result<()> {
    let socket = control_socket()?;
    let mut request = interface(name);
    // SAFETY: a valid `ifreq` that outlives both calls; the kernel fills in the flags that are read between.
    unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request))?;
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request)).map(drop)
    }
}

fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the descriptor is new and owned by nobody else.
    unsafe {
        check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))
            .map(|fd| OwnedFd::from_raw_fd(fd))
    }
}

/// Waits until one of the files can be read, or for `timeout`. Says which can.
pub(crate) fn wait_readable<const N: usize>(
    files: [&impl AsFd; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    let mut polls =
        files.map(|file| libc::pollfd { fd: file.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let time =
        libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: i64::from(timeout.subsec_nanos()) as _ };
    // SAFETY: the array and the time are valid for the call; no signal mask is given.
    match check(unsafe { libc::ppoll(polls.as_mut_ptr(), N as _, &time, std::ptr::null()) }) {
        Ok(_) => Ok(polls.map(|poll| poll.revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
    }
}

/// A socket that reads and writes the frames of an Ethernet interface, behind a header of 10 bytes
/// (`virtio_net_hdr`): non-blocking, all frames that others send, none that it sends itself (packet(7)).
pub(crate) fn packet_socket(interface: &str) -> io::Result<File> {
    let name = std::ffi::CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the name is valid for the call, sockets are new and owned by nobody else, and every structure
    // that is handed over is valid, of the length that is said, and outlives its call.
    unsafe {
        let index = libc::if_nametoindex(name.as_ptr());
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket = File::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?);
        let set = |option: libc::c_int, value: *const libc::c_void, length: usize| {
            check(libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length as _))
        };
        let on: libc::c_int = 1;
        set(libc::PACKET_VNET_HDR, (&raw const on).cast(), size_of::<libc::c_int>())?;
        set(libc::PACKET_IGNORE_OUTGOING, (&raw const on).cast(), size_of::<libc::c_int>())?;
        let mut member: libc::packet_mreq = zeroed();
        member.mr_ifindex = index as _;
        member.mr_type = libc::PACKET_MR_PROMISC as _;
        set(libc::PACKET_ADD_MEMBERSHIP, (&raw const member).cast(), size_of::<libc::packet_mreq>())?;
        let bytes: libc::c_int = 16 << 20;
        let of = (&raw const bytes).cast();
        // Less is granted to those who may not force it.
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            of,
            size_of::<libc::c_int>() as _,
        );
        let mut address: libc::sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = all;
        address.sll_ifindex = index as _;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length))?;
        Ok(socket)
    }
}

/// Frames a packet socket dropped since this was asked before.
pub(crate) fn take_packet_drops(socket: &File) -> io::Result<u64> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the structure is valid for writing, of the length that is said.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &mut length,
        )
    })?;
    Ok(stats.tp_drops.into())
}

/// Asks for exact timers and, where that is allowed, real-time priority for the calling thread.
pub(crate) fn be_punctual() {
    // SAFETY: neither call keeps a pointer, and parameters are numbers, of which musl has more. Both may be
    // refused, which costs punctuality only, and that is measured.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        let mut parameters: libc::sched_param = zeroed();
        parameters.sched_priority = 10;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters);
    }
}

/// Asks that the calling thread, and what it starts, comes before the machine's other work.
pub(crate) fn be_preferred() {
    // SAFETY: takes no pointer; concerns the calling thread. It may be refused: then others are equal.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
}

/// Processor time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of the process.
pub(crate) fn process_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is valid for writing; these clocks exist on every Linux, and zero is a fair answer if
    // not.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// The command gets a process namespace of its own and dies with the thread that starts it, and with it
/// everything it has started. The calling thread can start one command only.
pub(crate) fn die_together(command: &mut Command) -> io::Result<()> {
    unshare(libc::CLONE_NEWPID)?;
    // SAFETY: the closure calls two async-signal-safe functions and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            // A session of its own is what `prefer_session` can put before others.
            check(libc::setsid())?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0)).map(drop)
        });
    }
    Ok(())
}

/// Asks that the session of a process comes before the machine's other work: where the kernel shares
/// processors out by session (`sched_autogroup_enabled`), what [`be_preferred`] asks for counts within a
/// session only. May be refused, like that.
pub(crate) fn prefer_session(process: u32) {
    let _ = std::fs::write(format!("/proc/{process}/autogroup"), "-15");
}

/// The command is killed when the calling thread ends.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the closure calls async-signal-safe functions and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0))?;
            // It may have died before that was said.
            if libc::getppid() as u32 == parent { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        });
    }
}

/// Chooses the congestion control of a TCP socket.
pub(crate) fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the name is valid for its length during the call.
    check(unsafe {
        libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), name.len() as _)
    })
    .map(drop)
}

/// A TCP socket over IPv4, not connected.
pub(crate) fn tcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the descriptor is new and owned by nobody else.
    unsafe {
        check(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))
            .map(|fd| OwnedFd::from_raw_fd(fd))
    }
}

/// Connects a socket to an IPv4 address; blocks.
pub(crate) fn connect(socket: &impl AsFd, address: [u8; 4], port: u16) -> io::Result<()> {
    // SAFETY: a `sockaddr_in` of zeros is valid, and the address is valid for the call.
    unsafe {
        let mut inet: libc::sockaddr_in = zeroed();
        inet.sin_family = libc::AF_INET as _;
        inet.sin_port = port.to_be();
        inet.sin_addr.s_addr = u32::from_ne_bytes(address);
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        check(libc::connect(socket.as_fd().as_raw_fd(), (&raw const inet).cast(), length)).map(drop)
    }
}

/// The kernel's `struct tcp_info` as bytes, and how many of them it has filled in.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<([u8; 256], usize)> {
    let mut bytes = [0; 256];
    let mut length = bytes.len() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the buffer is valid for `length` bytes, and the kernel writes no more.
    check(unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &mut length)
    })?;
    Ok((bytes, length as usize))
}
