//! What a gateway is told about tunnels for packets, and how it comes to offer them.

use super::carry::MTU_MIN;
use super::far::{device, no_device};
use super::pool::{NETWORK_V6, Pool};
use super::rules::{self, GATEWAY_DEVICE, GATEWAY_NAME};
use crate::exit::Failure;
use crate::system::Changed;
use crate::tunnel::far::gateway::Gateway;

/// What a gateway can be told about tunnels for packets.
#[derive(Debug, Default, Clone, clap::Args)]
pub struct TunArgs {
    /// Also carry IP packets (`fulmar tun`) for clients that may reach everything, with addresses from this
    /// IPv4 network. Needs root or CAP_NET_ADMIN
    #[arg(long, value_name = "NETWORK")]
    tun: Option<Pool>,
    /// Forward tunnel packets and masquerade them (NAT) while running
    #[arg(long, requires = "tun")]
    tun_nat: bool,
    /// With --tun-nat: also allow connections from others to the clients
    #[arg(long, requires = "tun_nat")]
    tun_inbound: bool,
}

impl TunArgs {
    /// As a file says it.
    pub fn new(tun: Option<Pool>, tun_nat: bool, tun_inbound: bool) -> Self {
        Self { tun, tun_nat, tun_inbound }
    }

    /// Whether tunnels were asked for.
    pub fn is_wanted(&self) -> bool {
        self.tun.is_some()
    }

    /// What the command line says, or else a file.
    pub fn or(self, other: Self) -> Self {
        if self.is_wanted() { self } else { other }
    }

    /// Has the gateway offer tunnels, and makes the changes that let packets go on; they last as long as what
    /// is returned.
    pub fn offer(&self, gateway: &Gateway) -> Result<Option<Changed>, Failure> {
        let Some(pool) = &self.tun else { return Ok(None) };
        // Found out now, not by the first client.
        let (v4, v6) = pool.sample();
        drop(device(GATEWAY_DEVICE, v4, v6, MTU_MIN).map_err(|error| no_device("a TUN device", &error))?);
        let changes = || rules::masquerade(&pool.network(), NETWORK_V6, self.tun_inbound);
        let changed = self.tun_nat.then(|| Changed::make(GATEWAY_NAME, changes)).transpose()?;
        gateway.offer_tun(pool.clone());
        Ok(changed)
    }
}
