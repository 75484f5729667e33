//! The library that `fulmar run` puts before a program's C library (`LD_PRELOAD`), so that its TCP
//! connections are carried.
//!
//! It replaces the calls below and passes everything else on to the C library's own. The program keeps its
//! sockets: a connection is made by `connect`, in the kernel, to an address of loopback where nothing
//! answers, and comes about when the gateway has reached the target. Until then the socket is what it would
//! be on a far path, in `SYN_SENT`, so that blocking, `O_NONBLOCK`, `poll`, `epoll`, time limits and signals
//! behave as ever; and afterwards it is an ordinary connection, on which `sendfile`, `splice` and half-close
//! are the kernel's. See `fulmar-cli/src/run/` for the other end.
//!
//! | calls | why |
//! |---|---|
//! | `connect`, `getsockopt` (`SO_ERROR`) | the target; the error of the far end ([`connect`]) |
//! | `getpeername` | the target, not loopback |
//! | `getaddrinfo`, `gethostbyname..`, `getnameinfo` | names are the gateway's ([`names`]) |
//! | `sendto`, `sendmsg`, `socket`, `syscall`, `io_uring_queue_init..` | ways around `connect` are refused as kernels without them do ([`detours`]) |
//!
//! It allocates nothing, keeps no descriptor open and remembers nothing but the name of the socket where it
//! asks (`fulmar-carry`): so it is safe in signal handlers and after `fork`, `vfork` and `exec`.
// Functions that stand in for the C library's take pointers as it does; each block says what makes it sound.
#![allow(unsafe_code)]
#![cfg(target_os = "linux")]

mod address;
mod ask;
mod connect;
mod detours;
mod names;
mod next;
