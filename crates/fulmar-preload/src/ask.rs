//! Asking `fulmar run`: a Unix socket for each question.

use std::mem::{size_of, zeroed};
use std::ptr;
use std::sync::OnceLock;

use fulmar_carry::{MESSAGE_BYTES_MAX, Reply, Request, SOCKET_VARIABLE};
use libc::{c_int, sockaddr_un, socklen_t};

use crate::next;

/// Where to ask. Read from the environment when the library is loaded: programs may change theirs later.
static PLACE: OnceLock<Option<sockaddr_un>> = OnceLock::new();

/// Runs when the library is loaded, before the program's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    place();
}

fn place() -> Option<&'static sockaddr_un> {
    PLACE.get_or_init(find_place).as_ref()
}

fn find_place() -> Option<sockaddr_un> {
    let mut name = [0_u8; 32];
    name.get_mut(..SOCKET_VARIABLE.len())?.copy_from_slice(SOCKET_VARIABLE.as_bytes());
    // SAFETY: the name ends in a zero byte; what getenv returns is null or a string that is only read here.
    unsafe {
        let path = libc::getenv(name.as_ptr().cast());
        if path.is_null() {
            return None;
        }
        let mut place: sockaddr_un = zeroed();
        place.sun_family = libc::AF_UNIX as _;
        let length = libc::strlen(path);
        if length >= place.sun_path.len() {
            return None;
        }
        ptr::copy_nonoverlapping(path, place.sun_path.as_mut_ptr(), length);
        Some(place)
    }
}

/// Is there anybody to ask? Without `fulmar run` the library does nothing.
pub(crate) fn can_ask() -> bool {
    place().is_some()
}

/// Asks, and hands the answer to `read`. `None` if nobody answers. A socket that the question is about goes
/// along.
pub(crate) fn ask<T>(
    request: &Request<'_>,
    socket: Option<c_int>,
    read: impl FnOnce(&Reply<'_>) -> T,
) -> Option<T> {
    let place = place()?;
    // SAFETY: takes no pointer.
    let line = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if line < 0 {
        return None;
    }
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let answer =
        exchange(line, place, request, socket, &mut buffer).and_then(Reply::decode).map(|r| read(&r));
    // SAFETY: the descriptor is ours, and not used any more.
    unsafe { libc::close(line) };
    answer
}

fn exchange<'a>(
    line: c_int,
    place: &sockaddr_un,
    request: &Request<'_>,
    socket: Option<c_int>,
    buffer: &'a mut [u8; MESSAGE_BYTES_MAX],
) -> Option<&'a [u8]> {
    let length = request.encode(buffer)?;
    let again = |call: &mut dyn FnMut() -> isize| loop {
        let result = call();
        if result >= 0 || next::errno() != libc::EINTR {
            return usize::try_from(result).ok();
        }
    };
    // SAFETY: the address is valid for its length.
    again(&mut || unsafe {
        next::connect(line, ptr::from_ref(place).cast(), size_of::<sockaddr_un>() as socklen_t) as isize
    })?;
    again(&mut || send(line, &mut buffer[..length], socket))?;
    // SAFETY: the buffer is valid for its length.
    let received =
        again(&mut || unsafe { libc::recv(line, buffer.as_mut_ptr().cast(), MESSAGE_BYTES_MAX, 0) })?;
    buffer.get(..received)
}

fn send(line: c_int, message: &mut [u8], socket: Option<c_int>) -> isize {
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
    // SAFETY: a `msghdr` of zeros is valid; the buffers outlive the call; the control buffer is aligned and
    // has room for the one message of one descriptor that is laid out in it.
    unsafe {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if let Some(socket) = socket {
            let bytes = size_of::<c_int>() as u32;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(first).cast::<c_int>().write_unaligned(socket);
        }
        next::sendmsg(line, &raw const header, libc::MSG_NOSIGNAL)
    }
}
