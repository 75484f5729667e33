//! Packets that were dropped here, by cause: UDP may lose them anywhere, and whoever looks for them should
//! see where.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use strum::VariantArray;

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// The connection's queue of datagrams was full: more comes than the path takes.
    SendQueueFull,
    /// Too much waited for a flow that is being opened, or held back by a rate.
    WaitingFull,
    /// A flow did not take in time what arrived for it.
    InboxFull,
    /// It arrived for a flow that is not there, or not any more.
    NoFlow,
    /// There are as many flows as may be: targets of an association, peers of a port, flows of a key.
    TooManyFlows,
    /// It came to a SOCKS association from somebody else than its owner.
    Stranger,
    /// A packet of a tunnel came from or to an address that is not the peer's.
    Foreign,
    /// The local socket did not take it.
    Socket,
}

impl Cause {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How many were dropped since the beginning.
#[derive(Debug, Default)]
pub struct Drops([AtomicU64; Cause::VARIANTS.len()]);

impl Drops {
    /// One more.
    pub fn count(&self, cause: Cause) {
        self.0[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many for this cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize].load(Ordering::Relaxed)
    }

    /// Adds them to `sums`, by name.
    pub fn add_to(&self, sums: &mut BTreeMap<String, u64>) {
        for cause in Cause::VARIANTS {
            *sums.entry(cause.name().into()).or_default() += self.of(*cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_name_and_a_count_of_its_own() {
        let drops = Drops::default();
        for (index, cause) in Cause::VARIANTS.iter().enumerate() {
            (0..=index).for_each(|_| drops.count(*cause));
        }
        let mut sums = BTreeMap::new();
        drops.add_to(&mut sums);
        drops.add_to(&mut sums);
        assert_eq!(sums.len(), Cause::VARIANTS.len());
        assert_eq!((sums["send_queue_full"], sums["socket"]), (2, 2 * Cause::VARIANTS.len() as u64));
    }
}
