//! The functions that ours stand before: what `dlsym(RTLD_NEXT, ..)` finds.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{addrinfo, c_char, c_int, c_long, c_uint, hostent, msghdr, size_t, sockaddr, socklen_t, ssize_t};

/// A function of the C library, looked up when it is first needed.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address; null if nobody after us has it.
    fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name ends in a zero byte, and the handle is one that dlsym knows.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Declares functions of the C library under their own names; called before they can be found they fail with
/// `ENOSYS`.
macro_rules! next {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty, or $otherwise:expr;)*) => { $(
        /// The C library's own.
        ///
        /// # Safety
        /// As the C library says.
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static NEXT: Next = Next::new(
                // SAFETY: the name of a function has no zero byte but the one added here.
                unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
            );
            let address = NEXT.address();
            if address.is_null() {
                set_errno(libc::ENOSYS);
                return $otherwise;
            }
            // SAFETY: the C library's function of this name has this type; the caller keeps its contract.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(address);
                function($($argument),*)
            }
        }
    )* };
}

/// Sets the error number of the calling thread.
pub(crate) fn set_errno(number: i32) {
    // SAFETY: the C library returns a valid address of the thread's own variable.
    unsafe { *libc::__errno_location() = number };
}

/// The error number of the calling thread.
pub(crate) fn errno() -> i32 {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Fails as system calls do.
pub(crate) fn fail(number: i32) -> i32 {
    set_errno(number);
    -1
}

next! {
    fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int, or -1;
    fn getpeername(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, or -1;
    fn getsockopt(
        socket: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t
    ) -> c_int, or -1;
    fn sendto(
        socket: c_int, bytes: *const c_void, length: size_t, flags: c_int, address: *const sockaddr,
        address_length: socklen_t
    ) -> ssize_t, or -1;
    fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t, or -1;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int, or -1;
    fn syscall(
        number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long
    ) -> c_long, or -1;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int, or -libc::ENOSYS;
    fn io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void
    ) -> c_int, or -libc::ENOSYS;
    fn io_uring_queue_init_mem(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t
    ) -> c_int, or -libc::ENOSYS;
    fn getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo, result: *mut *mut addrinfo
    ) -> c_int, or libc::EAI_SYSTEM;
    fn getnameinfo(
        address: *const sockaddr, length: socklen_t, host: *mut c_char, host_length: socklen_t,
        service: *mut c_char, service_length: socklen_t, flags: c_int
    ) -> c_int, or libc::EAI_SYSTEM;
    fn gethostbyname(name: *const c_char) -> *mut hostent, or std::ptr::null_mut();
    fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent, or std::ptr::null_mut();
    fn gethostbyname_r(
        name: *const c_char, host: *mut hostent, buffer: *mut c_char, length: size_t,
        result: *mut *mut hostent, error: *mut c_int
    ) -> c_int, or libc::ENOSYS;
    fn gethostbyname2_r(
        name: *const c_char, family: c_int, host: *mut hostent, buffer: *mut c_char, length: size_t,
        result: *mut *mut hostent, error: *mut c_int
    ) -> c_int, or libc::ENOSYS;
}
