//! Paths as they change in the field, made by rule: nothing recorded is needed, and everybody has the same.
//!
//! | name | what it follows |
//! |---|---|
//! | `lte-walk` | a walk through a city on LTE: the rate wanders between 1 and 40 Mb/s about a mean near 10, a deep fade every 15 s or so, 100 ms of loss at a hand-over every 20 s |
//! | `wifi-edge` | at the edge of a Wi-Fi cell: 4 to 30 Mb/s in the steps of 802.11n's rates, changing three times a second; interference takes everything for 5 to 40 ms, a tenth of the time |
//! | `starlink` | a satellite for 15 s at a time, each with a rate of its own between 60 and 200 Mb/s, 60 to 150 ms of loss at the change, short losses in between |
//!
//! Each is a minute long and begins again. `fulmar-lab trace NAME` writes them in mahimahi's format, for
//! other emulators.

use std::time::Duration;

use fulmar_net::{Intervals, LossTrace, RateTrace, Rng};
use fulmar_proto::{Instant, Rate};

/// How long each is.
const PERIOD: Duration = Duration::from_secs(60);
/// How long a rate lasts.
const STEP_MS: u64 = 100;

/// A path that changes over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its name, as in `trace:lte-walk`.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// Rate of each step in kb/s.
    kbps: Vec<u64>,
    /// When everything is lost: start and end in ms.
    lost_ms: Vec<(u64, u64)>,
}

/// All there are.
pub fn all() -> Vec<Trace> {
    vec![lte_walk(), wifi_edge(), starlink()]
}

/// The one of this name.
pub fn find(name: &str) -> Option<Trace> {
    all().into_iter().find(|trace| trace.name == name)
}

/// Their names, by commas.
pub fn names() -> String {
    all().iter().map(|trace| trace.name).collect::<Vec<_>>().join(", ")
}

impl Trace {
    /// The rate over time.
    ///
    /// # Errors
    /// Never: the steps are in order.
    pub fn rate(&self) -> Result<RateTrace, String> {
        let step = |(index, kbps): (u64, &u64)| {
            (Duration::from_millis(index * STEP_MS), Rate::from_bits_per_second(kbps * 1000))
        };
        let steps = (0..).zip(&self.kbps).map(step).collect();
        RateTrace::new(steps, Some(PERIOD)).map_err(|error| error.to_string())
    }

    /// The losses over time.
    pub fn loss(&self) -> LossTrace {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let lost = Intervals::new(self.lost_ms.iter().map(|&(start, end)| (at(start), at(end))));
        LossTrace { lost, period: PERIOD }
    }

    /// The rate in mahimahi's format: a line for each 1500 bytes that may pass, with its millisecond.
    pub fn rate_lines(&self) -> String {
        let (mut bits, mut passed, mut lines) = (0, 0, String::new());
        let total_ms = PERIOD.as_millis() as u64;
        for ms in 0..total_ms {
            bits += self.kbps[(ms / STEP_MS) as usize];
            // The last line is the length of the trace as well, whatever is left of a packet then.
            let is_last = ms + 1 == total_ms;
            let due = bits / 12_000 + u64::from(is_last && bits % 12_000 > 0);
            for _ in passed..due {
                lines.push_str(&format!("{}\n", ms + 1));
            }
            passed = due;
        }
        lines
    }

    /// The losses in the like format: a line for each millisecond in which everything is lost, and the length
    /// last.
    pub fn loss_lines(&self) -> String {
        let lost = self.loss().lost;
        let ms = |at: Instant| at.as_nanos() / 1_000_000;
        let lines = lost.as_slice().iter().flat_map(|&(start, end)| ms(start)..ms(end));
        let mut text: String = lines.map(|ms| format!("{ms}\n")).collect();
        text.push_str(&format!("{}\n", PERIOD.as_millis()));
        text
    }
}

const STEPS: u64 = PERIOD.as_millis() as u64 / STEP_MS;

/// Uniform between two numbers.
fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

fn lte_walk() -> Trace {
    let mut rng = Rng::new(0x17e, 0);
    let (mut kbps, mut level, mut fade) = (Vec::new(), 10_000u64, 0u64);
    for _ in 0..STEPS {
        // A walk in per mille of itself, drawn back to its mean by a twentieth of the way.
        level = level * between(&mut rng, 850, 1160) / 1000;
        level = (level * 19 + 10_000) / 20;
        if fade == 0 && rng.below(150) == 0 {
            fade = between(&mut rng, 5, 20);
        }
        fade = fade.saturating_sub(1);
        kbps.push(if fade > 0 { between(&mut rng, 300, 900) } else { level.clamp(1000, 40_000) });
    }
    let lost_ms = [(11_300, 11_400), (32_050, 32_150), (53_700, 53_800)].to_vec();
    Trace { name: "lte-walk", about: "a walk through a city on LTE", kbps, lost_ms }
}

fn wifi_edge() -> Trace {
    // 802.11n, 20 MHz, one stream, less what medium access takes.
    const RATES: [u64; 6] = [4_000, 8_000, 12_000, 16_000, 23_000, 30_000];
    let mut rng = Rng::new(0x3f1, 0);
    let (mut kbps, mut at) = (Vec::new(), 3usize);
    for _ in 0..STEPS {
        at = match rng.below(6) {
            0 => at.saturating_sub(1),
            1 => (at + 1).min(RATES.len() - 1),
            _ => at,
        };
        kbps.push(RATES[at]);
    }
    let (mut lost_ms, mut ms) = (Vec::new(), 0);
    loop {
        let start = ms + 1 + rng.exponential(Duration::from_millis(200)).as_millis() as u64;
        ms = start + between(&mut rng, 5, 40);
        if ms >= STEPS * STEP_MS {
            break;
        }
        lost_ms.push((start, ms));
    }
    Trace { name: "wifi-edge", about: "at the edge of a Wi-Fi cell", kbps, lost_ms }
}

fn starlink() -> Trace {
    const SLOT_STEPS: u64 = 15_000 / STEP_MS;
    let mut rng = Rng::new(0x57a, 0);
    let (mut kbps, mut lost_ms, mut level) = (Vec::new(), Vec::new(), 0);
    for step in 0..STEPS {
        if step % SLOT_STEPS == 0 {
            level = between(&mut rng, 60_000, 200_000);
            let start = step * STEP_MS;
            lost_ms.push((start, start + between(&mut rng, 60, 150)));
        } else if rng.below(40) == 0 {
            let start = step * STEP_MS + rng.below(STEP_MS);
            lost_ms.push((start, start + between(&mut rng, 5, 25)));
        }
        kbps.push(level * between(&mut rng, 850, 1150) / 1000);
    }
    Trace { name: "starlink", about: "a satellite for 15 s at a time", kbps, lost_ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_net::parse::trace::{mahimahi_loss, mahimahi_trace};

    #[test]
    fn what_is_written_is_what_is_run() {
        for trace in all() {
            let own = trace.rate().unwrap();
            let read = mahimahi_trace(&trace.rate_lines(), Duration::from_millis(STEP_MS)).unwrap();
            let mut at = Instant::ZERO;
            for _ in 0..STEPS {
                let (a, b) = (own.at(at).bits_per_second(), read.at(at).bits_per_second());
                // A packet more or less in a step.
                assert!(a.abs_diff(b) <= 120_000, "{} at {at:?}: {a} {b}", trace.name);
                at += Duration::from_millis(STEP_MS);
            }
            assert_eq!(mahimahi_loss(&trace.loss_lines()).unwrap(), trace.loss(), "{}", trace.name);
        }
    }

    #[test]
    fn they_are_like_what_they_are_called() {
        let mean = |trace: &Trace| trace.kbps.iter().sum::<u64>() as f64 / STEPS as f64 / 1000.0;
        let lost = |trace: &Trace| trace.lost_ms.iter().map(|(a, b)| b - a).sum::<u64>() as f64 / 60_000.0;
        for (name, mbps, share) in [
            ("lte-walk", 6.0..16.0, 0.004..0.006),
            ("wifi-edge", 8.0..26.0, 0.07..0.14),
            ("starlink", 60.0..200.0, 0.005..0.02),
        ] {
            let trace = find(name).unwrap();
            assert!(mbps.contains(&mean(&trace)), "{name}: {} Mb/s", mean(&trace));
            assert!(share.contains(&lost(&trace)), "{name}: {} lost", lost(&trace));
        }
    }
}
