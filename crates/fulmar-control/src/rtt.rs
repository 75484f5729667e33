//! How long a round trip takes, how much it varies, and how long to wait for an answer.
//!
//! Source: RFC 9002 sections 5 and 6.2.1 (estimate, probe timeout), RFC 6298 (retransmission timeout). The
//! arithmetic of both RFCs is the same exponential filter (1/8 for the mean, 1/4 for the variation); they
//! differ in whether the peer's ACK delay is taken out and in the bounds of the timer.
//!
//! Inputs: RTT samples of the newest packet newly acknowledged, and the ACK delay the peer reports. Samples
//! of zero are raised to one nanosecond. Invariants: `min() <= latest()` of every sample inside the window;
//! the smoothed value lies between the smallest and the largest sample; no timeout is shorter than one
//! granule.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use crate::PathView;
use crate::windowed::WindowedMin;

/// RFC 9002 6.1.2: timers are not finer than this.
pub const GRANULARITY: Duration = Duration::from_millis(1);
/// RFC 9002 6.2.2: assumed before the first sample.
pub const INITIAL_RTT: Duration = Duration::from_millis(333);
/// RFC 6298 (2.1): the retransmission timeout before there is a sample.
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// RFC 6298 (2.4): a retransmission timeout is at least this long.
pub const RTO_MIN: Duration = Duration::from_secs(1);
/// RFC 6298 (2.5): a maximum, if there is one, is at least this long.
pub const RTO_MAX: Duration = Duration::from_secs(60);
/// A doubled timeout is never doubled more often than this.
const BACKOFF_MAX: u32 = 16;

/// A timeout of `first`, doubled for each of `expiries` in a row (RFC 6298 5.5, RFC 9002 6.2.1): at most
/// `max`, but never below `first`.
pub fn backed_off(first: Duration, expiries: u32, max: Duration) -> Duration {
    // Asked for with every packet, and then nothing has expired.
    if expiries == 0 {
        return first;
    }
    first.saturating_mul(1 << expiries.min(BACKOFF_MAX)).min(max.max(first))
}

/// How the variation of the round-trip time follows deviations.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Variation {
    /// A filter of 1/4, up and down (RFC 6298 2.3, RFC 9002 5.3).
    #[default]
    Mean,
    /// Up at once to the largest deviation, down by the filter: timeouts are not late for a path that
    /// became slow, and stay long for a while (Sarolahti and Kuznetsov, Congestion Control in Linux TCP,
    /// 2002, section 4).
    Peak,
}

/// Round-trip time of one path.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    variation: Variation,
    latest: Duration,
    smoothed: Duration,
    var: Duration,
    min: MinRtt,
    has_sample: bool,
}

/// The smallest RTT, over the life of the path or over a window.
#[derive(Clone, Debug)]
enum MinRtt {
    Forever(Duration),
    Windowed(WindowedMin),
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl RttEstimator {
    /// An estimator whose minimum is that of the path's whole life (RFC 9002 5.2).
    pub fn new() -> Self {
        Self::with_min(MinRtt::Forever(Duration::MAX))
    }

    /// An estimator whose minimum is that of the last `window`, so that it follows a route that became
    /// longer.
    pub fn with_min_window(window: Duration) -> Self {
        Self::with_min(MinRtt::Windowed(WindowedMin::new(whole_nanos(window))))
    }

    fn with_min(min: MinRtt) -> Self {
        let (latest, smoothed, var) = (INITIAL_RTT, INITIAL_RTT, INITIAL_RTT / 2);
        Self { variation: Variation::default(), latest, smoothed, var, min, has_sample: false }
    }

    /// The same with another rule for the variation.
    pub fn with_variation(self, variation: Variation) -> Self {
        Self { variation, ..self }
    }

    /// Takes a sample. `ack_delay` is what the peer says it waited, already limited to the `max_ack_delay` it
    /// promised (RFC 9002 5.3).
    pub fn on_sample(&mut self, now: Instant, latest: Duration, ack_delay: Duration) {
        let latest = latest.max(Duration::from_nanos(1));
        self.latest = latest;
        match &mut self.min {
            // RFC 9002 5.2: the ACK delay is not taken out of the minimum, which would allow a peer to make
            // it too small.
            MinRtt::Forever(min) => *min = latest.min(*min),
            MinRtt::Windowed(filter) => filter.update(now.as_nanos(), whole_nanos(latest)),
        }
        if !self.has_sample {
            // RFC 9002 5.3, RFC 6298 (2.2).
            self.has_sample = true;
            self.smoothed = latest;
            self.var = latest / 2;
            return;
        }
        let adjusted = if latest >= self.min() + ack_delay { latest - ack_delay } else { latest };
        // RFC 9002 5.3: the variation is taken against the old mean, then the mean moves.
        let deviation = self.smoothed.abs_diff(adjusted);
        self.var = (self.var * 3 + deviation) / 4;
        if self.variation == Variation::Peak {
            self.var = self.var.max(deviation);
        }
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// Forgets the path (migration, RFC 9002 5: a new path starts anew).
    pub fn reset(&mut self) {
        let min = match &self.min {
            MinRtt::Forever(_) => MinRtt::Forever(Duration::MAX),
            MinRtt::Windowed(filter) => {
                let mut filter = filter.clone();
                filter.reset();
                MinRtt::Windowed(filter)
            }
        };
        *self = Self::with_min(min).with_variation(self.variation);
    }

    /// The newest sample, ACK delay included; [`INITIAL_RTT`] before the first.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The smoothed RTT; [`INITIAL_RTT`] before the first sample.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The mean deviation; half of [`INITIAL_RTT`] before the first sample.
    pub fn var(&self) -> Duration {
        self.var
    }

    /// The smallest sample; [`INITIAL_RTT`] before the first.
    pub fn min(&self) -> Duration {
        match &self.min {
            MinRtt::Forever(Duration::MAX) => INITIAL_RTT,
            MinRtt::Forever(min) => *min,
            MinRtt::Windowed(filter) => filter.value().map_or(INITIAL_RTT, Duration::from_nanos),
        }
    }

    /// There has been a sample.
    pub fn has_sample(&self) -> bool {
        self.has_sample
    }

    /// The larger of the newest and the smoothed RTT, on which time-threshold loss detection rests (RFC 9002
    /// 6.1.2).
    pub fn conservative(&self) -> Duration {
        self.latest.max(self.smoothed)
    }

    /// By when an answer that is not delayed has come: SRTT + max(G, 4 RTTVAR) (RFC 6298 2.3, RFC 9002
    /// 6.2.1).
    pub fn answered_within(&self) -> Duration {
        self.smoothed + (self.var * 4).max(GRANULARITY)
    }

    /// How long to wait for an ACK before probing, after `expiries` probe timeouts in a row (RFC 9002 6.2.1).
    /// `max_ack_delay` is zero while the handshake lasts.
    pub fn probe_timeout(&self, max_ack_delay: Duration, expiries: u32) -> Duration {
        backed_off(self.answered_within() + max_ack_delay, expiries, Duration::MAX)
    }

    /// The retransmission timeout of RFC 6298, not yet [backed off](backed_off): within `min` and `max`
    /// ([`RTO_MIN`] and [`RTO_MAX`] by the RFC), and `initial` ([`RTO_INITIAL`]) before the first sample
    /// (2.1).
    pub fn retransmission_timeout(&self, initial: Duration, min: Duration, max: Duration) -> Duration {
        if self.has_sample { self.answered_within().max(min).min(max) } else { initial }
    }

    /// Copies what is known into `path`.
    pub fn fill(&self, path: &mut PathView) {
        path.rtt_latest = self.latest;
        path.rtt_smoothed = self.smoothed;
        path.rtt_var = self.var;
        path.rtt_min = self.min();
        path.has_rtt_sample = self.has_sample;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn first_sample_sets_the_mean_and_half_of_it_the_variation() {
        let mut rtt = RttEstimator::new();
        assert_eq!(
            (rtt.smoothed(), rtt.var(), rtt.min(), rtt.has_sample()),
            (ms(333), ms(333) / 2, ms(333), false)
        );
        rtt.on_sample(Instant::ZERO, ms(80), ms(20));
        assert_eq!((rtt.smoothed(), rtt.var(), rtt.min(), rtt.latest()), (ms(80), ms(40), ms(80), ms(80)));
        // 80 + 4 * 40 + 25 = 265, doubled twice.
        assert_eq!(rtt.probe_timeout(ms(25), 0), ms(265));
        assert_eq!(rtt.probe_timeout(ms(25), 2), ms(1060));
    }

    #[test]
    fn later_samples_follow_the_filter_with_the_ack_delay_taken_out() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, ms(80), ms(0));
        rtt.on_sample(Instant::ZERO, ms(120), ms(24));
        // adjusted 96; var = (3 * 40 + |80 - 96|) / 4 = 34; smoothed = (7 * 80 + 96) / 8 = 82.
        assert_eq!((rtt.smoothed(), rtt.var(), rtt.latest()), (ms(82), ms(34), ms(120)));
        // 90 < 80 + 24: the delay is not taken out. var = (102 + 8) / 4 = 27.5; smoothed = (574 + 90) / 8 =
        // 83.
        rtt.on_sample(Instant::ZERO, ms(90), ms(24));
        assert_eq!((rtt.smoothed(), rtt.var()), (ms(83), Duration::from_micros(27_500)));
        assert_eq!(rtt.min(), ms(80));
        assert_eq!(rtt.conservative(), ms(90));
    }

    #[test]
    fn by_its_peak_the_variation_rises_at_once_and_falls_by_the_filter() {
        let mut rtt = RttEstimator::new().with_variation(Variation::Peak);
        for latest in [80, 80, 200] {
            rtt.on_sample(Instant::ZERO, ms(latest), ms(0));
        }
        assert_eq!((rtt.smoothed(), rtt.var()), (ms(95), ms(120)));
        rtt.on_sample(Instant::ZERO, ms(95), ms(0));
        assert_eq!(rtt.var(), ms(90));
        rtt.reset();
        for latest in [80, 200] {
            rtt.on_sample(Instant::ZERO, ms(latest), ms(0));
        }
        assert_eq!(rtt.var(), ms(120), "another path, the same rule");
    }

    #[test]
    fn a_steady_path_waits_at_least_one_granule_more() {
        let mut rtt = RttEstimator::new();
        for _ in 0..200 {
            rtt.on_sample(Instant::ZERO, ms(10), ms(0));
        }
        assert!(rtt.probe_timeout(ms(0), 0) >= ms(11));
        assert!(rtt.probe_timeout(ms(0), 0) < Duration::from_micros(11_001));
        assert!(rtt.probe_timeout(ms(25), u32::MAX) > ms(25));
    }

    #[test]
    fn rto_is_bounded_below_and_above() {
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.retransmission_timeout(RTO_INITIAL, RTO_MIN, RTO_MAX), ms(1000));
        rtt.on_sample(Instant::ZERO, ms(100), ms(0));
        // 100 + 4 * 50 = 300 is below the minimum.
        assert_eq!(rtt.retransmission_timeout(RTO_INITIAL, RTO_MIN, RTO_MAX), ms(1000));
        assert_eq!(rtt.retransmission_timeout(RTO_INITIAL, ms(200), RTO_MAX), ms(300));
        assert_eq!(rtt.retransmission_timeout(RTO_INITIAL, ms(200), ms(250)), ms(250));
        assert_eq!(backed_off(ms(300), 0, RTO_MAX), ms(300));
        assert_eq!(backed_off(ms(300), 3, RTO_MAX), ms(2400));
        assert_eq!(backed_off(ms(300), 10, RTO_MAX), RTO_MAX);
        assert_eq!(backed_off(ms(300), u32::MAX, ms(200)), ms(300), "never below the first");
    }

    #[test]
    fn a_windowed_minimum_follows_a_longer_route() {
        let mut rtt = RttEstimator::with_min_window(Duration::from_secs(10));
        rtt.on_sample(Instant::ZERO, ms(20), ms(0));
        for second in 1..=12 {
            rtt.on_sample(Instant::ZERO + Duration::from_secs(second), ms(50), ms(0));
        }
        assert_eq!(rtt.min(), ms(50));
        rtt.reset();
        assert_eq!((rtt.min(), rtt.has_sample()), (INITIAL_RTT, false));
    }

    #[test]
    fn a_sample_of_zero_does_no_harm() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, Duration::ZERO, ms(5));
        rtt.on_sample(Instant::ZERO, Duration::ZERO, ms(5));
        assert!(rtt.min() > Duration::ZERO && rtt.probe_timeout(ms(0), 0) >= GRANULARITY);
    }
}
