//! The program between the ends: it lets agents in, applies what the path does, runs what is in the queue,
//! and serves the page.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, PublicKey};
use fulmar::identity::{AuthorizedClients, Home};
use fulmar::{Connection, Endpoint, EndpointConfig, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::agent::control_transport;
use super::board::Board;
use super::control::{self, ALPN, Order, Report};
use super::http::{self, Desk, Guard};
use super::run::{Agents, Means, Runner};
use super::types::{Driver, DriverName};
use crate::bridge::Ground;

/// What a controller is told.
#[derive(Debug)]
pub struct ControllerConfig {
    /// Where the page is served.
    pub listen: SocketAddr,
    /// Where agents are waited for.
    pub control: SocketAddr,
    /// Its identity, and the agents it lets in.
    pub home: Home,
    /// Where runs are kept.
    pub folder: PathBuf,
    /// Where experiment files are.
    pub experiments: PathBuf,
    /// Where the report is.
    pub report: PathBuf,
    /// `operator` or `controller`.
    pub mode: &'static str,
    /// Where the bridge is; if there is none, why.
    pub ground: Result<Ground, String>,
    /// A transfer does not count if more than one of its packets in a hundred was later than this.
    pub late_max: Duration,
    /// Further names by which the page may be called.
    pub names: Vec<String>,
    /// The token; a new one if none is given.
    pub token: Option<String>,
}

/// A controller that works.
#[derive(Debug)]
pub struct Controller {
    /// Where the page is, with the token.
    pub url: String,
    /// Where agents find it.
    pub control: SocketAddr,
    /// Its public key.
    pub key: PublicKey,
    /// Runs and everything that pages see.
    pub board: Arc<Board>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Orders that wait for an agent's connection.
const ORDERS_MAX: usize = 256;
/// How long an agent may take to say who it is.
const HELLO_MAX: Duration = Duration::from_secs(10);

impl Controller {
    /// Opens its ports and begins to work.
    ///
    /// # Errors
    /// If a port is taken, or a folder or the identity cannot be used.
    pub async fn start(config: ControllerConfig) -> Result<Self, String> {
        let identity = config.home.identity_or_create().map_err(|error| error.to_string())?;
        let board = Board::open(config.folder, config.mode, drivers(&config.ground))?;
        let agents = Agents::new(board.clone());
        let clients = AuthorizedClients::new(identity.public_key(), config.home.authorized_keys());
        let crypto = crypto::ServerConfig::raw_key(&identity, Some(Arc::new(clients))).with_alpn(&[ALPN]);
        let transport = Arc::new(control_transport().map_err(|error| error.to_string())?);
        let server = ServerConfig { transport, ..ServerConfig::new(Arc::new(crypto)) };
        let words = |what: SocketAddr| move |error: std::io::Error| format!("{what}: {error}");
        let socket = std::net::UdpSocket::bind(config.control).map_err(words(config.control))?;
        let mut settings = EndpointConfig::default();
        let bound = socket.local_addr().map_err(words(config.control))?;
        let secret = config.home.reset_secret().map_err(|error| error.to_string())?;
        settings.reset_key(secret.key(&String::from_utf8_lossy(ALPN), bound));
        let endpoint = Endpoint::new(&settings, Some(server), socket).map_err(words(config.control))?;
        let control = endpoint.local_addr().map_err(words(config.control))?;
        let listener = TcpListener::bind(config.listen).await.map_err(words(config.listen))?;
        let address = listener.local_addr().map_err(words(config.listen))?;
        let token = config.token.map_or_else(http::token, Ok)?;
        let url = format!("http://{}/?token={token}", shown(address));
        let guard = Guard { token, port: address.port(), names: config.names };
        let desk =
            Desk { board: board.clone(), guard, experiments: config.experiments, report: config.report };
        let runner = Runner::new(Means {
            board: board.clone(),
            agents: agents.clone(),
            ground: config.ground.ok(),
            late_max: config.late_max,
        });
        let tasks = vec![
            tokio::spawn(admit(endpoint, agents)),
            tokio::spawn(runner.work()),
            tokio::spawn(http::serve(listener, http::router(Arc::new(desk)))),
        ];
        Ok(Self { url, control, key: identity.public_key(), board, tasks })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// The address as a browser on this machine may call it.
fn shown(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ([127, 0, 0, 1], v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => ([0, 0, 0, 0, 0, 0, 0, 1u16], v6.port()).into(),
        other => other,
    }
}

fn drivers(ground: &Result<Ground, String>) -> Vec<Driver> {
    let missing = ground.as_ref().err().cloned();
    // Through a relay both agents have to be on this machine.
    let is_one_machine = ground.as_ref().is_ok_and(|ground| ground.ends.is_some()) || ground.is_err();
    let apart = "the relay needs both agents on this machine: start `fulmar-lab operator`";
    let driver = |name, missing: String, steerable, kernel_tcp| Driver {
        name,
        available: missing.is_empty(),
        missing,
        steerable,
        kernel_tcp,
    };
    vec![
        driver(DriverName::Real, missing.unwrap_or_default(), true, true),
        driver(DriverName::Relay, if is_one_machine { String::new() } else { apart.into() }, true, false),
        driver(DriverName::Virtual, String::new(), false, false),
    ]
}

/// Lets agents in; who they are is known before this sees them.
async fn admit(endpoint: Endpoint, agents: Arc<Agents>) {
    while let Some(incoming) = endpoint.accept().await {
        let agents = agents.clone();
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await
                && let Err(reason) = serve(connection, &agents).await
            {
                tracing::debug!("an agent: {reason}");
            }
        });
    }
}

/// Stays with an agent until it is gone.
async fn serve(connection: Connection, agents: &Agents) -> Result<(), String> {
    let hello = async {
        let (sending, mut receiving) = connection.accept_bi().await.map_err(|error| error.to_string())?;
        let (hello, _) = control::receive::<Report>(&mut receiving).await?;
        Ok::<_, String>((sending, receiving, hello))
    };
    let greeted = tokio::time::timeout(HELLO_MAX, hello).await;
    let (mut sending, mut receiving, hello) = greeted.map_err(|_| "it does not say who it is")??;
    let hello = proven(hello, &connection)?;
    let (orders, mut outbox) = mpsc::channel::<(Order, Vec<u8>)>(ORDERS_MAX);
    let member = super::run::Member::new(hello, connection.remote_address().to_string(), orders)
        .ok_or("it does not say who it is")?;
    let (number, role) = agents.join(member).await;
    let writer = async {
        control::send(&mut sending, &Order::Welcome { role }, &[]).await?;
        while let Some((order, beside)) = outbox.recv().await {
            control::send(&mut sending, &order, &beside).await?;
        }
        Ok::<(), String>(())
    };
    let reader = async {
        loop {
            let (report, beside) = control::receive::<Report>(&mut receiving).await?;
            if !matches!(report, Report::Lost { .. } | Report::Hello { .. }) {
                agents.report(number, report, beside).await;
            }
        }
    };
    let ended: Result<(), String> = tokio::select! {
        ended = writer => ended,
        ended = reader => ended,
    };
    connection.close(0, b"");
    agents.leave(number).await;
    ended
}

/// The agent's words, with the key it has proved to hold in place of what it says.
fn proven(hello: Report, connection: &Connection) -> Result<Report, String> {
    let Some(crypto::PeerIdentity::RawKey(proof)) = connection.peer_identity() else {
        return Err("it has shown no key".into());
    };
    match hello {
        Report::Hello { name, version, role, data_address, .. } => {
            let key = proof.to_line("").trim().to_owned();
            Ok(Report::Hello { name, version, role, data_address, key })
        }
        _ => Err("it does not say who it is".into()),
    }
}
