//! Congestion controllers: how much may be in flight, and how fast it may leave.

use core::fmt::Debug;

use fulmar_units::{Instant, Rate};

use crate::{Feedback, PathView};

mod above_code;
mod aimd;
mod auto;
mod bbr;
mod cubic;
mod hystart;
mod receive_window;
mod reno;
mod response;
#[cfg(any(test, feature = "told"))]
pub mod told;
mod window;

pub use above_code::{AboveCode, DUPLICATE_ACKS_OF_LOSS};
pub use aimd::{Aimd, REDUCTION};
pub use auto::{Auto, Mechanism};
pub use bbr::Bbr;
pub use cubic::{Cubic, CubicConfig};
pub use receive_window::ReceiveWindow;
pub use reno::{NewReno, Reno};
pub use response::{Response, WindowController};
pub use window::WindowConfig;

/// What a controller allows: a window, a pace, and how far the pace may be run ahead of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SendBudget {
    /// Most bytes that may be in flight.
    pub window_bytes: u64,
    /// Pace at which packets leave; `None` leaves them to the window alone.
    pub pacing: Option<Rate>,
    /// Most bytes that may leave at once, back to back, after a pause.
    pub burst_bytes: u64,
}

/// Who shares the bottleneck, as a controller takes it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Company {
    /// The path is its own.
    Nobody,
    /// Flows of the same controller.
    Kin,
    /// Flows that yield to loss, as CUBIC.
    Yielding,
    /// Flows that do not, as BBR.
    Insisting,
    /// Whoever they are, a policer drops what is above its rate.
    Policer,
}

impl Company {
    /// The same in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Kin => "kin",
            Self::Yielding => "yielding",
            Self::Insisting => "insisting",
            Self::Policer => "policer",
        }
    }
}

/// A congestion controller. It owns no timer: it is told of everything that happens and asked for its budget.
pub trait CongestionController: Debug + Send {
    /// The field's name of the algorithm, for statistics.
    fn name(&self) -> &'static str;

    /// A packet has left that counts as in flight, and nothing else was in flight.
    fn on_flight_begun(&mut self) {}

    /// The handshake has shown the round trip of `path`, of which nothing else is known.
    fn on_handshake_rtt(&mut self, _path: &PathView) {}

    /// An ACK arrived or losses were detected. `path` is the state after applying it.
    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView);

    /// The probe timeout expired `count` times in a row (RFC 9002 6.2) without an ACK.
    fn on_timeout(&mut self, now: Instant, count: u32, path: &PathView);

    /// The path was replaced (migration): forget what was learned of the old one.
    fn on_path_change(&mut self, now: Instant, path: &PathView);

    /// What may be sent now.
    fn budget(&self) -> SendBudget;

    /// The controller's estimate of the bottleneck rate, where it has one.
    fn bandwidth(&self) -> Option<Rate> {
        None
    }

    /// Times it entered fast recovery (RFC 5681 3.2): reduced its window for a loss, other than after a
    /// timeout. `None` where the algorithm has no such thing.
    fn recoveries(&self) -> Option<u64> {
        None
    }

    /// The algorithm's internal phase, for traces ("slow start", "probe up", ..).
    fn phase(&self) -> &'static str {
        ""
    }

    /// Who it takes to share the bottleneck, for traces. `None` where it cannot tell, or the algorithm does
    /// not ask.
    fn company(&self) -> Option<Company> {
        None
    }
}
