//! What may leave beyond the window, so that something outlives a burst.
//!
//! A burst of losses may take all that a window lets leave, on a path that holds few packets: then nothing
//! that follows shows that it is over. Where the controller knows the path's rate, so many more may leave as
//! probably outlive a burst, no faster than the path carries them, and all but a few of them once nothing was
//! heard for half a round trip.

use std::time::Duration;

use fulmar_units::Rate;

use super::silence::{PROBES_LOST, Silence};
use super::way_forward::WayForward;
use crate::Instant;

/// No more packets than these may leave beyond the window ..
const PACKETS_MAX: u32 = 40;
/// .. and more than these only in silence.
pub(super) const PACKETS_OPEN: u32 = 9;

/// How much that is now.
#[derive(Debug, Default)]
pub(super) struct BurstRoom {
    bytes: u64,
}

impl BurstRoom {
    #[cfg(test)]
    pub(super) fn of(bytes: u64) -> Self {
        Self { bytes }
    }

    /// What is known of the path is another. `rate`: the controller's, if it knows one.
    pub(super) fn learn(&mut self, rate: Option<Rate>, forward: &WayForward, packet_bytes: u64) {
        self.bytes = 0;
        if rate.is_some() && forward.is_known() {
            let packets = forward.in_burst().probes_for(PROBES_LOST, PACKETS_MAX) - 1;
            self.bytes = u64::from(packets) * packet_bytes;
        }
    }

    /// When a packet may leave with which so many bytes beyond the window are under way; `None`: it may not.
    /// `rate` is the controller's, and is asked for only where there is room.
    pub(super) fn opens_at(
        &self,
        beyond_bytes: u64,
        packet_bytes: u64,
        rate: impl FnOnce() -> Option<Rate>,
        silence: &Silence,
        rtt: Duration,
    ) -> Option<Instant> {
        if beyond_bytes > self.bytes {
            return None;
        }
        let carried_at = silence.counts_from() + rate()?.time_for(packet_bytes);
        if beyond_bytes <= u64::from(PACKETS_OPEN) * packet_bytes {
            return Some(carried_at);
        }
        let silent_since = silence.since().unwrap_or(silence.counts_from());
        Some(carried_at.max(silent_since + rtt / 2))
    }
}

#[cfg(test)]
mod tests {
    use fulmar_control::{Feedback, Pooled, RttEstimator};

    use super::super::Timeout;
    use super::*;

    const BYTES: u64 = 1200;
    const MS: Duration = Duration::from_millis(1);

    /// A packet in each millisecond.
    fn rate() -> Option<Rate> {
        Some(Rate::from_bytes_per_second(1000 * BYTES))
    }

    /// Loses a fifth, in bursts of eight.
    fn lossy() -> WayForward {
        let mut way = WayForward::new(Box::new(Pooled::new()));
        for burst in 0..50_u32 {
            let mut feedback = Feedback::at(Instant::ZERO);
            feedback.acked_packets = 32;
            (feedback.lost.packets, feedback.lost.bursts) = (8, 1);
            way.on_feedback(&feedback);
            (0..8).for_each(|k| assert_eq!(way.on_lost(burst * 40 + k), k == 0));
        }
        way
    }

    #[test]
    fn there_is_room_where_rate_and_losses_are_known() {
        let mut room = BurstRoom::default();
        let lossy = lossy();
        room.learn(rate(), &lossy, BYTES);
        // A loss has 3.5 of its burst before it: E = 4.5, P(lost | lost) = 0.78, and 0.78^7 is below a fifth.
        assert_eq!(room.bytes, 6 * BYTES);
        room.learn(None, &lossy, BYTES);
        assert_eq!(room.bytes, 0);
        room.learn(rate(), &lossy, BYTES);
        room.learn(rate(), &WayForward::new(Box::new(Pooled::new())), BYTES);
        assert_eq!(room.bytes, 0);
    }

    #[test]
    fn a_few_leave_at_the_paths_pace_and_the_others_in_silence_only() {
        let room = BurstRoom { bytes: 15 * BYTES };
        let mut silence = Silence::new(Instant::ZERO, Timeout::Probe, &RttEstimator::new());
        let sent_at = Instant::ZERO + MS * 10;
        silence.on_sent(sent_at);
        let opens_at = |packets| room.opens_at(packets * BYTES, BYTES, rate, &silence, MS * 40);
        assert_eq!(opens_at(1), Some(sent_at + MS));
        assert_eq!(opens_at(u64::from(PACKETS_OPEN)), Some(sent_at + MS));
        assert_eq!(opens_at(u64::from(PACKETS_OPEN) + 1), Some(sent_at + MS * 20));
        assert_eq!(opens_at(16), None);
        assert_eq!(room.opens_at(BYTES, BYTES, || None, &silence, MS * 40), None);
    }
}
