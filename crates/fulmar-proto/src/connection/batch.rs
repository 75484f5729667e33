//! Datagrams out, as many of one size at a time as may leave: what one system call takes.

use super::close::State;
use super::stash::Stash;
use super::{Connection, Transmit};
use crate::Instant;
use crate::recovery::Ecn;

/// Most bytes in one batch of segments: what one UDP send with GSO takes.
const BATCH_BYTES_MAX: usize = 65_000;

impl Connection {
    /// Appends up to `segments_max` datagrams of equal size (the last may be shorter) to the empty `buf`.
    /// `None`: there is nothing to send before the next event or [`Self::poll_timeout`].
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        segments_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(transmit) = self.poll_transmit_elsewhere(now, buf) {
            return Some(transmit);
        }
        let before = buf.len();
        // Handshake packets and closes are not marked.
        let unmarked = |is_written: bool, buf: &Vec<u8>| is_written.then(|| (buf.len() - before, None));
        let (segment_bytes, ecn) = match self.state {
            State::Draining { .. } | State::Drained => return None,
            State::Closing { .. } => unmarked(self.write_close(now, buf), buf),
            State::Handshaking => unmarked(self.write_handshake_to_all(now, buf), buf),
            State::Established if self.handshake.has_pending() => {
                unmarked(self.write_handshake(now, buf), buf)
                    .or_else(|| self.write_batch(now, segments_max, buf))
            }
            State::Established => self.write_batch(now, segments_max, buf),
        }?;
        let bytes = buf.len() - before;
        self.path.on_datagram_sent(bytes as u64);
        self.counts.wire.sent_bytes += bytes as u64;
        self.counts.wire.sent_datagrams += bytes.div_ceil(segment_bytes) as u64;
        Some(Transmit {
            destination: self.path.remote,
            src_ip: self.path.local_ip,
            ecn,
            bytes,
            segment_bytes: (bytes > segment_bytes).then_some(segment_bytes),
        })
    }

    /// As many 1-RTT packets of one size as may leave. Returns that size, and the codepoint they leave with.
    fn write_batch(
        &mut self,
        now: Instant,
        segments_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<(usize, Option<Ecn>)> {
        let mut segment_bytes = None;
        let room = self.path.room_bytes(buf.len());
        let stashed = self.stash.take_if(|stashed| stashed.datagram.len() <= room);
        self.path.recovery.begin_batch(stashed.as_ref().map(|stashed| stashed.is_marked));
        if let Some(stashed) = stashed {
            segment_bytes = Some(stashed.datagram.len());
            buf.extend_from_slice(&stashed.datagram);
        } else if let Some(bytes) = self.write_ecn_trial(now, buf).or_else(|| self.write_mtu_probe(now, buf))
        {
            self.path.recovery.on_datagram_sent(now, bytes as u64);
            return Some((bytes, self.path.recovery.mark()));
        }
        let mtu = usize::from(self.path.recovery.mtu_bytes());
        let mut is_answered_for = false;
        for _ in usize::from(segment_bytes.is_some())..segments_max.max(1) {
            let start = buf.len();
            if start + mtu > BATCH_BYTES_MAX.max(mtu) {
                break;
            }
            let Some(is_ack_eliciting) = self.write_packet(now, buf, mtu) else { break };
            is_answered_for |= is_ack_eliciting;
            let bytes = buf.len() - start;
            self.path.recovery.on_datagram_sent(now, bytes as u64);
            match segment_bytes {
                None => {
                    segment_bytes = Some(bytes);
                    if !is_ack_eliciting {
                        // Nobody would notice that a path drops ACKs for their mark.
                        self.path.recovery.leave_batch_unmarked();
                        break;
                    }
                }
                Some(segment) if bytes == segment => {}
                Some(segment) if bytes < segment => break,
                // Longer than the batch's segments: it opens the next batch.
                Some(_) => {
                    let is_marked = is_ack_eliciting && self.path.recovery.mark().is_some();
                    self.stash = Some(Box::new(Stash { datagram: buf.split_off(start), is_marked }));
                    break;
                }
            }
        }
        if is_answered_for {
            self.path.recovery.on_batch_sent(now);
        }
        segment_bytes.map(|bytes| (bytes, self.path.recovery.mark()))
    }
}
