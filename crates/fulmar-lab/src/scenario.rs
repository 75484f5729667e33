//! What is to be run: links, flows, length. Everything but the seed.

use std::time::Duration;

use fulmar_net::{LinkRate, QueueConfig, QueueLimit};
use fulmar_proto::Profile;

use crate::link::LinkSpec;
use crate::traffic::{Datagrams, Traffic};

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
    /// Datagrams beside it, both ways, on the same connection.
    pub datagrams: Option<Datagrams>,
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
    /// The links of its own between its two ends and the bottlenecks.
    pub access: Access,
    /// Symbols that a receiver's decoder keeps; `None`: as many as in the program.
    pub decoder_symbols: Option<DecoderSymbols>,
}

/// The link of a flow between either end and the bottlenecks, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Access {
    /// Its rate.
    pub rate: LinkRate,
    /// Its delay one way.
    pub delay: Duration,
    /// Its queue.
    pub queue: QueueConfig,
}

impl Default for Access {
    /// None: no limit and no delay.
    fn default() -> Self {
        let queue = QueueConfig::DropTail(QueueLimit::Packets(u64::MAX));
        Self { rate: LinkRate::Unlimited, delay: Duration::ZERO, queue }
    }
}

/// How many symbols a receiver's decoder keeps.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub enum DecoderSymbols {
    /// So many.
    Number(u32),
    /// As many as so many thousandths of the bandwidth-delay product hold.
    MilliBdp(u32),
}

impl DecoderSymbols {
    /// The most that an end can be set to keep.
    pub const MAX: u32 = 1 << 20;
    /// Bytes of a symbol, about.
    const BYTES: u64 = 1200;

    /// How many, for a bandwidth-delay product of so many bytes: of a short path never fewer than the program
    /// keeps.
    pub fn count(self, bdp_bytes: u64) -> u32 {
        match self {
            Self::Number(count) => count,
            Self::MilliBdp(milli) => {
                let bytes = bdp_bytes.saturating_mul(u64::from(milli)) / 1000;
                u32::try_from(bytes / Self::BYTES).unwrap_or(Self::MAX).clamp(4096, Self::MAX)
            }
        }
    }
}

impl std::str::FromStr for DecoderSymbols {
    type Err = String;

    /// `65536`, or `8bdp`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no number of symbols (1 to {}) such as 65536 or 8bdp", Self::MAX);
        match text.strip_suffix("bdp") {
            Some(bdp) => fulmar_net::parse::milli(bdp).map(Self::MilliBdp).map_err(|_| wrong()),
            None => text
                .parse()
                .ok()
                .filter(|count| (1..=Self::MAX).contains(count))
                .map(Self::Number)
                .ok_or_else(wrong),
        }
    }
}

impl FlowSpec {
    /// A flow that starts at zero and sends to the end.
    pub fn new(profile: Profile, traffic: Traffic) -> Self {
        Self {
            profile,
            traffic,
            datagrams: None,
            start: Duration::ZERO,
            stop: None,
            rtt: None,
            place: 0,
            priority: 0,
            is_reversed: false,
            start_within: Duration::ZERO,
            access: Access::default(),
            decoder_symbols: None,
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
        let bottlenecks = match &self.topology {
            Topology::Dumbbell(link) => link.rtt,
            Topology::ParkingLot(links) if flow.place == 0 => links.iter().map(|link| link.rtt).sum(),
            Topology::ParkingLot(links) => links.get(flow.place - 1).map_or(Duration::ZERO, |link| link.rtt),
        };
        bottlenecks + flow.access.delay * 4
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
        let path_rtt = self.path_rtt(flow);
        let links = links + flow.access.delay * 2;
        let way = if flow.is_reversed { path_rtt - links } else { links };
        way + (self.rtt(flow) - path_rtt) / 2
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
        let has_several = |flow: &&FlowSpec| matches!(flow.traffic, Traffic::Web { .. });
        if self.flows.iter().filter(has_several).any(|flow| flow.datagrams.is_some()) {
            return Err(
                "web transfers have a connection each: there is none for datagrams beside them".into()
            );
        }
        let places = if matches!(self.topology, Topology::Dumbbell(_)) { 0 } else { links.len() };
        if let Some(flow) = self.flows.iter().find(|flow| flow.place > places) {
            return Err(format!("there is no place {} for a flow", flow.place));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_decoder_keeps_is_a_number_or_follows_the_path() {
        assert_eq!("65536".parse(), Ok(DecoderSymbols::Number(65_536)));
        let eight: DecoderSymbols = "8bdp".parse().unwrap();
        // 1 Gb/s and 100 ms are 12.5 MB; of a short path it is what the program keeps.
        assert_eq!((eight.count(12_500_000), eight.count(1000)), (83_333, 4096));
        for wrong in ["0", "2000000", "bdp", "many"] {
            assert!(wrong.parse::<DecoderSymbols>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn access_links_lengthen_a_flows_way_at_both_ends() {
        let mut flow = FlowSpec::new(Profile::auto(), Traffic::Bulk);
        flow.access.delay = Duration::from_millis(1);
        let link = LinkSpec { rtt: Duration::from_millis(400), ..LinkSpec::default() };
        let scenario = Scenario::over(link, vec![flow], Duration::from_secs(1));
        let flow = &scenario.flows[0];
        assert_eq!(scenario.rtt(flow), Duration::from_millis(404));
        assert_eq!(scenario.one_way(flow), Duration::from_millis(202));
    }
}
