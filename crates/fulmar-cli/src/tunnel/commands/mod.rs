//! The command lines of everything that goes through a tunnel.

pub mod connect;
pub mod forward;
pub mod gateway;
#[cfg(feature = "live")]
mod picture;
pub mod proxy;
pub mod section;
pub mod status;
mod table;
pub mod up;
pub mod watch;

use std::time::Duration;

use fulmar::identity::Host;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::host_names::HostParser;
use crate::limits::LimitArgs;
use crate::platform;
/// Each connection needs a descriptor; many systems allow a thousand unless asked for more.
pub use crate::platform::raise_descriptor_limit;
use crate::reach::{Manner, MannerArgs};
use crate::trust;
use crate::tunnel::config::{Config, keep_limits};
use crate::tunnel::near::client::Client;
use crate::units::parse_deadline;

/// What every client of a gateway can be told.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientArgs {
    /// Gateway: HOST, HOST:PORT or a name from config.toml. Of several, separated by commas, the first one
    /// that answers is used
    #[arg(value_name = "HOST[:PORT]", value_parser = HostParser, hide_possible_values = true)]
    gateways: String,
    #[command(flatten)]
    manner: MannerArgs,
    /// Drop packets of UDP flows that are known only so many milliseconds after they could have been, in
    /// both directions: for games and calls. They are repaired ahead of loss in any case, unless
    /// --favor=throughput
    #[arg(long, value_name = "MS", value_parser = parse_deadline)]
    deadline: Option<Duration>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print events in JSON, one on each line
    #[arg(long)]
    pub json: bool,
}

impl ClientArgs {
    /// Connects to the gateway.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let (gateways, manner) = self.gateways()?;
        Client::connect(gateways, manner).await
    }

    /// The gateways, and how to connect to them.
    pub fn gateways(&self) -> Result<(Vec<Host>, Manner), Failure> {
        keep_limits(&self.limits)?;
        self.route(&Config::read(&Config::path(trust::home()?.path()))?)
    }

    /// Where to, and how: what the command line does not say, config.toml may say of a name.
    fn route(&self, config: &Config) -> Result<(Vec<Host>, Manner), Failure> {
        let mut gateways = Vec::new();
        let (mut profile, mut accept_new, mut way, mut deadline) = (None, false, None, self.deadline);
        for name in self.gateways.split(',') {
            let host = config.host(name).map_err(Failure::Usage)?;
            let of_host = host.way();
            gateways.extend(host.gateways);
            profile = profile.or(host.profile);
            accept_new |= host.accept_new;
            way.get_or_insert(of_host);
            deadline = deadline.or(host.deadline);
        }
        let manner = self.manner.manner(profile, accept_new);
        let way = manner.way.or(way.unwrap_or_default());
        Ok((gateways, Manner { deadline, way, ..manner }))
    }
}

/// The gateway's name, for people.
pub fn gateway_name(client: &Client) -> String {
    client.gateway().map_or_else(|| "a gateway".into(), |host| host.to_string())
}

/// Says on standard output that a command is ready: `lines` to people, `event` to programs.
pub fn say_ready(is_json: bool, command: &str, lines: &[String], mut event: Value) {
    use std::io::Write;
    event["event"] = json!("ready");
    event["command"] = json!(command);
    let text = if is_json { event.to_string() } else { lines.join("\n") };
    // Whoever started this may not listen any more; that is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush());
}

/// A signal that asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// As `systemctl stop` does.
    Terminate,
    /// Ctrl-C.
    Interrupt,
}

impl Asked {
    /// How a service ends that was asked to.
    pub fn end(self) -> Result<(), Failure> {
        match self {
            Self::Terminate => Ok(()),
            Self::Interrupt => Err(Failure::Interrupted),
        }
    }
}

/// Runs a service until a signal asks for the end.
pub async fn until_told(work: impl Future<Output = ()>) -> Result<(), Failure> {
    until(work).await?.map_or_else(Asked::end, Ok)
}

/// Works until that is done, or a signal asks for the end.
pub async fn until<T>(work: impl Future<Output = T>) -> Result<Result<T, Asked>, Failure> {
    let no_signal = |error: std::io::Error| Failure::Other(format!("no signals: {error}"));
    let mut terminate = platform::on_terminate().map_err(no_signal)?;
    let mut interrupt = platform::on_interrupt().map_err(no_signal)?;
    tokio::select! {
        done = work => Ok(Ok(done)),
        _ = terminate.recv() => Ok(Err(Asked::Terminate)),
        _ = interrupt.recv() => Ok(Err(Asked::Interrupt)),
    }
}
