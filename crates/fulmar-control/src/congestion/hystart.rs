//! When slow start should end before it has filled the queue.
//!
//! Source: RFC 9406 (HyStart++), section 4.2 and 4.3. Per round the smallest RTT of the first samples is
//! compared with that of the round before: a rise ends slow start provisionally (conservative slow start,
//! growth a quarter as fast); if the RTT falls back it was noise, if not for five rounds the threshold is
//! set. Inputs: round number and RTT samples.

use core::time::Duration;

/// RFC 9406 4.3 MIN_RTT_THRESH.
const RISE_MIN: Duration = Duration::from_millis(4);
/// RFC 9406 4.3 MAX_RTT_THRESH.
const RISE_MAX: Duration = Duration::from_millis(16);
/// RFC 9406 4.3 MIN_RTT_DIVISOR.
const RISE_DIVISOR: u32 = 8;
/// RFC 9406 4.3 N_RTT_SAMPLE.
const SAMPLES_MIN: u32 = 8;
/// RFC 9406 4.3 CSS_GROWTH_DIVISOR.
pub(super) const CSS_GROWTH_DIVISOR: u64 = 4;
/// RFC 9406 4.3 CSS_ROUNDS.
const CSS_ROUNDS: u32 = 5;

/// How fast slow start may go on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SlowStart {
    /// As fast as ever.
    Standard,
    /// At a quarter of the speed, until it is clear what the rise of the RTT meant.
    Conservative,
    /// It is over.
    Exit,
}

/// The detector.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    round: Option<u64>,
    last_round_min: Duration,
    round_min: Duration,
    samples: u32,
    /// Smallest RTT when conservative slow start began, and the rounds it has lasted.
    conservative: Option<(Duration, u32)>,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round: None,
            last_round_min: Duration::MAX,
            round_min: Duration::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// Takes one ACK received in slow start.
    pub(super) fn on_ack(&mut self, round: u64, rtt: Option<Duration>) -> SlowStart {
        if self.round != Some(round) {
            self.round = Some(round);
            self.last_round_min = self.round_min;
            self.round_min = Duration::MAX;
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
            }
        }
        if let Some(rtt) = rtt {
            self.round_min = self.round_min.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        self.judge()
    }

    fn judge(&mut self) -> SlowStart {
        let has_samples = self.samples >= SAMPLES_MIN;
        match self.conservative {
            Some((baseline, _)) if has_samples && self.round_min < baseline => {
                // The rise was spurious.
                self.conservative = None;
                SlowStart::Standard
            }
            Some((_, rounds)) if rounds >= CSS_ROUNDS => SlowStart::Exit,
            Some(_) => SlowStart::Conservative,
            None if has_samples && self.last_round_min != Duration::MAX && self.has_risen() => {
                self.conservative = Some((self.round_min, 0));
                SlowStart::Conservative
            }
            None => SlowStart::Standard,
        }
    }

    fn has_risen(&self) -> bool {
        let threshold = (self.last_round_min / RISE_DIVISOR).clamp(RISE_MIN, RISE_MAX);
        self.round_min >= self.last_round_min + threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(hystart: &mut HyStart, round: u64, millis: u64) -> SlowStart {
        let mut verdict = SlowStart::Standard;
        for _ in 0..SAMPLES_MIN {
            verdict = hystart.on_ack(round, Some(Duration::from_millis(millis)));
        }
        verdict
    }

    #[test]
    fn a_lasting_rise_ends_slow_start_after_five_rounds() {
        let mut hystart = HyStart::new();
        // 100 / 8 = 12.5 ms is the threshold: 112 is none, 125 over 112 reaches 12.5..14.
        assert_eq!(round(&mut hystart, 0, 100), SlowStart::Standard);
        assert_eq!(round(&mut hystart, 1, 112), SlowStart::Standard);
        assert_eq!(round(&mut hystart, 2, 126), SlowStart::Conservative);
        for later in 3..7 {
            assert_eq!(round(&mut hystart, later, 130), SlowStart::Conservative, "round {later}");
        }
        assert_eq!(round(&mut hystart, 7, 130), SlowStart::Exit);
    }

    #[test]
    fn a_passing_rise_is_forgiven() {
        let mut hystart = HyStart::new();
        round(&mut hystart, 0, 20);
        assert_eq!(round(&mut hystart, 1, 24), SlowStart::Conservative);
        assert_eq!(round(&mut hystart, 2, 21), SlowStart::Standard);
    }

    #[test]
    fn few_samples_prove_nothing() {
        let mut hystart = HyStart::new();
        round(&mut hystart, 0, 20);
        for _ in 0..SAMPLES_MIN - 1 {
            assert_eq!(hystart.on_ack(1, Some(Duration::from_millis(90))), SlowStart::Standard);
        }
    }
}
