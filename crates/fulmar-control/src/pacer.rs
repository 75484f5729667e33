//! When the next packet may leave.
//!
//! A token bucket that is filled at [`SendBudget::pacing`] and holds [`SendBudget::burst_bytes`], and beside
//! that what a late timer did not send: whoever was told when to come and comes later finds what has been
//! earned meanwhile, up to [`LATENESS_MAX`]. So lateness is made up for and the average rate does not drift,
//! whatever the bursts a controller wants; and because no more than that stays, a pause is never followed by
//! a flood. Constant time and space.
//!
//! Credit is counted in bytes as `f64`: at 10 Gb/s a nanosecond is 1.25 bytes, and whole bytes would lose a
//! fifth. Invariant: over any interval at a constant rate, bytes sent are at most `burst_bytes + rate *
//! (interval + lateness)` plus one packet, with the lateness of the timer before the interval.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use crate::SendBudget;

/// Rounding of `f64` must not leave a deadline that is reached and yet not met.
const ROUNDING_BYTES: f64 = 1e-3;

/// Most lateness of a timer that is made up for; whoever comes later than that had nothing to send. tokio's
/// timers are 1 ms late on the average, those of a busy machine several; a sender that measures the rate it
/// reaches would take that for the path's, and slow down further each round.
const LATENESS_MAX: Duration = Duration::from_millis(10);

/// Obeys the pace of a congestion controller.
#[derive(Clone, Debug)]
pub struct Pacer {
    pacing: Option<Rate>,
    burst_bytes: f64,
    credit_bytes: f64,
    credited_at: Instant,
    /// When somebody who had to wait was told to come.
    due_at: Option<Instant>,
    /// Credit beyond a burst that a late timer has left.
    overdue_bytes: f64,
}

impl Pacer {
    /// A pacer that starts with a full bucket.
    pub fn new(now: Instant, budget: SendBudget) -> Self {
        let burst_bytes = budget.burst_bytes as f64;
        Self {
            pacing: budget.pacing,
            burst_bytes,
            credit_bytes: burst_bytes,
            credited_at: now,
            due_at: None,
            overdue_bytes: 0.0,
        }
    }

    /// The controller's budget may have changed. Credit earned so far was earned at the old pace.
    pub fn on_budget(&mut self, now: Instant, budget: SendBudget) {
        self.refill(now);
        self.pacing = budget.pacing;
        self.burst_bytes = budget.burst_bytes as f64;
        self.credit_bytes = self.credit_bytes.min(self.burst_bytes + self.overdue_bytes);
    }

    /// May `bytes` leave now? If not, when. More than a burst may leave once the bucket is full, and is owed.
    pub fn poll(&mut self, now: Instant, bytes: u64) -> Result<(), Instant> {
        let Some(pacing) = self.pacing else { return Ok(()) };
        self.refill(now);
        let lacking_bytes = (bytes as f64).min(self.burst_bytes) - self.credit_bytes;
        if lacking_bytes <= ROUNDING_BYTES {
            return Ok(());
        }
        if pacing == Rate::ZERO {
            return Err(Instant::from_nanos(u64::MAX));
        }
        // Saturates for absurdly slow paces; never "now", or the caller would spin.
        let wait_nanos = libm::ceil(lacking_bytes * 1e9 / pacing.bytes_per_second() as f64) as u64;
        let at = now + Duration::from_nanos(wait_nanos.max(1));
        self.due_at = Some(at);
        Err(at)
    }

    /// `bytes` left, whether or not the pacer was asked (probes are not).
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.refill(now);
        // Debt is bounded too, or a flood of unpaced probes would silence the connection for long.
        self.credit_bytes = (self.credit_bytes - bytes as f64).max(-self.burst_bytes.max(bytes as f64));
        self.overdue_bytes = self.overdue_bytes.min((self.credit_bytes - self.burst_bytes).max(0.0));
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.credited_at).as_nanos() as f64;
        self.credited_at = self.credited_at.max(now);
        let earned_bytes = match self.pacing {
            Some(pacing) => pacing.bytes_per_second() as f64 * elapsed / 1e9,
            None => self.burst_bytes,
        };
        if let (Some(due_at), Some(pacing)) = (self.due_at.take_if(|due_at| *due_at <= now), self.pacing) {
            let lateness = now.saturating_duration_since(due_at);
            self.overdue_bytes =
                if lateness <= LATENESS_MAX { pacing.bytes_in(lateness) as f64 } else { 0.0 };
        }
        self.credit_bytes = (self.credit_bytes + earned_bytes).min(self.burst_bytes + self.overdue_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(pacing: Option<Rate>, burst_bytes: u64) -> SendBudget {
        SendBudget { window_bytes: u64::MAX, pacing, burst_bytes }
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn packets_leave_at_the_pace_after_a_burst() {
        // 1.2 MB/s: a 1200-byte packet per millisecond; a burst of two.
        let mut pacer = Pacer::new(at(0), budget(Some(Rate::from_bytes_per_second(1_200_000)), 2400));
        for _ in 0..2 {
            assert_eq!(pacer.poll(at(0), 1200), Ok(()));
            pacer.on_sent(at(0), 1200);
        }
        assert_eq!(pacer.poll(at(0), 1200), Err(at(1000)));
        assert_eq!(pacer.poll(at(400), 1200), Err(at(1000)));
        assert_eq!(pacer.poll(at(1000), 1200), Ok(()));
    }

    #[test]
    fn a_late_timer_is_made_up_for_but_only_by_a_burst() {
        let mut pacer = Pacer::new(at(0), budget(Some(Rate::from_bytes_per_second(1_200_000)), 3600));
        let mut sent = 0;
        // Served every 2.5 ms only: 2.5 packets are due each time.
        for wake in 0..400 {
            let now = at(wake * 2500);
            while pacer.poll(now, 1200).is_ok() {
                pacer.on_sent(now, 1200);
                sent += 1;
            }
        }
        // 3 at once, then 399 * 2.5 packets' worth of time.
        assert!((998..=1001).contains(&sent), "{sent}");
        // An hour later no more than the burst leaves.
        let now = at(3_600_000_000);
        let mut burst = 0;
        while pacer.poll(now, 1200).is_ok() {
            pacer.on_sent(now, 1200);
            burst += 1;
        }
        assert_eq!(burst, 3);
    }

    #[test]
    fn a_timer_far_later_than_a_burst_is_made_up_for() {
        // A packet per millisecond and bursts of one, but nobody comes before 5 ms are over.
        let mut pacer = Pacer::new(at(0), budget(Some(Rate::from_bytes_per_second(1_200_000)), 1200));
        let mut sent = 0;
        for wake in 0..200 {
            let now = at(wake * 5000);
            pacer.on_budget(now, budget(Some(Rate::from_bytes_per_second(1_200_000)), 1200));
            while pacer.poll(now, 1200).is_ok() {
                pacer.on_sent(now, 1200);
                sent += 1;
            }
        }
        assert!((994..=997).contains(&sent), "{sent}");
    }

    #[test]
    fn the_pace_does_not_drift_at_ten_gigabits() {
        let rate = Rate::from_bits_per_second(10_000_000_000);
        let mut pacer = Pacer::new(at(0), budget(Some(rate), 1300));
        let (mut now, mut sent_bytes) = (at(0), 0_u64);
        while now < at(10_000) {
            match pacer.poll(now, 1300) {
                Ok(()) => {
                    pacer.on_sent(now, 1300);
                    sent_bytes += 1300;
                }
                Err(when) => {
                    assert!(when > now);
                    now = when;
                }
            }
        }
        // 12.5 MB in 10 ms. Deadlines are rounded up to whole nanoseconds of 1040: within 0.2 %.
        assert!((12_475_000..=12_502_600).contains(&sent_bytes), "{sent_bytes}");
    }

    #[test]
    fn a_change_of_pace_applies_from_now_on() {
        let mut pacer = Pacer::new(at(0), budget(Some(Rate::from_bytes_per_second(1_200_000)), 1200));
        pacer.on_sent(at(0), 1200);
        pacer.on_budget(at(500), budget(Some(Rate::from_bytes_per_second(2_400_000)), 1200));
        // Half was earned in 500 us, the other half takes 250 us at the doubled pace.
        assert_eq!(pacer.poll(at(500), 1200), Err(at(750)));
        pacer.on_budget(at(600), budget(None, 1200));
        assert_eq!(pacer.poll(at(600), 1_000_000), Ok(()));
    }

    #[test]
    fn packets_larger_than_a_burst_are_owed() {
        let mut pacer = Pacer::new(at(0), budget(Some(Rate::from_bytes_per_second(1_000_000)), 1000));
        assert_eq!(pacer.poll(at(0), 5000), Ok(()));
        pacer.on_sent(at(0), 5000);
        assert_eq!(pacer.poll(at(0), 1000), Err(at(5000)));
        let mut stopped = Pacer::new(at(0), budget(Some(Rate::ZERO), 0));
        stopped.on_sent(at(0), 1);
        assert_eq!(stopped.poll(at(0), 1), Err(Instant::from_nanos(u64::MAX)));
    }
}
