//! How much a queue may hold.

use core::time::Duration;

use crate::LinkRate;
use crate::stats::Backlog;

/// How much a queue may hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum QueueLimit {
    /// Bytes of whole IP packets.
    Bytes(u64),
    /// Packets of any size.
    Packets(u64),
    /// Thousandths of the bandwidth-delay product: the link's highest rate times `rtt`, or times twice the
    /// link's own delay without one. Never less than one packet of 1500 bytes; no limit on a link of
    /// unlimited rate.
    Bdp {
        /// 1000 is one bandwidth-delay product.
        milli: u32,
        /// The round-trip time that counts.
        rtt: Option<Duration>,
    },
}

impl QueueLimit {
    /// One bandwidth-delay product of a link whose way back has the same delay.
    pub const ONE_BDP: Self = Self::Bdp { milli: 1000, rtt: None };

    /// This limit divided by a number (zero counts as one).
    #[must_use]
    pub const fn divided_by(self, divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes / divisor as u64),
            Self::Packets(packets) => Self::Packets(packets / divisor as u64),
            Self::Bdp { milli, rtt } => Self::Bdp { milli: milli / divisor, rtt },
        }
    }

    pub(crate) fn resolve(self, rate: &LinkRate, delay: Duration) -> Bound {
        match self {
            Self::Bytes(bytes) => Bound { packets: u64::MAX, bytes },
            Self::Packets(packets) => Bound { packets, bytes: u64::MAX },
            Self::Bdp { milli, rtt } => {
                // Thirty years are enough, and keep the product within 128 bits.
                let rtt = rtt.unwrap_or(delay.saturating_mul(2)).min(Duration::from_secs(1_000_000_000));
                let bytes = rate.peak().map_or(u64::MAX, |rate| {
                    let product = u128::from(rate.bytes_in(rtt)) * u128::from(milli) / 1000;
                    u64::try_from(product).unwrap_or(u64::MAX).max(1500)
                });
                Bound { packets: u64::MAX, bytes }
            }
        }
    }
}

/// A [`QueueLimit`] in numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    packets: u64,
    bytes: u64,
}

impl Bound {
    /// Whether a packet of `bytes` still fits beside `backlog`.
    pub(crate) fn admits(&self, backlog: Backlog, bytes: u32) -> bool {
        backlog.packets < self.packets && backlog.bytes.saturating_add(u64::from(bytes)) <= self.bytes
    }

    /// Whether `backlog` is within.
    pub(super) const fn holds(&self, backlog: Backlog) -> bool {
        backlog.packets <= self.packets && backlog.bytes <= self.bytes
    }

    /// In bytes, with packets of a typical size.
    pub(super) fn in_bytes(&self, typical: u64) -> u64 {
        self.bytes.min(self.packets.saturating_mul(typical))
    }
}
