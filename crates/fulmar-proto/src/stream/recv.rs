//! The receiving half of a stream (RFC 9000 3.2): reassembly, flow control, final size (RFC 9000 4.5).

use super::assembler::Assembler;
use super::chunks::Pool;
use super::flow::RecvWindow;
use crate::TransportError;
use crate::wire::VARINT_MAX;
use bytes::Bytes;
use fulmar_units::Instant;
use std::time::Duration;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Data are wanted.
    Open,
    /// The peer has reset the stream; the application has yet to be told.
    Reset { code: u64 },
    /// The application wants no more; the final size is not known yet.
    Stopped { code: u64 },
}

#[derive(Debug)]
pub(super) struct RecvHalf {
    state: State,
    assembler: Assembler,
    pub(super) window: RecvWindow,
    /// End of the highest byte received, which is what flow control counts.
    highest: u64,
    final_size: Option<u64>,
    /// The reader found nothing, or has not looked yet.
    is_awaited: bool,
    /// A `Readable` event is in the queue.
    pub(super) is_event_pending: bool,
}

/// What all streams of a connection share for receiving.
#[derive(Debug)]
pub(super) struct RecvShared {
    pub(super) window: RecvWindow,
    /// No window is to grow.
    pub(super) is_kept: bool,
    /// Sum of what flow control counts on each stream.
    pub(super) received: u64,
    /// Runs beyond a gap, over all streams.
    pub(super) fragments: u64,
    pub(super) fragments_max: u64,
    pub(super) chunks: Pool,
}

/// What was read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// Data.
    Data(T),
    /// All data have been read. Comes once; the stream is closed then.
    End,
}

/// Why nothing was read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing has arrived; a `Readable` event will come.
    #[error("the stream has no data now")]
    Blocked,
    /// The peer gave the stream up. Comes once; the stream is closed then.
    #[error("reset by the peer with code {0}")]
    Reset(u64),
    /// The stream was read to its end, reset or stopped, or never was.
    #[error("no such stream is open for reading")]
    Closed,
}

impl RecvHalf {
    pub(super) fn new(window: RecvWindow) -> Self {
        Self {
            state: State::Open,
            assembler: Assembler::default(),
            window,
            highest: 0,
            final_size: None,
            is_awaited: true,
            is_event_pending: false,
        }
    }

    /// A STREAM frame.
    pub(super) fn on_data(
        &mut self,
        offset: u64,
        data: &[u8],
        fin: bool,
        shared: &mut RecvShared,
    ) -> Result<(), TransportError> {
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= VARINT_MAX);
        let end =
            end.ok_or_else(|| TransportError::frame_encoding("stream data beyond the largest offset"))?;
        if fin {
            self.check_final_size(end)?;
        } else if self.final_size.is_some_and(|size| end > size) {
            return Err(TransportError::final_size("data beyond the final size"));
        }
        let news = self.count(end, shared)?;
        if fin {
            self.final_size = Some(end);
        }
        match self.state {
            State::Open => {
                self.assemble(offset, data, shared)?;
                if !shared.is_kept && !self.assembler.is_readable() && self.is_size_unknown() {
                    self.window.on_gap(self.highest);
                    shared.window.on_gap(shared.received);
                }
                Ok(())
            }
            State::Stopped { .. } => {
                shared.window.on_discarded(news);
                Ok(())
            }
            // All up to the final size was counted and discarded when the reset came.
            State::Reset { .. } => Ok(()),
        }
    }

    fn assemble(&mut self, offset: u64, data: &[u8], shared: &mut RecvShared) -> Result<(), TransportError> {
        let before = self.assembler.runs() as u64;
        self.assembler
            .insert(offset, data, &mut shared.chunks)
            .map_err(|_| TransportError::protocol_violation("stream data that were received before"))?;
        shared.fragments = shared.fragments - before + self.assembler.runs() as u64;
        if shared.fragments > shared.fragments_max {
            return Err(TransportError::buffer_exceeded("too many fragments of streams"));
        }
        Ok(())
    }

    /// RFC 9000 4.5: the final size never changes, and nothing lies beyond it.
    fn check_final_size(&self, size: u64) -> Result<(), TransportError> {
        if self.final_size.is_some_and(|known| known != size) {
            return Err(TransportError::final_size("the final size changed"));
        }
        if size < self.highest {
            return Err(TransportError::final_size("a final size below what was received"));
        }
        Ok(())
    }

    /// Counts what lies between the highest offset so far and `end` against flow control; returns how much it
    /// is.
    fn count(&mut self, end: u64, shared: &mut RecvShared) -> Result<u64, TransportError> {
        let news = end.saturating_sub(self.highest);
        if end > self.window.max() {
            return Err(TransportError::flow_control("more data than the stream may carry"));
        }
        if shared.received + news > shared.window.max() {
            return Err(TransportError::flow_control("more data than the connection may carry"));
        }
        shared.received += news;
        self.highest += news;
        Ok(news)
    }

    /// A RESET_STREAM frame.
    pub(super) fn on_reset(
        &mut self,
        code: u64,
        size: u64,
        shared: &mut RecvShared,
    ) -> Result<(), TransportError> {
        self.check_final_size(size)?;
        let news = self.count(size, shared)?;
        let had_fin = self.final_size.replace(size).is_some();
        match self.state {
            // RFC 9000 3.2: in "Data Recvd" everything is there, and the reset may be ignored.
            State::Open if had_fin && self.assembler.end() == size => {}
            State::Open => {
                self.discard(shared);
                self.state = State::Reset { code };
            }
            State::Stopped { .. } => shared.window.on_discarded(news),
            State::Reset { .. } => {}
        }
        Ok(())
    }

    /// Drops what was not read and gives its credit back to the connection.
    fn discard(&mut self, shared: &mut RecvShared) {
        shared.fragments -= self.assembler.runs() as u64;
        shared.window.on_discarded(self.highest - self.assembler.read_offset());
        self.assembler = Assembler::default();
    }

    /// The application wants no more.
    pub(super) fn stop(&mut self, code: u64, shared: &mut RecvShared) {
        if self.state == State::Open {
            self.discard(shared);
        }
        self.state = State::Stopped { code };
    }

    /// The code for the STOP_SENDING frame.
    pub(super) fn stop_code(&self) -> Option<u64> {
        match self.state {
            State::Stopped { code } => Some(code),
            _ => None,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop_code().is_some()
    }

    /// Whether the peer can still use credit for this stream, or needs to be told to stop.
    pub(super) fn is_size_unknown(&self) -> bool {
        self.final_size.is_none()
    }

    /// The reader waits, there is something for it, and it has not been told.
    pub(super) fn take_readable(&mut self) -> bool {
        let is_readable = match self.state {
            State::Open => self.assembler.is_readable() || self.is_at_end(),
            State::Reset { .. } => true,
            State::Stopped { .. } => false,
        };
        is_readable
            && std::mem::take(&mut self.is_awaited)
            && !std::mem::replace(&mut self.is_event_pending, true)
    }

    fn is_at_end(&self) -> bool {
        self.final_size == Some(self.assembler.read_offset())
    }

    /// Copies what can be read to `out`.
    pub(super) fn read(
        &mut self,
        out: &mut [u8],
        now: Instant,
        rtt: Duration,
        shared: &mut RecvShared,
    ) -> Result<Read<usize>, ReadError> {
        self.take(shared, now, rtt, |assembler, chunks| {
            let len = assembler.read(out, chunks);
            (len, len)
        })
    }

    /// Takes up to `max` bytes of what can be read.
    pub(super) fn read_chunk(
        &mut self,
        max: usize,
        now: Instant,
        rtt: Duration,
        shared: &mut RecvShared,
    ) -> Result<Read<Bytes>, ReadError> {
        self.take(shared, now, rtt, |assembler, _| {
            let chunk = assembler.read_chunk(max);
            (chunk.len(), chunk)
        })
    }

    fn take<T>(
        &mut self,
        shared: &mut RecvShared,
        now: Instant,
        rtt: Duration,
        take: impl FnOnce(&mut Assembler, &mut Pool) -> (usize, T),
    ) -> Result<Read<T>, ReadError> {
        match self.state {
            State::Stopped { .. } => return Err(ReadError::Closed),
            State::Reset { code } => return Err(ReadError::Reset(code)),
            State::Open if self.is_at_end() => return Ok(Read::End),
            State::Open if !self.assembler.is_readable() => {
                self.is_awaited = true;
                return Err(ReadError::Blocked);
            }
            State::Open => {}
        }
        let (len, taken) = take(&mut self.assembler, &mut shared.chunks);
        // A round trip of no time at all is one in which nothing limits the sender.
        let rtt = if shared.is_kept { Duration::ZERO } else { rtt };
        self.window.on_read(len as u64, now, rtt);
        shared.window.on_read(len as u64, now, rtt);
        Ok(Read::Data(taken))
    }
}
