//! The application's side of [`Streams`].

use super::recv::RecvHalf;
use super::schedule::Control;
use super::send::{SendHalf, SendShared};
use super::{FinishError, Read, ReadError, RecvShared, Streams, WriteError};
use crate::{Dir, StreamId};
use bytes::Bytes;
use fulmar_control::Favor;
use fulmar_units::Instant;
use std::time::Duration;

/// The stream, or the half of it that was meant, is not open.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such stream is open")]
pub struct ClosedStream;

impl Streams {
    /// Opens a stream, or `None` if the peer allows no more now; an `Available` event will come. The peer
    /// learns of the stream by its first frame.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.table.open(dir)
    }

    /// The next stream the peer opened.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.table.accept(dir)
    }

    /// Queues as much of `data` as there is room and credit for; returns how much.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.queue(id, |send, shared| send.write(id, data, shared))
    }

    /// As [`Self::write`], without a copy: what was queued is gone from the front of `data`.
    pub fn write_chunk(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.queue(id, |send, shared| send.write_chunk(id, data, shared))
    }

    fn queue(
        &mut self,
        id: StreamId,
        write: impl FnOnce(&mut SendHalf, &mut SendShared) -> Result<usize, WriteError>,
    ) -> Result<usize, WriteError> {
        let send = self.table.send(id).ok_or(WriteError::Closed)?;
        let len = write(send, &mut self.sending)?;
        if len > 0 && send.turn.is_none() {
            send.turn = Some(self.schedule.enqueue(id, send.priority()));
        }
        Ok(len)
    }

    /// Ends a stream after what was written.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let send = self.table.send(id).ok_or(FinishError::Closed)?;
        match send.finish(id, &mut self.sending) {
            Ok(true) => {
                self.control.insert(Control::Fin(id));
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) => {
                self.drop_send_if_done(id);
                Err(error)
            }
        }
    }

    /// Gives a stream up: what was written and not sent is dropped, and the peer's reader gets `code`.
    /// Allowed after [`Self::finish`], as long as the end has not been packed.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let send = self.table.send(id).ok_or(ClosedStream)?;
        if send.release_by_reset() {
            self.start_reset(id, code);
        } else {
            self.drop_send_if_done(id);
        }
        Ok(())
    }

    /// Streams of higher priority are sent first; 0 at first. Streams of one priority take turns.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        let send = self.table.send(id).ok_or(ClosedStream)?;
        if let Some(turn) = send.turn.take() {
            self.schedule.withdraw(id, turn);
            send.turn = Some(self.schedule.enqueue(id, priority));
        }
        send.set_priority(id, priority, &mut self.sending);
        Ok(())
    }

    /// What a stream favours, in place of what its connection does.
    pub fn set_favor(&mut self, id: StreamId, favor: Favor) -> Result<(), ClosedStream> {
        self.table.send(id).ok_or(ClosedStream)?.favor = Some(favor);
        Ok(())
    }

    /// The priority of a stream.
    pub fn priority(&mut self, id: StreamId) -> Result<i32, ClosedStream> {
        self.table.send(id).map(|send| send.priority()).ok_or(ClosedStream)
    }

    /// Wants no more of a stream: what was not read is dropped, and the peer's writer gets `code`.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let recv = self.table.recv(id).filter(|recv| !recv.is_stopped()).ok_or(ClosedStream)?;
        recv.stop(code, &mut self.receiving);
        if recv.is_size_unknown() {
            self.control.remove(&Control::MaxStreamData(id));
            self.control.insert(Control::StopSending(id));
        } else {
            self.drop_recv(id);
        }
        self.update_max_data();
        Ok(())
    }

    /// Reads up to `out.len()` bytes. `now` and the round-trip time drive the growth of the windows.
    pub fn read(
        &mut self,
        id: StreamId,
        out: &mut [u8],
        now: Instant,
        rtt: Duration,
    ) -> Result<Read<usize>, ReadError> {
        if out.is_empty() {
            return Ok(Read::Data(0));
        }
        self.take(id, |recv, shared| recv.read(out, now, rtt, shared), |&len| len)
    }

    /// Reads up to `max` bytes without copying them.
    pub fn read_chunk(
        &mut self,
        id: StreamId,
        max: usize,
        now: Instant,
        rtt: Duration,
    ) -> Result<Read<Bytes>, ReadError> {
        if max == 0 {
            return Ok(Read::Data(Bytes::new()));
        }
        self.take(id, |recv, shared| recv.read_chunk(max, now, rtt, shared), Bytes::len)
    }

    fn take<T>(
        &mut self,
        id: StreamId,
        take: impl FnOnce(&mut RecvHalf, &mut RecvShared) -> Result<Read<T>, ReadError>,
        len: impl FnOnce(&T) -> usize,
    ) -> Result<Read<T>, ReadError> {
        let recv = self.table.recv(id).ok_or(ReadError::Closed)?;
        let result = take(recv, &mut self.receiving);
        match &result {
            Ok(Read::Data(taken)) => {
                self.counts.bytes_read += len(taken) as u64;
                if recv.window.take_due() && recv.is_size_unknown() {
                    self.control.insert(Control::MaxStreamData(id));
                }
                self.update_max_data();
            }
            Ok(Read::End) | Err(ReadError::Reset(_)) => self.drop_recv(id),
            Err(ReadError::Blocked | ReadError::Closed) => {}
        }
        result
    }

    /// Drops what is queued and has RESET_STREAM sent.
    pub(super) fn start_reset(&mut self, id: StreamId, code: u64) {
        let Some(send) = self.table.send(id) else { return };
        send.start_reset(id, code, &mut self.sending);
        if let Some(turn) = send.turn.take() {
            self.schedule.withdraw(id, turn);
        }
        self.control.remove(&Control::Fin(id));
        self.control.insert(Control::ResetStream(id));
        self.wake_waiting();
    }

    /// A stream the peer stopped is kept until the application has let go of it.
    pub(super) fn drop_send_if_done(&mut self, id: StreamId) {
        if self.table.send(id).is_some_and(|send| send.is_done()) {
            self.drop_send(id);
        }
    }
}
