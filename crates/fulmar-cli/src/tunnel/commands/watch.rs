//! What every long-running command offers to those who look after it: metrics, a socket for `status` and
//! `reload`, SIGHUP.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::listen::parse_listen_here;
use crate::platform;
use crate::trust;
use crate::tunnel::watch::control::{Socket, reload};
use crate::tunnel::watch::metrics;
use crate::tunnel::watch::report::Observed;

/// What every long-running command can be told about being watched.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WatchArgs {
    /// Serve metrics for Prometheus at this address and port (or port on loopback), under /metrics
    #[arg(long, value_name = "ADDR", value_parser = parse_listen_here)]
    metrics: Option<SocketAddr>,
}

/// The socket for metrics: taken before a command says that it is ready.
#[derive(Debug, Default)]
pub struct Watch {
    metrics: Option<(TcpListener, SocketAddr)>,
    tasks: JoinSet<()>,
}

impl WatchArgs {
    /// With metrics there, or as the command line says.
    pub fn or(self, metrics: Option<SocketAddr>) -> Self {
        Self { metrics: self.metrics.or(metrics) }
    }

    /// Whether metrics were asked for.
    pub fn is_wanted(&self) -> bool {
        self.metrics.is_some()
    }

    /// Takes the socket for metrics.
    pub async fn bind(&self) -> Result<Watch, Failure> {
        let Some(at) = self.metrics else { return Ok(Watch::default()) };
        let taken = |e| Failure::Unreachable(format!("cannot listen at {at}: {e}"));
        Ok(Watch { metrics: Some(metrics::bind(at).await.map_err(taken)?), tasks: JoinSet::new() })
    }
}

impl Watch {
    /// Where metrics are, for the line that says that a command is ready.
    pub fn metrics_address(&self) -> Option<String> {
        self.metrics.as_ref().map(|(_, address)| address.to_string())
    }

    /// Begins to answer for these commands, until this is dropped.
    pub fn start(&mut self, commands: Vec<Arc<dyn Observed>>) -> Result<(), Failure> {
        if let Some((listener, _)) = self.metrics.take() {
            self.tasks.spawn(metrics::serve(listener, commands.clone()));
        }
        match Socket::bind(trust::home()?.path()) {
            Ok(socket) => {
                self.tasks.spawn(socket.serve(commands));
            }
            // A service may have a home that cannot be written to.
            Err(error) => tracing::warn!("`fulmar status` will not find this process: {error}"),
        }
        Ok(())
    }
}

/// Reads files again whenever SIGHUP comes.
pub async fn reload_on_hangup(commands: &[Arc<dyn Observed>]) {
    let Ok(mut hangup) = platform::on_hangup() else { return std::future::pending().await };
    while hangup.recv().await.is_some() {
        match reload(commands) {
            Ok(told) => told.iter().for_each(|told| tracing::info!("{told}")),
            Err(error) => tracing::error!("nothing has changed: {error}"),
        }
    }
}
