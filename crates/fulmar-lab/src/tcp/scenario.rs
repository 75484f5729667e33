//! What is run: flows of kernel TCP over one link.

use std::time::Duration;

use crate::bridge::TcpSettings;
use crate::link::LinkSpec;
use crate::traffic::Traffic;

/// One flow of kernel TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpFlow {
    /// Congestion control by the kernel's name: `cubic`, `bbr`, `reno`.
    pub congestion: String,
    /// Bulk, fixed size or messages.
    pub traffic: Traffic,
    /// When it starts.
    pub start: Duration,
}

/// One run of kernel TCP without its seed.
#[derive(Clone, Debug)]
pub struct TcpScenario {
    /// The link between the ends.
    pub link: LinkSpec,
    /// The flows.
    pub flows: Vec<TcpFlow>,
    /// How long.
    pub duration: Duration,
    /// What arrives before this does not count.
    pub warm_up: Duration,
    /// No faults until all handshakes are complete (LT-TCP, section 2.1).
    pub loss_free_handshake: bool,
    /// Values over time at this interval.
    pub sample_interval: Option<Duration>,
    /// Settings of the kernel's TCP.
    pub settings: TcpSettings,
    /// Bound on the bridge's lateness.
    pub lateness_p99_max: Duration,
}

impl TcpScenario {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.flows.is_empty() || self.duration <= self.warm_up {
            return Err("there is no flow, or no time beyond the warm-up".into());
        }
        let is_possible = |flow: &TcpFlow| {
            matches!(flow.traffic, Traffic::Bulk | Traffic::Fixed { .. } | Traffic::Messages { .. })
        };
        match self.flows.iter().find(|flow| !is_possible(flow)) {
            Some(flow) => {
                Err(format!("kernel TCP carries bulk, fixed and messages here, not {}", flow.traffic))
            }
            None => Ok(()),
        }
    }
}
