//! Ways to connect without `connect`. They are refused as by a kernel that does not have them: programs then
//! take the usual way.

use libc::{c_int, c_long, c_uint, c_void, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::ask::can_ask;
use crate::next::{self, fail};

/// As `sendto(2)` of a kernel without TCP Fast Open.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    socket: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    if flags & libc::MSG_FASTOPEN != 0 && can_ask() {
        return fail(libc::EOPNOTSUPP) as ssize_t;
    }
    // SAFETY: the caller keeps the contract of sendto(2).
    unsafe { next::sendto(socket, bytes, length, flags, address, address_length) }
}

/// As `sendmsg(2)` of a kernel without TCP Fast Open.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if flags & libc::MSG_FASTOPEN != 0 && can_ask() {
        return fail(libc::EOPNOTSUPP) as ssize_t;
    }
    // SAFETY: the caller keeps the contract of sendmsg(2).
    unsafe { next::sendmsg(socket, message, flags) }
}

/// As `socket(2)` of a kernel without Multipath TCP, whose sockets hide their paths.
#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if protocol == libc::IPPROTO_MPTCP && can_ask() {
        return fail(libc::EPROTONOSUPPORT);
    }
    // SAFETY: takes no pointer.
    unsafe { next::socket(domain, kind, protocol) }
}

/// As `syscall(2)` of a kernel without io_uring; `connect` that comes this way is ours as well. The C
/// library's takes its arguments after the first as they come; on these machines that is where seven numbers
/// lie.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_io_uring_setup && can_ask() {
        return c_long::from(fail(libc::ENOSYS));
    }
    // SAFETY: the caller keeps the contract of syscall(2) and of the call it names.
    unsafe {
        if number == libc::SYS_connect {
            return c_long::from(crate::connect::connect(a as c_int, b as *const sockaddr, c as socklen_t));
        }
        next::syscall(number, a, b, c, d, e, f)
    }
}

/// As `io_uring_queue_init(3)` on a kernel without io_uring: liburing does not call the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
    // SAFETY: the caller keeps the contract of io_uring_queue_init(3).
    if can_ask() { -libc::ENOSYS } else { unsafe { next::io_uring_queue_init(entries, ring, flags) } }
}

/// As `io_uring_queue_init_params(3)` on a kernel without io_uring.
#[unsafe(no_mangle)]
unsafe extern "C" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    if can_ask() {
        return -libc::ENOSYS;
    }
    // SAFETY: the caller keeps the contract of io_uring_queue_init_params(3).
    unsafe { next::io_uring_queue_init_params(entries, ring, parameters) }
}

/// As `io_uring_queue_init_mem(3)` on a kernel without io_uring.
#[unsafe(no_mangle)]
unsafe extern "C" fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
    memory: *mut c_void,
    bytes: size_t,
) -> c_int {
    if can_ask() {
        return -libc::ENOSYS;
    }
    // SAFETY: the caller keeps the contract of io_uring_queue_init_mem(3).
    unsafe { next::io_uring_queue_init_mem(entries, ring, parameters, memory, bytes) }
}
