//! The model of the path: the bottleneck's rate *on the wire*, and the round trip without queues.
//!
//! BBR paces at the delivered rate, which under random loss p is C (1 - p); it then delivers C (1 - p)^2.
//! Here a sample of the delivery rate D, taken while a share s of the packets was lost, counts as
//! D / (1 - min(s, random loss)): what the link carried before the random loss took its part. Loss above the
//! random loss is never compensated, so a queue that overflows does not look like capacity; and a sample
//! that happened to lose less than the random loss is compensated by what it lost, so the maximum filter
//! does not pick the luckiest sample (which at p = 20 % and 170 packets a round would be 8 % too high).
//!
//! The rate is the maximum of the last two probing cycles (BBRv3), bounded by what congestion showed since
//! the last probe. The round trip is the minimum of the last ten seconds; where jitter hides that from all
//! but a few packets (`jitter`), what the others take in an empty path fills it.

use core::time::Duration;

use fulmar_units::{Instant, Rate, whole_nanos};

use crate::RateSample;
use crate::windowed::{WindowedMax, WindowedMin};

/// BBRv1 4.1.1.2: so long a minimum stays valid. A route that became longer is believed after it.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);
/// A sample within this factor of the minimum confirms it, or within the jitter of the path.
const RTT_CONFIRM: f64 = 1.05;
/// So much longer than the rest of a packet should take.
const REST_SLACK: f64 = 1.25;
/// A packet that lacks no more than this part of what it may have is full: those of data seldom have the last
/// byte of it.
const NEARLY: u32 = 32;
/// Where fewer packets fill the path that may be all of its queue, and the rate that a round shows is of so
/// few that it is often too high.
const NARROW_PACKETS: u64 = 16;

/// Bottleneck rate and base round trip.
#[derive(Clone, Debug)]
pub(super) struct Model {
    rate: WindowedMax,
    /// Bound from congestion seen since the last probe (BBRv3's bw_lo).
    rate_bound: Option<Rate>,
    cycle: u64,
    rtt_min: WindowedMin,
    /// The same of packets of `full_bytes` alone, what the peer held back left out.
    full_rtt_min: WindowedMin,
    full_bytes: u32,
    /// Size of the packet that had the shortest of all.
    shortest_bytes: u32,
    rtt_confirmed_at: Option<Instant>,
    /// Round trip of many packets that meet jitter and nothing else, where there is some: see `jitter`.
    jittered_rtt: Option<Duration>,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            rate: WindowedMax::new(1),
            rate_bound: None,
            cycle: 0,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW.as_nanos() as u64),
            full_rtt_min: WindowedMin::new(RTT_MIN_WINDOW.as_nanos() as u64),
            full_bytes: 0,
            shortest_bytes: 0,
            rtt_confirmed_at: None,
            jittered_rtt: None,
        }
    }

    /// Takes a sample, where round trips vary by `spread` without a queue.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Duration, spread: Duration) {
        let nanos = whole_nanos(rtt);
        self.rtt_min.update(now.as_nanos(), nanos);
        let min = self.rtt_min().unwrap_or(rtt);
        if rtt <= min.mul_f64(RTT_CONFIRM).max(min + spread) {
            self.rtt_confirmed_at = Some(now);
        }
    }

    /// The route became longer.
    pub(super) fn on_longer_route(&mut self, now: Instant, rtt: Duration) {
        self.rtt_min.reset();
        self.full_rtt_min.reset();
        self.rtt_min.update(now.as_nanos(), whole_nanos(rtt));
        self.rtt_confirmed_at = Some(now);
    }

    /// Takes the round trip of a packet of `bytes` where they may have `mtu_bytes`.
    pub(super) fn on_packet_rtt(&mut self, now: Instant, rtt: Duration, bytes: u32, mtu_bytes: u32) {
        if self.full_bytes != mtu_bytes {
            self.full_bytes = mtu_bytes;
            self.full_rtt_min.reset();
        }
        if self.rtt_min().is_some_and(|min| rtt <= min) {
            self.shortest_bytes = bytes;
        }
        // On a narrow path a queue of two packets is no more than a packet's own size makes of a round trip:
        // what it drops would pass for the path's.
        let is_nearly = bytes >= mtu_bytes - mtu_bytes / NEARLY;
        if bytes >= mtu_bytes || (is_nearly && self.is_narrow(mtu_bytes) == Some(false)) {
            self.full_rtt_min.update(now.as_nanos(), whole_nanos(rtt));
        }
    }

    /// The rate of the link that a sample shows. One shorter than a round trip shows ACKs bunched on their
    /// way rather than the bottleneck (BBR draft 4.1.2), and none is returned.
    pub(super) fn link_rate(&self, sample: &RateSample, random_loss: f64) -> Option<Rate> {
        (sample.interval >= self.rtt_min()?).then(|| link_rate(sample, random_loss))
    }

    /// Takes a sample; returns the rate of the link it shows.
    pub(super) fn on_rate(&mut self, sample: &RateSample, random_loss: f64) -> Option<Rate> {
        let link_rate = self.link_rate(sample, random_loss)?;
        self.on_link_rate(link_rate, sample.is_app_limited);
        Some(link_rate)
    }

    /// The link showed this rate.
    pub(super) fn on_link_rate(&mut self, rate: Rate, is_app_limited: bool) {
        let is_known = self.rate.value().is_some_and(|known| rate.bytes_per_second() < known);
        if !(is_app_limited && is_known) {
            self.rate.update(self.cycle, rate.bytes_per_second());
        }
    }

    /// So much arrived, which no sample covers: less than a round trip of it.
    pub(super) fn on_share(&mut self, rate: Rate) {
        self.rate.update(self.cycle, rate.bytes_per_second());
    }

    /// A probing cycle ends: what was measured two cycles ago is forgotten.
    pub(super) fn next_cycle(&mut self) {
        self.cycle += 1;
    }

    /// What samples were compensated for was not random: what they say is worth `factor` of it.
    pub(super) fn rescale(&mut self, factor: f64) {
        if let Some(rate) = self.rate.value() {
            self.rate.reset();
            self.rate.update(self.cycle, (rate as f64 * factor) as u64);
        }
    }

    /// The link carries no more than `rate` of ours.
    pub(super) fn lower(&mut self, rate: Rate) {
        if self.rate.value().is_some_and(|known| known > rate.bytes_per_second()) {
            self.rate.reset();
            self.rate.update(self.cycle, rate.bytes_per_second());
        }
    }

    /// Congestion was seen while not probing: no more than `rate` until the next probe.
    pub(super) fn bound_rate(&mut self, rate: Rate) {
        let bound = self.rate_bound.unwrap_or(rate).min(rate);
        self.rate_bound = Some(bound);
    }

    pub(super) fn unbound_rate(&mut self) {
        self.rate_bound = None;
    }

    /// Rate of the bottleneck on the wire, as far as it is ours.
    pub(super) fn rate(&self) -> Option<Rate> {
        let rate = Rate::from_bytes_per_second(self.rate.value()?);
        Some(self.rate_bound.map_or(rate, |bound| bound.min(rate)))
    }

    /// Round trip without queues.
    pub(super) fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min.value().map(Duration::from_nanos)
    }

    /// The same for packets as large as they may be. Those of the handshake are shorter, and on a slow link
    /// so are their round trips, but by no more than the rest of them takes.
    pub(super) fn full_rtt_min(&self) -> Option<Duration> {
        let min = self.rtt_min()?;
        let full = self.full_rtt_min.value().map(Duration::from_nanos);
        let rest = self.rate()?.time_for(u64::from(self.full_bytes.saturating_sub(self.shortest_bytes)));
        // The rate is a maximum, and may be a little too high.
        let is_right = |full: &Duration| (min..=min + rest.mul_f64(REST_SLACK)).contains(full);
        Some(full.filter(is_right).unwrap_or(min))
    }

    /// How long the round trip of an empty path is where so many packets are under way, or `None` without
    /// jitter.
    pub(super) fn set_jittered_rtt(&mut self, rtt: Option<Duration>) {
        self.jittered_rtt = rtt;
    }

    pub(super) fn is_jittered(&self) -> bool {
        self.jittered_rtt.is_some()
    }

    /// What a full packet's round trip takes where nothing waits.
    pub(super) fn empty_rtt(&self) -> Option<Duration> {
        Some(self.with_jitter(self.full_rtt_min()?))
    }

    /// No less than what jitter makes of it.
    fn with_jitter(&self, rtt: Duration) -> Duration {
        rtt.max(self.jittered_rtt.unwrap_or_default())
    }

    /// The minimum was last seen (within a few per cent) at least `age` ago.
    pub(super) fn is_rtt_min_older_than(&self, now: Instant, age: Duration) -> bool {
        self.rtt_confirmed_at.is_some_and(|at| now - at >= age)
    }

    /// Bytes that fill the path and no queue; lost packets count, for they travelled.
    pub(super) fn bdp_bytes(&self) -> Option<u64> {
        Some(self.rate()?.bytes_in(self.with_jitter(self.rtt_min()?)))
    }

    /// A few packets of `mtu_bytes` fill the path; `None` as long as that is not known.
    pub(super) fn is_narrow(&self, mtu_bytes: u32) -> Option<bool> {
        Some(self.bdp_bytes()? < NARROW_PACKETS * u64::from(mtu_bytes))
    }
}

/// What the link carried while `sample` was taken: what arrived, and what was lost on the way up to the
/// random loss.
pub(super) fn link_rate(sample: &RateSample, random_loss: f64) -> Rate {
    let resolved_bytes = sample.delivered_bytes.saturating_add(sample.lost_bytes);
    let lost_share = sample.lost_bytes as f64 / resolved_bytes.max(1) as f64;
    sample.rate.scaled(1.0 / (1.0 - lost_share.min(random_loss)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_path() -> Model {
        let mut model = Model::new();
        model.on_rtt(Instant::ZERO, Duration::from_millis(20), Duration::ZERO);
        model
    }

    fn sample(delivered: u64, lost: u64) -> RateSample {
        let mut sample = RateSample::new(delivered, Duration::from_secs(1));
        sample.lost_bytes = lost;
        sample
    }

    #[test]
    fn only_loss_up_to_the_random_loss_is_compensated() {
        let mut model = on_a_path();
        assert_eq!(model.on_rate(&sample(800, 200), 0.2), Some(Rate::from_bytes_per_second(1000)));
        // Lucky: compensated by what it lost. Congested: by the random loss only.
        assert_eq!(model.on_rate(&sample(900, 100), 0.2), Some(Rate::from_bytes_per_second(1000)));
        assert_eq!(model.on_rate(&sample(800, 800), 0.2), Some(Rate::from_bytes_per_second(1000)));
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(1000)));
    }

    #[test]
    fn the_maximum_lasts_for_two_cycles() {
        let mut model = on_a_path();
        model.on_rate(&sample(1000, 0), 0.0);
        model.next_cycle();
        model.on_rate(&sample(600, 0), 0.0);
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(1000)));
        model.next_cycle();
        model.on_rate(&sample(500, 0), 0.0);
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(600)));
    }

    #[test]
    fn congestion_bounds_the_rate_until_the_next_probe() {
        let mut model = on_a_path();
        model.on_rate(&sample(1000, 0), 0.0);
        model.bound_rate(Rate::from_bytes_per_second(700));
        model.bound_rate(Rate::from_bytes_per_second(900));
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(700)));
        model.unbound_rate();
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(1000)));
    }

    #[test]
    fn an_idle_application_teaches_no_lower_rate() {
        let mut model = on_a_path();
        model.on_rate(&sample(1000, 0), 0.0);
        for _ in 0..5 {
            model.next_cycle();
            let mut idle = sample(10, 0);
            idle.is_app_limited = true;
            model.on_rate(&idle, 0.0);
        }
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(1000)));
    }

    #[test]
    fn bdp_is_rate_times_the_shortest_round_trip() {
        let mut model = Model::new();
        model.on_rtt(Instant::ZERO, Duration::from_millis(30), Duration::ZERO);
        model.on_rtt(Instant::ZERO, Duration::from_millis(20), Duration::ZERO);
        model.on_rate(&sample(1_000_000, 0), 0.0);
        assert_eq!(model.bdp_bytes(), Some(20_000));
        let later = Instant::ZERO + Duration::from_secs(6);
        model.on_rtt(later, Duration::from_millis(25), Duration::from_millis(4));
        assert!(model.is_rtt_min_older_than(later, Duration::from_secs(5)));
        model.on_rtt(later, Duration::from_millis(25), Duration::from_millis(5));
        assert!(!model.is_rtt_min_older_than(later, Duration::from_secs(5)));
        let later = later + Duration::from_secs(5);
        assert!(model.is_rtt_min_older_than(later, Duration::from_secs(5)));
        model.on_rtt(later, Duration::from_micros(20_900), Duration::ZERO);
        assert!(!model.is_rtt_min_older_than(later, Duration::from_secs(5)));
    }

    /// At 7 Mb/s a packet of 1200 bytes is 0.3 ms shorter on its way than one of 1452: no round met nothing.
    #[test]
    fn large_packets_are_measured_by_large_ones() {
        let mut model = Model::new();
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let on = |model: &mut Model, rtt: f64, bytes: u32, mtu_bytes: u32| {
            model.on_rtt(Instant::ZERO, ms(rtt), Duration::ZERO);
            model.on_packet_rtt(Instant::ZERO, ms(rtt), bytes, mtu_bytes);
        };
        on(&mut model, 97.40, 1200, 1200);
        model.on_rate(&RateSample::new(880_000, Duration::from_secs(1)), 0.0);
        on(&mut model, 97.69, 1452, 1452);
        on(&mut model, 97.45, 700, 1452);
        assert_eq!((model.rtt_min(), model.full_rtt_min()), (Some(ms(97.40)), Some(ms(97.69))));
        on(&mut model, 97.68, 1442, 1452);
        assert_eq!(model.full_rtt_min(), Some(ms(97.68)));
        // Sixteen of this size are more than the path holds.
        on(&mut model, 97.43, 5940, 6000);
        assert_eq!(model.full_rtt_min(), Some(ms(97.40)));
        // What is longer than the rest of a packet takes is a queue.
        on(&mut model, 98.00, 1500, 1500);
        assert_eq!(model.full_rtt_min(), Some(ms(97.40)));
    }

    #[test]
    fn a_wrong_compensation_is_taken_back() {
        let mut model = on_a_path();
        model.on_rate(&sample(800, 200), 0.2);
        model.rescale(0.8);
        assert_eq!(model.rate(), Some(Rate::from_bytes_per_second(800)));
    }

    #[test]
    fn bunched_acks_are_no_sample() {
        let mut model = on_a_path();
        assert_eq!(model.on_rate(&RateSample::new(1000, Duration::from_millis(19)), 0.0), None);
        assert_eq!(model.rate(), None);
    }
}
