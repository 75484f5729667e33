//! How a program's own socket becomes connected at the moment when the gateway has reached the target.
//!
//! A *door* is a port of loopback whose listener discards what knocks: by a packet filter of one instruction
//! that takes nothing, or, where filters are not for everybody, because its queue is full. A socket that
//! connects to it stays in `SYN_SENT`, as on a path to a far host. When the target has answered, a second
//! socket is bound to the door's port and connects to the waiting one: both have sent a SYN, which is TCP's
//! simultaneous open (RFC 9293, section 3.5), and both are connected at once. If the target has refused, the
//! waiting socket, of which there is a duplicate here, is taken back (`connect` to no address), and whoever
//! waits for it wakes up.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockFilter, SockRef, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

use crate::tunnel::flow::tcp::reset_on_close;

/// BPF: return 0, which takes no byte of any packet.
const TAKE_NOTHING: SockFilter = SockFilter::new(0x06, 0, 0, 0);

/// How long a program may take from asking to knocking.
const KNOCK_TIME_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether it has.
const KNOCK_STEP: Duration = Duration::from_millis(1);

/// How long the kernel may take to connect two sockets of this machine.
const OPEN_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a socket that was taken back is watched: a signal at that moment lets the kernel begin `connect`
/// once more.
const RETURN_TIME: Duration = Duration::from_millis(200);

/// A port of loopback for each family that this machine has.
#[derive(Debug)]
pub(super) struct Door {
    v4: Listener,
    v6: Option<Listener>,
}

#[derive(Debug)]
struct Listener {
    _socket: Socket,
    /// What fills the queue, where there is no filter.
    _filling: Option<std::net::TcpStream>,
    address: SocketAddr,
}

impl Listener {
    fn new(ip: IpAddr) -> io::Result<Self> {
        match Self::with_filter(ip) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::with_full_queue(ip),
            result => result,
        }
    }

    fn with_filter(ip: IpAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(SocketAddr::new(ip, 0)), Type::STREAM, None)?;
        socket.attach_filter(&[TAKE_NOTHING])?;
        let address = listen(&socket, ip, 1)?;
        Ok(Self { _socket: socket, _filling: None, address })
    }

    /// A queue of length zero has room for one connection (Linux counts so), and while that is not accepted,
    /// every SYN is dropped.
    fn with_full_queue(ip: IpAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(SocketAddr::new(ip, 0)), Type::STREAM, None)?;
        let address = listen(&socket, ip, 0)?;
        let filling = std::net::TcpStream::connect(address)?;
        Ok(Self { _socket: socket, _filling: Some(filling), address })
    }
}

fn listen(socket: &Socket, ip: IpAddr, queue: i32) -> io::Result<SocketAddr> {
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddr::new(ip, 0).into())?;
    socket.listen(queue)?;
    socket.local_addr()?.as_socket().ok_or_else(no_address)
}

fn no_address() -> io::Error {
    io::Error::other("a socket without an address")
}

impl Door {
    /// A new one.
    pub(super) fn new() -> io::Result<Self> {
        let v6 = Listener::new(Ipv6Addr::LOCALHOST.into()).ok();
        Ok(Self { v4: Listener::new(Ipv4Addr::LOCALHOST.into())?, v6 })
    }

    /// Where a socket is to knock that was to be connected to this target.
    pub(super) fn address_for(&self, target: SocketAddr) -> SocketAddr {
        let v4 = self.v4.address;
        match (target.ip(), &self.v6) {
            (IpAddr::V4(_), _) => v4,
            (IpAddr::V6(ip), Some(v6)) if ip.to_ipv4_mapped().is_none() => v6.address,
            _ => SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), v4.port()),
        }
    }

    /// Is this the door's own address?
    pub(super) fn is_at(&self, address: SocketAddr) -> bool {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        address == self.v4.address || self.v6.as_ref().is_some_and(|v6| address == v6.address)
    }

    /// Connects a socket that knocks; returns the other end.
    pub(super) async fn open(&self, socket: &OwnedFd) -> io::Result<TcpStream> {
        let knocking = SockRef::from(socket).local_addr()?;
        let knocking = knocking.as_socket().ok_or_else(no_address)?;
        let knocking = SocketAddr::new(knocking.ip().to_canonical(), knocking.port());
        let door = match (&self.v6, knocking) {
            (Some(v6), SocketAddr::V6(_)) => v6.address,
            _ => self.v4.address,
        };
        let other = Socket::new(Domain::for_address(door), Type::STREAM, None)?;
        // A program whose carrier dies in the middle sees a reset.
        reset_on_close(&other);
        other.set_reuse_port(true)?;
        other.bind(&SockAddr::from(door))?;
        other.set_nonblocking(true)?;
        let other = TcpSocket::from_std_stream(other.into());
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(OPEN_TIME_MAX, other.connect(knocking)).await.map_err(late)?
    }

    /// Gives up a socket that knocks: it is as after a failed `connect`. Watches for a moment, as long as
    /// `may_return`, that it does not knock again by itself.
    pub(super) async fn turn_away(&self, socket: &OwnedFd, may_return: impl Fn() -> bool) {
        let ends = tokio::time::Instant::now() + RETURN_TIME;
        while may_return() && tokio::time::Instant::now() < ends {
            if is_knocking(socket)
                && rustix::net::connect_unspec(socket) == Err(Errno::BUSY)
                // Kernels that take no socket back in which a thread waits (Linux 6.4): a reset is the next
                // best thing.
                && let Ok(stream) = self.open(socket).await
            {
                drop(stream);
            }
            tokio::time::sleep(RETURN_TIME / 10).await;
        }
    }
}

/// Waits until a socket knocks; false if it does not.
pub(super) async fn knocks(socket: &OwnedFd) -> bool {
    let ends = tokio::time::Instant::now() + KNOCK_TIME_MAX;
    while !is_knocking(socket) {
        if tokio::time::Instant::now() > ends {
            return false;
        }
        tokio::time::sleep(KNOCK_STEP).await;
    }
    true
}

/// A socket that is neither connected nor connecting counts as hung up; one in `SYN_SENT` has nothing to
/// report.
fn is_knocking(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut polled, Some(&at_once)), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Blocking;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn knock(door: &Door, target: &str) -> (Socket, OwnedFd) {
        let address = door.address_for(target.parse().unwrap());
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let error = socket.connect(&address.into()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INPROGRESS.raw_os_error()));
        let duplicate = socket.as_fd().try_clone_to_owned().unwrap();
        (socket, duplicate)
    }

    /// Doors of both kinds.
    fn doors() -> [Door; 2] {
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        let full = |ip| Listener::with_full_queue(ip);
        [Door::new().unwrap(), Door { v4: full(v4).unwrap(), v6: full(v6).ok() }]
    }

    #[tokio::test]
    async fn a_socket_that_knocks_is_connected_when_the_door_opens() {
        for door in doors() {
            is_connected_when_it_opens(&door).await;
        }
    }

    async fn is_connected_when_it_opens(door: &Door) {
        for target in ["192.0.2.1:80", "[2001:db8::1]:80", "[::ffff:192.0.2.1]:80"] {
            let (socket, duplicate) = knock(door, target);
            assert!(knocks(&duplicate).await && is_knocking(&duplicate), "{target}");
            let mut inside = door.open(&duplicate).await.unwrap();
            assert!(!is_knocking(&duplicate), "{target}");
            assert_eq!(socket.take_error().unwrap().map(|e| e.to_string()), None);
            assert!(door.is_at(socket.peer_addr().unwrap().as_socket().unwrap()));
            socket.set_nonblocking(false).unwrap();
            let mut outside = Blocking::from(socket);
            outside.write_all(b"ping").unwrap();
            let mut got = [0; 4];
            inside.read_exact(&mut got).await.unwrap();
            inside.write_all(b"pong").await.unwrap();
            outside.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"pong");
        }
    }

    #[tokio::test]
    async fn a_socket_that_is_turned_away_has_an_error() {
        for door in doors() {
            let (socket, duplicate) = knock(&door, "192.0.2.1:80");
            door.turn_away(&duplicate, || true).await;
            let error = socket.take_error().unwrap().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert!(socket.peer_addr().is_err());
        }
    }
}
