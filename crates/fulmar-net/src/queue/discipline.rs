//! What every queueing discipline does, and what several have in common.

use alloc::vec::Vec;

use fulmar_units::Instant;

use crate::stats::{Backlog, LinkStats};
use crate::{Ecn, Payload};

/// A packet that waits.
#[derive(Clone, Debug)]
pub(crate) struct Queued<P> {
    pub(crate) arrived: Instant,
    pub(crate) bytes: u32,
    pub(crate) packet: P,
}

/// A queueing discipline at work.
pub(crate) trait Discipline<P> {
    /// Takes a packet in, or drops it (or another) and says so in the statistics.
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats);

    /// The packet to send next. May drop on the way, and returns `None` only if nothing is left.
    fn pop(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Queued<P>>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// Empties the queue without drops; each flow in its order.
    fn drain(&mut self) -> Vec<Queued<P>>;
}

/// Marks a packet if its sender understands marks. Whether it carries a mark now.
pub(crate) fn try_mark<P: Payload>(packet: &mut P, bytes: u32, stats: &mut LinkStats) -> bool {
    let ecn = packet.ecn();
    if ecn.is_capable() && ecn != Ecn::Ce {
        packet.set_ce();
        stats.marked.add(bytes);
    }
    ecn.is_capable()
}

/// The list a flow is hashed into.
pub(super) fn hash_flow(flow: u64, key: u64, buckets: usize) -> usize {
    ((u128::from(crate::rng::split_mix(flow ^ key)) * buckets as u128) >> 64) as usize
}
