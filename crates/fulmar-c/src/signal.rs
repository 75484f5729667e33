//! A descriptor that is readable as long as something is to be told: an eventfd, elsewhere a pair of sockets.

use std::io;

/// One flag that `poll` sees.
#[derive(Debug)]
pub(crate) struct Signal(imp::Descriptor);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        imp::Descriptor::new().map(Self)
    }

    /// Makes it readable. To be called once before [`clear`](Self::clear).
    pub(crate) fn raise(&self) {
        self.0.raise();
    }

    /// Makes it unreadable.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    /// What to poll.
    pub(crate) fn descriptor(&self) -> i32 {
        self.0.raw()
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::event::{EventfdFlags, eventfd};

    #[derive(Debug)]
    pub(super) struct Descriptor(OwnedFd);

    impl Descriptor {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        }

        // Neither can fail: the counter is zero or one, and the descriptor is ours.
        pub(super) fn raise(&self) {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }

        pub(super) fn clear(&self) {
            let _ = rustix::io::read(&self.0, &mut [0; 8]);
        }

        pub(super) fn raw(&self) -> i32 {
            self.0.as_raw_fd()
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod imp {
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[derive(Debug)]
    pub(super) struct Descriptor(UnixStream, UnixStream);

    impl Descriptor {
        pub(super) fn new() -> io::Result<Self> {
            let (reads, writes) = UnixStream::pair()?;
            reads.set_nonblocking(true)?;
            writes.set_nonblocking(true)?;
            Ok(Self(reads, writes))
        }

        pub(super) fn raise(&self) {
            let _ = (&self.1).write(&[1]);
        }

        pub(super) fn clear(&self) {
            let _ = (&self.0).read(&mut [0; 8]);
        }

        pub(super) fn raw(&self) -> i32 {
            self.0.as_raw_fd()
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::io;

    /// Nothing to poll here: `ful_wait` waits instead.
    #[derive(Debug)]
    pub(super) struct Descriptor;

    impl Descriptor {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn raise(&self) {}

        pub(super) fn clear(&self) {}

        pub(super) fn raw(&self) -> i32 {
            -1
        }
    }
}
