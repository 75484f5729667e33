//! What a profile settles about recovery: how patient loss detection is, and what silence means.

use std::time::Duration;

use super::AckPolicy;
use fulmar_control::{RTO_INITIAL, RTO_MAX, RTO_MIN, RttEstimator, Variation, backed_off};

/// A probe timeout doubles no further than this, though at least once. RFC 8085 3.1.1 allows a packet every 3
/// s on a path of which nothing is known; here an RTT is, and a path that was gone is found again within a
/// second. A black-out of 10 s costs 26 packets and 200 PINGs.
const PROBE_TIMEOUT_MAX: Duration = Duration::from_millis(500);

/// What follows when nothing is acknowledged for long.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// RFC 9002 6.2: a probe, after about 1.5 RTT where the RTT is steady or not. Nothing counts as lost by
    /// it.
    ///
    /// RFC 9002 has srtt + 4 rttvar. A probe here is a repair symbol and costs no window, so being wrong is
    /// cheap and waiting is not: the variance counts up to half an RTT.
    Probe,
    /// RFC 6298: after srtt + 4 rttvar, within bounds and doubled each time, everything under way counts as
    /// lost.
    Retransmission {
        /// Before there is an RTT (2.1).
        initial: Duration,
        /// At least (2.4).
        min: Duration,
        /// At most (2.5), after doubling as well.
        max: Duration,
    },
}

/// Settings of loss recovery.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// A packet counts as lost when one sent so many later was acknowledged (RFC 9002 6.1.1; LT-TCP, Hourt
    /// 2014, section 3.3), at least 1. Grows while reordering shows it to be too small.
    pub reordering_packets: u32,
    /// Nothing counts as lost by time, as before RFC 8985: the third packet after it tells, or the timeout.
    pub is_by_packets_alone: bool,
    /// The other end stands for a receiver that returns no duplicate ACK while a group may repair what is
    /// lost (Sato 2019, 4.3). What packets do behind its back is no reordering.
    pub keeps_duplicates_back: bool,
    /// What silence means.
    pub timeout: Timeout,
    /// How the estimated variation of the round-trip time follows its samples.
    pub variation: Variation,
    /// Largest UDP payload that is sent, whatever the path carries.
    pub packet_bytes_max: Option<u16>,
    /// How the other end is to acknowledge from the start and for good, as a TCP's receiver does; `None`: as
    /// the path makes it useful.
    pub acks: Option<AckPolicy>,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            reordering_packets: 3,
            is_by_packets_alone: false,
            keeps_duplicates_back: false,
            timeout: Timeout::Probe,
            variation: Variation::Mean,
            packet_bytes_max: None,
            acks: None,
        }
    }
}

impl Timeout {
    /// RFC 6298 with its own figures: 1 s at first and at least (2.1, 2.4), at most 60 s (2.5).
    pub const RFC_6298: Self = Self::Retransmission { initial: RTO_INITIAL, min: RTO_MIN, max: RTO_MAX };

    /// The timeout without ACK delay or doubling.
    pub(crate) fn base(&self, rtt: &RttEstimator) -> Duration {
        match *self {
            Self::Probe if rtt.has_sample() => {
                rtt.answered_within().min(rtt.smoothed() * 3 / 2 + Duration::from_millis(1))
            }
            Self::Probe => rtt.answered_within(),
            Self::Retransmission { initial, min, max } => rtt.retransmission_timeout(initial, min, max),
        }
    }

    /// The timeout after `expiries` in a row, where `first` is [`Self::base`] with the ACK delay.
    pub(crate) fn doubled(&self, first: Duration, expiries: u32) -> Duration {
        let max = match *self {
            Self::Probe => PROBE_TIMEOUT_MAX.max(first * 2),
            Self::Retransmission { max, .. } => max,
        };
        backed_off(first, expiries, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_units::Instant;

    #[test]
    fn retransmission_timeouts_as_in_rfc_6298() {
        let timeout = Timeout::RFC_6298;
        let mut rtt = RttEstimator::new();
        assert_eq!(timeout.base(&rtt), Duration::from_secs(1));
        rtt.on_sample(Instant::ZERO, Duration::from_millis(500), Duration::ZERO);
        // (2.2): 500 + 4 * 250.
        assert_eq!(timeout.base(&rtt), Duration::from_millis(1500));
        assert_eq!(timeout.doubled(Duration::from_millis(1500), 2), Duration::from_secs(6));
        assert_eq!(timeout.doubled(Duration::from_millis(1500), 9), Duration::from_secs(60));
        for _ in 0..100 {
            rtt.on_sample(Instant::ZERO, Duration::from_millis(20), Duration::ZERO);
        }
        assert_eq!(timeout.base(&rtt), Duration::from_secs(1), "(2.4)");
    }

    #[test]
    fn probes_come_early_and_stay_within_half_a_second_or_two_timeouts() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, Duration::from_millis(100), Duration::ZERO);
        assert_eq!(Timeout::Probe.base(&rtt), Duration::from_millis(151));
        assert_eq!(Timeout::Probe.doubled(Duration::from_millis(151), 10), Duration::from_millis(500));
        assert_eq!(Timeout::Probe.doubled(Duration::from_millis(600), 10), Duration::from_millis(1200));
    }
}
