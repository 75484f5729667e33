//! What is to be run: links, flows, length. Everything but the seed.

use std::time::Duration;

use fulmar_proto::Profile;

use crate::link::LinkSpec;
use crate::traffic::Traffic;

/// One run without its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How the ends are joined.
    pub topology: Topology,
    /// Who sends.
    pub flows: Vec<FlowSpec>,
    /// How long, from the first start of a flow.
    pub duration: Duration,
    /// What arrives before this does not count.
    pub warm_up: Duration,
    /// No loss, marks or jitter until all handshakes of flows that start at zero are complete (LT-TCP,
    /// section 2.1).
    pub loss_free_handshake: bool,
    /// Values over time at this interval.
    pub sample_interval: Option<Duration>,
}

/// How the ends are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each run")]
pub enum Topology {
    /// One link in each direction, shared by all flows; flows with a round-trip time of their own reach it
    /// over an access link (a dumbbell, D13).
    Dumbbell(LinkSpec),
    /// Two or more bottlenecks in a row (D13). A flow at place 0 crosses all, one at place i the i-th only.
    ParkingLot(Vec<LinkSpec>),
}

impl Topology {
    /// The first bottleneck.
    pub fn first(&self) -> Option<&LinkSpec> {
        match self {
            Self::Dumbbell(link) => Some(link),
            Self::ParkingLot(links) => links.first(),
        }
    }
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// How it sends.
    pub profile: Profile,
    /// What.
    pub traffic: Traffic,
    /// When it starts.
    pub start: Duration,
    /// When its application stops writing; by default at the end of the run.
    pub stop: Option<Duration>,
    /// Its round-trip time if it is longer than that of the links it crosses.
    pub rtt: Option<Duration>,
    /// In a parking lot: 0 crosses all bottlenecks, i the i-th.
    pub place: usize,
    /// How urgent its packets are, to a queue that cares.
    pub priority: u8,
    /// It goes the other way: from the receivers' side to the senders'.
    pub is_reversed: bool,
    /// Its start is later by a time drawn from the seed, at most this.
    pub start_within: Duration,
}

impl FlowSpec {
    /// A flow that starts at zero and sends to the end.
    pub fn new(profile: Profile, traffic: Traffic) -> Self {
        Self {
            profile,
            traffic,
            start: Duration::ZERO,
            stop: None,
            rtt: None,
            place: 0,
            priority: 0,
            is_reversed: false,
            start_within: Duration::ZERO,
        }
    }
}

impl Scenario {
    /// All flows over one link.
    pub fn over(link: LinkSpec, flows: Vec<FlowSpec>, duration: Duration) -> Self {
        Self {
            topology: Topology::Dumbbell(link),
            flows,
            duration,
            warm_up: Duration::ZERO,
            loss_free_handshake: false,
            sample_interval: None,
        }
    }

    /// Round-trip time of the links a flow crosses, or its own if that is longer.
    pub fn rtt(&self, flow: &FlowSpec) -> Duration {
        let path = self.path_rtt(flow);
        flow.rtt.map_or(path, |rtt| rtt.max(path))
    }

    /// Round-trip time of the links a flow crosses.
    pub fn path_rtt(&self, flow: &FlowSpec) -> Duration {
        match &self.topology {
            Topology::Dumbbell(link) => link.rtt,
            Topology::ParkingLot(links) if flow.place == 0 => links.iter().map(|link| link.rtt).sum(),
            Topology::ParkingLot(links) => links.get(flow.place - 1).map_or(Duration::ZERO, |link| link.rtt),
        }
    }

    /// Delay to the receiver over empty links.
    pub fn one_way(&self, flow: &FlowSpec) -> Duration {
        let links: Duration = match &self.topology {
            Topology::Dumbbell(link) => link.one_way(),
            Topology::ParkingLot(links) if flow.place == 0 => links.iter().map(LinkSpec::one_way).sum(),
            Topology::ParkingLot(links) => {
                links.get(flow.place - 1).map_or(Duration::ZERO, LinkSpec::one_way)
            }
        };
        let way = if flow.is_reversed { self.path_rtt(flow) - links } else { links };
        way + (self.rtt(flow) - self.path_rtt(flow)) / 2
    }

    /// Says what cannot be run.
    ///
    /// # Errors
    /// In words for the person who wrote it.
    pub fn check(&self) -> Result<(), String> {
        let links = match &self.topology {
            Topology::Dumbbell(link) => std::slice::from_ref(link),
            Topology::ParkingLot(links) if links.len() < 2 => {
                return Err("a parking lot has at least two bottlenecks".into());
            }
            Topology::ParkingLot(links) => links,
        };
        links.iter().try_for_each(|link| link.backward().map(drop))?;
        if self.flows.is_empty() {
            return Err("there is no flow".into());
        }
        if self.duration.is_zero() || self.warm_up >= self.duration {
            return Err("the run is not longer than its warm-up".into());
        }
        let places = if matches!(self.topology, Topology::Dumbbell(_)) { 0 } else { links.len() };
        if let Some(flow) = self.flows.iter().find(|flow| flow.place > places) {
            return Err(format!("there is no place {} for a flow", flow.place));
        }
        Ok(())
    }
}
