//! What an application would rather have.

/// What is favoured where not everything can be had.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Favor {
    /// Bytes per second: nothing is spent on repair before it is asked for, but at the end of a flight.
    Throughput,
    /// Repair ahead of loss where the path has room for it.
    #[default]
    Balanced,
    /// That what is lost is repaired soon, at the price of two to four times the bytes.
    Latency,
}

impl Favor {
    /// Their names, in the order of [`Favor::ALL`].
    pub const NAMES: [&'static str; 3] = ["throughput", "balanced", "latency"];
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Balanced, Self::Latency];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Balanced => "balanced",
            Self::Latency => "latency",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|favor| favor.name() == name)
    }
}

impl core::fmt::Display for Favor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
