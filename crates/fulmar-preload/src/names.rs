//! Names of hosts: the gateway looks them up, so here each gets an address that stands in for it.
//!
//! The C library's own functions then turn that address, written in digits, into what the program asked for:
//! they know how their results are laid out and freed.

use std::ffi::CStr;
use std::net::IpAddr;

use fulmar_carry::{NAME_BYTES_MAX, Question, Request, StandIn};
use libc::{addrinfo, c_char, c_int, hostent, size_t, sockaddr, socklen_t};

use crate::ask::{ask, can_ask};
use crate::{address, next};

unsafe extern "C" {
    /// Reads an IPv4 address in any of its old spellings (`inet(3)`).
    fn inet_aton(name: *const c_char, address: *mut libc::in_addr) -> c_int;
}

/// An address in digits, as the C library reads them.
type Digits = [u8; 48];

/// As `getaddrinfo(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> c_int {
    // SAFETY: the caller keeps the contract of getaddrinfo(3): hints are null or valid.
    unsafe {
        let (flags, family) = hints.as_ref().map_or((0, libc::AF_UNSPEC), |h| (h.ai_flags, h.ai_family));
        // Who will listen, or has digits, asks about this machine.
        let is_ours = flags & (libc::AI_PASSIVE | libc::AI_NUMERICHOST) == 0;
        let Some(digits) = is_ours.then(|| digits(node, family)).flatten() else {
            return next::getaddrinfo(node, service, hints, result);
        };
        let mut numeric = hints.as_ref().copied().unwrap_or_else(|| std::mem::zeroed());
        // Which addresses this machine has is of no matter to the gateway.
        numeric.ai_flags = flags & !libc::AI_ADDRCONFIG;
        let outcome = next::getaddrinfo(digits.as_ptr().cast(), service, &raw const numeric, result);
        if outcome == 0 {
            give_name(*result, node);
        }
        outcome
    }
}

/// As `getnameinfo(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getnameinfo(
    address: *const sockaddr,
    length: socklen_t,
    host: *mut c_char,
    host_length: socklen_t,
    service: *mut c_char,
    service_length: socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller keeps the contract of getnameinfo(3): the buffers have the lengths it says.
    unsafe {
        let numeric = |host, host_length| {
            let flags = flags | libc::NI_NUMERICHOST;
            next::getnameinfo(address, length, host, host_length, service, service_length, flags)
        };
        let stand_in = address::read(address, length).and_then(|a| StandIn::of(a.ip()));
        let Some(stand_in) = stand_in.filter(|_| flags & libc::NI_NUMERICHOST == 0 && can_ask()) else {
            return next::getnameinfo(address, length, host, host_length, service, service_length, flags);
        };
        let room = if host.is_null() { 0 } else { host_length as usize };
        match name_of(stand_in, host, room) {
            Some(true) => numeric(std::ptr::null_mut(), 0),
            Some(false) => libc::EAI_OVERFLOW,
            None => numeric(host, host_length),
        }
    }
}

/// As `gethostbyname(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut hostent {
    let digits = digits(name, libc::AF_INET);
    // SAFETY: the caller keeps the contract of gethostbyname(3).
    unsafe { next::gethostbyname(text(digits.as_ref(), name)) }
}

/// As `gethostbyname2(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent {
    let digits = digits(name, family);
    // SAFETY: the caller keeps the contract of gethostbyname2(3).
    unsafe { next::gethostbyname2(text(digits.as_ref(), name), family) }
}

/// As `gethostbyname_r(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyname_r(
    name: *const c_char,
    host: *mut hostent,
    buffer: *mut c_char,
    length: size_t,
    result: *mut *mut hostent,
    error: *mut c_int,
) -> c_int {
    let digits = digits(name, libc::AF_INET);
    // SAFETY: the caller keeps the contract of gethostbyname_r(3).
    unsafe { next::gethostbyname_r(text(digits.as_ref(), name), host, buffer, length, result, error) }
}

/// As `gethostbyname2_r(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyname2_r(
    name: *const c_char,
    family: c_int,
    host: *mut hostent,
    buffer: *mut c_char,
    length: size_t,
    result: *mut *mut hostent,
    error: *mut c_int,
) -> c_int {
    let digits = digits(name, family);
    let name = text(digits.as_ref(), name);
    // SAFETY: the caller keeps the contract of gethostbyname2_r(3).
    unsafe { next::gethostbyname2_r(name, family, host, buffer, length, result, error) }
}

/// The digits in place of the name, if there are some.
fn text(digits: Option<&Digits>, name: *const c_char) -> *const c_char {
    digits.map_or(name, |digits| digits.as_ptr().cast())
}

/// The digits that stand in for a name; `None` for what is not the gateway's to look up.
fn digits(name: *const c_char, family: c_int) -> Option<Digits> {
    if name.is_null() || !can_ask() {
        return None;
    }
    // SAFETY: programs give a string that ends in a zero byte.
    let name = unsafe { CStr::from_ptr(name) };
    if !is_elsewhere(name) {
        return None;
    }
    let name = name.to_str().ok()?;
    let ip = ask(&Request { name, ..Request::new(Question::StandIn) }, None, |reply| reply.address)??.ip();
    let ip = match family {
        libc::AF_INET6 => IpAddr::V6(StandIn::of(ip)?.v6()),
        _ => ip,
    };
    let mut digits = [0; 48];
    let mut rest = &mut digits[..47];
    std::io::Write::write_fmt(&mut rest, format_args!("{ip}")).ok()?;
    Some(digits)
}

/// Is this a name, and not one of this machine's?
fn is_elsewhere(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
    let is_local =
        bytes.eq_ignore_ascii_case(b"localhost") || ends_with(bytes, b".localhost") || own_name_is(bytes);
    let is_name = !bytes.is_empty() && bytes.len() < NAME_BYTES_MAX && !bytes.contains(&b':');
    let mut address = libc::in_addr { s_addr: 0 };
    // SAFETY: the name ends in a zero byte, and there is room for the address.
    let mut is_digits = || unsafe { inet_aton(name.as_ptr(), &raw mut address) } != 0;
    is_name && !is_local && !is_digits()
}

fn ends_with(name: &[u8], end: &[u8]) -> bool {
    name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

fn own_name_is(name: &[u8]) -> bool {
    let mut own = [0_u8; 256];
    // SAFETY: the buffer is valid for its length; its last byte stays zero.
    let is_known = unsafe { libc::gethostname(own.as_mut_ptr().cast(), own.len() - 1) } == 0;
    let own = own.split(|byte| *byte == 0).next().unwrap_or_default();
    is_known && !own.is_empty() && own.eq_ignore_ascii_case(name)
}

/// Writes the name that an address stands in for. `None` if nobody knows it; false if there is no room.
///
/// # Safety
/// `host` must be writable for `room` bytes.
unsafe fn name_of(stand_in: StandIn, host: *mut c_char, room: usize) -> Option<bool> {
    let address = Some((stand_in.v4(), 0).into());
    ask(&Request { address, ..Request::new(Question::Name) }, None, |reply| {
        if reply.name.is_empty() {
            return None;
        }
        if room > reply.name.len() {
            // SAFETY: there is room for the name and a zero byte.
            unsafe {
                std::ptr::copy_nonoverlapping(reply.name.as_ptr(), host.cast(), reply.name.len());
                host.add(reply.name.len()).write(0);
            }
        }
        Some(room == 0 || room > reply.name.len())
    })?
}

/// Where the program asked for the canonical name, digits stand now: the name takes their place.
///
/// # Safety
/// `list` must come from the C library's getaddrinfo, which frees names by `free`.
unsafe fn give_name(list: *mut addrinfo, name: *const c_char) {
    // SAFETY: the list is not empty and its parts are valid; the GNU C library allocates the name by itself.
    unsafe {
        let Some(first) = list.as_mut().filter(|first| !first.ai_canonname.is_null()) else { return };
        let copy = libc::strdup(name);
        if cfg!(target_env = "gnu") && !copy.is_null() {
            libc::free(first.ai_canonname.cast());
            first.ai_canonname = copy;
        } else {
            libc::free(copy.cast());
        }
    }
}
