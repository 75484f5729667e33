//! `fulmar gateway`: the far end of tunnels.

use std::sync::Arc;

use serde_json::json;

use super::watch::{WatchArgs, reload_on_hangup};
use super::{raise_descriptor_limit, say_ready, until_told};
use crate::exit::Failure;
use crate::limits::LimitArgs;
use crate::listen::{Listen, parse_listen_all};
use crate::pair::serving::told;
use crate::reach::{self, Listener, ServerArgs, Service, TcpArgs};
use crate::trust;
use crate::tunnel::config::{Config, keep_limits};
use crate::tunnel::far::gateway::Gateway;
use crate::tunnel::watch::report::{Observed, ObservedGateway};
use crate::units;
use fulmar::AllowedProfiles;

/// Connect clients to other machines, for `proxy`, `forward`, `connect`, `run`, `tun`.
///
/// Run it on the machine that can reach the targets. Clients are known by their keys, as with `fulmar serve`.
/// This machine's own key reaches everything. A key in authorized_keys reaches public addresses only, unless
/// options before it say otherwise: permit="HOST:PORT,..." ("*" for everything, this machine included),
/// permit-listen="PORT,...", deny-private, streams=N, rate=50M, memory=64M, no-tunnel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar gateway                                 # at UDP port 4747
    fulmar gateway --listen :443 --invite          # a code for `fulmar pair`
    fulmar gateway --listen :443 --tcp             # where UDP is blocked, too
    fulmar gateway --listen :443,20000-20100       # where single ports are
A line of authorized_keys, for one machine behind the gateway:
    permit=\"10.0.0.5:22\" fulmar-ed25519 AAAA... alice")]
pub struct Args {
    /// Where to listen: an address, a port, or both; and at more ports, for clients to go to when one is
    /// blocked or slowed down: `:4747,20000-20100` [default: UDP port 4747 on every address]
    #[arg(short, long, value_name = "ADDR", value_parser = parse_listen_all)]
    listen: Option<Listen>,
    #[command(flatten)]
    tcp: TcpArgs,
    /// Profile for clients that request none [default: auto]
    #[arg(long, value_parser = crate::profile_names::ProfileParser, hide_possible_values = true)]
    profile: Option<String>,
    /// Extra profiles that clients may request: names separated by commas, or `all`. Profiles with congestion
    /// control are always allowed
    #[arg(long, value_name = "NAMES")]
    allow_profiles: Option<AllowedProfiles>,
    /// Memory limit for all connections, such as 512M. At the limit new clients are refused, and the
    /// connection that uses the most memory is closed [default: half of this machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Show a one-time code, with which one new client can run `fulmar pair` within ten minutes
    #[arg(long)]
    invite: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[cfg(machine)]
    #[command(flatten)]
    tun: crate::packets::offer::TunArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print events in JSON, one on each line
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: until it is told to end. What the command line does not say, config.toml may.
pub async fn run(args: Args) -> Result<(), Failure> {
    raise_descriptor_limit();
    keep_limits(&args.limits)?;
    let config = Config::read(&Config::path(trust::home()?.path()))?;
    let section = config.gateway.as_ref();
    let listen = args.listen.or(section.map(|section| section.listen.clone()));
    let profile = args.profile.or(section.and_then(|section| section.profile.clone()));
    let server = ServerArgs {
        listen: listen.unwrap_or_else(|| reach::any_address(reach::DEFAULT_PORT).into()),
        profile: profile.unwrap_or_else(|| "auto".into()),
        allowed: args.allow_profiles.unwrap_or_default(),
        memory_bytes: args.memory.or(section.and_then(|section| section.memory)),
        invites: args.invite,
        tcp: args.tcp.or(section.map(|section| section.tcp()).unwrap_or_default()),
    };
    let gateway = open()?;
    #[cfg(machine)]
    let _changed = args.tun.or(section.map(|section| section.tun()).unwrap_or_default()).offer(&gateway)?;
    let listener = reach::listen(&server, Service::Tunnel)?;
    let mut watch = args.watch.or(config.metrics).bind().await?;
    let metrics = watch.metrics_address();
    let commands: Vec<Arc<dyn Observed>> = vec![ObservedGateway::new(listener.address.to_string(), &gateway)];
    watch.start(commands.clone())?;
    let line = format!("Ready: gateway at {}, key {}", listener.places(), listener.fingerprint);
    let code = listener.invite()?;
    let address = listener.address.to_string();
    let event = json!({
        "address": address, "tcp": listener.tcp_address(), "fingerprint": listener.fingerprint,
        "metrics": metrics, "invite": code, "ports": listener.ports(),
    });
    let lines: Vec<_> =
        [line].into_iter().chain(code.map(|code| told(&code, listener.address.port()))).collect();
    say_ready(args.json, "gateway", &lines, event);
    let result = until_told(async {
        tokio::select! {
            () = accept(&listener, &gateway) => {}
            () = reload_on_hangup(&commands) => {}
        }
    });
    let result = result.await;
    listener.close().await;
    result
}

/// A gateway with this machine's identity and its list of keys.
pub fn open() -> Result<Arc<Gateway>, Failure> {
    Ok(Gateway::new(trust::identity()?.public_key(), trust::home()?.authorized_keys()))
}

/// Serves everybody who comes.
pub async fn accept(listener: &Listener, gateway: &Arc<Gateway>) {
    while let Some(incoming) = listener.next().await {
        let gateway = Arc::clone(gateway);
        tokio::spawn(async move {
            if let Some(session) = incoming.await {
                gateway.serve(session).await;
            }
        });
    }
}
