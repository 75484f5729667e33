//! The sections of config.toml, each as `fulmar up` runs it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use super::gateway;
use crate::cp::server::Served;
use crate::exit::Failure;
use crate::reach::{self, Listener, Manner, ServerArgs};
use crate::serve;
use crate::tunnel::config::{Config, ForwardConfig, GatewayConfig, ProxyConfig};
#[cfg(machine)]
use crate::tunnel::config::{TransparentConfig, TunConfig};
use crate::tunnel::flow::tcp;
use crate::tunnel::near::client::Client;
use crate::tunnel::near::forward::{Entrance, serve_all};
use crate::tunnel::near::login::Login;
use crate::tunnel::near::proxy;
use crate::tunnel::near::reverses::Reverse;
use crate::tunnel::watch::report::{Observed, ObservedClient, ObservedGateway};
#[cfg(machine)]
use crate::{
    packets::near::Near,
    system::Changed,
    transparent::{self, rules::Rules},
    tunnel::wire::packets::Grant,
};

/// Pause before a gateway that did not answer is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// How long a gateway may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// One section at work. It takes no new connections once this is dropped; those that are there go on.
pub struct Unit {
    tasks: JoinSet<()>,
    opened: Shared,
    /// What it is, and where.
    pub at: String,
    /// A port that its connections hold, also when it has ended.
    pub held: Option<SocketAddr>,
}

/// A section of the file.
pub enum Section {
    /// `[gateway]`
    Gateway(GatewayConfig),
    /// `[[proxy]]`
    Proxy(ProxyConfig),
    /// `[[forward]]`
    Forward(ForwardConfig),
    /// `[[tun]]`
    #[cfg(machine)]
    Tun(TunConfig),
    /// `[[transparent]]`
    #[cfg(machine)]
    Transparent(TransparentConfig),
}

impl Unit {
    /// What shows it, once it is connected.
    pub fn observed(&self) -> Option<Arc<dyn Observed>> {
        lock(&self.opened).observed.clone()
    }

    /// Ends it: its ports and devices are free again. Connections that are there go on, unless the rules of
    /// the kernel go with it by which they came.
    pub async fn end(mut self) {
        self.end_handed_over().await;
        self.tasks.shutdown().await;
    }

    /// Ends it with all its connections, and tells the other end: the program ends.
    pub async fn close(self) {
        let (client, listener) = {
            let mut opened = lock(&self.opened);
            (opened.client.take(), opened.listener.take())
        };
        // First, for these want a reset while the rules are still in force.
        self.end_handed_over().await;
        if let Some(client) = client {
            client.close().await;
        }
        if let Some(listener) = listener {
            listener.close().await;
        }
        self.end().await;
    }

    async fn end_handed_over(&self) {
        #[cfg(machine)]
        {
            let flows = Arc::clone(&lock(&self.opened).flows);
            flows.end().await;
        }
    }
}

impl Section {
    /// All sections of a file, by keys that are equal for sections that mean the same.
    pub fn all(config: &Config) -> BTreeMap<String, Self> {
        let sections = config.gateway.iter().cloned().map(Self::Gateway);
        let sections = sections.chain(config.proxy.iter().cloned().map(Self::Proxy));
        let sections = sections.chain(config.forward.iter().cloned().map(Self::Forward));
        #[cfg(machine)]
        let sections = sections
            .chain(config.tun.iter().cloned().map(Self::Tun))
            .chain(config.transparent.iter().cloned().map(Self::Transparent));
        sections.map(|section| (section.key(config), section)).collect()
    }

    /// A port that its connections go on to hold.
    pub fn held(&self) -> Option<SocketAddr> {
        if let Self::Gateway(section) = self { Some(section.listen.address) } else { None }
    }

    fn key(&self, config: &Config) -> String {
        let host = |name: &str| format!("{:?}", config.host(name));
        match self {
            Self::Gateway(section) => format!("gateway {section:?}"),
            // A login shows itself without its password.
            Self::Proxy(section) => {
                let login = section.user.as_ref().map(Login::digest);
                format!("proxy {section:?} {login:?} {}", host(&section.host))
            }
            Self::Forward(section) => format!("forward {section:?} {}", host(&section.host)),
            #[cfg(machine)]
            Self::Tun(section) => format!("tun {section:?} {}", host(&section.host)),
            #[cfg(machine)]
            Self::Transparent(section) => format!("transparent {section:?} {}", host(&section.host)),
        }
    }

    /// Sets it to work.
    pub async fn begin(self, config: &Config) -> Result<Unit, Failure> {
        let opened = Shared::default();
        let (mut tasks, held) = (JoinSet::new(), self.held());
        let at = match self {
            Self::Gateway(section) => {
                let (at, work) = begin_gateway(&section, &opened)?;
                tasks.spawn(work);
                at
            }
            Self::Proxy(section) => {
                let taken = |e| Failure::Unreachable(format!("cannot listen at {}: {e}", section.listen));
                let listener = tcp::listen(section.listen).await.map_err(taken)?;
                let at = listener.local_addr().map_err(taken)?.to_string();
                let (route, opened, name) = (route(config, &section.host)?, Arc::clone(&opened), at.clone());
                tasks.spawn(async move {
                    let client = connect(route).await;
                    show_client(&opened, "proxy", name, &client);
                    proxy::serve(listener, client, section.user.map(Arc::new)).await;
                });
                format!("proxy at {at}")
            }
            Self::Forward(section) => {
                let entrances = bind(&section).await?;
                let at: Vec<_> =
                    entrances.iter().filter_map(|e| e.address().map(|a| a.to_string())).collect();
                let at = at.join(" and ");
                let (route, opened, name) = (route(config, &section.host)?, Arc::clone(&opened), at.clone());
                tasks.spawn(forward(route, section, entrances, opened, name));
                format!("forward at {at}")
            }
            #[cfg(machine)]
            Self::Tun(section) => {
                let (gateways, manner) = route(config, &section.host)?;
                let near = Near::new(gateways, manner, section.wanted());
                tasks.spawn(tunnel(near, Arc::clone(&opened)));
                format!("tun {}", section.device)
            }
            #[cfg(machine)]
            Self::Transparent(section) => {
                let (rules, route) = (section.rules(), route(config, &section.host)?);
                let entrance = transparent::Entrance::bind(&rules)?;
                tasks.spawn(hand_over(route, rules, entrance, Arc::clone(&opened)));
                format!("transparent at port {}", section.port)
            }
        };
        Ok(Unit { tasks, opened, at, held })
    }
}

/// What a section has opened so far: to be looked at, and to be ended in order.
#[derive(Default)]
struct Opened {
    observed: Option<Arc<dyn Observed>>,
    client: Option<Client>,
    listener: Option<Arc<Listener>>,
    #[cfg(machine)]
    flows: Arc<transparent::Flows>,
}

type Shared = Arc<Mutex<Opened>>;

fn lock(opened: &Shared) -> MutexGuard<'_, Opened> {
    opened.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show_client(opened: &Shared, command: &'static str, at: String, client: &Client) {
    let mut opened = lock(opened);
    opened.observed = Some(ObservedClient::new(command, at, client));
    opened.client = Some(client.clone());
}

fn begin_gateway(
    section: &GatewayConfig,
    opened: &Shared,
) -> Result<(String, impl Future<Output = ()> + use<>), Failure> {
    let profile = section.profile.clone().unwrap_or_else(|| "auto".into());
    let (listen, memory_bytes) = (section.listen.clone(), section.memory);
    let (allowed, tcp) = (Default::default(), section.tcp());
    let server = ServerArgs { listen, profile, allowed, memory_bytes, invites: false, tcp };
    let gateway = gateway::open()?;
    #[cfg(machine)]
    let changed = section.tun().offer(&gateway)?;
    let files = section.root.as_deref().map(|root| open_files(root, section.read_only)).transpose()?;
    let listener = Arc::new(reach::listen_for(&server, serve::services(files.is_some(), true))?);
    {
        let mut opened = lock(opened);
        opened.observed = Some(ObservedGateway::new(listener.address.to_string(), &gateway));
        opened.listener = Some(Arc::clone(&listener));
    }
    let at = format!("gateway at {}, key {}", listener.places(), listener.fingerprint);
    let work = async move {
        // The changes for tunnels last as long as the gateway.
        #[cfg(machine)]
        let _changed = changed;
        match files {
            Some(files) => serve::accept_both(&listener, &files, &gateway, false).await,
            None => gateway::accept(&listener, &gateway).await,
        }
    };
    Ok((at, work))
}

fn open_files(root: &Path, is_read_only: bool) -> Result<Arc<Served>, Failure> {
    Ok(Arc::new(Served::new(root, is_read_only)?))
}

type Way = (Vec<fulmar::identity::Host>, Manner);

fn route(config: &Config, name: &str) -> Result<Way, Failure> {
    let host = config.host(name).map_err(Failure::Usage)?;
    let way = host.way();
    let deadline = host.deadline;
    let profile = host.profile.unwrap_or_else(|| "auto".into());
    let manner = Manner {
        profile,
        accept_new: host.accept_new,
        connect_timeout: CONNECT_TIMEOUT,
        keep_alive: None,
        is_quiet: true,
        deadline,
        way,
    };
    Ok((host.gateways, manner))
}

/// Connects, however long that takes: nobody is there to start a service again.
async fn connect((gateways, manner): Way) -> Client {
    loop {
        match Client::connect(gateways.clone(), manner.clone()).await {
            Ok(client) => return client,
            Err(failure) => tracing::error!("{failure}; trying again in {} s", RETRY_PAUSE.as_secs()),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn bind(section: &ForwardConfig) -> Result<Vec<Entrance>, Failure> {
    let mut entrances = Vec::new();
    for spec in &section.local {
        entrances.push(Entrance::bind(spec).await.map_err(|e| Failure::Unreachable(e.text))?);
    }
    for place in &section.dynamic {
        entrances.push(Entrance::bind_proxy(place).await.map_err(|e| Failure::Unreachable(e.text))?);
    }
    Ok(entrances)
}

async fn forward(route: Way, section: ForwardConfig, entrances: Vec<Entrance>, opened: Shared, at: String) {
    let client = connect(route).await;
    show_client(&opened, "forward", at, &client);
    for spec in section.remote {
        if let Err(error) = client.listen(Reverse::from(spec)).await {
            tracing::error!("{error}");
        }
    }
    serve_all(entrances, &client).await;
    // What the gateway listens at needs the client to stay.
    std::future::pending::<()>().await;
}

/// Carries packets for ever.
#[cfg(machine)]
async fn tunnel(near: Near, opened: Shared) {
    loop {
        let carried = async {
            let granted = near.open().await?;
            lock(&opened).observed = Some(near.observed());
            let tell = |grant: &Grant, gateway: &fulmar::identity::Host| {
                tracing::info!("tunnel at {} and {}, through {gateway}", grant.v4, grant.v6);
            };
            near.carry(granted, tell).await
        };
        let Err(failure) = carried.await else { continue };
        tracing::error!("{failure}; trying again in {} s", RETRY_PAUSE.as_secs());
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Has connections handed over, for ever; the rules are in force once the gateway is there.
#[cfg(machine)]
async fn hand_over(route: Way, rules: Rules, entrance: transparent::Entrance, opened: Shared) {
    let client = connect(route).await;
    show_client(&opened, "transparent", format!("port {}", rules.port), &client);
    let _changed = loop {
        match Changed::make(&rules.name(), || rules.changes()) {
            Ok(changed) => break changed,
            Err(failure) => tracing::error!("{failure}; trying again in {} s", RETRY_PAUSE.as_secs()),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    };
    let flows = Arc::clone(&lock(&opened).flows);
    entrance.serve(client, flows).await;
}
