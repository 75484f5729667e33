//! What the frames of the handshake lead to: keys, parameters, a connection.

use super::close::State;
use super::handshake::Level;
use super::{Connection, EndpointEvent, Event};
use crate::crypto::KeySchedule;
use crate::wire::frame::{Frame, Frames};
use crate::{Instant, TransportError};

impl Connection {
    /// Frames of an Initial or Handshake packet. True if they ask for an ACK.
    pub(super) fn on_handshake_frames(
        &mut self,
        now: Instant,
        level: Level,
        payload: &[u8],
    ) -> Result<bool, TransportError> {
        let mut is_ack_eliciting = false;
        for frame in Frames::new(payload) {
            match frame.map_err(|_| TransportError::frame_encoding("malformed frame"))? {
                Frame::Padding => continue,
                Frame::Ack(ack) => {
                    if let Some(rtt) = self.handshake.on_ack(now, level, &ack)? {
                        self.path.recovery.on_handshake_rtt(now, rtt);
                    }
                    continue;
                }
                Frame::Close(close) => {
                    self.on_peer_close(now, close);
                    return Ok(false);
                }
                Frame::Ping => {}
                Frame::Crypto { offset, data } => {
                    self.on_crypto_frame(now, level, offset, data)?;
                }
                _ => {
                    return Err(TransportError::protocol_violation(
                        "frame not allowed in a handshake packet",
                    ));
                }
            }
            is_ack_eliciting = true;
        }
        Ok(is_ack_eliciting)
    }

    fn on_crypto_frame(
        &mut self,
        now: Instant,
        level: Level,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let is_repeated = self.handshake.has_read(level, offset + data.len() as u64);
        // Once the RTT is known the timers of both ends do better.
        if is_repeated && self.side.is_server() && !self.path.recovery.rtt().has_sample() {
            self.handshake.on_repetition();
        }
        let keys = self.handshake.on_crypto(level, offset, data)?;
        self.on_progress(now, keys)
    }

    /// The handshake went a step further.
    pub(super) fn on_progress(
        &mut self,
        now: Instant,
        keys: Option<Box<KeySchedule>>,
    ) -> Result<(), TransportError> {
        if let Some(keys) = keys {
            self.keys = Some(keys);
        }
        if self.peer.is_none()
            && let Some(bytes) = self.handshake.session.peer_parameters()
        {
            let parameters = crate::params::Parameters::decode(bytes)?;
            self.on_peer_parameters(now, parameters)?;
        }
        if matches!(self.state, State::Handshaking)
            && !self.handshake.session.is_handshaking()
            && self.keys.is_some()
        {
            self.on_handshake_complete(now);
        }
        Ok(())
    }

    fn on_handshake_complete(&mut self, now: Instant) {
        self.handshake.session.conclude();
        self.state = State::Established;
        self.endpoint_events.push_back(EndpointEvent::HandshakeDone);
        self.liveness.on_handshake_complete();
        self.validate_after_handshake(now);
        if self.side.is_server() {
            // The client repeats its last flight until a 1-RTT packet of this end tells it that it may stop.
            self.on_confirmed();
        }
        self.handshake.discard(Level::Initial);
        self.is_ping_pending = true;
        self.events.push_back(Event::Connected);
        for (meta, mut datagram) in std::mem::take(&mut self.early) {
            // It was counted when it came.
            self.open_datagram(now, &meta, &mut datagram);
        }
    }

    /// The peer is known to have finished the handshake: its keys are no longer needed (RFC 9001 4.1.2,
    /// 4.9.2).
    pub(super) fn on_confirmed(&mut self) {
        if !self.is_confirmed {
            self.is_confirmed = true;
            self.handshake.discard(Level::Initial);
            self.handshake.discard(Level::Handshake);
        }
    }
}
