//! When a packet may leave, and what is remembered of it.

use std::time::Duration;

use super::{Cargo, Ecn, Probe, ProbeCargo, Recovery, SentPacket};
use crate::{Instant, PacketNumber};

/// Probes are sent no faster.
const PROBES_PER_ROUND: u32 = 16;

/// After so many probe timeouts without a word nothing leaves but probes.
const BLIND_AFTER_TIMEOUTS: u32 = 4;

/// So many packets are remembered until their fate is known, some 8 MiB: with packets of 1472 bytes 95 MB
/// under way. More may not leave, however small they are and whatever the congestion controller says; probes
/// may, which are few.
const REMEMBERED_MAX: usize = (1 << 16) - (1 << 10);

/// Whether a packet may leave now.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Leave,
    /// The pacer lets it leave at this time.
    Wait(Instant),
    /// Window and pacer would let it leave; a limit does at this time.
    Limited(Instant),
    /// The window is full: an ACK or an expiry opens it.
    Blocked,
}

impl<T: Copy> Recovery<T> {
    /// May a packet of at most `bytes` leave?
    pub fn permit(&mut self, now: Instant, bytes: u64) -> Permit {
        if self.is_blind(now) || self.sent.remembered() >= REMEMBERED_MAX {
            return Permit::Blocked;
        }
        let in_flight = self.sent.in_flight_bytes();
        let beyond = (in_flight + bytes).saturating_sub(self.budget().window_bytes);
        if in_flight > 0 && beyond > 0 {
            match self.room_at(beyond) {
                None => return Permit::Blocked,
                Some(at) if at > now => return Permit::Wait(at),
                Some(_) => {}
            }
        }
        if let Err(at) = self.control.poll_pace(now, bytes) {
            return Permit::Wait(at);
        }
        let turn = self.rates.as_mut().map_or(Ok(()), |rates| rates.poll(now, bytes));
        turn.map_or_else(Permit::Limited, |()| Permit::Leave)
    }

    /// A datagram of `bytes` is out, whatever is in it: limits count all.
    pub fn on_datagram_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(rates) = &mut self.rates {
            rates.on_sent(now, bytes);
        }
    }

    /// A packet would have left if a limit had let it, which says nothing of the path: what is measured
    /// meanwhile is not all that it carries.
    pub fn on_limited(&mut self) {
        self.sampler.on_app_limited(self.sent.in_flight_bytes());
    }

    /// There is nothing to send that waits for its turn.
    pub fn give_up_turn(&mut self) {
        if let Some(rates) = &mut self.rates {
            rates.rest();
        }
    }

    /// Nothing was heard of what left for so long that only probes may follow, whatever the congestion
    /// controller says: the peer may be gone, or never have been there.
    fn is_blind(&self, now: Instant) -> bool {
        self.silence.since().is_some_and(|since| {
            now - since > self.probe_timeout(self.acks.delay_max(), 0) * BLIND_AFTER_TIMEOUTS
        })
    }

    /// When a packet may leave with which so many bytes beyond the window are under way; `None`: it may not.
    fn room_at(&self, beyond_bytes: u64) -> Option<Instant> {
        let rate = || self.control.controller().bandwidth();
        self.burst_room.opens_at(beyond_bytes, self.packet_bytes(), rate, &self.silence, self.rtt.smoothed())
    }

    /// A full packet.
    pub(super) fn packet_bytes(&self) -> u64 {
        u64::from(self.mtu.current_bytes())
    }

    /// A packet would have left if window and pacer had let it.
    pub fn on_held_back(&mut self) {
        self.control.on_held_back();
    }

    /// A packet will be wanted when the pacer lets one leave; `None`: it will not.
    pub fn wake_for_pacer(&mut self, at: Option<Instant>) {
        self.control.wake_for_pacer(at);
    }

    /// A packet could leave, and there was nothing to send.
    pub fn on_app_limited(&mut self) {
        self.give_up_turn();
        self.sampler.on_app_limited(self.sent.in_flight_bytes());
    }

    /// The ECN codepoint of the next packet.
    pub fn mark(&self) -> Option<Ecn> {
        self.ecn.mark()
    }

    /// Packets are about to be made that leave together, with one codepoint. `first`: one of them is made
    /// already, with a mark or without.
    pub fn begin_batch(&mut self, first: Option<bool>) {
        self.ecn.begin_batch(first);
    }

    /// They have left.
    pub fn on_batch_sent(&mut self, now: Instant) {
        self.ecn.on_batch_sent(now);
    }

    /// A packet with a mark and nothing else is to be tried now: [`Self::on_trial_sent`].
    pub fn take_ecn_trial(&mut self, now: Instant) -> bool {
        self.silence.expiries() == 0 && self.ecn.take_trial(now)
    }

    /// It left as the packet with the next number. That it is lost says nothing of the path's rate.
    pub fn on_trial_sent(&mut self, now: Instant, bytes: u32) {
        self.record(now, bytes, Cargo::Trial);
    }

    /// The packets that follow in the same batch leave without a mark.
    pub fn leave_batch_unmarked(&mut self) {
        self.ecn.leave_batch_unmarked();
    }

    /// The packet with the next number left, a datagram of `bytes` that elicits an ACK.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, cargo: T) {
        self.eliciting_sent = self.eliciting_sent.wrapping_add(1);
        self.record(now, bytes, Cargo::Given(cargo));
    }

    /// The packet with the next number left and elicits no ACK.
    pub fn on_sent_untracked(&mut self) {
        self.sent.push_untracked();
    }

    fn record(&mut self, now: Instant, bytes: u32, cargo: Cargo<T>) {
        let is_ect = self.ecn.mark().is_some();
        if is_ect {
            self.ecn.on_sent();
        }
        let before = self.sent.in_flight_bytes();
        let in_flight = before + u64::from(bytes);
        let stamp = self.sampler.on_sent(now, u64::from(bytes), in_flight);
        let ordinal = self.eliciting_sent;
        self.sent.push(SentPacket { sent_at: now, bytes, cargo, is_ect, ordinal, stamp });
        self.silence.on_sent(now);
        if let Some(skips) = &mut self.skips
            && skips.on_sent()
        {
            skips.on_skipped(self.sent.next_number());
            self.sent.push_untracked();
        }
        self.control.on_sent(now, u64::from(bytes), before == 0);
    }

    /// When the last packet left that elicits an ACK, or the timeout after it expired.
    pub fn last_eliciting_at(&self) -> Instant {
        self.silence.counts_from()
    }

    /// The path is in use, and known to carry the smallest size.
    pub fn may_probe_mtu(&self) -> bool {
        self.sent.largest_acked().is_some()
    }

    /// A probe for a larger MTU to send now. `is_active`: something is under way, so that a new search, or
    /// another try of a probe that was lost, is worth its packet and those that tell of its loss.
    pub fn poll_mtu_probe(&mut self, now: Instant, is_active: bool) -> Option<Probe> {
        let goes_on = self.mtu.is_searching() && !self.mtu.has_lost();
        if !self.may_probe_mtu() || !(goes_on || is_active) {
            return None;
        }
        self.mtu.poll_probe(now)
    }

    /// The probe left as the packet with the next number.
    pub fn on_mtu_probe_sent(&mut self, now: Instant, probe: Probe) {
        let number: PacketNumber = self.sent.next_number();
        self.record(now, u32::from(probe.bytes), Cargo::Trial);
        self.mtu.on_probe_sent(number, probe);
    }

    /// A probe that a timeout earned is to leave, whatever window and pacer say. What it carries.
    pub fn probe_due(&self, now: Instant) -> Option<ProbeCargo> {
        self.silence.probe_due(now)
    }

    /// No faster than the path carries them: a queue may be too short for all.
    fn probe_spacing(&self) -> Duration {
        let spacing = self.rtt.smoothed() / PROBES_PER_ROUND;
        let paced = self.budget().pacing.map(|rate| rate.time_for(self.packet_bytes()));
        spacing.max(paced.unwrap_or_default()).min(self.rtt.smoothed())
    }

    /// Such a probe is about to leave. The next follows at a distance: a queue may be too short for all of
    /// them.
    pub fn take_probe(&mut self, now: Instant) {
        self.silence.take_probe(now, self.probe_spacing());
    }
}
