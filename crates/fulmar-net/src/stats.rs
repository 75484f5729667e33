//! What a link did: counters and the distribution of the queueing delay.

use alloc::boxed::Box;
use core::ops::AddAssign;
use core::time::Duration;

use fulmar_units::whole_nanos;

/// Packets and their bytes (whole IP packets).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    pub(crate) fn remove(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, rhs: Self) {
        self.packets += rhs.packets;
        self.bytes += rhs.bytes;
    }
}

/// What waits in a queue.
pub type Backlog = Count;

/// Counters of one link since its creation.
///
/// Every packet has one fate:
/// `offered + duplicated = delivered + oversize + policed + dropped + lost + blacked_out + inside`, with
/// [`Link::inside`](crate::Link::inside) for those still queued or on the wire. `marked`, `corrupted` and
/// `reordered` describe packets that are counted elsewhere as well.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Handed to the link.
    pub offered: Count,
    /// Larger than the link's MTU: vanished without a sign.
    pub oversize: Count,
    /// Dropped by the policer.
    pub policed: Count,
    /// Dropped by the queue: full, or chosen by its active management.
    pub dropped: Count,
    /// Taken by the loss model.
    pub lost: Count,
    /// Gone in a black-out.
    pub blacked_out: Count,
    /// Came out at the far end, copies included.
    pub delivered: Count,
    /// Copies made on the wire.
    pub duplicated: Count,
    /// Marked congestion-experienced by this link.
    pub marked: Count,
    /// Damaged on the wire.
    pub corrupted: Count,
    /// Delivered after a packet that entered the wire later.
    pub reordered: Count,
    /// Time from arrival in the queue to the start of transmission, of every packet that was transmitted.
    pub queue_delay: DelayHistogram,
    /// Highest backlog that was seen, in bytes.
    pub backlog_bytes_max: u64,
    /// How long the transmitter was busy; divided by the time passed, the utilisation.
    pub busy: Duration,
}

/// Sub-buckets per power of two: values are kept to 1 part in 16.
const SUB_BUCKETS: usize = 16;
const SUB_BITS: u32 = SUB_BUCKETS.ilog2();
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// A distribution of delays: sum and maximum exact, quantiles to within 1/16 of their value. 8 KiB.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: Box<[u64; BUCKETS]>,
    samples: u64,
    sum_nanos: u128,
    max_nanos: u64,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), samples: 0, sum_nanos: 0, max_nanos: 0 }
    }
}

impl DelayHistogram {
    /// Adds one sample.
    pub fn record(&mut self, delay: Duration) {
        let nanos = whole_nanos(delay);
        self.counts[bucket_of(nanos)] += 1;
        self.samples += 1;
        self.sum_nanos += u128::from(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// How many samples.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Sum of all samples.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.sum_nanos).unwrap_or(u64::MAX))
    }

    /// The largest sample.
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max_nanos)
    }

    /// The mean; zero without samples.
    pub fn mean(&self) -> Duration {
        let mean = self.sum_nanos.checked_div(u128::from(self.samples)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The smallest delay that at least `per_mille` of 1000 samples do not exceed (500: the median, 990:
    /// p99); zero without samples. Never below the true value, and above it by at most 1/16.
    pub fn quantile(&self, per_mille: u32) -> Duration {
        let rank = (u128::from(self.samples) * u128::from(per_mille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if seen >= rank {
                return Duration::from_nanos(bucket_end(bucket).min(self.max_nanos));
            }
        }
        Duration::ZERO
    }

    /// Adds the samples of another.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.samples += other.samples;
        self.sum_nanos += other.sum_nanos;
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }
}

/// The first two octaves of sub-buckets are exact values; above, the leading bits choose the bucket.
fn bucket_of(nanos: u64) -> usize {
    let exponent = (64 - nanos.leading_zeros()).saturating_sub(SUB_BITS + 1);
    (exponent as usize) * SUB_BUCKETS + (nanos >> exponent) as usize
}

/// The largest value that falls into a bucket.
fn bucket_end(bucket: usize) -> u64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as u64;
    }
    let exponent = (bucket / SUB_BUCKETS - 1) as u32;
    let mantissa = (bucket % SUB_BUCKETS + SUB_BUCKETS) as u64;
    (mantissa << exponent) | ((1 << exponent) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_values_in_order() {
        let values = (0..200)
            .chain((8..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 3]))
            .chain([u64::MAX]);
        let mut previous = 0;
        for value in values {
            let bucket = bucket_of(value);
            assert!(bucket >= previous && bucket < BUCKETS, "{value} in {bucket}");
            previous = bucket;
            let end = bucket_end(bucket);
            assert!(end >= value && end - value <= value / 16, "{value} in a bucket that ends at {end}");
        }
    }

    #[test]
    fn quantiles_mean_and_merge() {
        let mut low = DelayHistogram::default();
        let mut high = DelayHistogram::default();
        assert_eq!((low.quantile(500), low.mean()), (Duration::ZERO, Duration::ZERO));
        (1..=500).for_each(|ms| low.record(Duration::from_millis(ms)));
        (501..=1000).for_each(|ms| high.record(Duration::from_millis(ms)));
        low.merge(&high);
        assert_eq!(low.samples(), 1000);
        assert_eq!(low.mean(), Duration::from_micros(500_500));
        assert_eq!(low.max(), Duration::from_secs(1));
        for per_mille in [1, 10, 500, 900, 990, 1000] {
            let exact = Duration::from_millis(u64::from(per_mille));
            let found = low.quantile(per_mille);
            assert!(found >= exact && found <= exact + exact / 16, "{per_mille}: {found:?}");
        }
    }
}
