//! The command line of `fulmar tun`.

use fulmar::identity::Host;

use super::near::{Near, Wanted};
use crate::exit::Failure;
use crate::tunnel::commands::watch::WatchArgs;
use crate::tunnel::commands::{ClientArgs, say_ready};
use crate::tunnel::wire::packets::Grant;

/// Carry IP packets to a gateway over a TUN device, like a VPN.
///
/// Packets of any protocol go both ways. It needs root or CAP_NET_ADMIN here, and a gateway that runs with
/// --tun NETWORK. The device, its addresses and its routes disappear when this program ends, in whatever way
/// it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    sudo fulmar gateway --tun 10.97.0.0/24 --tun-nat         # there
    sudo fulmar tun server.example.org --route 10.0.0.0/8    # here")]
pub struct Args {
    #[command(flatten)]
    wanted: Wanted,
    /// How to reach the gateway.
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    let (gateways, manner) = args.client.gateways()?;
    let mut watch = args.watch.bind().await?;
    let metrics = watch.metrics_address();
    let near = Near::new(gateways, manner, args.wanted.clone());
    let opened = near.open().await?;
    watch.start(vec![near.observed()])?;
    near.carry(opened, |grant, gateway| tell_ready(&args, grant, gateway, metrics.as_deref())).await
}

fn tell_ready(args: &Args, grant: &Grant, gateway: &Host, metrics: Option<&str>) {
    let device = &args.wanted.device;
    let line = format!(
        "Ready: {device} at {} and {} (MTU {}); {gateway} is {} and {}",
        grant.v4, grant.v6, grant.mtu, grant.gateway_v4, grant.gateway_v6
    );
    let event = serde_json::json!({
        "gateway": gateway.to_string(), "device": device, "mtu": grant.mtu,
        "addresses": [grant.v4.to_string(), grant.v6.to_string()],
        "gateway_addresses": [grant.gateway_v4.to_string(), grant.gateway_v6.to_string()],
        "metrics": metrics,
    });
    say_ready(args.client.json, "tun", &[line], event);
}
