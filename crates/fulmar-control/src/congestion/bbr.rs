//! BBR version 1, as Linux has it: a yardstick, and cross traffic for others in virtual time.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 (sections in brackets) and Linux `tcp_bbr.c`, whose
//! answer to losses the draft leaves out. The pace is the highest delivery rate of ten rounds, the window
//! twice the product of that and the shortest round trip of ten seconds; loss is no sign of congestion. Not
//! here: the detection of policers, and the allowance for aggregated ACKs.
//!
//! Invariants: the window is at least [`WINDOW_PACKETS_MIN`] packets; the pace is positive.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::{CongestionController, SendBudget};
use crate::windowed::WindowedMax;
use crate::{Feedback, PathView};

/// 2 / ln 2: the least that doubles the rate each round (4.3.2).
const HIGH_GAIN: f64 = 2.885;
/// Gains of the pace, a shortest round trip each (4.3.4).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window as a multiple of the bandwidth-delay product (4.2.3.2).
const WINDOW_GAIN: f64 = 2.0;
/// Linux paces a hundredth slower than it measures.
const PACE_MARGIN: f64 = 0.99;
/// Rounds for which a rate is remembered (4.1.1.2).
const RATE_ROUNDS: u64 = 10;
/// The pipe is full when so many rounds in a row brought less than this growth (4.3.2.2).
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// A shortest round trip is believed for so long, and looked for so long, with so few packets (4.3.5).
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const WINDOW_PACKETS_MIN: u64 = 4;
/// Window before anything is known (RFC 6928).
const INITIAL_PACKETS: u64 = 10;
/// Linux is in recovery until what was lost has been sent again and acknowledged, some of it twice.
const RECOVERY_ROUNDS: u64 = 2;
/// Most that leaves at once: a GSO batch.
const BURST_BYTES_MAX: u64 = 64 * 1024;

#[derive(Copy, Clone, Debug)]
enum Phase {
    Startup,
    Drain,
    /// A step of the cycle, begun then.
    ProbeRate {
        step: usize,
        since: Instant,
    },
    /// So few packets under way that no queue is ours, from when they are so few until then, and beyond this
    /// round.
    ProbeRtt {
        until: Option<(Instant, u64)>,
    },
}

/// Linux' answer to losses: for one round only as much leaves as arrives.
#[derive(Copy, Clone, Debug)]
struct Recovery {
    round: u64,
    /// To be restored at the end.
    window_bytes: u64,
}

/// BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr {
    mtu_bytes: u32,
    phase: Phase,
    round: u64,
    /// Bytes per second, by round.
    rate: WindowedMax,
    rtt_min: Option<(Duration, Instant)>,
    /// It looks for the shortest round trip itself.
    probes_rtt: bool,
    /// The rate that growth is measured against, and the rounds without.
    full_rate: Rate,
    full_rounds: u32,
    recovery: Option<Recovery>,
    window_bytes: u64,
    /// What it was before the shortest round trip was looked for.
    kept_bytes: u64,
    /// The round in which the few packets of that are the last to arrive.
    few_until: u64,
}

impl Bbr {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32) -> Self {
        Self {
            mtu_bytes,
            phase: Phase::Startup,
            round: 0,
            rate: WindowedMax::new(RATE_ROUNDS),
            rtt_min: None,
            probes_rtt: true,
            full_rate: Rate::ZERO,
            full_rounds: 0,
            recovery: None,
            window_bytes: INITIAL_PACKETS * u64::from(mtu_bytes),
            kept_bytes: 0,
            few_until: 0,
        }
    }

    /// A controller that knows the path already, in the cycle; the shortest round trip others look for.
    pub(super) fn on_known_path(
        mtu_bytes: u32,
        rate: Rate,
        rtt_min: Duration,
        now: Instant,
        round: u64,
    ) -> Self {
        let mut bbr = Self::new(mtu_bytes);
        bbr.round = round;
        bbr.rate.update(bbr.round, rate.bytes_per_second());
        bbr.rtt_min = Some((rtt_min, now));
        bbr.probes_rtt = false;
        bbr.full_rounds = FULL_ROUNDS;
        bbr.window_bytes = bbr.bdp_bytes(WINDOW_GAIN).unwrap_or(0).max(bbr.packets(WINDOW_PACKETS_MIN));
        bbr.enter_cycle(now);
        bbr
    }

    /// The same, for one who comes where others have the link.
    pub(super) fn in_startup(self) -> Self {
        Self { phase: Phase::Startup, full_rounds: 0, ..self }
    }

    fn packets(&self, packets: u64) -> u64 {
        packets * u64::from(self.mtu_bytes)
    }

    fn bdp_bytes(&self, gain: f64) -> Option<u64> {
        let (rtt_min, _) = self.rtt_min?;
        Some((self.bandwidth()?.bytes_in(rtt_min) as f64 * gain) as u64)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => HIGH_GAIN,
            Phase::Drain => 1.0 / HIGH_GAIN,
            Phase::ProbeRate { step, .. } => CYCLE[step],
            Phase::ProbeRtt { .. } => 1.0,
        }
    }

    fn watch_rate(&mut self, feedback: &Feedback) {
        let is_new_round = feedback.round != self.round;
        self.round = feedback.round;
        let Some(sample) = feedback.rate_sample else { return };
        // A sample shorter than a round trip shows ACKs bunched on their way (Linux: tcp_rate_gen).
        if self.rtt_min.is_none_or(|(rtt_min, _)| sample.interval < rtt_min) {
            return;
        }
        let is_limited = sample.is_app_limited
            || matches!(self.phase, Phase::ProbeRtt { .. })
            || feedback.round <= self.few_until;
        let is_faster = self.bandwidth().is_none_or(|rate| sample.rate >= rate);
        if !is_limited || is_faster {
            self.rate.update(self.round, sample.rate.bytes_per_second());
        }
        if !self.is_full() && is_new_round && !is_limited {
            let rate = self.bandwidth().unwrap_or(Rate::ZERO);
            if rate >= self.full_rate.scaled(FULL_GROWTH) {
                (self.full_rate, self.full_rounds) = (rate, 0);
            } else {
                self.full_rounds += 1;
            }
        }
    }

    fn step(&mut self, feedback: &Feedback, path: &PathView) {
        let in_flight_bytes = path.in_flight_bytes;
        let now = feedback.now;
        match self.phase {
            Phase::Startup if self.is_full() => self.phase = Phase::Drain,
            Phase::Drain if self.bdp_bytes(1.0).is_some_and(|bytes| in_flight_bytes <= bytes) => {
                self.enter_cycle(now);
            }
            Phase::ProbeRate { step, since } => {
                let gain = CYCLE[step];
                let is_long = self.rtt_min.is_some_and(|(rtt_min, _)| now - since > rtt_min);
                let target = self.bdp_bytes(gain.max(1.0)).unwrap_or(0);
                let is_over = if gain > 1.0 {
                    // At once is not enough: the queue that tells of it has to be there.
                    is_long && (feedback.lost.packets > 0 || feedback.in_flight_bytes_before >= target)
                } else {
                    is_long || (gain < 1.0 && in_flight_bytes <= target)
                };
                if is_over {
                    self.phase = Phase::ProbeRate { step: (step + 1) % CYCLE.len(), since: now };
                }
            }
            _ => {}
        }
    }

    /// Anywhere in the cycle but where it drains: flows that begin together must not probe together.
    fn enter_cycle(&mut self, now: Instant) {
        let step = 2 + (now.as_nanos() / 1000 % 7) as usize;
        self.phase = Phase::ProbeRate { step: step % CYCLE.len(), since: now };
    }

    fn watch_rtt(&mut self, feedback: &Feedback, path: &PathView) {
        let now = feedback.now;
        let is_expired = self.rtt_min.is_some_and(|(_, at)| now - at > RTT_MIN_WINDOW);
        if let Some(rtt) = feedback.rtt
            && self.rtt_min.is_none_or(|(rtt_min, _)| rtt <= rtt_min || is_expired)
        {
            self.rtt_min = Some((rtt, now));
        }
        if is_expired && self.probes_rtt && !matches!(self.phase, Phase::ProbeRtt { .. }) {
            self.kept_bytes = self.recovery.map_or(self.window_bytes, |recovery| recovery.window_bytes);
            self.phase = Phase::ProbeRtt { until: None };
        }
        match self.phase {
            Phase::ProbeRtt { until: None } if path.in_flight_bytes <= self.packets(WINDOW_PACKETS_MIN) => {
                self.phase = Phase::ProbeRtt { until: Some((now + PROBE_RTT_TIME, feedback.round)) };
            }
            Phase::ProbeRtt { until: Some((at, round)) } if now >= at && feedback.round > round => {
                self.rtt_min = self.rtt_min.map(|(rtt_min, _)| (rtt_min, now));
                self.window_bytes = self.window_bytes.max(self.kept_bytes);
                self.few_until = feedback.round + 1;
                if self.is_full() {
                    self.enter_cycle(now);
                } else {
                    self.phase = Phase::Startup;
                }
            }
            _ => {}
        }
    }

    fn watch_losses(&mut self, feedback: &Feedback, path: &PathView) {
        if let Some(recovery) = self.recovery
            && feedback.round >= recovery.round + RECOVERY_ROUNDS
        {
            self.window_bytes = self.window_bytes.max(recovery.window_bytes);
            self.recovery = None;
        }
        if feedback.lost.packets > 0 {
            if self.recovery.is_none() {
                self.recovery = Some(Recovery { round: feedback.round, window_bytes: self.window_bytes });
                self.window_bytes = path.in_flight_bytes.saturating_add(feedback.acked_bytes);
            } else {
                self.window_bytes = self.window_bytes.saturating_sub(feedback.lost.bytes);
            }
        }
    }

    fn set_window(&mut self, feedback: &Feedback, path: &PathView) {
        let min_bytes = self.packets(WINDOW_PACKETS_MIN);
        if matches!(self.phase, Phase::ProbeRtt { .. }) {
            self.window_bytes = min_bytes;
            return;
        }
        let acked_bytes = feedback.acked_bytes;
        let grown_bytes = self.window_bytes.saturating_add(acked_bytes);
        let gain = if matches!(self.phase, Phase::Startup | Phase::Drain) { HIGH_GAIN } else { WINDOW_GAIN };
        let room_bytes = 3 * self.burst_bytes();
        let target = self.bdp_bytes(gain).map(|bytes| bytes.saturating_add(room_bytes));
        let is_conserving = self.recovery.is_some_and(|recovery| recovery.round == feedback.round);
        let window_bytes = if is_conserving {
            self.window_bytes.max(path.in_flight_bytes.saturating_add(acked_bytes))
        } else {
            match target {
                Some(target) if self.is_full() => grown_bytes.min(target),
                Some(target) if self.window_bytes >= target => self.window_bytes,
                _ => grown_bytes,
            }
        };
        self.window_bytes = window_bytes.max(min_bytes);
    }

    /// A millisecond's worth (Linux: tcp_tso_autosize).
    fn burst_bytes(&self) -> u64 {
        let bytes = self.bandwidth().map_or(0, |rate| rate.bytes_in(Duration::from_millis(1)));
        bytes.min(BURST_BYTES_MAX).max(self.packets(2))
    }
}

impl CongestionController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        self.watch_rate(feedback);
        self.step(feedback, path);
        self.watch_rtt(feedback, path);
        self.watch_losses(feedback, path);
        self.set_window(feedback, path);
    }

    /// What silence means is told by the losses that end it.
    fn on_timeout(&mut self, _now: Instant, _count: u32, _path: &PathView) {}

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        *self = Self::new(path.mtu_bytes);
    }

    fn budget(&self) -> SendBudget {
        let initial = self.rtt_min.and_then(|(rtt, _)| Rate::from_bytes_in(self.window_bytes, rtt));
        let pacing = self
            .bandwidth()
            .or(initial)
            .map(|rate| rate.scaled(self.gain() * PACE_MARGIN).max(Rate::from_bytes_per_second(1)));
        SendBudget { window_bytes: self.window_bytes, pacing, burst_bytes: self.burst_bytes() }
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.rate.value().map(Rate::from_bytes_per_second)
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Startup => "startup",
            Phase::Drain => "drain",
            Phase::ProbeRate { .. } => "probe bandwidth",
            Phase::ProbeRtt { .. } => "probe rtt",
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::told::{MTU, acked, at, lost, path};
    use super::*;
    use crate::RateSample;

    const RTT: u64 = 20;

    /// A path that carries a packet a millisecond and has so much under way, told of round by round.
    struct Told {
        bbr: Bbr,
        round: u64,
    }

    impl Told {
        fn new() -> Self {
            Self { bbr: Bbr::new(MTU), round: 0 }
        }

        /// Another round, with so many kilobytes a second delivered and bytes left in flight.
        fn round(&mut self, kilobytes: u64, in_flight_bytes: u64) {
            self.round += 1;
            let now = self.round * RTT;
            let mut feedback = acked(now, now - RTT, kilobytes * RTT);
            feedback.rtt = Some(Duration::from_millis(RTT));
            feedback.round = self.round;
            feedback.in_flight_bytes_before = in_flight_bytes + kilobytes * RTT;
            feedback.rate_sample = Some(RateSample::new(kilobytes * RTT, Duration::from_millis(RTT)));
            let mut path = path();
            path.in_flight_bytes = in_flight_bytes;
            self.bbr.on_feedback(&feedback, &path);
        }

        /// At a thousand kilobytes a second, past start-up.
        fn settled() -> Self {
            let mut told = Self::new();
            for _ in 0..8 {
                told.round(1000, 40_000);
            }
            told.round(1000, 10_000);
            told
        }
    }

    #[test]
    fn start_up_ends_after_three_rounds_without_growth_and_drains() {
        let mut told = Told::new();
        for kilobytes in [100, 200, 400, 800] {
            told.round(kilobytes, 80_000);
            assert_eq!(told.bbr.phase(), "startup");
        }
        for _ in 0..3 {
            told.round(900, 80_000);
        }
        assert_eq!((told.bbr.phase(), told.bbr.gain()), ("drain", 1.0 / HIGH_GAIN));
        told.round(900, 18_000);
        assert_eq!(told.bbr.phase(), "probe bandwidth");
    }

    #[test]
    fn it_paces_at_the_delivered_rate_and_keeps_two_products() {
        let mut told = Told::settled();
        let mut gains = Vec::new();
        for _ in 0..16 {
            told.round(1000, 25_000);
            told.round(1000, 25_000);
            gains.push(told.bbr.gain());
        }
        assert!(gains.contains(&1.25) && gains.contains(&0.75), "{gains:?}");
        assert_eq!(told.bbr.bandwidth(), Some(Rate::from_bytes_per_second(1_000_000)));
        // 1 MB/s for 20 ms, twice, and three bursts of two packets.
        assert_eq!(told.bbr.budget().window_bytes, 46_000);
    }

    #[test]
    fn loss_holds_it_for_a_round_and_no_longer() {
        let mut told = Told::settled();
        for _ in 0..4 {
            told.round(1000, 20_000);
        }
        let before = told.bbr.budget().window_bytes;
        let mut feedback = lost(told.round * RTT, told.round * RTT - 10, 10);
        feedback.round = told.round;
        let mut path = path();
        path.in_flight_bytes = 12_000;
        told.bbr.on_feedback(&feedback, &path);
        assert_eq!(told.bbr.budget().window_bytes, 12_000);
        told.round(1000, 20_000);
        told.round(1000, 20_000);
        assert_eq!(told.bbr.budget().window_bytes, before);
        assert_eq!(told.bbr.bandwidth(), Some(Rate::from_bytes_per_second(1_000_000)));
    }

    #[test]
    fn after_ten_seconds_four_packets_look_for_the_shortest_round_trip() {
        let mut told = Told::settled();
        while told.bbr.phase() != "probe rtt" {
            // The round trips of the test are all the same: those that confirm it are left out.
            told.round += 1;
            let now = told.round * RTT;
            let mut feedback = acked(now, now - RTT, 20_000);
            feedback.round = told.round;
            let mut path = path();
            path.in_flight_bytes = 30_000;
            told.bbr.on_feedback(&feedback, &path);
            assert!(at(now) < at(20_000), "never");
        }
        assert_eq!(told.bbr.budget().window_bytes, 4000);
        let began = told.round;
        while told.bbr.phase() == "probe rtt" {
            told.round(200, 4000);
        }
        assert!((10..=12).contains(&(told.round - began)), "200 ms of {RTT}");
        assert!(told.bbr.budget().window_bytes >= 40_000);
    }
}
