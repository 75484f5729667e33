//! Two sides in one process, and what the system says about them.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::{ClientConfig, Endpoint, Profile, ServerConfig, TransportConfig};
use tokio::runtime::{Builder, Runtime};

use crate::Options;

/// A server and a client, each in a runtime of its own.
pub(crate) struct Sides {
    pub(crate) server_runtime: Runtime,
    pub(crate) client_runtime: Runtime,
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
    pub(crate) address: SocketAddr,
}

impl Sides {
    pub(crate) fn new(options: &Options) -> Result<Self, Box<dyn Error>> {
        let mut transport = TransportConfig::default();
        transport.profile(Profile::parse(&options.profile)?);
        transport.idle_timeout(Some(Duration::from_secs(600)))?;
        let transport = Arc::new(transport);
        let (alice, bob) = (Identity::generate(), Identity::generate());
        let server_crypto =
            crypto::ServerConfig::raw_key(&bob, Some(Arc::new(TrustKeys::new([alice.public_key()]))));
        let mut server_config =
            ServerConfig { transport: transport.clone(), ..ServerConfig::new(Arc::new(server_crypto)) };
        server_config.retry_above_handshakes = usize::MAX;
        server_config.handshakes_max = usize::MAX;
        server_config.handshakes_per_network_max = usize::MAX;
        let client_crypto =
            crypto::ClientConfig::raw_key(Some(&alice), Arc::new(TrustKeys::new([bob.public_key()])));
        let (server_runtime, client_runtime) =
            (runtime("server", options.cores)?, runtime("client", options.cores)?);
        let loopback = "127.0.0.1:0".parse()?;
        let server = server_runtime.block_on(async { Endpoint::server(server_config, options.listen) })?;
        let client = client_runtime.block_on(async { Endpoint::client(loopback) })?;
        client.set_client_config(ClientConfig { crypto: Arc::new(client_crypto), transport });
        let address = options.via.map_or_else(|| server.local_addr(), Ok)?;
        Ok(Self { server_runtime, client_runtime, server, client, address })
    }
}

fn runtime(name: &str, cores: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(cores).thread_name(name).enable_all().build()
}

/// Seconds of processor time that the threads of each side have used: server, client. Linux only; zero
/// elsewhere.
pub(crate) fn cpu_seconds() -> (f64, f64) {
    (threads_named("server"), threads_named("client"))
}

fn threads_named(wanted: &str) -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let nanos = tasks.flatten().filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let schedstat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanos: f64 = schedstat.split_whitespace().next()?.parse().ok()?;
        (name.trim() == wanted).then_some(nanos)
    });
    nanos.sum::<f64>() / 1e9
}

/// Bytes of memory that this process uses now. Linux only; zero elsewhere.
pub(crate) fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}
