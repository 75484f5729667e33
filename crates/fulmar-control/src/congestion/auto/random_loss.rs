//! The random loss: the loss that has nothing to do with our rate, and may therefore be compensated.
//!
//! Random loss does not care how fast we send; congestion loss does. So the random loss is measured only in
//! rounds that were sent below the bottleneck rate and found the queue drained (*clean* rounds), and it is a
//! low quantile over the last of them: another flow's congestion comes in rare clusters, which a quantile
//! does not see. A round of few packets says nothing, so rounds are pooled until there are enough.
//!
//! "Loss, hence a higher rate, hence more loss" cannot happen: the random loss is measured at less than the
//! rate it would compensate. If it was too high by chance, the next clean rounds are sent just below a rate
//! that is too high, lose less than it says, and lower it. It is bounded, and decays without clean rounds.
//!
//! And the random loss is never clearly above what was lost in the rounds sent slowest, at three quarters of
//! the rate, nor above what was lost in all: where others leave few rounds clean, those are too few to tell.
//!
//! Invariants: 0 <= rate <= `RANDOM_LOSS_MAX`; a constant number of operations per round.

use core::time::Duration;

use fulmar_units::Instant;

use crate::{Channel, LossView};

/// More than this is never taken for random.
pub(super) const RANDOM_LOSS_MAX: f64 = 0.5;
/// Clean samples remembered.
const SAMPLES: usize = 24;
/// Rounds are pooled until a sample has this many packets, and as many times more as bursts widen the
/// variance: at p = 5 % that is a standard error of 2 percentage points.
const SAMPLE_PACKETS: f64 = 96.0;
/// Which of the sorted samples is the random loss, as a share of their number. The median would follow a
/// cluster in every other round, a low decile would lag behind the true rate by more than a standard error.
const QUANTILE: f64 = 0.4;
/// So long after the last clean round the random loss begins to fall by half in every such time.
const HALF_LIFE: Duration = Duration::from_secs(4);
/// Slow rounds remembered, about one per probing cycle ..
const SLOW_ROUNDS: f64 = 8.0;
/// .. or packets, where rounds have few.
const SLOW_PACKETS: f64 = 256.0;
/// They bound the random loss once they have so many packets ..
const SLOW_PACKETS_MIN: f64 = 32.0;
/// .. at so many standard errors above their mean.
const SLOW_SIGMAS: f64 = 2.0;
/// All rounds bound it as well: packets remembered, the fewest that count, standard errors above their mean.
const ALL_PACKETS: f64 = 3000.0;
const ALL_PACKETS_MIN: f64 = 256.0;
const ALL_SIGMAS: f64 = 1.0;
/// A random loss lowered by more than this was wrong, not noisy.
const CUT_MIN: f64 = 0.02;

/// Packets of the last rounds, and those of them that were lost, forgotten exponentially.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) packets: f64,
    pub(super) lost_packets: f64,
}

impl Rounds {
    /// A round of `packets`; about `span_packets`, at least as many, are remembered.
    pub(super) fn add(&mut self, packets: f64, lost_packets: f64, span_packets: f64) {
        let kept = 1.0 - packets / span_packets;
        self.packets = self.packets * kept + packets;
        self.lost_packets = self.lost_packets * kept + lost_packets;
    }

    /// What of them was lost.
    pub(super) fn share(&self) -> f64 {
        self.lost_packets / self.packets.max(1.0)
    }

    /// The highest rate that they agree with, `sigmas` standard errors above their mean.
    fn highest(&self, loss: &LossView, sigmas: f64) -> f64 {
        // One pseudo-loss, or no loss at all would be believed to be certain.
        let mean = ((self.lost_packets + 1.0) / (self.packets + 1.0)).min(1.0);
        mean + sigmas * libm::sqrt(mean * (1.0 - mean) * stretch(mean, loss) / self.packets.max(1.0))
    }
}

/// The estimator of the random loss.
#[derive(Clone, Debug)]
pub(super) struct RandomLoss {
    samples: [f64; SAMPLES],
    len: usize,
    next: usize,
    packets: u32,
    lost_packets: u32,
    measured_at: Option<Instant>,
    /// The longest that the shortest round trip was while it was measured.
    rtt_min: Duration,
    /// Those sent well below the rate.
    slow: Rounds,
    /// All, whatever their pace.
    all: Rounds,
    rate: f64,
}

impl RandomLoss {
    pub(super) fn new() -> Self {
        Self {
            samples: [0.0; SAMPLES],
            len: 0,
            next: 0,
            packets: 0,
            lost_packets: 0,
            measured_at: None,
            rtt_min: Duration::ZERO,
            slow: Rounds::default(),
            all: Rounds::default(),
            rate: 0.0,
        }
    }

    /// It rests on more than the first few packets.
    pub(super) fn is_measured(&self) -> bool {
        self.len > 0
    }

    /// The random loss, 0 to [`RANDOM_LOSS_MAX`].
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// The longest that the shortest round trip was while the random loss was measured; zero if it was not.
    pub(super) fn rtt_min(&self) -> Duration {
        self.rtt_min
    }

    /// A clean round settled `packets`, of which `lost_packets` were lost, above a shortest round trip of
    /// `rtt_min`.
    pub(super) fn on_clean_round(
        &mut self,
        now: Instant,
        packets: u32,
        lost_packets: u32,
        rtt_min: Duration,
        loss: &LossView,
    ) {
        self.rtt_min = self.rtt_min.max(rtt_min);
        self.packets = self.packets.saturating_add(packets);
        self.lost_packets = self.lost_packets.saturating_add(lost_packets);
        self.measured_at = Some(now);
        let rate = f64::from(self.lost_packets) / f64::from(self.packets.max(1));
        if f64::from(self.packets) >= SAMPLE_PACKETS * stretch(loss.rate, loss) {
            self.samples[self.next] = rate;
            self.next = (self.next + 1) % SAMPLES;
            self.len = (self.len + 1).min(SAMPLES);
            self.packets = 0;
            self.lost_packets = 0;
            self.rate = self.quantile().min(RANDOM_LOSS_MAX);
            self.limit(loss);
        } else if self.len == 0 {
            // The first flights: what they lost while the pipe was not full is all there is to know.
            self.rate = rate.min(RANDOM_LOSS_MAX);
            self.limit(loss);
        }
    }

    /// A round, at whatever pace: what the path loses by itself is among its losses.
    pub(super) fn on_round(&mut self, packets: u32, lost_packets: u32, loss: &LossView) {
        self.all.add(packets.into(), lost_packets.into(), ALL_PACKETS.max(packets.into()));
        self.limit(loss);
    }

    /// A round sent well below the rate settled `packets`, of which `lost_packets` were lost. If that is
    /// clearly less than the random loss, part of the random loss was our own doing, however clean the rounds
    /// looked: returns true.
    pub(super) fn on_slow_round(&mut self, packets: u32, lost_packets: u32, loss: &LossView) -> bool {
        let before = self.rate;
        let newest = Rounds { packets: packets.into(), lost_packets: lost_packets.into() };
        self.slow.add(newest.packets, newest.lost_packets, (SLOW_ROUNDS * newest.packets).max(SLOW_PACKETS));
        self.limit(loss);
        // A round that alone is clearly below what the earlier ones said shows that we have slowed down
        // enough only now.
        let highest = newest.highest(loss, SLOW_SIGMAS + 0.5);
        if newest.packets >= SLOW_PACKETS_MIN && highest < self.rate {
            self.rate = highest;
            self.slow = newest;
        }
        let is_cut = self.rate < before - CUT_MIN;
        if is_cut {
            // The clean rounds that said otherwise were not.
            self.len = 0;
            self.packets = 0;
            self.lost_packets = 0;
        }
        is_cut
    }

    /// The rate stays below what slow rounds allow, and all of them.
    fn limit(&mut self, loss: &LossView) {
        if self.slow.packets >= SLOW_PACKETS_MIN {
            self.rate = self.rate.min(self.slow.highest(loss, SLOW_SIGMAS));
        }
        if self.all.packets >= ALL_PACKETS_MIN {
            self.rate = self.rate.min(self.all.highest(loss, ALL_SIGMAS));
        }
    }

    /// A round that was not clean: the random loss grows stale.
    pub(super) fn on_unclean_round(&mut self, now: Instant, elapsed: Duration) {
        let is_stale = self.measured_at.is_none_or(|at| now - at > HALF_LIFE);
        if is_stale {
            self.rate *= libm::exp2(-(elapsed.as_secs_f64() / HALF_LIFE.as_secs_f64()).min(1.0));
        }
    }

    fn quantile(&self) -> f64 {
        let mut sorted = self.samples;
        let sorted = &mut sorted[..self.len];
        sorted.sort_unstable_by(f64::total_cmp);
        // Interpolated, so that the random loss does not jump between neighbours.
        let position = QUANTILE * (self.len - 1) as f64;
        let below = position as usize;
        let above = (below + 1).min(self.len - 1);
        sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
    }

    /// Most losses among `packets` that the random loss still explains, `sigmas` standard deviations above
    /// its mean.
    pub(super) fn explained_packets(&self, packets: u32, loss: &LossView, sigmas: f64) -> f64 {
        let (n, p) = (f64::from(packets), self.rate);
        n * p + sigmas * libm::sqrt(n * p * (1.0 - p) * stretch(p, loss))
    }
}

/// By how much bursts as long as the path's widen the variance of a number of losses at loss rate `rate`.
pub(super) fn stretch(rate: f64, loss: &LossView) -> f64 {
    Channel::new(&LossView { rate, ..*loss }).variance_stretch()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEPENDENT: LossView = LossView { rate: 0.2, burst_packets: 1.25, weight_packets: 1000.0 };

    const RTT: Duration = Duration::from_millis(20);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn clusters_of_other_flows_are_not_random_loss() {
        let mut loss = RandomLoss::new();
        for round in 0..100 {
            loss.on_clean_round(at(round), 150, if round % 4 == 0 { 30 } else { 0 }, RTT, &INDEPENDENT);
        }
        assert_eq!(loss.rate(), 0.0);
    }

    #[test]
    fn steady_loss_is_the_paths_and_small_rounds_are_pooled() {
        let mut loss = RandomLoss::new();
        for round in 0..600 {
            loss.on_clean_round(at(round), 10, 1, RTT, &INDEPENDENT);
        }
        assert!((loss.rate() - 0.1).abs() < 1e-9, "{}", loss.rate());
        for round in 600..1000 {
            loss.on_clean_round(at(round), 10, 0, RTT, &INDEPENDENT);
        }
        assert_eq!(loss.rate(), 0.0);
    }

    #[test]
    fn it_is_bounded_and_decays_when_unmeasured() {
        let mut loss = RandomLoss::new();
        for round in 0..50 {
            loss.on_clean_round(at(round), 100, 90, RTT, &INDEPENDENT);
        }
        assert_eq!(loss.rate(), RANDOM_LOSS_MAX);
        loss.on_unclean_round(at(4_000), Duration::from_secs(4));
        assert_eq!(loss.rate(), RANDOM_LOSS_MAX);
        loss.on_unclean_round(at(8_000), HALF_LIFE);
        assert_eq!(loss.rate(), RANDOM_LOSS_MAX / 2.0);
    }

    #[test]
    fn bursts_widen_what_is_explained() {
        let mut loss = RandomLoss::new();
        for round in 0..50 {
            loss.on_clean_round(at(round), 100, 20, RTT, &INDEPENDENT);
        }
        // 0.2 * 100 + 2 * sqrt(100 * 0.2 * 0.8) = 28.
        assert!((loss.explained_packets(100, &INDEPENDENT, 2.0) - 28.0).abs() < 1e-9);
        let bursty = LossView { burst_packets: 10.0, ..INDEPENDENT };
        // rho = 1 - 1/8 = 0.875, variance 15 times: 20 + 2 * sqrt(240) = 50.98.
        assert!((loss.explained_packets(100, &bursty, 2.0) - 50.98).abs() < 0.01);
    }

    #[test]
    fn it_is_not_above_what_is_lost_in_all() {
        // The one clean round lost eight by chance; of all rounds one in fifty is lost, and 0.0207 +
        // sqrt(0.0207 * 0.9793 * (1 + rho) / (1 - rho) / 3000) is the most they agree with.
        let mut loss = RandomLoss::new();
        loss.on_clean_round(at(0), 100, 8, RTT, &INDEPENDENT);
        assert_eq!(loss.rate(), 0.08);
        for _ in 0..400 {
            loss.on_round(50, 1, &INDEPENDENT);
        }
        assert!((0.021..0.0245).contains(&loss.rate()), "{}", loss.rate());
    }

    #[test]
    fn loss_that_vanishes_when_we_slow_down_was_ours() {
        let mut loss = RandomLoss::new();
        for round in 0..50 {
            loss.on_clean_round(at(round), 200, 60, RTT, &INDEPENDENT);
        }
        assert_eq!(loss.rate(), 0.3);
        assert!(loss.on_slow_round(150, 0, &INDEPENDENT));
        // (0 + 1) / 151 and two standard errors of 0.81 points each at rho = 0.19.
        assert!(loss.rate() < 0.025, "{}", loss.rate());
        // Slow rounds that lose as much change nothing.
        let mut loss = RandomLoss::new();
        for round in 0..50 {
            loss.on_clean_round(at(round), 200, 60, RTT, &INDEPENDENT);
            assert!(!loss.on_slow_round(150, 45, &INDEPENDENT));
        }
        assert_eq!(loss.rate(), 0.3);
    }
}
