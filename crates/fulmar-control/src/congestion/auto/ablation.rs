//! What can be left out of `auto`, one at a time, to see what it is worth.
//!
//! Nobody sends better without one of them: notebook/auto/parts.md has what each costs.

/// A mechanism of [`Auto`](super::Auto).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Random loss is compensated.
    RandomLoss,
    /// On a long path start-up jumps to the rate that packet trains show.
    Trains,
    /// The same through jitter, and clumps where the first packets moved the round trip.
    Flights,
    /// A queue shorter than the jitter is none.
    Spread,
    /// A long round trip that is steady shows a queue that is short beside it.
    Steady,
    /// A window like a rival's beside one.
    Competitive,
    /// BBR's window and pace beside one that takes no loss for congestion.
    Insistent,
    /// Room for aggregated ACKs.
    Aggregation,
    /// Loss is learned only where our probing moves the path.
    Alone,
    /// The random loss is compared with slow rounds from time to time.
    Check,
    /// A probe's own queue is drained for no longer than it takes.
    Brief,
    /// The shortest round trip is looked for.
    RttProbe,
    /// Where others share a full queue the rate is what the link carried.
    Carried,
    /// Where few packets fill the path short queues count, and one that stands is drained before it counts as
    /// others'.
    Narrow,
    /// Who may never have seen the queue empty drains it when others do, in the moments that all know.
    Join,
    /// Jitter that keeps the order is told from a queue.
    Jitter,
    /// Probes that neither make a queue nor find more show a policer.
    Policer,
    /// Round trips too restless for a full queue show that losses are the path's.
    Restless,
}

use Mechanism::{
    Aggregation, Alone, Brief, Carried, Check, Competitive, Flights, Insistent, Jitter, Join, Narrow,
    Policer, RandomLoss, Restless, RttProbe, Spread, Steady, Trains,
};

const ALL: [(&str, Mechanism); 18] = [
    ("random-loss", RandomLoss),
    ("trains", Trains),
    ("flights", Flights),
    ("spread", Spread),
    ("steady", Steady),
    ("competitive", Competitive),
    ("insistent", Insistent),
    ("aggregation", Aggregation),
    ("alone", Alone),
    ("check", Check),
    ("brief", Brief),
    ("rtt-probe", RttProbe),
    ("carried", Carried),
    ("narrow", Narrow),
    ("join", Join),
    ("jitter", Jitter),
    ("policer", Policer),
    ("restless", Restless),
];

impl Mechanism {
    /// The word for leaving out none, then one for each.
    pub const NAMES: [&'static str; ALL.len() + 1] = {
        let mut names = ["nothing"; ALL.len() + 1];
        let mut index = 0;
        while index < ALL.len() {
            names[index + 1] = ALL[index].0;
            index += 1;
        }
        names
    };

    /// The mechanism of that name; `None` for every other word.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, mechanism)| *mechanism)
    }
}
