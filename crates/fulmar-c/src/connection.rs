//! A connection of the driver.

use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use fulmar::crypto::PeerIdentity;
use fulmar::{Connection, ConnectionError, Dir, RecvStream, SendStream};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::code::{self, FUL_ERR_ARGUMENT, FUL_ERR_UNSUPPORTED, FUL_OK, FUL_WOULDBLOCK, Outcome, guard};
use crate::event::{
    FUL_EVENT_CLOSED, FUL_EVENT_CONNECTED, FUL_EVENT_DATAGRAM, FUL_EVENT_DATAGRAM_ROOM,
    FUL_EVENT_STREAM_OPENED, FUL_EVENT_STREAMS_AVAILABLE, Interests, Of, Queue,
};
use crate::failure::{Failure, ful_error};
use crate::memory;
use crate::pending::Pending;
use crate::stats::ful_stats;

const KINDS: &[i32] = &[
    FUL_EVENT_CONNECTED,
    FUL_EVENT_CLOSED,
    FUL_EVENT_STREAM_OPENED,
    FUL_EVENT_STREAMS_AVAILABLE,
    FUL_EVENT_DATAGRAM,
    FUL_EVENT_DATAGRAM_ROOM,
];

/// What all handles of an endpoint share.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) runtime: Handle,
    pub(crate) queue: Arc<Queue>,
}

/// A connection to one peer.
pub struct ful_conn {
    pub(crate) driver: Arc<Driver>,
    pub(crate) interests: Interests,
    link: Arc<Link>,
    asked: Mutex<Asked>,
    /// A datagram waits for room in the queue.
    pub(crate) datagram_waits: Arc<AtomicBool>,
    connecting: OnceLock<AbortHandle>,
}

/// What the task that connects shares with the handle.
#[derive(Debug, Default)]
struct Link {
    result: OnceLock<Result<Connection, Failure>>,
    /// Kept so that its end is told.
    closed: Mutex<Pending<ConnectionError>>,
}

/// What was asked for and is not there yet.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) opened: [Pending<Result<Halves, ConnectionError>>; 2],
    pub(crate) accepted: [Pending<Result<Halves, ConnectionError>>; 2],
    pub(crate) datagram: Pending<Result<Bytes, ConnectionError>>,
    /// A datagram that the caller had no room for.
    pub(crate) held: Option<Bytes>,
}

/// A stream, as far as this end has it.
pub(crate) type Halves = (Option<SendStream>, Option<RecvStream>);

impl Link {
    fn settle(&self, result: Result<Connection, Failure>, found: &[Waker], closed: &Waker) {
        let connection = result.as_ref().ok().cloned();
        // Set once.
        let _ = self.result.set(result);
        let Some(connection) = connection else { return closed.wake_by_ref() };
        found.iter().for_each(Waker::wake_by_ref);
        let mut watch = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.poll(closed, || async move { connection.closed().await }).is_ok() {
            closed.wake_by_ref();
        }
    }
}

impl ful_conn {
    /// A handle as C has it and as it is here, until C frees it.
    fn new<'a>(driver: &Arc<Driver>) -> (*mut Self, &'a Self) {
        memory::called(
            Self {
                driver: driver.clone(),
                interests: Interests::new(&driver.queue, Of::Connection, KINDS),
                link: Arc::default(),
                asked: Mutex::default(),
                datagram_waits: Arc::default(),
                connecting: OnceLock::new(),
            },
            |conn, raw| conn.interests.is_called(raw),
        )
    }

    /// A handle whose connection `connecting` is to give.
    pub(crate) unsafe fn begin(
        driver: &Arc<Driver>,
        user: *mut c_void,
        connecting: impl Future<Output = Result<Connection, Failure>> + Send + 'static,
        out: *mut *mut Self,
    ) -> Outcome {
        if out.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let (raw, conn) = Self::new(driver);
        let link = Arc::downgrade(&conn.link);
        let closed = conn.interests.waker(FUL_EVENT_CLOSED);
        let found = [FUL_EVENT_CONNECTED, FUL_EVENT_STREAM_OPENED, FUL_EVENT_DATAGRAM];
        let found = found.map(|kind| conn.interests.waker(kind));
        conn.interests.set_user(user);
        let task = driver.runtime.spawn(async move {
            let result = connecting.await;
            // A handle that was freed meanwhile wants no connection.
            if let Some(link) = link.upgrade() {
                link.settle(result, &found, &closed);
            }
        });
        // Set once.
        let _ = conn.connecting.set(task.abort_handle());
        // SAFETY: not NULL.
        unsafe { memory::put(out, raw) }
    }

    /// A handle for a connection that is there.
    pub(crate) unsafe fn accepted(
        driver: &Arc<Driver>,
        connection: Connection,
        out: *mut *mut Self,
    ) -> Outcome {
        let (raw, conn) = Self::new(driver);
        // The first events: the peer may have said something already.
        let found = [FUL_EVENT_STREAM_OPENED, FUL_EVENT_DATAGRAM].map(|kind| conn.interests.waker(kind));
        conn.link.settle(Ok(connection), &found, &conn.interests.waker(FUL_EVENT_CLOSED));
        // SAFETY: the caller has looked for NULL.
        unsafe { memory::put(out, raw) }
    }

    /// The connection, FUL_WOULDBLOCK as long as it is not there, or why it has not come about.
    pub(crate) fn connection(&self) -> Outcome<&Connection> {
        match self.link.result.get() {
            None => Err(FUL_WOULDBLOCK),
            Some(Ok(connection)) => Ok(connection),
            Some(Err(failure)) => Err(failure.code),
        }
    }

    pub(crate) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self) -> (Failure, u64) {
        let alive = (Failure::from(FUL_OK), 0);
        match self.link.result.get() {
            None => alive,
            Some(Err(failure)) => (failure.clone(), 0),
            Some(Ok(connection)) => connection.close_reason().map_or(alive, |why| {
                let code = match &why {
                    ConnectionError::ApplicationClosed { code, .. } => *code,
                    _ => 0,
                };
                (Failure::new(code::of_connection(&why), why), code)
            }),
        }
    }
}

impl Drop for ful_conn {
    fn drop(&mut self) {
        if let Some(connecting) = self.connecting.take() {
            connecting.abort();
        }
    }
}

/// A stream on which both ends send.
pub const FUL_BOTH_WAYS: i32 = 0;
/// A stream on which only the end that opened it sends.
pub const FUL_ONE_WAY: i32 = 1;

/// The direction that a number stands for.
pub(crate) fn dir(number: i32) -> Outcome<Dir> {
    match number {
        FUL_BOTH_WAYS => Ok(Dir::Bi),
        FUL_ONE_WAY => Ok(Dir::Uni),
        _ => Err(FUL_ERR_ARGUMENT),
    }
}

/// Frees the handle. A connection nobody closed ends in order behind the back: streams that were finished are
/// delivered, for at most 30 seconds and as long as the endpoint is there. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_free(conn: *mut ful_conn) {
    guard(|| {
        // SAFETY: as the header asks.
        drop(unsafe { memory::take_back(conn) });
        Ok(())
    });
}

/// What this connection's events are to have in `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_set_user(conn: *const ful_conn, user: *mut c_void) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        unsafe { memory::borrow(conn) }?.interests.set_user(user);
        Ok(())
    })
}

/// What was set. NULL at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_user(conn: *const ful_conn) -> *mut c_void {
    // SAFETY: as the header asks.
    unsafe { memory::borrow(conn) }.map_or(std::ptr::null_mut(), |conn| conn.interests.user())
}

/// Whether the connection is alive: `error->code` is FUL_OK then, otherwise why it has ended, in words too.
/// `code` (may be NULL) is what the peer's application closed with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_error(conn: *const ful_conn, error: *mut ful_error, code: *mut u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (failure, application) = unsafe { memory::borrow(conn) }?.error();
        if error.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        // SAFETY: as the header asks.
        unsafe { crate::failure::tell(failure, error) };
        if !code.is_null() {
            // SAFETY: not NULL, so there is room for a number.
            unsafe { memory::put(code, application) }?;
        }
        Ok(())
    })
}

/// The peer's address, "192.0.2.1:4747". It changes when the peer moves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_remote(
    conn: *const ful_conn,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let address = unsafe { memory::borrow(conn) }?.connection()?.remote_address().to_string();
        // SAFETY: as the header asks.
        unsafe { memory::fill_text(&address, out, capacity, len) }
    })
}

/// The key that the peer has proved to hold: 32 bytes. FUL_END: it has shown none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_peer_key(conn: *const ful_conn, key: *mut u8) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        match unsafe { memory::borrow(conn) }?.connection()?.peer_identity() {
            // SAFETY: as the header asks, there is room for 32 bytes.
            Some(PeerIdentity::RawKey(peer)) => unsafe {
                memory::fill_bytes(peer.as_bytes(), key, 32, std::ptr::null_mut())
            },
            Some(_) => Err(FUL_ERR_UNSUPPORTED),
            None => Err(code::FUL_END),
        }
    })
}

/// Counts and current values, into `stats`, whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_stats(conn: *const ful_conn, stats: *mut ful_stats) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let found = unsafe { memory::borrow(conn) }?.connection()?.stats();
        // SAFETY: as the header asks.
        unsafe { memory::write_sized(stats, &ful_stats::new(&found)) }
    })
}

/// Closes at once; what was not delivered may be lost. The peer's application gets `code` and the `len` bytes
/// of `reason`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_close(
    conn: *const ful_conn,
    code: u64,
    reason: *const u8,
    len: usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (conn, reason) = unsafe { (memory::borrow(conn)?, memory::bytes(reason, len)?) };
        conn.connection()?.close(code, reason);
        Ok(())
    })
}

/// Closes in order: takes no more, delivers everything written so far, then closes; FUL_EVENT_CLOSED comes
/// then. A peer that does not read is waited for: ful_conn_close ends that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_conn_shutdown(
    conn: *const ful_conn,
    code: u64,
    reason: *const u8,
    len: usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (conn, reason) = unsafe { (memory::borrow(conn)?, memory::bytes(reason, len)?.to_vec()) };
        let connection = conn.connection()?.clone();
        // Begun here, so that nothing can be written after this; its end comes as an event.
        let mut ending = Box::pin(async move { connection.shutdown(code, &reason).await.map(drop) });
        if crate::pending::poll_once(ending.as_mut(), Waker::noop()).is_err() {
            conn.driver.runtime.spawn(ending);
        }
        Ok(())
    })
}
