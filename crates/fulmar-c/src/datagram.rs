//! Datagrams of a connection of the driver.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fulmar::{DatagramClass, DatagramOptions, SendDatagramError};

use crate::code::{
    self, FUL_ERR_ARGUMENT, FUL_ERR_TOO_LARGE, FUL_ERR_UNSUPPORTED, FUL_WOULDBLOCK, Outcome, guard,
};
use crate::connection::ful_conn;
use crate::event::{FUL_EVENT_DATAGRAM, FUL_EVENT_DATAGRAM_ROOM};
use crate::memory::{self, SizedStruct};

/// Is sent once, and may get lost.
pub const FUL_DATAGRAM_ONCE: u32 = 0;
/// Is repaired ahead of loss, and may overtake others.
pub const FUL_DATAGRAM_REPAIRED: u32 = 1;
/// Is repaired ahead of loss, and waits for those before it, as long as these may still come.
pub const FUL_DATAGRAM_REPAIRED_IN_ORDER: u32 = 2;

/// How a datagram travels. Zero stands for the default, so begin with
/// `= { .size = sizeof(ful_datagram_options) }`.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ful_datagram_options {
    /// sizeof(ful_datagram_options).
    pub size: usize,
    /// FUL_DATAGRAM_ONCE (default), FUL_DATAGRAM_REPAIRED or FUL_DATAGRAM_REPAIRED_IN_ORDER.
    pub kind: u32,
    /// It is worth nothing so many ms after it could have come, and is dropped then. Default: it always is
    /// worth something.
    pub deadline_ms: u32,
}

// SAFETY: numbers only.
unsafe impl SizedStruct for ful_datagram_options {}

impl ful_datagram_options {
    fn read(self) -> Outcome<DatagramOptions> {
        let class = match self.kind {
            FUL_DATAGRAM_ONCE => DatagramClass::Once,
            FUL_DATAGRAM_REPAIRED => DatagramClass::Repaired,
            FUL_DATAGRAM_REPAIRED_IN_ORDER => DatagramClass::RepairedInOrder,
            _ => return Err(FUL_ERR_ARGUMENT),
        };
        let options = DatagramOptions::new(class);
        Ok(match self.deadline_ms {
            0 => options,
            ms => options.deadline(Duration::from_millis(ms.into())),
        })
    }
}

fn of_send(error: &SendDatagramError) -> i32 {
    match error {
        SendDatagramError::TooLarge { .. } => FUL_ERR_TOO_LARGE,
        SendDatagramError::Full => FUL_WOULDBLOCK,
        SendDatagramError::ConnectionLost(why) => code::of_connection(why),
        _ => FUL_ERR_UNSUPPORTED,
    }
}

/// Sends one now, or leaves one that finds the queue full to a task, which tells when there is room again:
/// until then no other is taken.
fn send(conn: &ful_conn, data: Bytes, options: Option<DatagramOptions>) -> Outcome {
    let connection = conn.connection()?;
    if conn.datagram_waits.load(Ordering::Acquire) {
        return Err(FUL_WOULDBLOCK);
    }
    let now = match options {
        Some(options) => connection.try_send_datagram_with(data.clone(), options),
        None => connection.try_send_datagram(data.clone()),
    };
    match now {
        Err(SendDatagramError::Full) => {}
        other => return other.map_err(|error| of_send(&error)),
    }
    conn.datagram_waits.store(true, Ordering::Release);
    let (connection, waits) = (connection.clone(), conn.datagram_waits.clone());
    let room = conn.interests.waker(FUL_EVENT_DATAGRAM_ROOM);
    conn.driver.runtime.spawn(async move {
        // Of a connection that has ended the next call tells.
        let _ = match options {
            Some(options) => connection.send_datagram_with(data, options).await,
            None => connection.send_datagram(data).await,
        };
        waits.store(false, Ordering::Release);
        room.wake();
    });
    Ok(())
}

/// Sends an unreliable datagram: it may get lost or overtake others, and is never sent again. FUL_WOULDBLOCK:
/// the queue is full, and FUL_EVENT_DATAGRAM_ROOM follows. FUL_ERR_TOO_LARGE: see ful_datagram_bytes_max.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_datagram_send(conn: *const ful_conn, data: *const u8, len: usize) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (conn, data) = unsafe { (memory::borrow(conn)?, memory::bytes(data, len)?) };
        send(conn, Bytes::copy_from_slice(data), None)
    })
}

/// As ful_datagram_send, for a datagram of which more is asked. One that fits no packet travels in pieces, up
/// to 65,535 bytes. To a peer that does not know repair it is sent once, as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_datagram_send_with(
    conn: *const ful_conn,
    data: *const u8,
    len: usize,
    options: *const ful_datagram_options,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (conn, data) = unsafe { (memory::borrow(conn)?, memory::bytes(data, len)?) };
        // SAFETY: as the header asks.
        let options = unsafe { memory::read_sized(options) }?.read()?;
        send(conn, Bytes::copy_from_slice(data), Some(options))
    })
}

/// Takes the next datagram that arrived. FUL_WOULDBLOCK: there is none, and FUL_EVENT_DATAGRAM follows.
/// FUL_ERR_TOO_SMALL: it is `*len` bytes long, and waits for a larger buffer. Those nobody takes are dropped,
/// the oldest first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_datagram_receive(
    conn: *const ful_conn,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let conn = unsafe { memory::borrow(conn) }?;
        let connection = conn.connection()?;
        let mut asked = conn.asked();
        let data = match asked.held.take() {
            Some(held) => held,
            None => {
                let begin = || {
                    let connection = connection.clone();
                    async move { connection.read_datagram().await }
                };
                let next = asked.datagram.poll(&conn.interests.waker(FUL_EVENT_DATAGRAM), begin)?;
                next.map_err(|why| code::of_connection(&why))?
            }
        };
        // SAFETY: as the header asks.
        let result = unsafe { memory::fill_bytes(&data, out, capacity, len) };
        if result.is_err() {
            asked.held = Some(data);
        }
        result
    })
}

/// Most bytes that a datagram may have now. FUL_ERR_UNSUPPORTED: the peer takes none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_datagram_bytes_max(conn: *const ful_conn, bytes: *mut usize) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let max = unsafe { memory::borrow(conn) }?.connection()?.datagram_bytes_max();
        // SAFETY: as the header asks.
        unsafe { memory::put(bytes, max.ok_or(FUL_ERR_UNSUPPORTED)?) }
    })
}
