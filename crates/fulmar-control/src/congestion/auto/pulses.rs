//! The pulses of BBR's cycle.
//!
//! Once in eight of its round trips BBR sends a quarter faster for one, and then a quarter slower for as long
//! (draft-cardwell-iccrg-bbr-congestion-control-00, 4.3.4). In a queue that it shares the round trip rises
//! for that time and falls again, at the same distance every time. Nobody else keeps time: our own kind waits
//! between two probes as many rounds as chance wants, and CUBIC's losses come seconds apart.

use core::time::Duration;

use fulmar_units::Instant;

/// From one pulse to the next, in the shortest round trips: BBR takes a little longer than one for each of
/// its eight.
const PERIOD_MIN: f64 = 7.4;
const PERIOD_MAX: f64 = 9.4;
/// The longest distance of a row over the shortest.
const STEADY: f64 = 1.15;
/// One in between may be too low to be seen.
const STEPS_MAX: u32 = 2;
/// So many distances in a row are no chance, though one pulse among them was ours or somebody else's.
const ROW: u32 = 8;
/// A pulse is higher than this part of the shortest round trip: a third of BBR's own, if it had the link
/// alone.
const HEIGHT: u32 = 12;

/// What a round saw of the round trip.
#[derive(Copy, Clone, Debug)]
pub(super) struct Swing {
    pub(super) rtt_max: Duration,
    /// When that was.
    pub(super) at: Instant,
    /// From the shortest to the longest.
    pub(super) range: Duration,
}

/// Watches for them, round by round.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Pulses {
    /// One that may still grow.
    open: Option<Swing>,
    last: Option<Instant>,
    row: Option<Row>,
}

/// Distances that are about the same.
#[derive(Copy, Clone, Debug)]
struct Row {
    count: u32,
    has_stray: bool,
    shortest: Duration,
    longest: Duration,
}

impl Pulses {
    /// Adds a round on a path of this shortest round trip, where jitter moves round trips by `spread`. True
    /// if it ends a pulse that comes as BBR's do, after enough of them.
    pub(super) fn on_round(&mut self, swing: Swing, rtt_min: Duration, spread: Duration) -> bool {
        if swing.range > (rtt_min / HEIGHT).max(2 * spread) {
            if self.open.is_none_or(|open| swing.rtt_max > open.rtt_max) {
                self.open = Some(swing);
            }
            return false;
        }
        self.open.take().is_some_and(|pulse| self.on_pulse(pulse.at, rtt_min))
    }

    fn on_pulse(&mut self, at: Instant, rtt_min: Duration) -> bool {
        let bounds = rtt_min.mul_f64(PERIOD_MIN)..rtt_min.mul_f64(PERIOD_MAX);
        if let (Some(last), Some(row)) = (self.last, &mut self.row)
            && at - last < bounds.start
            && !row.has_stray
        {
            row.has_stray = true;
            return false;
        }
        let Some(last) = self.last.replace(at) else { return false };
        let period = (1..=STEPS_MAX).map(|steps| (at - last) / steps).find(|period| bounds.contains(period));
        self.row = period.map(|period| Row::of(period).after(self.row));
        self.row.is_some_and(|row| row.count >= ROW)
    }
}

impl Row {
    fn of(period: Duration) -> Self {
        Self { count: 1, has_stray: false, shortest: period, longest: period }
    }

    /// Goes on with the row before, if it is of that row.
    fn after(self, before: Option<Self>) -> Self {
        let longer = before.map(|before| Self {
            count: before.count + 1,
            has_stray: before.has_stray,
            shortest: before.shortest.min(self.shortest),
            longest: before.longest.max(self.longest),
        });
        longer.filter(|row| row.longest <= row.shortest.mul_f64(STEADY)).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_MIN: Duration = Duration::from_millis(20);
    const ROUND: u64 = 25;

    /// Rounds in which the round trip rises by five milliseconds where a pulse of these distances, in
    /// milliseconds, falls into one: after how many pulses are they BBR's?
    fn found_after(distances: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut pulses = Pulses::default();
        let (mut round_at, mut pulse_at) = (0, 0);
        distances.into_iter().position(|distance| {
            pulse_at += distance;
            let mut is_found = false;
            while round_at < pulse_at + 2 * ROUND {
                let has_pulse = (round_at..round_at + ROUND).contains(&pulse_at);
                let range = Duration::from_millis(if has_pulse { 5 } else { 1 });
                let at = Instant::ZERO + Duration::from_millis(if has_pulse { pulse_at } else { round_at });
                let swing = Swing { rtt_max: RTT_MIN + range, at, range };
                is_found |= pulses.on_round(swing, RTT_MIN, Duration::from_micros(500));
                round_at += ROUND;
            }
            is_found
        })
    }

    #[test]
    fn what_comes_every_eight_round_trips_is_bbr_s() {
        assert_eq!(found_after([165; 20]), Some(8), "nine pulses have eight distances");
        assert_eq!(found_after([158, 172].repeat(10)), Some(8));
        assert_eq!(found_after([165, 165, 165, 165, 100, 65, 165, 165, 165, 165]), Some(9), "one is a stray");
        assert_eq!(
            found_after([165, 165, 330, 165, 165, 165, 330, 165, 165, 165]),
            Some(8),
            "two were not seen"
        );
    }

    #[test]
    fn what_keeps_no_time_or_another_is_not() {
        assert_eq!(found_after([225, 250, 275, 300].repeat(10)), None, "our own kind");
        assert_eq!(found_after([250; 40]), None);
        assert_eq!(found_after([100; 40]), None);
        assert_eq!(found_after([165, 165, 165, 165, 165, 90].repeat(10)), None, "others pulse as well");
        assert_eq!(found_after([155, 155, 155, 180, 180, 180].repeat(10)), None, "it drifts");
    }
}
