//! The layer without I/O, as C sees it: numbers in, numbers out, and the caller's buffers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fulmar::crypto::PeerIdentity;
use fulmar_proto::stream::{FinishError, Read, ReadError, WriteError};
use fulmar_proto::{DatagramMeta, Event, Instant, SendDatagramError, StreamId};

use crate::address::{ecn, ful_address, ful_transmit};
use crate::code::{
    self, FUL_END, FUL_ERR_ARGUMENT, FUL_ERR_CONFIG, FUL_ERR_IO, FUL_ERR_RESET, FUL_ERR_STOPPED,
    FUL_ERR_STREAM, FUL_ERR_TOO_LARGE, FUL_ERR_UNSUPPORTED, FUL_OK, FUL_WOULDBLOCK, Outcome, guard,
};
use crate::config::{Settings, Trust, ful_config};
use crate::connection::dir;
use crate::event::{
    FUL_EVENT_ACCEPT, FUL_EVENT_CLOSED, FUL_EVENT_CONNECTED, FUL_EVENT_DATAGRAM, FUL_EVENT_DATAGRAM_ROOM,
    FUL_EVENT_READABLE, FUL_EVENT_STREAM_OPENED, FUL_EVENT_STREAMS_AVAILABLE, FUL_EVENT_WRITABLE,
};
use crate::failure::{Failure, ful_error, tell};
use crate::machine::Machine;
use crate::memory::{self, SizedStruct};
use crate::stats::ful_stats;

/// Only without I/O: everything written so far on a connection has reached the peer.
pub const FUL_EVENT_ALL_DELIVERED: i32 = 11;
/// Only without I/O: nothing is answered any more; another port may help.
pub const FUL_EVENT_PATH_SILENT: i32 = 12;

/// The protocol of one socket, which is the caller's, as the clock is: all times are nanoseconds since the
/// Unix epoch, and never go back. After anything that is done to it: ful_core_harvest, until it gives
/// nothing, and ful_core_timeout.
pub struct ful_core(Mutex<Machine>);

/// Something that happened, without I/O: connections and streams are numbers.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ful_core_event {
    /// sizeof(ful_core_event), to be set by the caller.
    pub size: usize,
    /// FUL_EVENT_...
    pub kind: i32,
    /// Of FUL_EVENT_CLOSED: why, as FUL_ERR_...
    pub error: i32,
    /// The connection.
    pub conn: u64,
    /// The stream, of FUL_EVENT_READABLE and FUL_EVENT_WRITABLE.
    pub stream: u64,
}

// SAFETY: numbers only.
unsafe impl SizedStruct for ful_core_event {}

impl ful_core_event {
    fn new(kind: i32, conn: u64) -> Self {
        Self { size: size_of::<Self>(), kind, error: FUL_OK, conn, stream: 0 }
    }

    /// `None` for what later versions of the protocol may tell.
    fn of(conn: u64, event: &Event) -> Option<Self> {
        let of_stream = |kind, id: &StreamId| Self { stream: id.0, ..Self::new(kind, conn) };
        Some(match event {
            Event::Connected => Self::new(FUL_EVENT_CONNECTED, conn),
            Event::StreamOpened { .. } => Self::new(FUL_EVENT_STREAM_OPENED, conn),
            Event::StreamsAvailable { .. } => Self::new(FUL_EVENT_STREAMS_AVAILABLE, conn),
            Event::Readable(id) => of_stream(FUL_EVENT_READABLE, id),
            Event::Writable(id) | Event::Stopped { id, .. } => of_stream(FUL_EVENT_WRITABLE, id),
            Event::DatagramReceived => Self::new(FUL_EVENT_DATAGRAM, conn),
            Event::DatagramsUnblocked => Self::new(FUL_EVENT_DATAGRAM_ROOM, conn),
            Event::Delivered => Self::new(FUL_EVENT_ALL_DELIVERED, conn),
            Event::PathSilent => Self::new(FUL_EVENT_PATH_SILENT, conn),
            Event::Closed(why) => {
                Self { error: code::of_connection(why), ..Self::new(FUL_EVENT_CLOSED, conn) }
            }
            _ => return None,
        })
    }
}

fn make(settings: &Settings, seed: Option<[u8; 32]>) -> Result<ful_core, Failure> {
    if matches!(settings.trust, Trust::Home(_)) {
        return Err(Failure::new(FUL_ERR_CONFIG, "what has no I/O reads no home: identity and trusted_keys"));
    }
    let mut drawn = [0; 32];
    match seed {
        Some(seed) => drawn = seed,
        None => getrandom::fill(&mut drawn).map_err(|error| Failure::new(FUL_ERR_IO, error))?,
    }
    Ok(ful_core(Mutex::new(Machine::new(settings.client(), settings.server()?, drawn))))
}

/// The machine behind a handle. Locked, so that any thread may call; nothing waits under the lock.
unsafe fn machine<'a>(core: *const ful_core) -> Outcome<MutexGuard<'a, Machine>> {
    // SAFETY: as the header asks.
    let core: &'a ful_core = unsafe { memory::borrow(core) }?;
    Ok(core.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The protocol of one socket. `seed` (32 bytes) makes a simulation repeatable and must be secret anywhere
/// else; NULL: drawn by the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_new(
    config: *const ful_config,
    seed: *const u8,
    out: *mut *mut ful_core,
    error: *mut ful_error,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let seed = if seed.is_null() { None } else { Some(unsafe { memory::key(seed) }?) };
        // SAFETY: as the header asks.
        match unsafe { Settings::read(config) }.and_then(|settings| make(&settings, seed)) {
            // SAFETY: as the header asks.
            Ok(core) => unsafe { memory::give(out, core) },
            // SAFETY: as the header asks.
            Err(failure) => Err(unsafe { tell(failure, error) }),
        }
    })
}

/// Frees it with all of its connections, without a word to their peers. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_free(core: *mut ful_core) {
    guard(|| {
        // SAFETY: as the header asks.
        drop(unsafe { memory::take_back(core) });
        Ok(())
    });
}

/// Begins a connection; its number is never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_connect(
    core: *const ful_core,
    now_ns: u64,
    remote: *const ful_address,
    conn: *mut u64,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (mut machine, remote) = unsafe { (machine(core)?, memory::borrow(remote)?.read()?) };
        let id = machine.connect(Instant::from_nanos(now_ns), remote, &remote.ip().to_string())?;
        // SAFETY: as the header asks.
        unsafe { memory::put(conn, id) }
    })
}

/// Takes what came from `from`: `len` bytes, which are decrypted in place; with `segment_bytes` other than 0
/// (as UDP_GRO tells) datagrams of that size, the last perhaps shorter. `ecn`: the two bits they came with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_feed(
    core: *const ful_core,
    now_ns: u64,
    from: *const ful_address,
    ecn_bits: u8,
    data: *mut u8,
    len: usize,
    segment_bytes: usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (mut machine, remote) = unsafe { (machine(core)?, memory::borrow(from)?.read()?) };
        // SAFETY: as the header asks, and written before: it came from a socket.
        let data = unsafe { memory::room(data, len) }?;
        let meta = DatagramMeta { remote, local_ip: None, ecn: ecn(ecn_bits) };
        let size = if segment_bytes == 0 { len.max(1) } else { segment_bytes };
        data.chunks_mut(size).for_each(|datagram| machine.feed(Instant::from_nanos(now_ns), &meta, datagram));
        Ok(())
    })
}

/// Fills `buffer` (at least 65,536 bytes; several times that is faster) with what is to be sent now, and
/// `out` with up to `max` entries that say where it lies; `*count` is how many. To be called until that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_harvest(
    core: *const ful_core,
    now_ns: u64,
    buffer: *mut u8,
    capacity: usize,
    out: *mut ful_transmit,
    max: usize,
    count: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (mut machine, buffer) = unsafe { (machine(core)?, memory::room(buffer, capacity)?) };
        if out.is_null() {
            return Err(FUL_ERR_ARGUMENT);
        }
        // Not more than one call can fill.
        let mut found = [ful_transmit::default(); 64];
        let max = max.min(found.len());
        let made = machine.harvest(Instant::from_nanos(now_ns), buffer, &mut found[..max])?;
        for (at, transmit) in found.iter().take(made).enumerate() {
            // SAFETY: there is room for `max` entries, and `made` is no more.
            unsafe { out.add(at).write(*transmit) };
        }
        // SAFETY: as the header asks.
        unsafe { memory::put(count, made) }
    })
}

/// When ful_core_expire is to be called. FUL_END: never, as things are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_timeout(core: *const ful_core, at_ns: *mut u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let at = unsafe { machine(core) }?.timeout().ok_or(FUL_END)?;
        // SAFETY: as the header asks.
        unsafe { memory::put(at_ns, at.as_nanos()) }
    })
}

/// Time has passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_expire(core: *const ful_core, now_ns: u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        unsafe { machine(core) }?.expire(Instant::from_nanos(now_ns));
        Ok(())
    })
}

/// The next event, into `event`, whose `size` is set. FUL_WOULDBLOCK: there is none. FUL_EVENT_ACCEPT has the
/// number of a new connection, whose FUL_EVENT_CONNECTED follows when its client has been let in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_event_next(core: *const ful_core, event: *mut ful_core_event) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let mut machine = unsafe { machine(core) }?;
        let next = match machine.accepted.pop_front() {
            Some(conn) => ful_core_event::new(FUL_EVENT_ACCEPT, conn),
            None => loop {
                let (conn, event) = machine.event().ok_or(FUL_WOULDBLOCK)?;
                if let Some(known) = ful_core_event::of(conn, &event) {
                    break known;
                }
            },
        };
        // SAFETY: as the header asks.
        unsafe { memory::write_sized(event, &next) }
    })
}

/// Opens a stream, FUL_BOTH_WAYS or FUL_ONE_WAY. FUL_WOULDBLOCK: FUL_EVENT_STREAMS_AVAILABLE follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_open(
    core: *const ful_core,
    conn: u64,
    ways: i32,
    stream: *mut u64,
) -> i32 {
    guard(|| {
        let dir = dir(ways)?;
        // SAFETY: as the header asks.
        let id =
            unsafe { machine(core) }?.act(conn, |connection| connection.open(dir))?.ok_or(FUL_WOULDBLOCK)?;
        // SAFETY: as the header asks.
        unsafe { memory::put(stream, id.0) }
    })
}

/// The next stream that the peer has opened. FUL_WOULDBLOCK: FUL_EVENT_STREAM_OPENED follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_accept(
    core: *const ful_core,
    conn: u64,
    ways: i32,
    stream: *mut u64,
) -> i32 {
    guard(|| {
        let dir = dir(ways)?;
        // SAFETY: as the header asks.
        let id = unsafe { machine(core) }?
            .act(conn, |connection| connection.accept(dir))?
            .ok_or(FUL_WOULDBLOCK)?;
        // SAFETY: as the header asks.
        unsafe { memory::put(stream, id.0) }
    })
}

/// As ful_stream_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_write(
    core: *const ful_core,
    conn: u64,
    stream: u64,
    data: *const u8,
    len: usize,
    written: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (mut machine, data) = unsafe { (machine(core)?, memory::bytes(data, len)?) };
        let result = machine.act(conn, |connection| connection.write(StreamId(stream), data))?;
        let taken = result.map_err(|error| match error {
            WriteError::Blocked => FUL_WOULDBLOCK,
            WriteError::Stopped(_) => FUL_ERR_STOPPED,
            _ => FUL_ERR_STREAM,
        })?;
        // SAFETY: as the header asks.
        unsafe { memory::put(written, taken) }
    })
}

/// As ful_stream_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_read(
    core: *const ful_core,
    now_ns: u64,
    conn: u64,
    stream: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (mut machine, room) = unsafe { (machine(core)?, memory::room(out, capacity)?) };
        if room.is_empty() {
            return Err(FUL_ERR_ARGUMENT);
        }
        let now = Instant::from_nanos(now_ns);
        let read = match machine.act(conn, |connection| connection.read(now, StreamId(stream), room))? {
            Ok(Read::Data(read)) => read,
            Ok(Read::End) => return Err(FUL_END),
            Err(ReadError::Blocked) => return Err(FUL_WOULDBLOCK),
            Err(ReadError::Reset(_)) => return Err(FUL_ERR_RESET),
            Err(_) => return Err(FUL_ERR_STREAM),
        };
        // SAFETY: as the header asks.
        unsafe { memory::put(len, read) }
    })
}

/// As ful_stream_finish.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_finish(core: *const ful_core, conn: u64, stream: u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let result = unsafe { machine(core) }?.act(conn, |connection| connection.finish(StreamId(stream)))?;
        result.map_err(|error| match error {
            FinishError::Stopped(_) => FUL_ERR_STOPPED,
            _ => FUL_ERR_STREAM,
        })
    })
}

/// As ful_stream_reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_reset(
    core: *const ful_core,
    conn: u64,
    stream: u64,
    code: u64,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let result =
            unsafe { machine(core) }?.act(conn, |connection| connection.reset(StreamId(stream), code))?;
        result.map_err(|_| FUL_ERR_STREAM)
    })
}

/// As ful_stream_stop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stream_stop(
    core: *const ful_core,
    conn: u64,
    stream: u64,
    code: u64,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let result =
            unsafe { machine(core) }?.act(conn, |connection| connection.stop(StreamId(stream), code))?;
        result.map_err(|_| FUL_ERR_STREAM)
    })
}

/// As ful_datagram_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_datagram_send(
    core: *const ful_core,
    conn: u64,
    data: *const u8,
    len: usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let (mut machine, data) = unsafe { (machine(core)?, memory::bytes(data, len)?) };
        let data = Bytes::copy_from_slice(data);
        machine.act(conn, |connection| connection.send_datagram(data))?.map_err(|error| match error {
            SendDatagramError::TooLarge { .. } => FUL_ERR_TOO_LARGE,
            SendDatagramError::Blocked => FUL_WOULDBLOCK,
            _ => FUL_ERR_UNSUPPORTED,
        })
    })
}

/// As ful_datagram_receive, but a datagram that is longer than `capacity` is lost, as other datagrams are:
/// none is longer than 65,527 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_datagram_receive(
    core: *const ful_core,
    conn: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let data = unsafe { machine(core) }?.act(conn, |connection| connection.recv_datagram())?;
        // SAFETY: as the header asks.
        unsafe { memory::fill_bytes(&data.ok_or(FUL_WOULDBLOCK)?, out, capacity, len) }
    })
}

/// As ful_conn_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_stats(core: *const ful_core, conn: u64, stats: *mut ful_stats) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        let found = unsafe { machine(core) }?.look(conn, |connection| connection.stats())?;
        // SAFETY: as the header asks.
        unsafe { memory::write_sized(stats, &ful_stats::new(&found)) }
    })
}

/// As ful_conn_peer_key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_peer_key(core: *const ful_core, conn: u64, key: *mut u8) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        match unsafe { machine(core) }?.look(conn, |connection| connection.peer_identity())? {
            // SAFETY: as the header asks, there is room for 32 bytes.
            Some(PeerIdentity::RawKey(peer)) => unsafe {
                memory::fill_bytes(peer.as_bytes(), key, 32, std::ptr::null_mut())
            },
            _ => Err(FUL_END),
        }
    })
}

/// As ful_conn_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_close(core: *const ful_core, now_ns: u64, conn: u64, code: u64) -> i32 {
    guard(|| {
        let now = Instant::from_nanos(now_ns);
        // SAFETY: as the header asks.
        unsafe { machine(core) }?.act(conn, |connection| connection.close(now, code, Bytes::new()))
    })
}

/// As ful_conn_shutdown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_shutdown(core: *const ful_core, now_ns: u64, conn: u64, code: u64) -> i32 {
    guard(|| {
        let now = Instant::from_nanos(now_ns);
        // SAFETY: as the header asks.
        unsafe { machine(core) }?.act(conn, |connection| connection.shutdown(now, code, Bytes::new()))
    })
}

/// Forgets a connection that is over, with what was not read of it. FUL_WOULDBLOCK: its peer may still ask:
/// after the next ful_core_timeout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ful_core_forget(core: *const ful_core, conn: u64) -> i32 {
    guard(|| {
        // SAFETY: as the header asks.
        unsafe { machine(core) }?.forget(conn)
    })
}
