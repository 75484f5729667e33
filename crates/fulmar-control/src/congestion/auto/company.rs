//! In the company of a flow that fills queues.
//!
//! Where draining does not empty the queue, keeping to the bandwidth-delay product means to starve: every
//! round trip is longer than the shortest, so the rate measured at that window falls from cycle to cycle.
//! Then the window is CUBIC's (RFC 9438), with one difference: loss that the floor explains is none. It ends
//! when the queue is gone, and is interrupted every few seconds by a probe for the shortest RTT, to see
//! whether the queue would go if we let it.
//!
//! Where the others take all that we give up (`share`), window and pace are BBR's for a while.

use alloc::boxed::Box;

use fulmar_units::{Instant, Rate};

use super::model::link_rate;
use super::phase::Phase;
use super::rival::Rival;
use super::share::{Share, Stubborn};
use super::{Auto, Cubic, CubicConfig, Mechanism};
use crate::congestion::Bbr;
use crate::{Feedback, LossEvent, PathView};

/// Rounds of cruising in a row that must meet somebody else's queue.
const FOREIGN_ROUNDS: u32 = 4;
/// Losses beyond the floor's explanation that a competing window obeys, in standard deviations.
const COMPETE_SIGMAS: f64 = 1.5;

impl Auto {
    /// Rounds of cruising in a row met a queue that is not ours.
    pub(super) fn is_in_company(&self) -> bool {
        let is_long =
            matches!(self.phase, Phase::Cruise { foreign_rounds } if foreign_rounds >= FOREIGN_ROUNDS);
        is_long && self.has(Mechanism::Company)
    }

    /// The window begins at what the rate needs at the present round trip: less would be a gift, more an
    /// attack.
    pub(super) fn enter_compete(&mut self, now: Instant, path: &PathView) {
        let rtt = self.tally.rtt_mean().unwrap_or(path.rtt_smoothed);
        let needed_bytes = self.model.rate().map_or(0, |rate| rate.bytes_in(rtt));
        let window_bytes = path.in_flight_bytes.max(needed_bytes);
        self.model.unbound_rate();
        self.bound_bytes = None;
        if !self.share.is_from_before(now) {
            self.share = Share::new();
        }
        let rival = if self.are_stubborn(now) {
            self.bbr(now, self.model.rate().unwrap_or(Rate::ZERO))
        } else {
            self.cubic(window_bytes)
        };
        self.enter(Phase::Compete(Box::new(rival)));
    }

    /// The others are believed to take no loss for congestion.
    fn are_stubborn(&self, now: Instant) -> bool {
        self.stubborn.is_some_and(|stubborn| stubborn.is_believed(now))
    }

    fn cubic(&self, window_bytes: u64) -> Rival {
        Rival::Cubic(Cubic::at_window(self.mtu_bytes, CubicConfig::default(), window_bytes))
    }

    fn bbr(&self, now: Instant, rate: Rate) -> Rival {
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        Rival::Bbr(Bbr::on_known_path(self.mtu_bytes, rate, rtt_min, now, self.round))
    }

    /// Over when the queue is gone, or to see whether it would go if we let it.
    pub(super) fn judge_compete(&mut self, now: Instant) {
        self.model.next_cycle();
        let is_gone = self.tally.rtt_mean().is_some_and(|rtt| !self.has_queue(rtt));
        let taken = self.share.on_round(now, now - self.round_started_at, &self.tally, self.floor.rate());
        let Phase::Compete(rival) = &self.phase else { return };
        let window_bytes = rival.budget().window_bytes;
        if is_gone || self.is_rtt_probe_due(now) {
            self.enter_rtt_probe(now);
        } else if rival.obeys() {
            if let Some(taken) = taken.filter(|_| self.has(Mechanism::Stubborn)) {
                let stubborn = Stubborn::found(now, self.stubborn);
                let rate = if stubborn.is_confirmed() { taken.had } else { taken.left };
                self.stubborn = Some(stubborn);
                self.phase = Phase::Compete(Box::new(self.bbr(now, rate)));
            }
        } else if !self.are_stubborn(now) {
            self.share = Share::new();
            self.phase = Phase::Compete(Box::new(self.cubic(window_bytes)));
        }
    }

    /// In company the window is CUBIC's, except that loss up to the floor is none, or BBR's, except that the rate
    /// is the link's.
    pub(super) fn on_rival_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        let floor = self.floor.rate();
        let Phase::Compete(rival) = &mut self.phase else { return };
        let packets = self.tally.packets();
        let explained = self.floor.explained_packets(packets, &path.loss, COMPETE_SIGMAS);
        let is_excess = f64::from(self.tally.lost_packets) > explained + 0.5 && !self.tally.is_blackout;
        let mut seen = feedback.clone();
        if !is_excess {
            seen.lost = LossEvent::default();
        }
        if let Some(sample) = &mut seen.rate_sample {
            sample.rate = link_rate(sample, floor);
        }
        if seen.lost.packets > 0 || seen.ecn_ce_packets > 0 {
            self.congested_at = Some(feedback.now);
        }
        rival.on_feedback(&seen, path);
    }
}
