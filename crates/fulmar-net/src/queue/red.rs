//! Random early detection: which arriving packets are marked or dropped before the queue is full.
//!
//! Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM ToN 1993,
//! sections 4 and 11 (averaging over idle time, uniform spacing of marks); "gentle" after Floyd 2000; ECN
//! after RFC 3168 section 7: above the upper threshold packets are dropped, never marked.
//!
//! Works in bytes; a threshold of n packets counts as n times 1500 bytes. The average is kept in fixed point,
//! so a run is the same on every machine.

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::discipline::{Discipline, Queued, try_mark};
use super::fifo::Fifo;
use super::limit::{Bound, QueueLimit};
use crate::stats::{Backlog, LinkStats};
use crate::{LinkRate, Payload, Probability, Rng};

/// Parameters of random early detection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RedConfig {
    /// What the queue can hold at all.
    pub limit: QueueLimit,
    /// Below this average nothing happens.
    pub min: QueueLimit,
    /// At this average packets are marked with `max_probability`; above, more and more are dropped, and all
    /// at twice this average.
    pub max: QueueLimit,
    /// Probability at the upper threshold.
    pub max_probability: Probability,
    /// The average moves by 2^-this of the difference for each packet. 9 is the paper's 0.002.
    pub weight_log2: u8,
    /// Mark packets that can be marked instead of dropping them.
    pub ecn: bool,
}

impl RedConfig {
    /// The usual proportions for a queue of a given size: thresholds at 1/12 and 1/4 of the limit, 10 %,
    /// weight 1/512, ECN.
    pub const fn for_limit(limit: QueueLimit) -> Self {
        Self {
            limit,
            min: limit.divided_by(12),
            max: limit.divided_by(4),
            max_probability: Probability::from_percent(10),
            weight_log2: 9,
            ecn: true,
        }
    }
}

/// Fraction bits of probabilities inside.
const ONE_Q32: u64 = 1 << 32;
/// What counts as a typical packet.
const TYPICAL_BYTES: u64 = 1500;

#[derive(Clone, Debug)]
pub(crate) struct Red<P> {
    waiting: Fifo<P>,
    bound: Bound,
    min_bytes: u64,
    max_bytes: u64,
    max_q32: u64,
    weight_log2: u32,
    ecn: bool,
    /// Average backlog in bytes, times 2^weight_log2.
    average_scaled: u128,
    /// Packets left alone since the last mark or drop, or since the average rose above the lower threshold.
    since_mark: u64,
    /// Since when the queue has been empty, if it is.
    idle_since: Instant,
    /// Transmission time of a typical packet.
    typical: Duration,
    rng: Rng,
}

/// What the average says about one packet.
#[derive(PartialEq, Eq)]
enum Verdict {
    Accept,
    Mark,
    Drop,
}

impl<P> Red<P> {
    pub(crate) fn new(config: &RedConfig, rate: &LinkRate, delay: Duration, rng: Rng) -> Self {
        let bytes = |limit: QueueLimit| limit.resolve(rate, delay).in_bytes(TYPICAL_BYTES);
        let min_bytes = bytes(config.min);
        Self {
            waiting: Fifo::new(),
            bound: config.limit.resolve(rate, delay),
            min_bytes,
            max_bytes: bytes(config.max).max(min_bytes.saturating_add(1)),
            max_q32: (u64::from(config.max_probability.ppb()) << 32) / 1_000_000_000,
            weight_log2: u32::from(config.weight_log2.min(31)),
            ecn: config.ecn,
            average_scaled: 0,
            since_mark: 0,
            idle_since: Instant::ZERO,
            typical: rate.peak().unwrap_or(Rate::ZERO).time_for(TYPICAL_BYTES),
            rng,
        }
    }

    fn average_bytes(&self) -> u64 {
        u64::try_from(self.average_scaled >> self.weight_log2).unwrap_or(u64::MAX)
    }

    /// avg <- (1 - w) avg + w q; after an idle time of m typical packets avg <- (1 - w)^m avg.
    fn update_average(&mut self, now: Instant) {
        if self.waiting.is_empty() {
            let idle = (now - self.idle_since).as_nanos();
            self.idle_since = now;
            let packets = idle.checked_div(self.typical.as_nanos()).unwrap_or(u128::MAX);
            let kept_q32 = power_q32(ONE_Q32 - (ONE_Q32 >> self.weight_log2), packets);
            self.average_scaled = (self.average_scaled * u128::from(kept_q32)) >> 32;
        } else {
            self.average_scaled -= self.average_scaled >> self.weight_log2;
            self.average_scaled += u128::from(self.waiting.bytes());
        }
    }

    fn judge(&mut self) -> Verdict {
        let average = self.average_bytes();
        if average < self.min_bytes {
            self.since_mark = 0;
            return Verdict::Accept;
        }
        let above_max = average >= self.max_bytes;
        let since_mark = self.since_mark;
        self.since_mark += 1;
        let p_q32 = self.base_probability_q32(average);
        // p_a = p_b / (1 - count p_b), count being the packets not marked since (section 7, method 2):
        // distances between marks are uniform. (Figure 2 of the paper counts one more.)
        let left = ONE_Q32.saturating_sub(since_mark.saturating_mul(p_q32));
        if u128::from(self.rng.draw() >> 32) * u128::from(left) >= u128::from(p_q32) << 32 {
            return Verdict::Accept;
        }
        self.since_mark = 0;
        if above_max { Verdict::Drop } else { Verdict::Mark }
    }

    /// Rises from 0 at the lower threshold to `max_q32` at the upper, and from there to 1 at twice the upper
    /// ("gentle").
    fn base_probability_q32(&self, average: u64) -> u64 {
        let part = |whole: u64, over: u64, span: u64| {
            (u128::from(whole) * u128::from(over) / u128::from(span)) as u64
        };
        if average < self.max_bytes {
            part(self.max_q32, average - self.min_bytes, self.max_bytes - self.min_bytes)
        } else {
            let over = (average - self.max_bytes).min(self.max_bytes);
            self.max_q32 + part(ONE_Q32 - self.max_q32, over, self.max_bytes)
        }
    }
}

impl<P: Payload> Discipline<P> for Red<P> {
    fn push(&mut self, mut item: Queued<P>, stats: &mut LinkStats) {
        self.update_average(item.arrived);
        let verdict = self.judge();
        let refused = match verdict {
            Verdict::Accept => false,
            Verdict::Mark => !self.ecn || !try_mark(&mut item.packet, item.bytes, stats),
            Verdict::Drop => true,
        };
        if refused || !self.bound.admits(self.waiting.backlog(), item.bytes) {
            stats.dropped.add(item.bytes);
        } else {
            self.waiting.push(item);
        }
    }

    fn pop(&mut self, now: Instant, _stats: &mut LinkStats) -> Option<Queued<P>> {
        let item = self.waiting.pop()?;
        self.idle_since = now;
        Some(item)
    }

    fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.waiting.drain()
    }
}

/// `base` to the power `exponent`, both base and result with 32 fractional bits, base at most one.
fn power_q32(mut base: u64, mut exponent: u128) -> u64 {
    let multiply = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 32) as u64;
    let mut result = ONE_Q32;
    while exponent > 0 && result > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base);
        }
        base = multiply(base, base);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Datagram, Ecn};
    use alloc::vec;

    const PACKET_BYTES: u32 = 1000;

    fn item() -> Queued<Datagram> {
        let packet = Datagram { contents: vec![0; 972], ecn: Ecn::Ect0, flow: 0 };
        Queued { arrived: Instant::ZERO, bytes: PACKET_BYTES, packet }
    }

    /// A queue that stays at `packets` while `trials` pass through, with an average that follows at once.
    /// Gaps between marks, and drops.
    fn gaps_at(packets: u64, trials: u64) -> (Vec<u64>, u64) {
        let config = RedConfig {
            limit: QueueLimit::Packets(1000),
            min: QueueLimit::Bytes(20_000),
            max: QueueLimit::Bytes(60_000),
            max_probability: Probability::from_percent(10),
            weight_log2: 0,
            ecn: true,
        };
        let mut red = Red::new(&config, &LinkRate::Unlimited, Duration::ZERO, Rng::new(1, 0));
        (0..packets).for_each(|_| red.waiting.push(item()));
        let (mut stats, mut gaps, mut last) = (LinkStats::default(), Vec::new(), 0);
        for trial in 1..=trials {
            let before = (stats.marked.packets, stats.dropped.packets);
            red.push(item(), &mut stats);
            if before != (stats.marked.packets, stats.dropped.packets) {
                gaps.push(trial - last);
                last = trial;
            }
            while red.waiting.backlog().packets > packets {
                red.pop(Instant::ZERO, &mut stats);
            }
        }
        (gaps, stats.dropped.packets)
    }

    /// Floyd and Jacobson, section 7, method 2: gaps are uniform over 1..=1/p_b.
    #[test]
    fn marks_are_spaced_uniformly() {
        // Half way: p_b = 5 %, so gaps from 1 to 20 (one more at most, where fixed point rounds p_b down).
        let (gaps, dropped) = gaps_at(40, 100_000);
        assert_eq!(dropped, 0);
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<u64>() as f64 / n;
        let deviation = libm::sqrt((400.0 - 1.0) / 12.0 / n);
        assert!((mean - 10.5).abs() < 4.0 * deviation, "{mean} +- {deviation}");
        assert!(gaps.iter().all(|&gap| (1..=21).contains(&gap)));
        let short = gaps.iter().filter(|&&gap| gap <= 5).count() as f64;
        assert!((short - n / 4.0).abs() < 4.0 * libm::sqrt(n * 3.0 / 16.0), "{short} of {n}");
    }

    #[test]
    fn below_nothing_above_drops_far_above_everything() {
        assert_eq!(gaps_at(19, 10_000), (vec![], 0));
        // At 1.5 times the upper threshold: p_b = 0.1 + 0.9 / 2 = 55 %, gaps 1 with probability 0.55, else 2.
        let (gaps, dropped) = gaps_at(90, 100_000);
        assert_eq!(gaps.len() as u64, dropped);
        let n = gaps.len() as f64;
        let ones = gaps.iter().filter(|&&gap| gap == 1).count() as f64;
        assert!((ones - 0.55 * n).abs() < 4.0 * libm::sqrt(n * 0.55 * 0.45), "{ones} of {n}");
        assert_eq!(gaps_at(120, 1000).1, 1000);
    }

    #[test]
    fn the_average_decays_over_idle_time() {
        let rate = LinkRate::Constant(Rate::from_bytes_per_second(1_500_000));
        let config = RedConfig { weight_log2: 3, ..RedConfig::for_limit(QueueLimit::Packets(100)) };
        let mut red: Red<Datagram> = Red::new(&config, &rate, Duration::ZERO, Rng::new(1, 0));
        red.average_scaled = 80_000 << 3;
        // 10 ms without packets are ten of 1 ms: (7/8)^10.
        red.update_average(Instant::ZERO + Duration::from_millis(10));
        assert!(red.average_bytes().abs_diff(21_046) <= 1, "{}", red.average_bytes());
        assert_eq!(power_q32(ONE_Q32 / 2, 3), ONE_Q32 / 8);
        assert_eq!(power_q32(ONE_Q32 / 2, u128::MAX), 0);
    }
}
