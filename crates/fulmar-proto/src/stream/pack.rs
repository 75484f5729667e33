//! What leaves: one symbol at a time, decided when it is wanted.

use super::schedule::Control;
use super::{StreamEvent, Streams};
use crate::Dir;
use crate::wire::symbol::{SymbolFrame, put_stream_header};
use bytes::Bytes;
use fulmar_control::Favor;

/// Space that any one frame fits in: [`Streams::fill`] with at least this much packs something if anything is
/// pending.
pub const FILL_BYTES_MIN: usize = 1 + 3 * 8;

/// What a symbol favours that carries data of two streams.
fn joint(one: Option<Favor>, other: Option<Favor>) -> Option<Favor> {
    match (one, other) {
        (Some(Favor::Latency), _) | (_, Some(Favor::Latency)) => Some(Favor::Latency),
        _ => one.filter(|_| one == other),
    }
}

impl Streams {
    /// Whether something could go into a symbol now.
    pub fn has_pending(&self) -> bool {
        !self.control.is_empty() || (!self.schedule.is_empty() && self.sending.credit() > 0)
    }

    /// Appends the frames of one symbol, at most `space_bytes`: control frames, then streams by priority and
    /// in turn, as many as fit. What is returned belongs to the symbol as well, after what was appended: it
    /// stays where it is until the symbol is delivered, and [`Self::recycle`] takes it back then. Nothing
    /// else of the frames stays in memory; the symbol must be delivered.
    pub fn fill(&mut self, out: &mut Vec<u8>, space_bytes: usize) -> Bytes {
        let start = out.len();
        let limit = start + space_bytes;
        self.filled_favor = None;
        let mut linked = Bytes::new();
        if self.fill_control(out, limit) {
            while linked.is_empty() {
                let Some(data) = self.fill_stream(out, limit, start) else { break };
                linked = data;
            }
            self.wake_waiting();
        }
        self.counts.symbols_filled += u64::from(out.len() > start);
        linked
    }

    /// Takes back what [`Self::fill`] returned, to use its memory again.
    pub fn recycle(&mut self, data: Bytes) {
        self.sending.chunks.give(data);
    }

    /// What the streams favour whose data the last [`Self::fill`] packed; `None` where they leave it to the
    /// connection.
    pub fn filled_favor(&self) -> Option<Favor> {
        self.filled_favor
    }

    /// Packs control frames; whether there was room for all.
    fn fill_control(&mut self, out: &mut Vec<u8>, limit: usize) -> bool {
        while let Some(control) = self.control.first().copied() {
            let frame = self.control_frame(control);
            debug_assert!(frame.is_some(), "{control:?} outlived its stream");
            if let Some(frame) = frame {
                if frame.wire_bytes() > limit - out.len() {
                    return false;
                }
                frame.put(out);
                self.counts.frames_packed += 1;
            }
            self.control.remove(&control);
            self.on_control_packed(control);
        }
        true
    }

    /// The frame as it stands now.
    fn control_frame(&mut self, control: Control) -> Option<SymbolFrame<'static>> {
        Some(match control {
            Control::MaxData => SymbolFrame::MaxData(self.receiving.window.max()),
            Control::MaxStreamsBi => {
                SymbolFrame::MaxStreams { dir: Dir::Bi, max: self.table.remote_max(Dir::Bi) }
            }
            Control::MaxStreamsUni => {
                SymbolFrame::MaxStreams { dir: Dir::Uni, max: self.table.remote_max(Dir::Uni) }
            }
            Control::MaxStreamData(id) => {
                SymbolFrame::MaxStreamData { id, max: self.table.recv(id)?.window.max() }
            }
            Control::StopSending(id) => {
                SymbolFrame::StopSending { id, code: self.table.recv(id)?.stop_code()? }
            }
            Control::ResetStream(id) => {
                let (code, final_size) = self.table.send(id)?.reset_frame()?;
                SymbolFrame::ResetStream { id, code, final_size }
            }
            Control::Fin(id) => {
                SymbolFrame::Stream { id, offset: self.table.send(id)?.sent(), data: &[], fin: true }
            }
        })
    }

    fn on_control_packed(&mut self, control: Control) {
        match control {
            Control::Fin(id) => self.drop_send(id),
            Control::ResetStream(id) => {
                if let Some(send) = self.table.send(id) {
                    send.on_reset_packed();
                }
                self.drop_send_if_done(id);
            }
            _ => {}
        }
    }

    /// Packs one frame of the stream whose turn it is; `None` if there is none, or no room. The last that
    /// fits may leave its data where they are and return them.
    fn fill_stream(&mut self, out: &mut Vec<u8>, limit: usize, start: usize) -> Option<Bytes> {
        let credit = self.sending.credit();
        let id = self.schedule.first().filter(|_| credit > 0)?;
        let send = self.table.send(id)?;
        let (len, fin) = send.plan(id, limit - out.len(), credit, out.len() == start)?;
        let is_first = out.len() == start;
        self.filled_favor = if is_first { send.favor } else { joint(self.filled_favor, send.favor) };
        put_stream_header(out, id, send.sent(), len, fin);
        let is_last = out.len() + len + FILL_BYTES_MIN > limit;
        let linked = send.pack(out, len, is_last, &mut self.sending);
        self.counts.frames_packed += 1;
        if let Some(turn) = send.turn {
            if send.is_empty() {
                self.schedule.withdraw(id, turn);
                send.turn = None;
            } else {
                send.turn = Some(self.schedule.rotate(id, turn));
            }
        }
        if send.take_writable(&self.sending) {
            self.events.push(StreamEvent::Writable(id));
        }
        if fin {
            self.drop_send(id);
        }
        Some(linked)
    }

    /// Wakes writers that wait for room in the connection's buffer.
    pub(super) fn wake_waiting(&mut self) {
        for id in self.sending.take_wakeable() {
            if self.table.send(id).is_some_and(|send| send.wake()) {
                self.events.push(StreamEvent::Writable(id));
            }
        }
    }
}
