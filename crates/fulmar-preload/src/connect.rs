//! `connect` and what tells how it went.

use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};

use fulmar_carry::{Question, Request};
use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::address;
use crate::ask::{ask, can_ask};
use crate::next::{self, errno, fail, set_errno};

/// As `connect(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller keeps the contract of connect(2), which is that of these functions.
    unsafe {
        match address::read(address, length).filter(|to| carried(socket, *to)) {
            Some(target) => start(socket, target),
            None => next::connect(socket, address, length),
        }
    }
}

/// As `getpeername(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller keeps the contract of getpeername(2): both pointers are valid, or the real call
    // fails.
    unsafe {
        let room = if length.is_null() { 0 } else { *length };
        let result = next::getpeername(socket, address, length);
        if result == 0
            && let Some(target) = address::read(address, room).and_then(|p| target(socket, p))
        {
            *length = room;
            address::hand_out(target, address, length);
        }
        result
    }
}

/// As `getsockopt(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller keeps the contract of getsockopt(2); a successful SO_ERROR has written a `c_int` if
    // there is room for one.
    unsafe {
        let result = next::getsockopt(socket, level, name, value, length);
        let is_error = result == 0 && level == libc::SOL_SOCKET && name == libc::SO_ERROR;
        if is_error && *length as usize == size_of::<c_int>() {
            let error = value.cast::<c_int>();
            error.write_unaligned(verdict(socket, error.read_unaligned()));
        }
        result
    }
}

/// Is a connection from this socket to this address to be carried? Not what stays on this machine, and only
/// TCP.
fn carried(socket: c_int, target: SocketAddr) -> bool {
    let ip = target.ip().to_canonical();
    // To connect to the unspecified address means loopback.
    let is_elsewhere = !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast(ip);
    let family = if target.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    can_ask()
        && is_elsewhere
        && number(socket, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
        && number(socket, libc::SO_DOMAIN) == Some(family)
}

fn is_broadcast(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
}

/// A setting of a socket that is a number.
fn number(socket: c_int, name: c_int) -> Option<c_int> {
    let before = errno();
    let (mut value, mut length): (c_int, _) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: there is room for the number, and its length says so.
    let result =
        unsafe { next::getsockopt(socket, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    set_errno(before);
    (result == 0).then_some(value)
}

/// What the kernel knows the socket by.
fn cookie(socket: c_int) -> u64 {
    let (mut value, mut length) = (0_u64, size_of::<u64>() as socklen_t);
    let name = libc::SO_COOKIE;
    // SAFETY: there is room for the number, and its length says so. If the call fails it stays 0, which is no
    // socket's.
    unsafe { next::getsockopt(socket, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    value
}

/// Hands the socket to `fulmar run`, then connects it to where that says. It becomes connected when the
/// gateway has reached the target; until then the kernel waits, or does not, as the program has asked it to.
fn start(socket: c_int, target: SocketAddr) -> c_int {
    let request =
        Request { cookie: cookie(socket), address: Some(target), ..Request::new(Question::Connect) };
    let before = errno();
    let Some((error, instead)) = ask(&request, Some(socket), |reply| (reply.errno, reply.address)) else {
        return fail(libc::ENETDOWN);
    };
    let (0, Some(instead)) = (error, instead) else {
        return fail(if error == 0 { libc::ENETDOWN } else { error });
    };
    set_errno(before);
    let off: c_int = 0;
    let (address, length) = address::write(instead);
    // SAFETY: the number and the address are valid for their lengths.
    let result = unsafe {
        // With TCP Fast Open `connect` would only pretend.
        let (name, bytes) = (libc::TCP_FASTOPEN_CONNECT, size_of::<c_int>() as socklen_t);
        libc::setsockopt(socket, libc::IPPROTO_TCP, name, (&raw const off).cast(), bytes);
        next::connect(socket, (&raw const address).cast(), length)
    };
    if result < 0 {
        set_errno(verdict(socket, errno()));
    }
    result
}

/// The error of the far end for one that the kernel reports of a carried socket; another stays as it is.
fn verdict(socket: c_int, error: c_int) -> c_int {
    // How the kernel sees it that the program at the other end of loopback gives a connection up.
    let is_ours = matches!(error, libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED);
    let is_tcp = || number(socket, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP);
    if !is_ours || !can_ask() || !is_tcp() {
        return error;
    }
    let before = errno();
    let request = Request { cookie: cookie(socket), ..Request::new(Question::Verdict) };
    let found = ask(&request, None, |reply| reply.errno).filter(|errno| *errno != 0);
    set_errno(before);
    found.unwrap_or(error)
}

/// Whom a socket with this peer is really connected to.
fn target(socket: c_int, peer: SocketAddr) -> Option<SocketAddr> {
    if !can_ask() || !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let before = errno();
    let request = Request { cookie: cookie(socket), address: Some(peer), ..Request::new(Question::Peer) };
    let found = ask(&request, None, |reply| reply.address).flatten();
    set_errno(before);
    found
}
