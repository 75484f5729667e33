//! The sending half of a stream (RFC 9000 3.1), and what the connection allows all of them together.
//!
//! A byte leaves the queue when it is packed into a symbol: from then on the coding layer answers for it. So
//! "Data Sent" and "Reset Sent" are the last states here.
//!
//! A write is taken only as far as the peer's credit for the stream goes, so every queued byte may be sent as
//! far as its stream is concerned, and a stream whose reader is slow does not fill the buffer that it shares
//! with others.

use super::chunks::{ChunkQueue, Pool};
use super::schedule::Turn;
use crate::StreamId;
use crate::wire::varint_len;
use bytes::Bytes;
use fulmar_control::Favor;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A stream's data are not cut to pieces shorter than this to use up the end of a symbol.
const FRAGMENT_BYTES_MIN: usize = 64;

/// Room in the connection's buffer for which one waiting writer is woken.
const WAKE_BYTES: u64 = 16 << 10;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Takes data.
    Open,
    /// The application has finished; the end has not been packed.
    Finishing,
    /// RESET_STREAM waits to be packed.
    Resetting { code: u64 },
    /// RESET_STREAM was packed, but the application has yet to learn that the peer caused it.
    Reset,
}

/// What a writer that was refused waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Stream,
    Connection,
}

#[derive(Debug)]
pub(super) struct SendHalf {
    state: State,
    queue: ChunkQueue,
    /// Bytes packed; the offset of the first in `queue`.
    sent: u64,
    /// The peer's MAX_STREAM_DATA.
    max: u64,
    /// The peer's STOP_SENDING.
    stopped: Option<u64>,
    /// The application has called finish or reset: nobody asks for this half again.
    is_released: bool,
    wait: Wait,
    /// A `Writable` event is in the queue.
    pub(super) is_event_pending: bool,
    priority: i32,
    /// What it favours, if not what its connection does.
    pub(super) favor: Option<Favor>,
    /// Place in the schedule; there exactly while `queue` holds something.
    pub(super) turn: Option<Turn>,
}

/// What all streams of a connection share for sending.
#[derive(Debug, Default)]
pub(super) struct SendShared {
    /// The peer's MAX_DATA.
    pub(super) max: u64,
    /// Bytes packed.
    pub(super) sent: u64,
    /// Bytes in all queues.
    pub(super) queued: u64,
    pub(super) queued_max: u64,
    pub(super) stream_queued_max: u64,
    /// Streams whose writers wait for room here, in the order in which they are woken.
    pub(super) waiting: BTreeSet<(Reverse<i32>, StreamId)>,
    pub(super) chunks: Pool,
}

impl SendShared {
    /// Bytes the connection may send.
    pub(super) fn credit(&self) -> u64 {
        self.max.saturating_sub(self.sent)
    }

    /// Takes the writers out of `waiting` that the room there is now suffices for: the highest priorities
    /// first, so that they get ahead of those that fill the buffer. All, if the buffer is empty: nothing else
    /// would wake them.
    pub(super) fn take_wakeable(&mut self) -> impl Iterator<Item = StreamId> {
        let share = (self.queued_max / 2).clamp(1, WAKE_BYTES);
        let room = self.queued_max.saturating_sub(self.queued);
        let count =
            if self.queued == 0 { usize::MAX } else { usize::try_from(room / share).unwrap_or(usize::MAX) };
        std::iter::from_fn(|| self.waiting.pop_first()).map(|(_, id)| id).take(count)
    }
}

/// Why a write took nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No room or no credit now; a `Writable` event will come.
    #[error("the stream takes no data now")]
    Blocked,
    /// The peer does not want the data.
    #[error("stopped by the peer with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset, or never was.
    #[error("no such stream is open for writing")]
    Closed,
}

impl SendHalf {
    pub(super) fn new(max: u64) -> Self {
        Self {
            state: State::Open,
            queue: ChunkQueue::default(),
            sent: 0,
            max,
            stopped: None,
            is_released: false,
            wait: Wait::Nothing,
            is_event_pending: false,
            priority: 0,
            favor: None,
            turn: None,
        }
    }

    /// Takes what there is room for.
    pub(super) fn write(
        &mut self,
        id: StreamId,
        data: &[u8],
        shared: &mut SendShared,
    ) -> Result<usize, WriteError> {
        let len = self.admit(id, data.len(), shared)?;
        self.queue.push(&data[..len], &mut shared.chunks);
        Ok(len)
    }

    /// As [`Self::write`], taking it from the front of `data`, without a copy.
    pub(super) fn write_chunk(
        &mut self,
        id: StreamId,
        data: &mut Bytes,
        shared: &mut SendShared,
    ) -> Result<usize, WriteError> {
        let len = self.admit(id, data.len(), shared)?;
        self.queue.push_chunk(data.split_to(len), &mut shared.chunks);
        Ok(len)
    }

    /// How many of `len` bytes are taken now: they are counted as queued.
    fn admit(&mut self, id: StreamId, len: usize, shared: &mut SendShared) -> Result<usize, WriteError> {
        if let Some(code) = self.stopped.filter(|_| !self.is_released) {
            return Err(WriteError::Stopped(code));
        }
        if self.state != State::Open {
            return Err(WriteError::Closed);
        }
        if len == 0 {
            return Ok(0);
        }
        let queued = self.queue.len() as u64;
        let stream_room = (self.max.saturating_sub(self.sent + queued))
            .min(shared.stream_queued_max.saturating_sub(queued));
        let room = stream_room.min(shared.queued_max.saturating_sub(shared.queued));
        if room == 0 {
            self.wait_for(if stream_room == 0 { Wait::Stream } else { Wait::Connection }, id, shared);
            return Err(WriteError::Blocked);
        }
        let len = len.min(usize::try_from(room).unwrap_or(usize::MAX));
        self.wait_for(Wait::Nothing, id, shared);
        shared.queued += len as u64;
        Ok(len)
    }

    fn wait_for(&mut self, wait: Wait, id: StreamId, shared: &mut SendShared) {
        if self.wait == Wait::Connection {
            shared.waiting.remove(&(Reverse(self.priority), id));
        }
        if wait == Wait::Connection {
            shared.waiting.insert((Reverse(self.priority), id));
        }
        self.wait = wait;
    }

    pub(super) fn priority(&self) -> i32 {
        self.priority
    }

    pub(super) fn set_priority(&mut self, id: StreamId, priority: i32, shared: &mut SendShared) {
        let wait = self.wait;
        self.wait_for(Wait::Nothing, id, shared);
        self.priority = priority;
        self.wait_for(wait, id, shared);
    }

    /// The writer waits for this stream, and there is room again: half of the buffer, so that it is not woken
    /// for every symbol.
    pub(super) fn take_writable(&mut self, shared: &SendShared) -> bool {
        let queued = self.queue.len() as u64;
        let is_writable = self.wait == Wait::Stream
            && self.state == State::Open
            && queued <= shared.stream_queued_max / 2
            && self.sent + queued < self.max;
        is_writable && self.wake()
    }

    /// What the writer waited for has come. Whether it has not been told.
    pub(super) fn wake(&mut self) -> bool {
        self.wait = Wait::Nothing;
        !std::mem::replace(&mut self.is_event_pending, true)
    }

    /// No more will be written. Whether a FIN has to be sent alone: the last bytes carry it if there are any.
    pub(super) fn finish(&mut self, id: StreamId, shared: &mut SendShared) -> Result<bool, FinishError> {
        if std::mem::replace(&mut self.is_released, true) {
            return Err(FinishError::Closed);
        }
        self.wait_for(Wait::Nothing, id, shared);
        match self.stopped {
            Some(code) => Err(FinishError::Stopped(code)),
            None => {
                self.state = State::Finishing;
                Ok(self.queue.is_empty())
            }
        }
    }

    /// The application gives the stream up. Whether a reset has to be sent.
    pub(super) fn release_by_reset(&mut self) -> bool {
        self.is_released = true;
        matches!(self.state, State::Open | State::Finishing)
    }

    /// The peer asks to stop. Whether this is news.
    pub(super) fn on_stop(&mut self, code: u64) -> bool {
        let is_news = self.stopped.is_none() && matches!(self.state, State::Open | State::Finishing);
        if is_news {
            self.stopped = Some(code);
        }
        is_news
    }

    /// Whether the application has finished or reset the stream.
    pub(super) fn is_released(&self) -> bool {
        self.is_released
    }

    /// Drops what is queued; RESET_STREAM with `code` is to follow.
    pub(super) fn start_reset(&mut self, id: StreamId, code: u64, shared: &mut SendShared) {
        shared.queued -= self.queue.len() as u64;
        self.queue = ChunkQueue::default();
        self.wait_for(Wait::Nothing, id, shared);
        self.state = State::Resetting { code };
    }

    /// Code and final size for the RESET_STREAM frame.
    pub(super) fn reset_frame(&self) -> Option<(u64, u64)> {
        match self.state {
            State::Resetting { code } => Some((code, self.sent)),
            _ => None,
        }
    }

    /// RESET_STREAM was packed.
    pub(super) fn on_reset_packed(&mut self) {
        self.state = State::Reset;
    }

    /// Nothing can happen to this half any more, once its reset or its FIN was packed.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Reset && self.is_released
    }

    pub(super) fn on_max(&mut self, max: u64) {
        self.max = self.max.max(max);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Length and FIN of the next STREAM frame in `space_bytes`, of which the data are at most `credit`.
    /// `None` if it does not fit well; a frame that opens a symbol (`is_first`) fits with a single byte.
    pub(super) fn plan(
        &self,
        id: StreamId,
        space_bytes: usize,
        credit: u64,
        is_first: bool,
    ) -> Option<(usize, bool)> {
        let queued = self.queue.len();
        let available = queued.min(usize::try_from(credit).unwrap_or(usize::MAX));
        let room = space_bytes.checked_sub(1 + varint_len(id.0) + varint_len(self.sent))?;
        let room = room.saturating_sub(varint_len(room.min(available) as u64));
        let len = available.min(room);
        if len == 0 || (len < available && len < FRAGMENT_BYTES_MIN && !is_first) {
            return None;
        }
        Some((len, len == queued && self.state == State::Finishing))
    }

    /// Moves `len` bytes to a symbol: appended to `out` or, where they may be linked, returned to follow it.
    pub(super) fn pack(
        &mut self,
        out: &mut Vec<u8>,
        len: usize,
        may_link: bool,
        shared: &mut SendShared,
    ) -> Bytes {
        let linked = if may_link { self.queue.link(len) } else { None };
        if linked.is_none() {
            self.queue.move_to(out, len, &mut shared.chunks);
        }
        self.sent += len as u64;
        shared.sent += len as u64;
        shared.queued -= len as u64;
        linked.unwrap_or_default()
    }
}

/// Why a stream cannot be finished.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinishError {
    /// The peer did not want the data, and does not have all of it.
    #[error("stopped by the peer with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset before, or never was.
    #[error("no such stream is open for writing")]
    Closed,
}
