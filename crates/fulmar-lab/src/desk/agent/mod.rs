//! The program at each end: it sends and receives as the controller tells it, with any profile or the
//! kernel's TCP.
//!
//! It finds the controller by its address and connects to it with Fulmar itself, over the control network;
//! whom it lets in the controller decides by keys. Data go over the network with the bridge in it. When the
//! controller is gone, everything under way is dropped, and the agent tries to find it again.

mod config;
mod ground;
mod job;
mod kernel;
mod meter;
mod pipe;
mod profile;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::Identity;
use fulmar::{ClientConfig, ConfigError, Connection, Endpoint, SendStream, TransportConfig};
use tokio::sync::{mpsc, watch};

use super::control::{self, ALPN, Order, Report};
pub use config::AgentConfig;
pub use ground::Ground;
use job::{Phase, Side};

/// How long until the next attempt to find a controller that is not there.
const RETRY: Duration = Duration::from_secs(1);
/// Messages that wait for the control connection.
const REPORTS_MAX: usize = 256;

/// Settings of control connections: silence is noticed soon, because a run hangs on it.
pub(crate) fn control_transport() -> Result<TransportConfig, ConfigError> {
    let mut transport = TransportConfig::default();
    transport.idle_timeout(Some(Duration::from_secs(4)))?.keep_alive(Some(Duration::from_secs(1)))?;
    Ok(transport)
}

/// Works for the controller until the task is dropped.
///
/// # Errors
/// If its own keys cannot be read, the controller does not let it in, or is not who it was.
pub async fn run(config: AgentConfig) -> Result<(), String> {
    let identity = config.home.identity_or_create().map_err(|error| error.to_string())?;
    let ground = Arc::new(Ground::new(config.data_address, config.data_namespace.clone())?);
    let mut told = false;
    loop {
        match connect(&config, &identity).await {
            Ok((connection, endpoint)) => {
                told = false;
                say(
                    &config,
                    &format!("agent '{}' is with the controller {}", config.name, config.controller),
                );
                let reason = serve(&config, &identity, &ground, connection).await;
                say(&config, &format!("the controller is gone: {reason}"));
                endpoint.close(0, b"");
            }
            Err(Attempt::Refused(reason)) => return Err(reason),
            Err(Attempt::Absent(reason)) if !told => {
                told = true;
                say(&config, &format!("no controller yet ({reason}); trying on"));
            }
            Err(Attempt::Absent(_)) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn say(config: &AgentConfig, words: &str) {
    if !config.is_quiet {
        eprintln!("fulmar-lab: {words}");
    }
}

/// Why there is no connection.
enum Attempt {
    /// It may come yet.
    Absent(String),
    /// Somebody has to do something first.
    Refused(String),
}

async fn connect(config: &AgentConfig, identity: &Identity) -> Result<(Connection, Endpoint), Attempt> {
    let absent = |error: &dyn std::fmt::Display| Attempt::Absent(error.to_string());
    let addresses = config.controller.resolve().await.map_err(|error| absent(&error))?;
    let address = addresses.first().copied().ok_or_else(|| absent(&"no address"))?;
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let endpoint = Endpoint::client(any).map_err(|error| absent(&error))?;
    let policy = Arc::new(profile::Controller::new(config, identity.public_key()));
    let crypto = fulmar::crypto::ClientConfig::raw_key(Some(identity), policy.clone()).with_alpn(&[ALPN]);
    let transport = control_transport().map_err(|error| Attempt::Refused(error.to_string()))?;
    let client = ClientConfig { transport: Arc::new(transport), ..ClientConfig::new(Arc::new(crypto)) };
    let connecting =
        endpoint.connect_with(&client, address, config.controller.name()).map_err(|e| absent(&e))?;
    match connecting.await {
        Ok(connection) => Ok((connection, endpoint)),
        Err(error) => Err(match policy.finding() {
            Some(reason) => Attempt::Refused(reason),
            None if matches!(error, fulmar::ConnectionError::TimedOut) => absent(&error),
            None => {
                let key = identity.public_key().to_line(&config.name);
                Attempt::Absent(format!(
                    "{error}; to let this agent in, add its key to authorized_keys there: {key}"
                ))
            }
        }),
    }
}

/// Does what the controller says until it is gone; returns why it is.
async fn serve(
    config: &AgentConfig,
    identity: &Identity,
    ground: &Arc<Ground>,
    connection: Connection,
) -> String {
    let (mut sending, mut receiving) = match connection.open_bi().await {
        Ok(streams) => streams,
        Err(error) => return error.to_string(),
    };
    let hello = Report::Hello {
        name: config.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        role: config.role,
        data_address: config.data_address.to_string(),
        key: identity.public_key().to_line("").trim().to_owned(),
    };
    if let Err(reason) = control::send(&mut sending, &hello, &[]).await {
        return reason;
    }
    let (reports, outbox) = mpsc::channel(REPORTS_MAX);
    let mut agent = Agent {
        identity: Arc::new(Identity::from_pem(&identity.to_pem()).unwrap_or_else(|_| Identity::generate())),
        ground: ground.clone(),
        reports,
        jobs: BTreeMap::new(),
        cargo: Vec::new(),
    };
    let mut writer = tokio::spawn(write(sending, outbox));
    let reason = loop {
        tokio::select! {
            order = control::receive::<Order>(&mut receiving) => match order {
                Ok((order, beside)) => agent.obey(order, beside),
                Err(reason) => break reason,
            },
            ended = &mut writer => break ended.unwrap_or_else(|error| error.to_string()),
        }
    };
    writer.abort();
    reason
}

async fn write(mut stream: SendStream, mut outbox: mpsc::Receiver<(Report, Vec<u8>)>) -> String {
    while let Some((report, beside)) = outbox.recv().await {
        if let Err(reason) = control::send(&mut stream, &report, &beside).await {
            return reason;
        }
    }
    // Dropped before its end, it would take what has not arrived yet with it.
    let _ = stream.finish();
    "all is said".into()
}

/// An agent while it has a controller. Dropped with it, and all jobs with that.
struct Agent {
    identity: Arc<Identity>,
    ground: Arc<Ground>,
    reports: mpsc::Sender<(Report, Vec<u8>)>,
    jobs: BTreeMap<u32, (watch::Sender<Phase>, tokio::task::AbortHandle)>,
    cargo: Vec<u8>,
}

/// The largest picture that is taken.
const CARGO_BYTES_MAX: usize = 32 << 20;

impl Agent {
    fn obey(&mut self, order: Order, beside: Vec<u8>) {
        match order {
            Order::Welcome { .. } => {}
            Order::Ping => _ = self.reports.try_send((Report::Pong, Vec::new())),
            Order::Cargo { is_first } => {
                if is_first {
                    self.cargo = Vec::new();
                }
                if self.cargo.len() + beside.len() <= CARGO_BYTES_MAX {
                    self.cargo.extend(beside);
                }
            }
            Order::Receive { job, returns } => {
                self.begin(job.number, |desk| desk.run(job, Side::Receive { returns }));
            }
            Order::Send { job, to, has_cargo } => {
                let cargo = has_cargo.then(|| Arc::<[u8]>::from(self.cargo.as_slice()));
                self.begin(job.number, |desk| desk.run(job, Side::Send { to, cargo }));
            }
            Order::Go { job } => self.tell(job, Phase::Go),
            Order::End { job } => self.tell(job, Phase::End),
        }
    }

    fn begin<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        number: u32,
        work: impl FnOnce(job::Desk) -> F,
    ) {
        self.jobs.retain(|_, (_, task)| !task.is_finished());
        let (phase, phases) = watch::channel(Phase::Prepare);
        let desk = job::Desk {
            identity: self.identity.clone(),
            ground: self.ground.clone(),
            reports: self.reports.clone(),
            phases,
        };
        let task = tokio::spawn(work(desk));
        if let Some((_, before)) = self.jobs.insert(number, (phase, task.abort_handle())) {
            before.abort();
        }
    }

    fn tell(&self, job: u32, phase: Phase) {
        if let Some((phases, _)) = self.jobs.get(&job) {
            phases.send_replace(phase);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.jobs.values().for_each(|(_, task)| task.abort());
    }
}
