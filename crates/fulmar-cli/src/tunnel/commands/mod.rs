//! The command lines of everything that goes through a tunnel.

pub mod connect;
pub mod gateway;
pub mod proxy;

use std::time::Duration;

use fulmar::identity::Host;

use super::client::Client;
use crate::exit::Failure;
use crate::reach::{self, Manner};
use crate::units::parse_seconds;

/// What every client of a gateway can be told.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientArgs {
    /// The gateway: HOST or HOST:PORT; several, separated by commas, are tried until one answers
    #[arg(value_name = "HOST[:PORT]", value_delimiter = ',', required = true)]
    gateways: Vec<Host>,
    /// How to send: a profile, with settings if wanted, as tcp-fec:fmax=5 (see `fulmar profiles`)
    #[arg(long, default_value = "auto", value_parser = reach::parse_profile)]
    profile: String,
    /// Trust a gateway that is not known yet without asking, and remember its key
    #[arg(long)]
    accept_new: bool,
    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "15")]
    connect_timeout: Duration,
    /// Report as JSON on standard output, a line for each event
    #[arg(long)]
    pub json: bool,
}

impl ClientArgs {
    /// Connects to the gateway.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let (gateways, manner) = self.parts();
        Client::connect(gateways, manner).await
    }

    /// The gateways, and how to connect to them.
    pub fn parts(&self) -> (Vec<Host>, Manner) {
        let manner = Manner {
            profile: self.profile.clone(),
            accept_new: self.accept_new,
            connect_timeout: self.connect_timeout,
        };
        (self.gateways.clone(), manner)
    }
}
