//! Buffers of the socket. At 1 Gb/s a default of 208 KiB is full after 1.7 ms, and what comes then is lost.

use std::io;
use std::net::UdpSocket;
use std::sync::Once;

use socket2::SockRef;

/// What is asked for in each direction.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Linux counts its own overhead: it grants, and reports, twice what was asked for.
const REPORTED_PER_GRANTED: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

/// Asks for `wanted_bytes` in each direction, and says once per process if less was granted.
pub(crate) fn enlarge(socket: &UdpSocket, wanted_bytes: usize) {
    let recv = granted(socket, wanted_bytes, &RECV);
    let send = granted(socket, wanted_bytes, &SEND);
    if recv >= wanted_bytes && send >= wanted_bytes {
        return;
    }
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            "socket buffers are {} KiB (receive) and {} KiB (send) instead of {} KiB: packets may be lost at high \
             rates{}",
            recv >> 10,
            send >> 10,
            wanted_bytes >> 10,
            advice(wanted_bytes)
        );
    });
}

fn advice(wanted_bytes: usize) -> String {
    if !cfg!(target_os = "linux") {
        return String::new();
    }
    format!("; to allow more: sysctl -w net.core.rmem_max={wanted_bytes} net.core.wmem_max={wanted_bytes}")
}

/// One direction's system calls.
struct Direction {
    set: fn(&SockRef<'_>, usize) -> io::Result<()>,
    /// Beyond the limit of the system, for those who may (root).
    force: fn(&UdpSocket, usize) -> io::Result<()>,
    reported: fn(&SockRef<'_>) -> io::Result<usize>,
}

const RECV: Direction = Direction {
    set: |socket, bytes| socket.set_recv_buffer_size(bytes),
    force: |socket, bytes| force::recv(socket, bytes),
    reported: |socket| socket.recv_buffer_size(),
};
const SEND: Direction = Direction {
    set: |socket, bytes| socket.set_send_buffer_size(bytes),
    force: |socket, bytes| force::send(socket, bytes),
    reported: |socket| socket.send_buffer_size(),
};

/// Asks, by force if need be, and reads back what there is now.
fn granted(socket: &UdpSocket, wanted_bytes: usize, direction: &Direction) -> usize {
    let handle = SockRef::from(socket);
    let read_back = || (direction.reported)(&handle).map_or(0, |bytes| bytes / REPORTED_PER_GRANTED);
    if read_back() >= wanted_bytes {
        return read_back();
    }
    if let Err(error) = (direction.set)(&handle, wanted_bytes) {
        tracing::debug!(%error, "the size of a socket buffer cannot be set");
    }
    if read_back() < wanted_bytes
        && let Err(error) = (direction.force)(socket, wanted_bytes)
    {
        tracing::debug!(%error, "the limit of the system on socket buffers holds");
    }
    read_back()
}

#[cfg(target_os = "linux")]
mod force {
    use std::io;
    use std::net::UdpSocket;

    use rustix::net::sockopt;

    pub(super) fn recv(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size_force(socket, bytes)?)
    }

    pub(super) fn send(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size_force(socket, bytes)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod force {
    use std::io;
    use std::net::UdpSocket;

    pub(super) fn recv(_: &UdpSocket, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn send(_: &UdpSocket, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_what_the_system_says() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let small = granted(&socket, 64 << 10, &RECV);
        assert!(small >= 64 << 10, "{small}");
        let large = granted(&socket, 1 << 20, &RECV);
        assert!(large >= small);
        assert_eq!(large, SockRef::from(&socket).recv_buffer_size().unwrap() / REPORTED_PER_GRANTED);
        // Nothing is made smaller.
        assert_eq!(granted(&socket, 1 << 10, &RECV), large);
    }
}
