//! Streams of the driver.

use std::ffi::c_void;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use fulmar::{
    ClosedStream, Connection, ConnectionError, Dir, FinishError, ReadError, RecvStream, SendStream,
    WriteError,
};

use crate::code::{
    self, FUL_END, FUL_ERR_ARGUMENT, FUL_ERR_RESET, FUL_ERR_STOPPED, FUL_ERR_STREAM, Outcome, guard,
};
use crate::connection::{Driver, Halves, dir, ful_conn};
use crate::event::{
    FUL_EVENT_DELIVERED, FUL_EVENT_READABLE, FUL_EVENT_STREAM_OPENED, FUL_EVENT_STREAMS_AVAILABLE,
    FUL_EVENT_WRITABLE, Interests, Of,
};
use crate::memory;
use crate::pending::poll_once;

/// One end of a stream.
pub struct ful_stream {
    interests: Interests,
    readable: Waker,
    writable: Waker,
    send: Option<Mutex<SendStream>>,
    receive: Option<Mutex<RecvStream>>,
    /// What the peer reset or stopped it with.
    code: AtomicU64,
}

impl ful_stream {
    unsafe fn give(driver: &Arc<Driver>, (send, receive): Halves, out: *mut *mut Self) -> Outcome {
        let kinds = [FUL_EVENT_READABLE, FUL_EVENT_WRITABLE, FUL_EVENT_DELIVERED];
        let interests = Interests::new(&driver.queue, Of::Stream, &kinds);
        let (readable, writable) = (interests.waker(FUL_EVENT_READABLE), interests.waker(FUL_EVENT_WRITABLE));
        let (send, receive) = (send.map(Mutex::new), receive.map(Mutex::new));
        let stream = Self { interests, readable, writable, send, receive, code: AtomicU64::new(0) };
        let (raw, stream) = memory::called(stream, |stream, raw| stream.interests.is_called(raw));
        if stream.receive.is_some() {
            // The first event: something may be there already.
            stream.readable.wake_by_ref();
        }
        // SAFETY: the caller has looked for NULL.
        unsafe { memory::put(out, raw) }
    }

    fn send<T>(&self, action: impl FnOnce(&mut SendStream) -> T) -> Outcome<T> {
        let half = self.send.as_ref().ok_or(FUL_ERR_STREAM)?;
        Ok(action(&mut half.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn receive<T>(&self, action: impl FnOnce(&mut RecvStream) -> T) -> Outcome<T> {
        let half = self.receive.as_ref().ok_or(FUL_ERR_STREAM)?;
        Ok(action(&mut half.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The peer has said why.
    fn note(&self, error: i32, code: u64) -> i32 {
        self.code.store(code, Ordering::Relaxed);
        error
    }

    fn of_write(&self, error: &WriteError) -> i32 {
        match error {
            WriteError::Stopped(code) => self.note(FUL_ERR_STOPPED, *code),
            WriteError::ConnectionLost(why) => code::of_connection(why),
            _ => FUL_ERR_STREAM,
        }
    }

    fn of_finish(&self, error: &FinishError) -> i32 {
        match error {
            FinishError::Stopped(code) => self.note(FUL_ERR_STOPPED, *code),
            FinishError::ConnectionLost(why) => code::of_connection(why),
            _ => FUL_ERR_STREAM,
        }
    }

    fn of_read(&self, error: &ReadError) -> i32 {
        match error {
            ReadError::Reset(code) => self.note(FUL_ERR_RESET, *code),
            ReadError::ConnectionLost(why) => code::of_connection(why),
            _ => FUL_ERR_STREAM,
        }
    }
}

async fn open(connection: Connection, dir: Dir) -> Result<Halves, ConnectionError> {
    match dir {
        Dir::Bi => connection.open_bi().await.map(|(send, receive)| (Some(send), Some(receive))),
        Dir::Uni => connection.open_uni().await.map(|send| (Some(send), None)),
    }
}

async fn accept(connection: Connection, dir: Dir) -> Result<Halves, ConnectionError> {
    match dir {
        Dir::Bi => connection.accept_bi().await.map(|(send, receive)| (Some(send), Some(receive))),
        Dir::Uni => connection.accept_uni().await.map(|receive| (None, Some(receive))),
    }
}

/// Opens a stream, FUL_BOTH_WAYS or FUL_ONE_WAY. FUL_WOULDBLOCK: the peer allows no more now, and
/// FUL_EVENT_STREAMS_AVAILABLE follows. The peer learns of it with the first bytes, or its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_open(conn: *const ful_conn, ways: i32, out: *mut *mut ful_stream) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let conn = unsafe { memory::borrow(conn) }?;
        let (connection, dir) = (conn.connection()?, dir(ways)?);
        if out.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let waker = conn.interests.waker(FUL_EVENT_STREAMS_AVAILABLE);
        let opened = conn.asked().opened[dir as usize].poll(&waker, || open(connection.clone(), dir))?;
        let halves = opened.map_err(|why| code::of_connection(&why))?;
        // SAFETY: not NULL.
        unsafe { ful_stream::give(&conn.driver, halves, out) }
    })
}

/// The next stream that the peer has opened, FUL_BOTH_WAYS or FUL_ONE_WAY. FUL_WOULDBLOCK:
/// FUL_EVENT_STREAM_OPENED follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_accept(
    conn: *const ful_conn,
    ways: i32,
    out: *mut *mut ful_stream,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let conn = unsafe { memory::borrow(conn) }?;
        let (connection, dir) = (conn.connection()?, dir(ways)?);
        if out.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let waker = conn.interests.waker(FUL_EVENT_STREAM_OPENED);
        let accepted =
            conn.asked().accepted[dir as usize].poll(&waker, || accept(connection.clone(), dir))?;
        let halves = accepted.map_err(|why| code::of_connection(&why))?;
        // SAFETY: not NULL.
        unsafe { ful_stream::give(&conn.driver, halves, out) }
    })
}

/// Writes some of the `len` bytes at `data`; `*written` says how many were taken. FUL_WOULDBLOCK: none now,
/// and FUL_EVENT_WRITABLE follows. Pieces of 64 KiB or more are fastest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_write(
    stream: *const ful_stream,
    data: *const u8,
    len: usize,
    written: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (stream, data) = unsafe { (memory::borrow(stream)?, memory::bytes(data, len)?) };
        // SAFETY: as the header asks.
        unsafe { memory::put(written, 0) }?;
        let result = stream.send(|send| poll_once(pin!(send.write(data)), &stream.writable))??;
        // SAFETY: as the header asks.
        unsafe { memory::put(written, result.map_err(|error| stream.of_write(&error))?) }
    })
}

/// Reads what is there into `out`, up to `capacity` bytes; `*len` says how many. FUL_WOULDBLOCK: nothing now,
/// and FUL_EVENT_READABLE follows. FUL_END: the peer has finished the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_read(
    stream: *const ful_stream,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (stream, room) = unsafe { (memory::borrow(stream)?, memory::room(out, capacity)?) };
        // SAFETY: as the header asks.
        unsafe { memory::put(len, 0) }?;
        if room.is_empty() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let result = stream.receive(|receive| poll_once(pin!(receive.read(room)), &stream.readable))??;
        let read = result.map_err(|error| stream.of_read(&error))?.ok_or(FUL_END)?;
        // SAFETY: as the header asks.
        unsafe { memory::put(len, read) }
    })
}

/// Ends the sending half after what was written; does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_finish(stream: *const ful_stream) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let stream = unsafe { memory::borrow(stream) }?;
        stream.send(SendStream::finish)?.map_err(|error| stream.of_finish(&error))
    })
}

/// Gives the sending half up: what was not sent is dropped, and the peer's reads fail with `code`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_reset(stream: *const ful_stream, code: u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let stream = unsafe { memory::borrow(stream) }?;
        stream.send(|send| send.reset(code))?.map_err(|ClosedStream| FUL_ERR_STREAM)
    })
}

/// Wants no more of the receiving half: the peer's writes fail with `code`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_stop(stream: *const ful_stream, code: u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let stream = unsafe { memory::borrow(stream) }?;
        stream.receive(|receive| receive.stop(code))?.map_err(|ClosedStream| FUL_ERR_STREAM)
    })
}

/// Streams of higher priority are sent first; those of one priority take turns. At first it is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_set_priority(stream: *const ful_stream, priority: i32) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let stream = unsafe { memory::borrow(stream) }?;
        stream.send(|send| send.set_priority(priority))?.map_err(|ClosedStream| FUL_ERR_STREAM)
    })
}

/// Whether the peer has all of a stream that was finished, or knows that it was reset. FUL_WOULDBLOCK: not
/// yet, and FUL_EVENT_DELIVERED follows. FUL_ERR_STOPPED: the peer wants no more of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_delivered(stream: *const ful_stream) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let stream = unsafe { memory::borrow(stream) }?;
        let waker = stream.interests.waker(FUL_EVENT_DELIVERED);
        let fate = stream.send(|send| poll_once(pin!(send.stopped()), &waker))??;
        match fate.map_err(|why| code::of_connection(&why))? {
            None => Ok(()),
            Some(code) => Err(stream.note(FUL_ERR_STOPPED, code)),
        }
    })
}

/// The code that came with the last FUL_ERR_RESET or FUL_ERR_STOPPED of this stream; 0 before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_code(stream: *const ful_stream) -> u64 {
    // SAFETY: as the header asks.
    unsafe { memory::borrow(stream) }.map_or(0, |stream| stream.code.load(Ordering::Relaxed))
}

/// The stream's number within its connection (RFC 9000 2.1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_id(stream: *const ful_stream) -> u64 {
    let mut id = u64::MAX;
    guard(|| {
        // SAFETY: as the header asks.
        let stream = unsafe { memory::borrow(stream) }?;
        id = stream.send(|send| send.id().0).or_else(|_| stream.receive(|receive| receive.id().0))?;
        Ok(())
    });
    id
}

/// What this stream's events are to have in `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_set_user(stream: *const ful_stream, user: *mut c_void) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        unsafe { memory::borrow(stream) }?.interests.set_user(user);
        Ok(())
    })
}

/// What was set. NULL at first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_user(stream: *const ful_stream) -> *mut c_void {
    // SAFETY: as the header asks.
    unsafe { memory::borrow(stream) }.map_or(std::ptr::null_mut(), |stream| stream.interests.user())
}

/// Frees the handle. A sending half that was not finished is reset with code 0, so that the peer takes no
/// part for the whole; a receiving half that was not read to its end is stopped with code 0. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_stream_free(stream: *mut ful_stream) {
    guard(|| {
        // SAFETY: as the header asks.
        drop(unsafe { memory::take_back(stream) });
        Ok(())
    });
}
