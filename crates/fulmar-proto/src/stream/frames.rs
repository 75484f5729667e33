//! What arrives: frames to the streams they are for.

use super::schedule::Control;
use super::table::Half;
use super::{STREAMS_MAX, StreamEvent, Streams};
use crate::wire::symbol::SymbolFrame;
use crate::{Dir, StreamId, TransportError};

impl Streams {
    /// A frame of a delivered symbol. An error ends the connection: the peer broke a rule.
    ///
    /// ACK_POLICY and connection ids are not for streams and are ignored.
    pub fn on_frame(&mut self, frame: SymbolFrame<'_>) -> Result<(), TransportError> {
        self.counts.frames_received += 1;
        match frame {
            SymbolFrame::Stream { id, offset, data, fin } => self.on_stream(id, offset, data, fin)?,
            SymbolFrame::ResetStream { id, code, final_size } => {
                self.on_reset_stream(id, code, final_size)?
            }
            SymbolFrame::StopSending { id, code } => self.on_stop_sending(id, code)?,
            SymbolFrame::MaxData(max) => self.sending.max = self.sending.max.max(max),
            SymbolFrame::MaxStreamData { id, max } => self.on_max_stream_data(id, max)?,
            SymbolFrame::MaxStreams { dir, max } => self.on_max_streams(dir, max)?,
            SymbolFrame::AckPolicy { .. }
            | SymbolFrame::MaxRate { .. }
            | SymbolFrame::NewConnectionId(_)
            | SymbolFrame::RetireConnectionId { .. } => {}
        }
        Ok(())
    }

    fn on_stream(&mut self, id: StreamId, offset: u64, data: &[u8], fin: bool) -> Result<(), TransportError> {
        self.touch(id, Half::Recv)?;
        // RFC 9000 3.2: what is late for a half that has come to its end is of no interest.
        let Some(recv) = self.table.recv(id) else { return Ok(()) };
        recv.on_data(offset, data, fin, &mut self.receiving)?;
        self.after_arrival(id);
        Ok(())
    }

    fn on_reset_stream(&mut self, id: StreamId, code: u64, final_size: u64) -> Result<(), TransportError> {
        self.touch(id, Half::Recv)?;
        let Some(recv) = self.table.recv(id) else { return Ok(()) };
        recv.on_reset(code, final_size, &mut self.receiving)?;
        self.after_arrival(id);
        Ok(())
    }

    /// What data, a FIN or a reset mean to others than the half itself.
    fn after_arrival(&mut self, id: StreamId) {
        let Some(recv) = self.table.recv(id) else { return };
        if recv.take_readable() {
            self.events.push(StreamEvent::Readable(id));
        }
        if recv.is_size_unknown() {
            if recv.window.take_due() {
                self.control.insert(Control::MaxStreamData(id));
            }
        } else {
            if recv.is_stopped() {
                self.drop_recv(id);
            } else {
                // Nothing more will come: the peer has no use for credit.
                self.control.remove(&Control::MaxStreamData(id));
            }
        }
        self.update_max_data();
    }

    /// RFC 9000 3.5: the answer is a reset with the same code.
    fn on_stop_sending(&mut self, id: StreamId, code: u64) -> Result<(), TransportError> {
        self.touch(id, Half::Send)?;
        let Some(send) = self.table.send(id) else { return Ok(()) };
        if send.on_stop(code) {
            if !send.is_released() {
                self.events.push(StreamEvent::Stopped { id, code });
            }
            self.start_reset(id, code);
        }
        Ok(())
    }

    fn on_max_stream_data(&mut self, id: StreamId, max: u64) -> Result<(), TransportError> {
        self.touch(id, Half::Send)?;
        if let Some(send) = self.table.send(id) {
            send.on_max(max);
            self.wake_if_writable(id);
        }
        Ok(())
    }

    fn on_max_streams(&mut self, dir: Dir, max: u64) -> Result<(), TransportError> {
        // RFC 9000 19.11: more could not be numbered.
        if max > STREAMS_MAX {
            return Err(TransportError::frame_encoding("MAX_STREAMS beyond what can be numbered"));
        }
        self.raise_max_streams(dir, max);
        Ok(())
    }

    fn touch(&mut self, id: StreamId, half: Half) -> Result<(), TransportError> {
        if self.table.touch(id, half)? {
            let dir = id.dir();
            self.events.push_once(StreamEvent::Opened { dir }, &mut self.is_opened_pending[dir as usize]);
        }
        Ok(())
    }
}
