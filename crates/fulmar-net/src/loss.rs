//! Which packets the wire loses: independent, correlated, periodic, in bursts, by trace.
//!
//! A model answers one question per packet, in order, with the time the packet passes: is it lost? Times
//! never decrease. The models that depend on time (a microwave oven, a hidden terminal) hit whatever passes
//! then; the others count packets.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use fulmar_units::Instant;

use crate::{Intervals, Probability, Rng, Steps};

/// What loses packets on a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Loss {
    /// Nothing.
    #[default]
    None,
    /// Each packet alone, with this probability.
    Bernoulli(Probability),
    /// Two states, so that losses come in runs.
    TwoState(TwoState),
    /// On and off at fixed times: a microwave oven beside a Wi-Fi link (it radiates for half of each mains
    /// period).
    Periodic(Periodic),
    /// Bursts at random times: a hidden terminal that sends now and then.
    PoissonBursts(PoissonBursts),
    /// Recorded losses, packet by packet.
    Pattern(LossPattern),
    /// Recorded losses by time.
    Trace(LossTrace),
    /// Each packet alone, with a probability that was recorded over time.
    Varying(Steps<Probability>),
}

impl Loss {
    /// Independent losses, or none if `p` is zero.
    pub const fn bernoulli(p: Probability) -> Self {
        if p.is_zero() { Self::None } else { Self::Bernoulli(p) }
    }
}

/// The correlated losses of the LT-TCP thesis: loss rate p and burst length E.
///
/// `P(lost | lost) = a + (1 - a) p` and `P(lost | ok) = (1 - a) p` with `a = 1 - 1 / (E (1 - p))`. That is
/// `P(lost | lost) = 1 - 1 / E`, so runs of losses are geometric with mean E, and the long-run loss rate is
/// p. `E = 1 / (1 - p)` gives a = 0: independent losses. The first packet is drawn from the long-run
/// distribution.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TwoState {
    loss: Probability,
    burst_milli: u32,
    after_loss: Probability,
    after_ok: Probability,
}

/// There is no two-state chain with this loss rate and burst length.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InvalidTwoState {
    /// A burst has at least one packet.
    BurstBelowOne,
    /// So many losses cannot come in bursts so short: p may be at most E / (E + 1).
    BurstTooShortForLoss,
}

impl fmt::Display for InvalidTwoState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BurstBelowOne => "a loss burst has at least one packet",
            Self::BurstTooShortForLoss => "bursts of mean length E allow a loss rate of at most E / (E + 1)",
        })
    }
}

impl core::error::Error for InvalidTwoState {}

impl TwoState {
    /// Losses with rate `loss` in bursts of `burst_milli` thousandths of a packet on average (5000: E = 5).
    ///
    /// # Errors
    /// If no such chain exists.
    pub fn new(loss: Probability, burst_milli: u32) -> Result<Self, InvalidTwoState> {
        const SCALE: u64 = 1_000_000_000;
        if burst_milli < 1000 {
            return Err(InvalidTwoState::BurstBelowOne);
        }
        let burst_milli_wide = u64::from(burst_milli);
        let leave = Probability::from_ppb((SCALE * 1000 + burst_milli_wide / 2) / burst_milli_wide);
        // (1 - a) p = p / (E (1 - p))
        let divisor = u128::from(burst_milli_wide) * u128::from(loss.complement().ppb());
        let enter = (u128::from(loss.ppb()) * u128::from(SCALE) * 1000 + divisor / 2)
            .checked_div(divisor)
            .filter(|&enter| enter <= u128::from(SCALE))
            .ok_or(InvalidTwoState::BurstTooShortForLoss)?;
        Ok(Self {
            loss,
            burst_milli,
            after_loss: leave.complement(),
            after_ok: Probability::from_ppb(enter as u64),
        })
    }

    /// The long-run loss rate p.
    pub const fn loss(&self) -> Probability {
        self.loss
    }

    /// The mean burst length E in thousandths of a packet.
    pub const fn burst_milli(&self) -> u32 {
        self.burst_milli
    }

    /// P(lost | the packet before was lost).
    pub const fn after_loss(&self) -> Probability {
        self.after_loss
    }

    /// P(lost | the packet before got through).
    pub const fn after_ok(&self) -> Probability {
        self.after_ok
    }
}

/// Interference that comes and goes with a fixed period.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Periodic {
    /// One cycle; zero: always on. A microwave oven: 20 ms (50 Hz) or 16.7 ms (60 Hz).
    pub period: Duration,
    /// The part of each cycle, from its start, in which packets are lost.
    pub on: Duration,
    /// When the first cycle starts, after time zero.
    pub offset: Duration,
    /// Probability that a packet within is lost.
    pub loss: Probability,
}

impl Periodic {
    fn is_on(&self, at: Instant) -> bool {
        let period = self.period.as_nanos();
        let offset = self.offset.as_nanos();
        let since = u128::from(at.as_nanos());
        let phase = match since.checked_sub(offset) {
            Some(after) => after.checked_rem(period),
            // Before the first start: the tail of an earlier cycle.
            None => (offset - since).checked_rem(period).map(|ahead| (period - ahead) % period),
        };
        phase.is_none_or(|phase| phase < self.on.as_nanos())
    }
}

/// Bursts that start as a Poisson process; while at least one lasts, packets are lost.
///
/// The share of time covered is `1 - exp(-length / interval_mean)` (the busy probability of an M/D/infinity
/// queue).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PoissonBursts {
    /// Mean time from the start of a burst to the start of the next; taken as at least 1 us.
    pub interval_mean: Duration,
    /// How long each lasts.
    pub length: Duration,
    /// Probability that a packet within is lost.
    pub loss: Probability,
}

/// Recorded losses: one entry per packet, `true` for lost, repeated from the start when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LossPattern(Vec<bool>);

impl LossPattern {
    /// A pattern from its entries. An empty one loses nothing.
    pub const fn new(lost: Vec<bool>) -> Self {
        Self(lost)
    }

    /// The entries.
    pub fn as_slice(&self) -> &[bool] {
        &self.0
    }
}

/// Recorded times in which everything is lost, repeated from the start when they end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LossTrace {
    /// The times, after time zero.
    pub lost: Intervals,
    /// After this it begins again; zero: it does not.
    pub period: Duration,
}

impl LossTrace {
    fn is_lost(&self, at: Instant) -> bool {
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        let phase = at.as_nanos().checked_rem(period).unwrap_or(at.as_nanos());
        self.lost.contains(Instant::from_nanos(phase))
    }
}

/// A model at work.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    model: Loss,
    rng: Rng,
    state: State,
}

/// What a model remembers from packet to packet.
#[derive(Clone, Debug)]
enum State {
    Nothing,
    /// Two-state: the probability for the next packet.
    Next(Probability),
    /// Poisson bursts: when the last one that started ends, and when the next starts.
    Burst {
        until: Instant,
        next: Instant,
    },
    /// Pattern: the next entry.
    Position(usize),
}

impl LossProcess {
    pub(crate) fn new(model: Loss, mut rng: Rng) -> Self {
        let state = match &model {
            Loss::None | Loss::Bernoulli(_) | Loss::Periodic(_) | Loss::Trace(_) | Loss::Varying(_) => {
                State::Nothing
            }
            Loss::TwoState(chain) => State::Next(chain.loss),
            Loss::PoissonBursts(bursts) => {
                let next = Instant::ZERO + burst_interval(bursts, &mut rng);
                State::Burst { until: Instant::ZERO, next }
            }
            Loss::Pattern(_) => State::Position(0),
        };
        Self { model, rng, state }
    }

    /// Whether the packet that passes at `at` is lost.
    pub(crate) fn is_lost(&mut self, at: Instant) -> bool {
        match (&self.model, &mut self.state) {
            (Loss::Bernoulli(p), _) => self.rng.chance(*p),
            (Loss::TwoState(chain), State::Next(p)) => {
                let lost = self.rng.chance(*p);
                *p = if lost { chain.after_loss } else { chain.after_ok };
                lost
            }
            (Loss::Periodic(periodic), _) => periodic.is_on(at) && self.rng.chance(periodic.loss),
            (Loss::Trace(trace), _) => trace.is_lost(at),
            (Loss::Varying(steps), _) => self.rng.chance(steps.at(at)),
            (Loss::PoissonBursts(bursts), State::Burst { until, next }) => {
                // After a silence of a million bursts, only those that may still last are drawn: a Poisson
                // process has no memory. Otherwise all are, so that they do not depend on the packets.
                let million = bursts.interval_mean.saturating_mul(1_000_000).max(SILENCE_MIN);
                if at - *next > million {
                    *next = at - bursts.length.min(million) + burst_interval(bursts, &mut self.rng);
                }
                // The end of time is no start of a burst, or there would be no end to them.
                while *next <= at && *next < Instant::from_nanos(u64::MAX) {
                    *until = *next + bursts.length;
                    *next += burst_interval(bursts, &mut self.rng);
                }
                at < *until && self.rng.chance(bursts.loss)
            }
            (Loss::Pattern(LossPattern(entries)), State::Position(position)) => {
                let Some(&lost) = entries.get(*position) else { return false };
                *position = (*position + 1) % entries.len();
                lost
            }
            _ => false,
        }
    }

    /// Takes a new model; the generator goes on.
    pub(crate) fn replace(&mut self, model: Loss) {
        if model != self.model {
            *self = Self::new(model, self.rng.clone());
        }
    }
}

/// What counts as a silence at least.
const SILENCE_MIN: Duration = Duration::from_secs(1);

fn burst_interval(bursts: &PoissonBursts, rng: &mut Rng) -> Duration {
    rng.exponential(bursts.interval_mean.max(Duration::from_micros(1)))
}
