//! A link that has become slower than what is under way.
//!
//! The rate is a maximum over cycles, and cycles end with rounds. Where the link falls to a tenth the queue
//! that its old rate left makes the next round last tens of round trips, and as long nothing is learned. But
//! where packets wait the link is busy: what arrives of ours, in whatever stretch of time, is all that it
//! carries of ours. So while every round trip is far longer than the empty path's, each stretch as long as
//! that one is a measurement, with the error of its number of packets, and a rate that is above it by more
//! than the error comes down at once.
//!
//! A sample of the delivery rate that began before that is of the old link, and a round trip whose packet
//! left behind the old queue says nothing of the path.
//!
//! But the path itself may be long for a moment, as where a satellite hands over. While it grows arrivals are
//! stretched, and look like those of a slow link. What follows tells: a queue drains at the link's rate. If
//! what is under way arrives faster than the most that was measured, it was no queue, or the link is back,
//! and the rate is again what it was (as in RFC 4015, which undoes what a spurious timeout did).

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::random_loss::stretch as variance_stretch;
use crate::{Feedback, LossView, RateSample};

/// A stretch of fewer packets measures nothing.
const PACKETS_MIN: u32 = 4;
/// The rate is above what arrived by so many standard errors: those of a number of packets, and of its
/// losses.
const SIGMAS: f64 = 3.0;

/// For longer than this, or so many round trips, no queue is drained.
const WAITED_MAX: Duration = Duration::from_secs(10);
const WAITED_ROUNDS: u32 = 3;

/// A stretch of time in which all that arrived had waited.
#[derive(Copy, Clone, Debug)]
struct Stretch {
    started_at: Instant,
    acked_bytes: u64,
    acked_packets: u32,
    lost_packets: u32,
}

impl Stretch {
    fn new(now: Instant) -> Self {
        Self { started_at: now, acked_bytes: 0, acked_packets: 0, lost_packets: 0 }
    }

    fn add(&mut self, feedback: &Feedback) {
        self.acked_bytes = self.acked_bytes.saturating_add(feedback.acked_bytes);
        self.acked_packets = self.acked_packets.saturating_add(feedback.acked_packets);
        self.lost_packets = self.lost_packets.saturating_add(feedback.lost.packets);
    }
}

/// The rate came down.
#[derive(Copy, Clone, Debug)]
struct Lowered {
    /// Since then.
    since: Stretch,
    /// From this ..
    before: Rate,
    /// .. for no more than this arrives.
    arrived: Rate,
}

/// What a link that is behind carries.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    stretch: Option<Stretch>,
    lowered: Option<Lowered>,
    /// What had been queued by then is gone since then.
    drained_at: Option<Instant>,
}

impl Backlog {
    /// Takes an ACK whose round trip is far longer than the empty path's `rtt_min` if `is_long`. Returns the
    /// most that may arrive of ours, and the share that was lost, at the end of a stretch.
    pub(super) fn on_ack(
        &mut self,
        feedback: &Feedback,
        is_long: bool,
        rtt_min: Duration,
        loss: &LossView,
    ) -> Option<(Rate, f64)> {
        if !is_long {
            self.stretch = None;
            return None;
        }
        let now = feedback.now;
        let Some(stretch) = &mut self.stretch else {
            self.stretch = Some(Stretch::new(now));
            return None;
        };
        stretch.add(feedback);
        let elapsed = now - stretch.started_at;
        if elapsed < rtt_min || stretch.acked_packets < PACKETS_MIN {
            return None;
        }
        let done = core::mem::replace(stretch, Stretch::new(now));
        let (acked, lost) = (f64::from(done.acked_packets), f64::from(done.lost_packets));
        let rate = Rate::from_bytes_in(done.acked_bytes, elapsed)?;
        let spread = 1.0 + loss.rate * variance_stretch(loss.rate, loss);
        Some((rate.scaled(1.0 + SIGMAS * libm::sqrt(spread / acked)), lost / (acked + lost)))
    }

    /// The rate came down from what it was `before`: no more than `arrived` arrives.
    pub(super) fn on_lowered(&mut self, now: Instant, before: Rate, arrived: Rate) {
        self.lowered = Some(Lowered { since: Stretch::new(now), before, arrived });
        self.drained_at = None;
    }

    /// Takes an ACK after which no more is under way than fills the path, if it `is_drained`. Returns the
    /// rate if it came down in error, for what was under way then arrived faster; a time shorter than
    /// `rtt_min` measures none.
    pub(super) fn on_drain(
        &mut self,
        feedback: &Feedback,
        is_drained: bool,
        rtt_min: Duration,
    ) -> Option<Rate> {
        let lowered = self.lowered.as_mut().filter(|_| self.drained_at.is_none())?;
        lowered.since.add(feedback);
        if !is_drained {
            return None;
        }
        self.drained_at = Some(feedback.now);
        let elapsed = (feedback.now - lowered.since.started_at).max(rtt_min);
        let drained = Rate::from_bytes_in(lowered.since.acked_bytes, elapsed)?;
        if drained <= lowered.arrived {
            return None;
        }
        self.lowered.take().map(|lowered| lowered.before)
    }

    /// What a sample of the delivery rate that ends now is worth.
    pub(super) fn limited(&self, now: Instant, mut sample: RateSample) -> RateSample {
        if let Some(lowered) = &self.lowered
            && now - lowered.since.started_at < sample.interval
        {
            sample.rate = sample.rate.min(lowered.arrived);
        }
        sample
    }

    /// The packet that gave this round trip left behind the old queue, or was it.
    pub(super) fn has_waited(&self, feedback: &Feedback) -> bool {
        let Some(at) = self.lowered.map(|lowered| lowered.since.started_at) else { return false };
        // A route that became longer is believed in the end.
        if feedback.now - at > WAITED_MAX.max(feedback.rtt.unwrap_or_default() * WAITED_ROUNDS) {
            return false;
        }
        let left_at = feedback.newest_acked_sent_at.unwrap_or(at);
        self.drained_at.is_none_or(|drained_at| left_at < drained_at)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const RTT_MIN: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn ack(millis: u64, sent_millis: u64) -> Feedback {
        let mut feedback = Feedback::at(at(millis));
        (feedback.acked_packets, feedback.acked_bytes) = (1, 1000);
        feedback.newest_acked_sent_at = Some(at(sent_millis));
        feedback.rtt = Some(Duration::from_millis(millis - sent_millis));
        feedback
    }

    /// The rate came down to a packet a second.
    fn lower(backlog: &mut Backlog, millis: u64) {
        let [before, arrived] = [100_000, 1000].map(Rate::from_bytes_per_second);
        backlog.on_lowered(at(millis), before, arrived);
    }

    #[test]
    fn while_all_waits_what_arrives_is_what_the_link_carries() {
        let mut backlog = Backlog::default();
        let found: Vec<Rate> = (0..=60)
            .filter_map(|i| backlog.on_ack(&ack(1000 + 10 * i, 500), true, RTT_MIN, &LossView::default()))
            .map(|(rate, lost)| {
                assert_eq!(lost, 0.0);
                rate
            })
            .collect();
        // A packet of 1000 bytes each 10 ms, and three standard errors of ten packets.
        let most = 100_000.0 * (1.0 + 3.0 / 10_f64.sqrt());
        assert_eq!(found.len(), 6);
        assert!(
            found.iter().all(|rate| (rate.bytes_per_second() as f64 / most - 1.0).abs() < 0.01),
            "{found:?}"
        );
    }

    #[test]
    fn one_round_trip_that_did_not_wait_ends_it() {
        let mut backlog = Backlog::default();
        for i in 0..60 {
            assert_eq!(
                backlog.on_ack(&ack(1000 + 10 * i, 500), i % 9 != 0, RTT_MIN, &LossView::default()),
                None,
                "{i}"
            );
        }
    }

    #[test]
    fn samples_of_the_old_link_are_limited_and_round_trips_behind_its_queue_do_not_count() {
        let mut backlog = Backlog::default();
        assert!(!backlog.has_waited(&ack(2000, 1500)));
        lower(&mut backlog, 2000);
        let rate = |backlog: &Backlog, now| {
            backlog.limited(at(now), RateSample::new(10_000, Duration::from_secs(1))).rate.bytes_per_second()
        };
        assert_eq!((rate(&backlog, 2500), rate(&backlog, 3000)), (1000, 10_000));
        assert!(backlog.has_waited(&ack(3000, 2500)));
        assert_eq!(backlog.on_drain(&ack(3000, 2500), true, RTT_MIN), None);
        assert!(backlog.has_waited(&ack(3500, 2900)) && !backlog.has_waited(&ack(3500, 3000)));
        // A route that became longer is believed in the end.
        lower(&mut backlog, 4000);
        assert!(backlog.has_waited(&ack(13_000, 12_500)) && !backlog.has_waited(&ack(14_100, 13_500)));
    }

    #[test]
    fn what_drains_faster_than_was_measured_was_no_queue() {
        let drained = |packets: u64, millis: u64| {
            let mut backlog = Backlog::default();
            lower(&mut backlog, 2000);
            for _ in 1..packets {
                assert_eq!(backlog.on_drain(&ack(2000, 1500), false, RTT_MIN), None);
            }
            let back = backlog.on_drain(&ack(2000 + millis, 1900), true, RTT_MIN);
            assert_eq!(backlog.has_waited(&ack(2000 + millis, 1900)), back.is_none());
            back.map(Rate::bytes_per_second)
        };
        assert_eq!((drained(2, 1000), drained(2, 3000)), (Some(100_000), None));
        assert_eq!(
            (drained(1, 1), drained(1, 1000)),
            (Some(100_000), None),
            "ten a second in the shortest time"
        );
    }
}
