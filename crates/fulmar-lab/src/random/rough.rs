//! Faults beside loss: a rough path has two of them.

use std::time::Duration;

use fulmar_net::Rng;

use super::dice::{octaves, percent, three_digits};

/// What may be wrong with a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The way back has a small part of the rate.
    ThinBack,
    /// The rate falls, on some paths for a time only.
    Fall,
    /// The rate rises, on some paths for a time only.
    Rise,
    /// The rate is never the same for long.
    Wobble,
    /// The link stands still, then lets out all that came.
    LinkStalls,
    /// The sender's host stands still, or the receiver's.
    HostStalls,
    /// For a while nothing arrives.
    BlackOut,
    /// Packets arrive twice.
    Copies,
    /// Bits are flipped.
    Corruption,
    /// The way back has jitter of its own.
    BackJitter,
    /// The way back loses more.
    BackLoss,
}

/// The slowest way back: the handshake's packets take a second each.
const BACK_KBPS_MIN: u64 = 10;
/// How often a rate that wobbles changes.
const WOBBLES: u64 = 24;

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ThinBack,
        Self::Fall,
        Self::Rise,
        Self::Wobble,
        Self::LinkStalls,
        Self::HostStalls,
        Self::BlackOut,
        Self::Copies,
        Self::Corruption,
        Self::BackJitter,
        Self::BackLoss,
    ];

    /// Two that go together: a rate has one course.
    pub(super) fn two(rng: &mut Rng) -> [Self; 2] {
        let draw = |rng: &mut Rng| Self::ALL[rng.below(Self::ALL.len() as u64) as usize];
        loop {
            let two = [draw(rng), draw(rng)];
            let rates = two.iter().filter(|fault| fault.is_of_rate()).count();
            if two[0] != two[1] && rates < 2 {
                return two;
            }
        }
    }

    fn is_of_rate(self) -> bool {
        matches!(self, Self::Fall | Self::Rise | Self::Wobble)
    }

    /// As a setting of the link, in a run of `duration` over a path of this rate and round trip.
    pub(super) fn word(
        self,
        rng: &mut Rng,
        rate_kbps: u64,
        rtt_us: u64,
        duration: Duration,
    ) -> (&'static str, String) {
        let ms = duration.as_millis() as u64;
        let ppm = |rng: &mut Rng, range| format!("{}%", three_digits(octaves(rng, range)) as f64 / 10_000.0);
        match self {
            Self::ThinBack => {
                let back = rate_kbps * 1000 / octaves(rng, (3_000, 64_000));
                ("back_rate", format!("{}k", three_digits(back.max(BACK_KBPS_MIN))))
            }
            Self::Fall => {
                ("rate", changed(rng, rate_kbps, ms, |rng| 1000 * 1000 / octaves(rng, (2_000, 16_000))))
            }
            Self::Rise => ("rate", changed(rng, rate_kbps, ms, |rng| octaves(rng, (2_000, 8_000)))),
            Self::Wobble => ("rate", wobbling(rng, rate_kbps, ms)),
            Self::LinkStalls => ("stall", stalls(rng, (150, 3_000), (5, 200))),
            Self::HostStalls => {
                let host = if percent(rng, 50) { "stall_sender" } else { "stall_receiver" };
                (host, stalls(rng, (100, 2_000), (3, 60)))
            }
            Self::BlackOut => {
                let (from, length) = (ms * 2 / 5, three_digits(octaves(rng, (50, 3_000))));
                ("blackout", format!("{from}ms-{}ms", from + length))
            }
            Self::Copies => ("duplicate", ppm(rng, (1_000, 200_000))),
            Self::Corruption => ("corrupt", ppm(rng, (500, 50_000))),
            Self::BackJitter => {
                let longest = octaves(rng, (100, (rtt_us / 2).max(200)));
                ("back_jitter", format!("{}us", three_digits(longest)))
            }
            Self::BackLoss => ("back_loss", ppm(rng, (10_000, 300_000))),
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThinBack => "a thin way back",
            Self::Fall => "a rate that falls",
            Self::Rise => "a rate that rises",
            Self::Wobble => "a rate that wobbles",
            Self::LinkStalls => "stalls of the link",
            Self::HostStalls => "stalls of a host",
            Self::BlackOut => "a black-out",
            Self::Copies => "packets twice",
            Self::Corruption => "flipped bits",
            Self::BackJitter => "jitter on the way back",
            Self::BackLoss => "loss on the way back",
        }
    }
}

/// A rate that becomes `factor` thousandths of itself, and comes back on half of the paths.
fn changed(rng: &mut Rng, rate_kbps: u64, ms: u64, factor: impl Fn(&mut Rng) -> u64) -> String {
    let then = three_digits((rate_kbps * factor(rng) / 1000).max(1));
    let steps = format!("{rate_kbps}k,{}ms:{then}k", ms * 2 / 5);
    if percent(rng, 50) { format!("{steps},{}ms:{rate_kbps}k", ms * 7 / 10) } else { steps }
}

/// A rate that is drawn anew again and again, within 5 to 30 per cent of the mean.
fn wobbling(rng: &mut Rng, rate_kbps: u64, ms: u64) -> String {
    let widest = 50 + rng.below(251);
    let step = |n: u64| {
        let rate = rate_kbps * (1000 - widest + rng.below(2 * widest + 1)) / 1000;
        format!(",{}ms:{}k", n * ms / WOBBLES, three_digits(rate.max(1)))
    };
    let steps: String = (1..WOBBLES).map(step).collect();
    format!("{rate_kbps}k{steps}")
}

/// Stalls at random: their mean distance, and how long each is.
fn stalls(rng: &mut Rng, apart_ms: (u64, u64), length_ms: (u64, u64)) -> String {
    let apart = three_digits(octaves(rng, apart_ms));
    let length = three_digits(octaves(rng, length_ms)).min(apart / 2);
    format!("{apart}ms/{length}ms")
}
