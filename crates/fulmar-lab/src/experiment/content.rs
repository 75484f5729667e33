//! What tells runs apart: everything that decides one, as data.
//!
//! Fields and their names are part of the key of every result that is kept. What is shown to people may
//! change, and rounds; this does neither.

use std::time::Duration;

use fulmar_net::{LinkConfig, Stalls};
use serde::Serialize;

use super::ScenarioHash;
use super::task::Task;
use crate::link::LinkSpec;
use crate::scenario::{Access, DecoderSymbols, Scenario, Topology};
use crate::traffic::Traffic;

#[derive(Serialize)]
enum Content<'a> {
    Sim {
        links: Vec<Link<'a>>,
        flows: Vec<Flow<'a>>,
        duration: Duration,
        warm_up: Duration,
        loss_free_handshake: bool,
        sample_interval: Option<Duration>,
    },
    #[cfg(target_os = "linux")]
    Tcp {
        link: Link<'a>,
        flows: Vec<TcpFlow<'a>>,
        duration: Duration,
        warm_up: Duration,
        loss_free_handshake: bool,
        sample_interval: Option<Duration>,
        settings: TcpSettings,
    },
    #[cfg(target_os = "linux")]
    Peer { link: Link<'a>, words: String, duration: Duration, settings: TcpSettings },
}

#[derive(Serialize)]
struct Link<'a> {
    forward: Result<LinkConfig, String>,
    backward: Result<LinkConfig, String>,
    stall_sender: &'a Stalls,
    stall_receiver: &'a Stalls,
}

#[derive(Serialize)]
struct Flow<'a> {
    profile: &'a str,
    traffic: Traffic,
    start: Duration,
    stop: Option<Duration>,
    rtt: Option<Duration>,
    place: usize,
    priority: u8,
    is_reversed: bool,
    start_within: Duration,
    access: &'a Access,
    decoder_symbols: Option<DecoderSymbols>,
}

#[cfg(target_os = "linux")]
#[derive(Serialize)]
struct TcpFlow<'a> {
    congestion: &'a str,
    traffic: Traffic,
    start: Duration,
}

#[cfg(target_os = "linux")]
#[derive(Serialize)]
struct TcpSettings {
    has_sack: bool,
    has_ecn: bool,
}

#[cfg(target_os = "linux")]
impl TcpSettings {
    fn of(settings: &crate::bridge::TcpSettings) -> Self {
        Self { has_sack: settings.has_sack, has_ecn: settings.has_ecn }
    }
}

impl<'a> Link<'a> {
    fn of(link: &'a LinkSpec) -> Self {
        Self {
            forward: link.forward(),
            backward: link.backward(),
            stall_sender: &link.stall_sender,
            stall_receiver: &link.stall_receiver,
        }
    }
}

fn simulated(scenario: &Scenario) -> Content<'_> {
    let links = match &scenario.topology {
        Topology::Dumbbell(link) => vec![Link::of(link)],
        Topology::ParkingLot(links) => links.iter().map(Link::of).collect(),
    };
    let flows = scenario.flows.iter().map(|flow| Flow {
        profile: &flow.profile.name,
        traffic: flow.traffic,
        start: flow.start,
        stop: flow.stop,
        rtt: flow.rtt,
        place: flow.place,
        priority: flow.priority,
        is_reversed: flow.is_reversed,
        start_within: flow.start_within,
        access: &flow.access,
        decoder_symbols: flow.decoder_symbols,
    });
    Content::Sim {
        links,
        flows: flows.collect(),
        duration: scenario.duration,
        warm_up: scenario.warm_up,
        loss_free_handshake: scenario.loss_free_handshake,
        sample_interval: scenario.sample_interval,
    }
}

impl Task {
    /// What tells runs apart: two tasks of the same content are the same run, whatever the cell is called (a
    /// burst length without loss changes nothing).
    pub fn hash(&self) -> ScenarioHash {
        ScenarioHash::of(&self.content())
    }

    /// Everything that decides the run but the seed and the program, as JSON.
    pub(super) fn content(&self) -> String {
        let content = match self {
            Self::Sim(scenario) => simulated(scenario),
            #[cfg(target_os = "linux")]
            Self::Tcp(scenario) => Content::Tcp {
                link: Link::of(&scenario.link),
                flows: scenario
                    .flows
                    .iter()
                    .map(|flow| TcpFlow {
                        congestion: &flow.congestion,
                        traffic: flow.traffic,
                        start: flow.start,
                    })
                    .collect(),
                duration: scenario.duration,
                warm_up: scenario.warm_up,
                loss_free_handshake: scenario.loss_free_handshake,
                sample_interval: scenario.sample_interval,
                settings: TcpSettings::of(&scenario.settings),
            },
            #[cfg(target_os = "linux")]
            Self::Peer(scenario) => Content::Peer {
                link: Link::of(&scenario.link),
                words: scenario.words(),
                duration: scenario.duration,
                settings: TcpSettings::of(&scenario.settings),
            },
        };
        serde_json::to_string(&content).unwrap_or_else(|_| unreachable!("numbers, words and lists"))
    }
}
