//! What lies between the two agents: lanes of the bridge, or a relay for each transport.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_net::{Direction, LinkConfig};
use fulmar_relay::{Relay, RelayConfig};

use crate::bridge::{Ground, LaneView, Lanes};
use crate::outcome::Link;

/// The paths of one round, one for each transport in it.
pub(crate) struct Paths<'a> {
    kind: Kind<'a>,
    links: (LinkConfig, LinkConfig),
    seed: u64,
    /// Of each lane: whether faults strike now.
    has_faults: Vec<bool>,
    began: std::time::Instant,
}

enum Kind<'a> {
    Bridge { lanes: Lanes, ground: &'a Ground },
    Relays(Vec<Option<Relay>>),
}

/// What a lane did in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneEnd {
    pub(crate) forward: Link,
    /// Why nothing of it means anything.
    pub(crate) invalid: Option<String>,
}

fn shown(links: &(LinkConfig, LinkConfig), has_faults: bool) -> (LinkConfig, LinkConfig) {
    if has_faults { links.clone() } else { (links.0.without_faults(), links.1.without_faults()) }
}

impl<'a> Paths<'a> {
    /// Lays the paths, with delay and rate (LT-TCP 2.1, steps 1 and 2).
    pub(crate) fn start(
        ground: Option<&'a Ground>,
        links: (LinkConfig, LinkConfig),
        lanes: usize,
        seed: u64,
        has_faults: bool,
    ) -> Result<Self, String> {
        let kind = match ground {
            Some(ground) => {
                let configs = vec![shown(&links, has_faults); lanes];
                Kind::Bridge { lanes: Lanes::start(ground, configs, seed)?, ground }
            }
            None => Kind::Relays((0..lanes).map(|_| None).collect()),
        };
        let has_faults = vec![has_faults; lanes];
        Ok(Self { kind, links, seed, has_faults, began: std::time::Instant::now() })
    }

    /// Where the sender of a lane finds the receiver that waits at `server`.
    pub(crate) fn way(&mut self, lane: usize, server: SocketAddr) -> Result<SocketAddr, String> {
        let Kind::Relays(relays) = &mut self.kind else { return Ok(server) };
        let (forward, backward) = shown(&self.links, self.has_faults[lane]);
        let config = RelayConfig { seed: self.seed, ..RelayConfig::new(server, forward, backward) };
        let relay = Relay::start(config).map_err(|error| format!("no relay: {error}"))?;
        let address = relay.local_addr();
        relays[lane] = Some(relay);
        Ok(address)
    }

    /// From now on faults strike on a lane, or do not.
    pub(crate) fn set_faults(&mut self, lane: usize, has_faults: bool) {
        self.has_faults[lane] = has_faults;
        self.configure(lane);
    }

    /// The path is another from now on.
    pub(crate) fn change(&mut self, links: (LinkConfig, LinkConfig)) {
        self.links = links;
        (0..self.has_faults.len()).for_each(|lane| self.configure(lane));
    }

    fn configure(&self, lane: usize) {
        let (forward, backward) = shown(&self.links, self.has_faults[lane]);
        match &self.kind {
            Kind::Bridge { lanes, .. } => lanes.reconfigure(lane, (forward, backward)),
            Kind::Relays(relays) => {
                if let Some(relay) = &relays[lane] {
                    relay.reconfigure(Direction::Forward, forward);
                    relay.reconfigure(Direction::Backward, backward);
                }
            }
        }
    }

    /// How the lanes are, some milliseconds ago.
    pub(crate) fn views(&self) -> Vec<LaneView> {
        let mut views = match &self.kind {
            Kind::Bridge { lanes, .. } => lanes.views(),
            Kind::Relays(relays) => {
                relays.iter().map(|relay| relay.as_ref().map(of_relay).unwrap_or_default()).collect()
            }
        };
        views.resize_with(self.has_faults.len(), LaneView::default);
        views
    }

    /// Takes the paths away (step 8), and tells what they did; it counts for nothing if more than one packet
    /// in a hundred was later than `late_max`.
    pub(crate) fn clear(self, late_max: Duration) -> Result<Vec<LaneEnd>, String> {
        let elapsed: Duration = self.began.elapsed();
        match self.kind {
            Kind::Bridge { lanes, ground } => {
                let report = lanes.finish(ground, late_max)?;
                let ends = report
                    .links
                    .into_iter()
                    .map(|[forward, _]| LaneEnd { forward, invalid: report.invalid.clone() });
                Ok(ends.collect())
            }
            Kind::Relays(relays) => relays
                .into_iter()
                .map(|relay| {
                    let Some(relay) = relay else { return Ok(LaneEnd::default()) };
                    let stats = relay.stop().map_err(|error| format!("the relay failed: {error}"))?;
                    Ok(LaneEnd { forward: Link::new("forward", &stats.forward, elapsed), invalid: None })
                })
                .collect(),
        }
    }
}

fn of_relay(relay: &Relay) -> LaneView {
    let stats = relay.stats();
    LaneView { backlog_bytes: stats.backlog_bytes, forward: stats.forward }
}
