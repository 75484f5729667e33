//! The phases of `auto`: how fast each sends, as a multiple of the link's rate, how much it keeps in flight,
//! and what only it knows. That ends with the phase.

use alloc::boxed::Box;
use core::time::Duration;

use fulmar_units::Rate;

use super::carried::Carried;
use super::early::Early;
use super::fill::Fill;
use super::rival::Rival;
use super::startup::{STARTUP_GAIN, Startup};

/// Below 1, so that the queue stays empty and every round measures the random loss.
const CRUISE_GAIN: f64 = 0.995;
/// BBR: PROBE_UP 1.25.
pub(super) const UP_GAIN: f64 = 1.25;
/// A probe goes on where this share of what it asked for was to be had.
const UP_GROWTH_SHARE: f64 = 0.2;

/// What the controller is doing.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Doubling, to find the rate.
    Startup(Box<Startup>),
    /// Sending slower, until a queue is gone.
    Slow {
        /// Which queue.
        kind: Slow,
        /// Whole rounds of it.
        rounds: u32,
        /// We were competing until then.
        paused: Option<Box<Rival>>,
    },
    /// Sending just below the rate, with the queue empty: most of the time.
    Cruise {
        /// Rounds in a row that met somebody else's queue.
        foreign_rounds: u32,
        /// What the link carried in them.
        standing: Carried,
    },
    /// Sending faster, to see whether there is more.
    Up(Up),
    /// Somebody else keeps a queue that our draining does not empty: a window like theirs, or we would
    /// starve.
    Compete(Box<Rival>),
    /// BBR looks for the shortest round trip: the link is ours alone, for as long as that takes.
    Fill(Fill),
}

/// Why it sends slower.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Slow {
    /// To empty the queue that start-up filled.
    Drain,
    /// Until the queue that probing filled is gone; compares loss and finds the shortest RTT.
    Down,
    /// No longer than until the queue that probing filled is gone: there is no loss to compare, and nobody to
    /// wait for.
    Brief,
    /// As `Down`, deeper, because the shortest RTT was not seen for long.
    DeepDown,
    /// The same, as long as it takes for a queue that others drain as well.
    Together,
}

/// A probe for more.
#[derive(Copy, Clone, Debug)]
pub(super) struct Up {
    /// Whole rounds of it.
    pub(super) rounds: u32,
    /// The link's rate, and the shortest RTT of the last round, when it began.
    pub(super) rate: Rate,
    pub(super) rtt: Duration,
    /// Pace as a multiple of that rate.
    pub(super) gain: f64,
}

impl Up {
    /// It found so much more that it is worth to go on.
    pub(super) fn has_grown_to(&self, rate: Rate) -> bool {
        rate >= self.rate.scaled(1.0 + (self.gain - 1.0) * UP_GROWTH_SHARE)
    }
}

impl Slow {
    /// Pace as a multiple of the link's rate.
    pub(super) fn gain(self) -> f64 {
        match self {
            // Drains in one or two rounds what start-up queued in one.
            Self::Drain => 0.5,
            Self::Down | Self::Brief => 0.75,
            Self::DeepDown => 0.5,
            // Flows in a queue that none of them sees send several times what the link carries: half of that
            // would still fill it.
            Self::Together => 0.125,
        }
    }

    /// Most rounds of it: a queue that does not drain is somebody else's.
    pub(super) fn rounds_max(self) -> u32 {
        match self {
            Self::Together => 2,
            _ => 3,
        }
    }

    /// Down to what share of the bandwidth-delay product it drains what is in flight; `None` for as long as
    /// it may last: who drains with others does not know what fills the path.
    pub(super) fn drain_target(self) -> Option<f64> {
        match self {
            // Half a product for one round is what BBRv2's ProbeRTT does for 200 ms.
            Self::DeepDown => Some(0.6),
            Self::Drain | Self::Down | Self::Brief => Some(1.0),
            Self::Together => None,
        }
    }
}

impl Phase {
    /// Doubling from a delivery rate of `full_rate`.
    pub(super) fn startup(full_rate: Rate, early: Early) -> Self {
        Self::Startup(Box::new(Startup::new(full_rate, early)))
    }

    /// The first round of sending slower.
    pub(super) fn slow(kind: Slow) -> Self {
        Self::Slow { kind, rounds: 0, paused: None }
    }

    /// The first round of cruising.
    pub(super) fn cruise() -> Self {
        Self::Cruise { foreign_rounds: 0, standing: Carried::new() }
    }

    pub(super) fn is_startup(&self) -> bool {
        matches!(self, Self::Startup(_))
    }

    /// Pace as a multiple of the link's rate.
    pub(super) fn gain(&self) -> f64 {
        match self {
            Self::Startup(_) => STARTUP_GAIN,
            Self::Slow { kind, .. } => kind.gain(),
            Self::Cruise { .. } => CRUISE_GAIN,
            Self::Up(up) => up.gain,
            Self::Compete(_) => UP_GAIN,
            Self::Fill(fill) => fill.gain(),
        }
    }

    /// The phase's name in traces.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Startup(_) => "startup",
            Self::Slow { kind: Slow::Drain, .. } => "drain",
            Self::Slow { kind: Slow::Down | Slow::Brief, .. } => "probe down",
            Self::Slow { kind: Slow::DeepDown, .. } => "probe rtt",
            Self::Slow { kind: Slow::Together, .. } => "drain together",
            Self::Cruise { .. } => "cruise",
            Self::Up(_) => "probe up",
            Self::Fill(_) => "fill trough",
            Self::Compete(rival) => match **rival {
                Rival::Cubic(_) => "compete",
                Rival::Bbr(_) => "compete with bbr",
            },
        }
    }
}
