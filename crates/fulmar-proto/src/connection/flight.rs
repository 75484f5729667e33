//! Datagrams out before the handshake is over, and after the connection is: flights of handshake packets,
//! closes.

use super::Connection;
use super::handshake::Level;
use super::packet_log::PacketSpace;
use crate::wire::frame::{self, Close};
use crate::wire::packet::{PacketHeader, TAG_BYTES};
use crate::{Instant, TransportError, TransportErrorCode};

/// Size of datagrams in the handshake (RFC 9000 14.1).
const HANDSHAKE_DATAGRAM_BYTES: usize = 1200;
/// Most bytes of a CRYPTO frame before its data.
const CRYPTO_HEADER_BYTES_MAX: usize = 1 + 4 + 2;

impl Connection {
    /// The same where the peer may be at one of several addresses.
    pub(super) fn write_handshake_to_all(&mut self, now: Instant, buf: &mut Vec<u8>) -> bool {
        let start = buf.len();
        if !self.elsewhere.is_empty() && !self.path.is_validated() {
            self.elsewhere.prefer_roomiest(&mut self.path);
        }
        let is_written = self.write_handshake(now, buf);
        if is_written && !self.elsewhere.is_empty() {
            self.elsewhere.copy(&buf[start..]);
        }
        is_written
    }

    /// One datagram of handshake packets. False if nothing could be sent.
    pub(super) fn write_handshake(&mut self, now: Instant, buf: &mut Vec<u8>) -> bool {
        let start = buf.len();
        let limit = HANDSHAKE_DATAGRAM_BYTES.min(self.path.room_bytes(start));
        let mut must_pad = false;
        let levels = [Level::Initial, Level::Handshake];
        let pending: Vec<Level> = levels
            .into_iter()
            .filter(|&level| self.handshake.space(level).is_some_and(|s| s.has_pending()))
            .collect();
        for (at, &level) in pending.iter().enumerate() {
            must_pad |= level == Level::Initial;
            let is_last = at + 1 == pending.len();
            let pad_to = (must_pad && is_last).then_some(start + limit);
            self.write_long_packet(now, level, buf, start + limit, pad_to);
        }
        let must_keep_talking = self.side.is_client() && !self.is_confirmed;
        let timeout = self.handshake.first_wait(self.side, self.path.recovery.rtt());
        let draw = self.draw();
        self.handshake.arm(now, self.side, timeout, must_keep_talking, draw);
        if buf.len() == start {
            return false;
        }
        self.handshake.on_written();
        true
    }

    fn write_long_packet(
        &mut self,
        now: Instant,
        level: Level,
        buf: &mut Vec<u8>,
        limit: usize,
        pad_to: Option<usize>,
    ) {
        let header = match level {
            Level::Initial => PacketHeader::Initial {
                dcid: self.cids.peer(),
                scid: self.cids.local,
                token: &self.cids.token,
            },
            Level::Handshake => PacketHeader::Handshake { dcid: self.cids.peer(), scid: self.cids.local },
        };
        // A packet that cannot hold a useful frame is not begun.
        if buf.len() + header.wire_bytes() + TAG_BYTES + 32 > limit {
            return;
        }
        let Some(space) = self.handshake.space(level) else { return };
        let number = space.take_number();
        let span = header.put(number, buf);
        let frames_start = buf.len();
        let frames_limit = limit - TAG_BYTES;
        // An ACK goes with every repetition, too: the one before may be lost, and with it the first RTT there
        // is.
        if space.received.has_news() || (space.send.has_pending() && space.received.largest().is_some()) {
            let delay_us = space.received.delay_us(now);
            let room = frames_limit - buf.len();
            if frame::put_ack(buf, space.received.ranges(), delay_us, None, None, room) {
                space.received.on_ack_sent(now);
            }
        }
        let (mut range, mut is_ack_eliciting) = (0..0, false);
        if let Some((offset, data)) =
            space.send.poll((frames_limit - buf.len()).saturating_sub(CRYPTO_HEADER_BYTES_MAX))
        {
            range = offset..offset + data.len() as u64;
            frame::put_crypto(buf, offset, data);
            is_ack_eliciting = true;
        } else if std::mem::take(&mut space.needs_ping) {
            frame::put_ping(buf);
            is_ack_eliciting = true;
        }
        space.needs_ping &= range.is_empty();
        if buf.len() == frames_start {
            buf.truncate(span.start());
            return;
        }
        if let Some(pad_to) = pad_to {
            buf.resize(buf.len().max(pad_to - TAG_BYTES), 0);
        }
        space.on_sent(number, now, range);
        if space.keys.seal(number, buf, span).is_err() {
            buf.truncate(span.start());
        } else {
            let bytes = buf.len() - span.start();
            self.trace_sent(now, (level.into(), number, bytes), is_ack_eliciting, None);
        }
        // RFC 9001 4.9.1: a client needs no Initial keys once it has sent a Handshake packet.
        if self.side.is_client() && level == Level::Handshake {
            self.handshake.discard(Level::Initial);
        }
    }

    /// The close, under every key the peer may be able to open (RFC 9000 10.2.3).
    pub(super) fn write_close(&mut self, now: Instant, buf: &mut Vec<u8>) -> bool {
        if self.path.room_bytes(buf.len()) < HANDSHAKE_DATAGRAM_BYTES {
            return false;
        }
        let Some(close) = self.state.poll_close() else { return false };
        let start = buf.len();
        let limit = start + HANDSHAKE_DATAGRAM_BYTES;
        if !self.is_confirmed {
            // The application's reason is not for Initial and Handshake packets, which are not confidential
            // to it yet.
            let plain = match &close {
                Close::Application { .. } => {
                    Close::Transport(TransportError::new(TransportErrorCode::NoError, ""))
                }
                Close::Transport(_) => close.clone(),
            };
            for level in [Level::Initial, Level::Handshake] {
                self.write_close_at(now, level, &plain, buf, limit - 300);
            }
        }
        if let Some(draft) =
            self.begin(buf, start, limit - start).filter(|_| self.is_confirmed || self.keys.is_some())
        {
            frame::put_close(buf, &close, draft.limit.saturating_sub(buf.len()));
            let _ = self.seal(&draft, buf);
            self.path.recovery.on_sent_untracked();
            self.trace_sent(now, (PacketSpace::Data, draft.number, buf.len() - draft.start), false, None);
        }
        buf.len() > start
    }

    fn write_close_at(&mut self, now: Instant, level: Level, close: &Close, buf: &mut Vec<u8>, limit: usize) {
        let (dcid, scid) = (self.cids.peer(), self.cids.local);
        let Some(space) = self.handshake.space(level) else { return };
        let header = match level {
            Level::Initial => PacketHeader::Initial { dcid, scid, token: &[] },
            Level::Handshake => PacketHeader::Handshake { dcid, scid },
        };
        let number = space.take_number();
        let span = header.put(number, buf);
        frame::put_close(buf, close, (limit.saturating_sub(buf.len() + TAG_BYTES)) / 2);
        if space.keys.seal(number, buf, span).is_err() {
            buf.truncate(span.start());
        } else {
            self.trace_sent(now, (level.into(), number, buf.len() - span.start()), false, None);
        }
    }
}
