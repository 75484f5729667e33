//! The phases of `auto`: how fast each sends, as a multiple of the link's rate, and how much it keeps in flight.

/// What the controller is doing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Doubling, to find the rate.
    Startup,
    /// Emptying the queue that start-up filled.
    Drain,
    /// Sending just below the rate, with the queue empty: most of the time.
    Cruise,
    /// Sending faster, to see whether there is more.
    Up,
    /// Sending slower, until the queue that probing filled is gone; compares loss and finds the shortest RTT.
    Down,
    /// The same, deeper, because the shortest RTT was not seen for long.
    DeepDown,
    /// Somebody else keeps a queue that our draining does not empty: a window like theirs, or we would starve.
    Compete,
}

impl Phase {
    /// Pace as a multiple of the link's rate.
    pub(super) fn gain(self) -> f64 {
        match self {
            // BBR: 2/ln 2 = 2.885, the least that doubles the rate every round; BBRv3 takes 2.77.
            Self::Startup => 2.77,
            // Drains in one or two rounds what start-up queued in one.
            Self::Drain => 0.5,
            // Below 1, so that the queue stays empty and every round measures the loss floor.
            Self::Cruise => 0.98,
            // BBR: PROBE_UP 1.25.
            Self::Up | Self::Compete => 1.25,
            Self::Down => 0.75,
            Self::DeepDown => 0.5,
        }
    }

    /// Down to what share of the bandwidth-delay product this phase drains what is in flight.
    pub(super) fn drain_target(self) -> f64 {
        match self {
            // Half a product for one round is what BBRv2's ProbeRTT does for 200 ms.
            Self::DeepDown => 0.6,
            _ => 1.0,
        }
    }

    /// The phase's name in traces.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Cruise => "cruise",
            Self::Up => "probe up",
            Self::Down => "probe down",
            Self::DeepDown => "probe rtt",
            Self::Compete => "compete",
        }
    }
}
