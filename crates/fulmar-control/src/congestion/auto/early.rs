//! The first flights of start-up, before a measured rate says how much to send.
//!
//! Their window begins with ten packets, more where the round trip is long, and grows as in slow start (RFC
//! 5681 3.1), by what was settled. Paced evenly over a round trip, no flight makes a queue before the link is
//! full, and none shows how fast the link is. So on a long path whose first packets moved the round trip
//! little they leave as ACKs come: ten packets sent at once leave the bottleneck as one clump, their ACKs
//! release a clump of twenty, and so on, until one is long enough to be a train (see `trains`), or to show
//! the rate through jitter (see `flights`). Where the first packets moved it far, the link is slow and soon
//! filled by doubling.

use core::time::Duration;

use fulmar_units::Rate;

use crate::{Feedback, PathView};

/// Window before anything is known (RFC 6928) ..
pub(super) const INITIAL_PACKETS: u64 = 10;
/// .. and, once the handshake has shown the round trip, for each so much of it: a round trip of the time in
/// which ten packets were found to do no harm. Ten leave at once, the others at that rate, 1.2 Mb/s, until
/// the first is answered ..
const INITIAL_PERIOD: Duration = Duration::from_millis(100);
/// .. but no more than so many.
const INITIAL_PACKETS_MAX: u64 = 64;
/// The window of the first flights grows before there is a measured rate that says so where round trips are
/// so long that it matters ..
const LONG_RTT_MIN: Duration = Duration::from_millis(50);
/// .. up to so many packets (while the path holds fewer, the measured window keeps up with start-up's pace as
/// well: too little to overfill a queue for long, and most of the rounds) ..
pub(super) const EARLY_PACKETS: u64 = 48;
/// .. or so many where they leave as ACKs come: no clump is longer.
const CLOCKED_PACKETS: u64 = 512;
/// Beyond that no more than so many times what was measured to fill the path: a rate is known a round trip
/// late, and of flights that left as clumps another one later.
const LAG_MAX: u64 = 4;
/// Their pace, in windows per round trip (Linux: pacing_ss_ratio).
const PACE: f64 = 2.0;
/// So many packets tell whether the link is fast ..
const FIRST_PACKETS: u32 = 20;
/// .. by moving the round trip by no more than this: a link of 50 Mb/s, or jitter as large. If they moved it
/// by more, jitter or a queue, ten of them for each such time in a round trip fill the path at least, and
/// half of a clump, which leaves twice as fast as it arrives, waits: so many keep that queue to a sixth of
/// what the path holds.
const STRETCH_MAX: Duration = Duration::from_millis(4);
const PACKETS_PER_STRETCH: f64 = 3.0;
/// With fewer it is too soon for more than slow start.
const FIRST_PACKETS_MIN: u32 = 8;

/// What the first flights of a path are to show.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Sought {
    Nothing,
    Train,
    /// Or the rate of a long flight, through jitter.
    Flight,
}

/// How far the first packets of a path moved its round trip.
#[derive(Copy, Clone, Debug)]
struct FirstPackets {
    acked: u32,
    shortest: Duration,
    longest: Duration,
}

impl FirstPackets {
    fn on_ack(&mut self, acked_packets: u32, rtt: Duration) {
        if self.acked < FIRST_PACKETS {
            self.acked = self.acked.saturating_add(acked_packets);
            self.shortest = self.shortest.min(rtt);
            self.longest = self.longest.max(rtt);
        }
    }

    /// The longest clump that may follow on a path of this round trip.
    fn clump_packets(&self, rtt: Duration, sought: Sought) -> u64 {
        let stretch = self.longest.saturating_sub(self.shortest);
        match sought {
            Sought::Nothing => 0,
            _ if stretch < STRETCH_MAX => CLOCKED_PACKETS,
            Sought::Train => 0,
            Sought::Flight => {
                let stretches = rtt.as_secs_f64() / stretch.as_secs_f64();
                ((stretches * PACKETS_PER_STRETCH) as u64).min(CLOCKED_PACKETS)
            }
        }
    }
}

/// The window of the first flights and their pace.
#[derive(Clone, Debug)]
pub(super) struct Early {
    /// Bytes that may be in flight, whatever the first samples say: they are of few packets, and show the
    /// pace of a round ago.
    bytes: u64,
    /// The rate at which they leave, unless as ACKs come.
    rate: Rate,
    /// `None` where the path was in use before: a window is there already, and would be one clump.
    first: Option<FirstPackets>,
    is_clocked: bool,
}

impl Early {
    /// Of a path of which nothing is known.
    pub(super) fn new() -> Self {
        let first = FirstPackets { acked: 0, shortest: Duration::MAX, longest: Duration::ZERO };
        Self { bytes: 0, rate: Rate::ZERO, first: Some(first), is_clocked: false }
    }

    /// Of a path that turned out to be faster than was thought.
    pub(super) fn again(path: &PathView) -> Self {
        let bytes = initial_bytes(path);
        Self { bytes, rate: per_round(bytes, path), first: None, is_clocked: false }
    }

    /// The path was in use before.
    pub(super) fn is_again(&self) -> bool {
        self.first.is_none()
    }

    /// The handshake has shown the round trip.
    pub(super) fn on_handshake_rtt(&mut self, path: &PathView) {
        self.bytes = initial_bytes(path);
    }

    /// The pace before anything was measured; `None` for a window that is one clump.
    pub(super) fn first_pacing(&self, mtu_bytes: u32) -> Option<Rate> {
        let clump_bytes = INITIAL_PACKETS * u64::from(mtu_bytes);
        (self.bytes > clump_bytes).then(|| Rate::from_bytes_in(clump_bytes, INITIAL_PERIOD)).flatten()
    }

    /// A packet took `rtt`. What is sought, whether there is a queue, and how many bytes fill the path as far
    /// as was measured is for the caller to say.
    pub(super) fn on_ack(
        &mut self,
        feedback: &Feedback,
        rtt: Duration,
        sought: Sought,
        (has_queue, bdp_bytes): (bool, u64),
        path: &PathView,
    ) {
        if let Some(first) = &mut self.first {
            first.on_ack(feedback.acked_packets, rtt);
        }
        let is_long = rtt >= LONG_RTT_MIN;
        let (packet, initial) = (u64::from(path.mtu_bytes), initial_bytes(path));
        let clump_packets = self.first.map_or(0, |first| first.clump_packets(rtt, sought));
        let may_clump = clump_packets > EARLY_PACKETS;
        // One ten of the initial window is a clump, and remains one.
        let clumped_bytes = clump_packets * initial / INITIAL_PACKETS;
        let measured_bytes = if sought == Sought::Nothing { 0 } else { LAG_MAX * bdp_bytes };
        let bytes_max = (EARLY_PACKETS * packet).max(initial).max(clumped_bytes).max(measured_bytes);
        let is_used = feedback.in_flight_bytes_before > self.bytes / 2;
        let settled_bytes =
            if is_used { feedback.acked_bytes.saturating_add(feedback.lost.bytes) } else { 0 };
        self.bytes = if is_long && !has_queue {
            self.bytes.saturating_add(settled_bytes).clamp(initial, bytes_max)
        } else if has_queue {
            // The round trip was a slow link's, not a long one's.
            initial.min(INITIAL_PACKETS * packet)
        } else {
            initial
        };
        self.is_clocked = may_clump && !has_queue && self.bytes < clumped_bytes;
        self.rate = per_round(self.bytes, path).scaled(if is_long { PACE } else { 1.0 });
    }

    /// The window where what was measured says `window_bytes`.
    pub(super) fn window(&self, window_bytes: u64) -> u64 {
        let is_new = self.first.is_some_and(|first| first.acked < FIRST_PACKETS_MIN);
        if self.is_clocked && is_new { self.bytes } else { self.bytes.max(window_bytes) }
    }

    /// The pace where what was measured says `pace`; `None` as ACKs come.
    pub(super) fn pacing(&self, pace: Rate) -> Option<Rate> {
        (!self.is_clocked).then(|| self.rate.max(pace))
    }
}

/// The initial window.
fn initial_bytes(path: &PathView) -> u64 {
    let periods = path.rtt_min.as_secs_f64() / INITIAL_PERIOD.as_secs_f64();
    let packets =
        if path.has_rtt_sample { (INITIAL_PACKETS as f64 * periods) as u64 } else { INITIAL_PACKETS };
    packets.clamp(INITIAL_PACKETS, INITIAL_PACKETS_MAX) * u64::from(path.mtu_bytes)
}

/// `bytes` in each round trip.
fn per_round(bytes: u64, path: &PathView) -> Rate {
    Rate::from_bytes_in(bytes, path.rtt_smoothed).unwrap_or(Rate::ZERO)
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// `packets` are acknowledged one by one, each after `stretch` more than the one before.
    fn after(packets: u64, stretch: Duration, sought: Sought) -> Early {
        let (mut early, path) = (Early::new(), PathView::unknown(1200));
        for packet in 0..packets {
            let rtt = RTT + stretch * packet as u32;
            let mut feedback = Feedback::at(Instant::ZERO + rtt);
            (feedback.acked_bytes, feedback.acked_packets) = (u64::from(path.mtu_bytes), 1);
            feedback.in_flight_bytes_before = u64::MAX;
            early.on_ack(&feedback, rtt, sought, (false, 0), &path);
        }
        early
    }

    #[test]
    fn on_a_fast_path_packets_leave_as_acks_come_until_a_flight_is_long_enough() {
        let pace = Rate::from_bytes_per_second(1000);
        let is_clocked = |packets, micros, sought| {
            after(packets, Duration::from_micros(micros), sought).pacing(pace).is_none()
        };
        assert!(is_clocked(10, 30, Sought::Train));
        assert!(!is_clocked(10, 30, Sought::Nothing));
        assert!(is_clocked(CLOCKED_PACKETS - 11, 0, Sought::Train));
        assert!(!is_clocked(CLOCKED_PACKETS, 0, Sought::Train), "long enough");
        assert!(!is_clocked(10, 500, Sought::Train), "jitter, or a slow link");
        assert!(is_clocked(10, 500, Sought::Flight), "it holds 230 packets at least");
        assert!(!is_clocked(10, 1000, Sought::Flight), "a slow link");
    }

    #[test]
    fn a_longer_round_trip_begins_with_more_at_the_same_pace() {
        let after_handshake = |millis| {
            let mut path = PathView::unknown(1200);
            (path.rtt_min, path.has_rtt_sample) = (Duration::from_millis(millis), true);
            let mut early = Early::new();
            early.on_handshake_rtt(&path);
            (early.window(0) / 1200, early.first_pacing(1200).map(|pace| pace.bytes_per_second()))
        };
        assert_eq!(after_handshake(20), (10, None));
        assert_eq!(after_handshake(100), (10, None));
        assert_eq!(after_handshake(250), (25, Some(120_000)));
        assert_eq!(after_handshake(5000), (INITIAL_PACKETS_MAX, Some(120_000)));
    }

    #[test]
    fn where_a_queue_is_seen_the_window_is_no_long_path_s() {
        let mut path = PathView::unknown(1200);
        (path.rtt_min, path.has_rtt_sample) = (Duration::from_millis(500), true);
        let mut early = Early::new();
        early.on_handshake_rtt(&path);
        assert_eq!(early.window(0) / 1200, 50);
        early.on_ack(&Feedback::at(Instant::ZERO + RTT), 10 * RTT, Sought::Nothing, (true, 0), &path);
        assert_eq!(early.window(0) / 1200, INITIAL_PACKETS);
    }

    #[test]
    fn until_the_path_is_known_to_be_fast_the_window_is_slow_starts() {
        let packet = u64::from(PathView::unknown(1200).mtu_bytes);
        let window = |packets| after(packets, Duration::ZERO, Sought::Train).window(100 * packet) / packet;
        assert_eq!(window(u64::from(FIRST_PACKETS_MIN) - 1), 10 + u64::from(FIRST_PACKETS_MIN) - 2);
        assert_eq!(window(u64::from(FIRST_PACKETS_MIN)), 100);
    }

    #[test]
    fn a_window_that_is_there_already_is_no_clump() {
        let path = PathView::unknown(1200);
        let mut early = Early::again(&path);
        early.on_ack(&Feedback::at(Instant::ZERO + RTT), RTT, Sought::Train, (false, 0), &path);
        assert!(early.pacing(Rate::ZERO).is_some());
    }
}
