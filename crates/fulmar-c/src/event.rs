//! What happened, in a queue that the caller drains: never a callback on a thread of ours.
//!
//! An event comes once after a function has said FUL_WOULDBLOCK, so the queue holds at most a few for each
//! handle. Handles take their events with them when they are freed.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::memory::SizedStruct;
use crate::signal::Signal;

/// A client has knocked: ful_accept.
pub const FUL_EVENT_ACCEPT: i32 = 1;
/// A connection that ful_connect began is there.
pub const FUL_EVENT_CONNECTED: i32 = 2;
/// A connection has ended, or did not come about: ful_conn_error says why. What has arrived can still be
/// read.
pub const FUL_EVENT_CLOSED: i32 = 3;
/// The peer has opened a stream: ful_stream_accept.
pub const FUL_EVENT_STREAM_OPENED: i32 = 4;
/// The peer allows more streams: ful_stream_open.
pub const FUL_EVENT_STREAMS_AVAILABLE: i32 = 5;
/// There is a datagram: ful_datagram_receive.
pub const FUL_EVENT_DATAGRAM: i32 = 6;
/// There is room for datagrams: ful_datagram_send.
pub const FUL_EVENT_DATAGRAM_ROOM: i32 = 7;
/// There is something to read, or the stream has ended: ful_stream_read.
pub const FUL_EVENT_READABLE: i32 = 8;
/// There is room to write, or the peer wants no more: ful_stream_write.
pub const FUL_EVENT_WRITABLE: i32 = 9;
/// It is known how a stream has ended at the peer: ful_stream_delivered.
pub const FUL_EVENT_DELIVERED: i32 = 10;
/// Something that happened.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ful_event {
    /// sizeof(ful_event), to be set by the caller.
    pub size: usize,
    /// FUL_EVENT_...
    pub kind: i32,
    /// The connection's handle (ful_conn *); NULL for events of streams and endpoints.
    pub conn: *mut c_void,
    /// The stream's handle (ful_stream *); NULL for other events.
    pub stream: *mut c_void,
    /// What ful_conn_set_user or ful_stream_set_user has set for that handle.
    pub user: *mut c_void,
}

// SAFETY: numbers and pointers only.
unsafe impl SizedStruct for ful_event {}

/// Whose event it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Endpoint,
    Connection,
    Stream,
}

/// What all handles of an endpoint put their events into.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Arc<Interest>>>,
    /// For those who wait here and poll nothing.
    filled: Condvar,
    signal: Signal,
    /// Somebody has asked for the descriptor: only then it is kept up to date, by a system call for each time
    /// that the queue fills or empties.
    is_polled: AtomicBool,
}

impl Queue {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let signal = Signal::new()?;
        let is_polled = AtomicBool::new(false);
        Ok(Arc::new(Self { waiting: Mutex::default(), filled: Condvar::new(), signal, is_polled }))
    }

    /// Nothing is left half done under it.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Interest>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, interest: &Arc<Interest>) {
        let mut waiting = self.lock();
        if interest.is_retired.load(Ordering::Relaxed) || interest.is_posted.swap(true, Ordering::Relaxed) {
            return;
        }
        waiting.push_back(interest.clone());
        if waiting.len() > 1 {
            return;
        }
        if self.is_polled.load(Ordering::Relaxed) {
            self.signal.raise();
        }
        // Whoever wakes up finds the lock free.
        drop(waiting);
        self.filled.notify_all();
    }

    /// There is nothing any more.
    fn on_emptied(&self) {
        if self.is_polled.load(Ordering::Relaxed) {
            self.signal.clear();
        }
    }

    /// The next event.
    pub(crate) fn next(&self) -> Option<ful_event> {
        let mut waiting = self.lock();
        let interest = waiting.pop_front()?;
        if waiting.is_empty() {
            self.on_emptied();
        }
        interest.is_posted.store(false, Ordering::Relaxed);
        let handle = interest.handle.address.load(Ordering::Relaxed);
        let of = |of| if interest.handle.of == of { handle } else { std::ptr::null_mut() };
        Some(ful_event {
            size: size_of::<ful_event>(),
            kind: interest.kind,
            conn: of(Of::Connection),
            stream: of(Of::Stream),
            user: interest.handle.user.load(Ordering::Relaxed),
        })
    }

    /// Waits until there is an event; false if there is none after `limit`.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> bool {
        let waiting = self.lock();
        let is_empty = |waiting: &mut VecDeque<_>| waiting.is_empty();
        match limit {
            None => {
                drop(self.filled.wait_while(waiting, is_empty));
                true
            }
            Some(limit) => {
                let (waiting, _) = self
                    .filled
                    .wait_timeout_while(waiting, limit, is_empty)
                    .unwrap_or_else(PoisonError::into_inner);
                !waiting.is_empty()
            }
        }
    }

    pub(crate) fn descriptor(&self) -> i32 {
        let waiting = self.lock();
        if !self.is_polled.swap(true, Ordering::Relaxed) && !waiting.is_empty() {
            self.signal.raise();
        }
        self.signal.descriptor()
    }

    /// No event of these comes any more.
    fn retire(&self, interests: &[Arc<Interest>]) {
        let mut waiting = self.lock();
        let was_empty = waiting.is_empty();
        interests.iter().for_each(|interest| interest.is_retired.store(true, Ordering::Relaxed));
        if interests.iter().any(|interest| interest.is_posted.load(Ordering::Relaxed)) {
            waiting.retain(|interest| !interest.is_retired.load(Ordering::Relaxed));
        }
        if waiting.is_empty() && !was_empty {
            self.on_emptied();
        }
    }
}

/// A handle as its events name it.
#[derive(Debug)]
struct Handle {
    of: Of,
    address: AtomicPtr<c_void>,
    user: AtomicPtr<c_void>,
}

/// A kind of event of a handle, which is woken to be posted.
#[derive(Debug)]
pub(crate) struct Interest {
    queue: Arc<Queue>,
    kind: i32,
    handle: Arc<Handle>,
    /// Both change under the queue's lock only.
    is_posted: AtomicBool,
    is_retired: AtomicBool,
}

impl Wake for Interest {
    fn wake(self: Arc<Self>) {
        self.queue.post(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.post(self);
    }
}

/// All kinds of events of a handle. None comes after this is gone.
#[derive(Debug)]
pub(crate) struct Interests {
    queue: Arc<Queue>,
    handle: Arc<Handle>,
    all: Vec<Arc<Interest>>,
}

impl Interests {
    pub(crate) fn new(queue: &Arc<Queue>, of: Of, kinds: &[i32]) -> Self {
        let handle = Arc::new(Handle { of, address: AtomicPtr::default(), user: AtomicPtr::default() });
        let interest = |kind: &i32| {
            Arc::new(Interest {
                queue: queue.clone(),
                kind: *kind,
                handle: handle.clone(),
                is_posted: AtomicBool::new(false),
                is_retired: AtomicBool::new(false),
            })
        };
        Self { queue: queue.clone(), all: kinds.iter().map(interest).collect(), handle }
    }

    /// What C calls the handle.
    pub(crate) fn is_called(&self, address: *mut c_void) {
        self.handle.address.store(address, Ordering::Relaxed);
    }

    pub(crate) fn set_user(&self, user: *mut c_void) {
        self.handle.user.store(user, Ordering::Relaxed);
    }

    pub(crate) fn user(&self) -> *mut c_void {
        self.handle.user.load(Ordering::Relaxed)
    }

    /// Posts an event of this kind when woken.
    pub(crate) fn waker(&self, kind: i32) -> Waker {
        let interest = self.all.iter().find(|interest| interest.kind == kind);
        interest.map_or_else(|| Waker::noop().clone(), |interest| Waker::from(interest.clone()))
    }
}

impl Drop for Interests {
    fn drop(&mut self) {
        self.queue.retire(&self.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_once_and_goes_with_its_handle() {
        let queue = Queue::new().unwrap();
        let a = Interests::new(&queue, Of::Connection, &[FUL_EVENT_CLOSED, FUL_EVENT_DATAGRAM]);
        let b = Interests::new(&queue, Of::Stream, &[FUL_EVENT_READABLE]);
        b.is_called(std::ptr::without_provenance_mut(8));
        b.set_user(std::ptr::without_provenance_mut(16));
        let waker = a.waker(FUL_EVENT_DATAGRAM);
        waker.wake_by_ref();
        waker.wake_by_ref();
        b.waker(FUL_EVENT_READABLE).wake();
        drop(a);
        waker.wake_by_ref();
        let event = queue.next().unwrap();
        assert_eq!((event.kind, event.stream.addr(), event.user.addr()), (FUL_EVENT_READABLE, 8, 16));
        assert!(event.conn.is_null());
        assert!(queue.next().is_none());
        assert!(!queue.wait(Some(Duration::ZERO)));
        b.waker(FUL_EVENT_READABLE).wake();
        assert!(queue.wait(None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_descriptor_says_what_was_there_before_it_was_asked_for() {
        let queue = Queue::new().unwrap();
        let interests = Interests::new(&queue, Of::Stream, &[FUL_EVENT_READABLE]);
        let is_readable = || {
            // SAFETY: the queue keeps it open.
            let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(queue.descriptor()) };
            let mut polled =
                [rustix::event::PollFd::from_borrowed_fd(descriptor, rustix::event::PollFlags::IN)];
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut polled, Some(&none)).unwrap() == 1
        };
        interests.waker(FUL_EVENT_READABLE).wake();
        assert!(is_readable());
        assert!(queue.next().is_some() && !is_readable());
        interests.waker(FUL_EVENT_READABLE).wake();
        assert!(is_readable());
        drop(interests);
        assert!(!is_readable());
    }
}
