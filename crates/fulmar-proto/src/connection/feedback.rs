//! What an ACK teaches: from ranges of packet numbers to the one record that every algorithm is fed.

use fulmar_control::{Feedback, PathView};

use super::Connection;
use crate::recovery::{Acked, Content, Lost};
use crate::wire::frame::Ack;
use crate::{Instant, PacketNumber, TransportError};

impl Connection {
    /// An ACK of 1-RTT packets.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>) -> Result<(), TransportError> {
        if ack.largest >= self.sent.next_number() {
            return Err(TransportError::protocol_violation("ACK of a packet that was never sent"));
        }
        self.stats.acks_received += 1;
        let is_newest = self.sent.largest_acked().is_none_or(|largest| ack.largest > largest);
        let mut acked = std::mem::take(&mut self.acked_scratch);
        acked.clear();
        for (low, high) in ack.ranges() {
            self.sent.on_ack_range(low, high, |packet| acked.push(packet));
        }
        let mut feedback = self.new_feedback(now);
        self.apply_acked(now, ack, &acked, is_newest, &mut feedback);
        if is_newest && let Some(state) = &ack.coding {
            feedback.repaired_packets = self.symbols_out.on_peer_state(now, state.clone())?;
        }
        let has_news = !acked.is_empty();
        self.acked_scratch = acked;
        if !has_news {
            return Ok(());
        }
        self.on_confirmed();
        self.keys_acked(ack.largest);
        self.probe_expiries = 0;
        self.detect_losses(now, &mut feedback);
        self.apply_feedback(feedback);
        let retention = self.path.rtt.conservative() * 3;
        self.sent.forget_front(now, retention);
        Ok(())
    }

    fn new_feedback(&self, now: Instant) -> Feedback {
        let mut feedback = Feedback::at(now);
        feedback.in_flight_bytes_before = self.sent.in_flight_bytes();
        feedback
    }

    fn apply_acked(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        acked: &[Acked],
        is_newest: bool,
        feedback: &mut Feedback,
    ) {
        let mut newest: Option<&Acked> = None;
        let mut ect_packets = 0;
        for packet in acked {
            if newest.is_none_or(|n| packet.number > n.number) {
                newest = Some(packet);
            }
            feedback.in_flight_bytes_before += u64::from(packet.packet.bytes) * u64::from(!packet.was_lost);
            ect_packets += u64::from(packet.packet.is_ect);
            self.apply_one(now, ack.largest, packet, feedback);
        }
        let Some(newest) = newest else { return };
        feedback.newest_acked_sent_at = Some(newest.packet.sent_at);
        // RFC 9002 5.1: a sample only from the largest packet, and only when newly acknowledged.
        if is_newest && newest.number == ack.largest && !newest.was_lost {
            let rtt = now - newest.packet.sent_at;
            // RFC 9002 5.3: no more than the delay that was agreed.
            let delay = std::time::Duration::from_micros(ack.delay_us).min(self.ack_delay_max());
            self.path.on_rtt(now, rtt, delay);
            feedback.rtt = Some(rtt);
        }
        if is_newest {
            let marked = self.path.ecn.on_ack(ect_packets, ack.ecn);
            feedback.ecn_ce_packets = u32::try_from(marked).unwrap_or(u32::MAX);
            self.stats.ecn_ce_packets += marked;
        }
        feedback.rate_sample = self.path.sampler.sample(&newest.packet.stamp, newest.packet.sent_at);
        feedback.round = self.path.sampler.round();
        self.path.detector.on_round(feedback.round);
    }

    fn apply_one(&mut self, now: Instant, largest: PacketNumber, acked: &Acked, feedback: &mut Feedback) {
        let bytes = u64::from(acked.packet.bytes);
        if acked.was_lost {
            feedback.spurious_packets += 1;
            self.stats.spurious_packets += 1;
            let round = self.path.sampler.round();
            self.path.detector.on_spurious(acked.number, largest, round);
        } else {
            feedback.acked_bytes += bytes;
            feedback.acked_packets += 1;
        }
        self.path.sampler.on_delivered(now, bytes);
        if let Some(acknowledged) = acked.packet.largest_acked {
            self.received.on_ack_acked(acknowledged);
        }
        if self.path.mtu.on_acked(acked.number, acked.packet.bytes) {
            self.stats.mtu_probes_passed += 1;
        }
        match acked.packet.content {
            Content::Control | Content::MtuProbe => {}
            content if self.symbols_out.on_acked(content, acked.was_lost) => feedback.dof_delivered += 1,
            _ => feedback.dof_redundant += 1,
        }
    }

    /// Finds losses by packets and by time, and sets the time of the next look.
    fn detect_losses(&mut self, now: Instant, feedback: &mut Feedback) {
        let mut lost = std::mem::take(&mut self.lost_scratch);
        lost.clear();
        let rtt = self.path.rtt.conservative();
        self.loss_at = self.path.detector.detect(now, rtt, &mut self.sent, |packet| lost.push(packet));
        for packet in &lost {
            self.apply_lost(packet, feedback);
        }
        self.lost_scratch = lost;
    }

    /// A retransmission timeout: every packet counts as having left (RFC 5681 3.1; LT-TCP, Hourt 2014, section 3.5). The
    /// controller hears of the timeout, not of these losses; an ACK that comes late takes them back.
    pub(super) fn lose_all(&mut self, now: Instant) {
        let mut unheard = self.new_feedback(now);
        while let Some(lost) = self.sent.declare_oldest_lost() {
            self.apply_lost(&lost, &mut unheard);
        }
        self.loss_at = None;
    }

    fn apply_lost(&mut self, lost: &Lost, feedback: &mut Feedback) {
        let bytes = lost.packet.bytes;
        let loss_rate = self.path.loss.view().rate;
        if lost.packet.content == Content::MtuProbe {
            self.path.mtu.on_probe_lost(lost.number, loss_rate);
            return;
        }
        self.stats.lost_packets += 1;
        if lost.number >= self.recovery_below {
            self.stats.recoveries += 1;
            self.recovery_below = self.sent.next_number();
        }
        feedback.lost.bytes += u64::from(bytes);
        feedback.lost.packets += 1;
        if self.last_lost.is_none_or(|last| lost.number.0 != last.0 + 1) {
            feedback.lost.bursts += 1;
        }
        self.last_lost = Some(lost.number);
        feedback.lost.newest_sent_at = Some(lost.packet.sent_at);
        self.path.sampler.on_lost(u64::from(bytes));
        if lost.packet.is_ect {
            self.path.ecn.on_lost(1);
        }
        if self.path.mtu.on_lost(lost.packet.sent_at, bytes, self.path.rtt.smoothed()) {
            self.stats.black_holes += 1;
        }
        self.symbols_out.on_lost(feedback.now, lost.packet.content);
    }

    /// The record is complete: everyone gets it.
    fn apply_feedback(&mut self, mut feedback: Feedback) {
        feedback.is_window_limited = std::mem::take(&mut self.is_window_limited);
        feedback.unrepairable_packets =
            self.symbols_out.take_unrepairable(feedback.now, self.path.rtt.smoothed());
        feedback.check();
        let in_flight = self.sent.in_flight_bytes();
        self.path.on_feedback(&feedback, in_flight);
        let view: PathView = self.path.view(in_flight);
        self.redundancy.on_feedback(&feedback, &view);
        self.pacer_at = None;
        self.update_ack_policy();
    }

    /// Losses by time, without an ACK.
    pub(super) fn on_loss_timeout(&mut self, now: Instant) {
        let mut feedback = self.new_feedback(now);
        feedback.round = self.path.sampler.round();
        self.detect_losses(now, &mut feedback);
        if feedback.lost.packets > 0 {
            self.apply_feedback(feedback);
        }
    }
}
