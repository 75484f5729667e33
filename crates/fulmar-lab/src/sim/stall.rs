//! A machine that stands still now and then: its hosts neither receive nor act until it goes on, and then
//! find all at once.

use fulmar_net::{Rng, StallProcess};
use fulmar_proto::Instant;

use super::start::START;
use super::wires::Packet;
use crate::scenario::{Scenario, Topology};

/// Streams of random draws that nothing else uses.
const STREAM: u64 = 500;

/// One machine: that of all senders, or that of all receivers.
pub(super) struct Frozen {
    stalls: StallProcess,
    until: Option<Instant>,
    /// What waits: packets, and timers (`None`), in the order in which they came.
    waiting: Vec<(usize, Option<Packet>)>,
}

impl Frozen {
    /// The senders' and the receivers', by what the first link says.
    pub(super) fn machines(scenario: &Scenario, seed: u64) -> [Self; 2] {
        let link = match &scenario.topology {
            Topology::Dumbbell(link) => Some(link),
            Topology::ParkingLot(links) => links.first(),
        };
        let stalls = link.map(|link| [link.stall_sender.clone(), link.stall_receiver.clone()]);
        let [sender, receiver] = stalls.unwrap_or_default();
        [(sender, 0), (receiver, 1)].map(|(stalls, side)| Self {
            stalls: StallProcess::new(stalls, Rng::new(seed, STREAM + side)),
            until: None,
            waiting: Vec::new(),
        })
    }

    /// Whether it stands still.
    pub(super) fn is_frozen(&mut self, now: Instant) -> bool {
        let goes_on = START + (self.stalls.release(Instant::ZERO + (now - START)) - Instant::ZERO);
        if goes_on > now {
            self.until = Some(goes_on);
        }
        goes_on > now
    }

    /// Keeps what comes while it does.
    pub(super) fn hold(&mut self, host: usize, packet: Option<Packet>) {
        self.waiting.push((host, packet));
    }

    /// When it goes on, if something waits.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.until.filter(|_| !self.waiting.is_empty())
    }

    /// What has waited, if it goes on.
    pub(super) fn thaw(&mut self, now: Instant) -> Vec<(usize, Option<Packet>)> {
        if self.until.is_none_or(|until| until > now) {
            return Vec::new();
        }
        self.until = None;
        std::mem::take(&mut self.waiting)
    }
}
