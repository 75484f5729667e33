//! Addresses as the C library has them, and as Rust has them.

use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Reads an Internet address; `None` if it is of another family, or too short.
///
/// # Safety
/// `address` must be null or point to `length` readable bytes.
pub(crate) unsafe fn read(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if address.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: there are enough bytes for the family, then for the structure that it names; programs need not
    // align them.
    unsafe {
        match c_int::from(address.cast::<libc::sa_family_t>().read_unaligned()) {
            libc::AF_INET if length >= size_of::<sockaddr_in>() => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(ip, u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(ip.into(), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// An address for a system call, with its length.
pub(crate) fn write(address: SocketAddr) -> (libc::sockaddr_storage, socklen_t) {
    // SAFETY: these structures hold numbers only, for which zero is valid; `sockaddr_storage` has room for
    // each of them.
    unsafe {
        let mut storage: libc::sockaddr_storage = zeroed();
        let length = match address {
            SocketAddr::V4(v4) => {
                let mut inet: sockaddr_in = zeroed();
                inet.sin_family = libc::AF_INET as _;
                inet.sin_port = v4.port().to_be();
                inet.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                (&raw mut storage).cast::<sockaddr_in>().write(inet);
                size_of::<sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let mut inet: sockaddr_in6 = zeroed();
                inet.sin6_family = libc::AF_INET6 as _;
                inet.sin6_port = v6.port().to_be();
                inet.sin6_addr.s6_addr = v6.ip().octets();
                (&raw mut storage).cast::<sockaddr_in6>().write(inet);
                size_of::<sockaddr_in6>()
            }
        };
        (storage, length as socklen_t)
    }
}

/// Copies an address to where a program wants it, cut to the room it has there, as the kernel does.
///
/// # Safety
/// `length` must point to the room that `address` has, and both be writable.
pub(crate) unsafe fn hand_out(from: SocketAddr, address: *mut sockaddr, length: *mut socklen_t) {
    let (storage, needed) = write(from);
    // SAFETY: no more is written than the caller says there is room for, and no more read than the structure
    // has.
    unsafe {
        let room = needed.min(*length);
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), address.cast::<u8>(), room as usize);
        *length = needed;
    }
}
