//! `fulmar up`: everything that config.toml names, in one process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::watch::{WatchArgs, reload_on_hangup};
use super::{gateway, raise_descriptor_limit, say_ready, until_told};
use crate::cp::server::Served;
use crate::exit::Failure;
use crate::reach::{self, Manner, ServerArgs};
use crate::tunnel::client::{Client, Reverse};
use crate::tunnel::config::{Config, ForwardConfig, GatewayConfig, ProxyConfig};
use crate::tunnel::forward::{Entrance, serve_all};
use crate::tunnel::proxy;
use crate::tunnel::report::{Observed, ObservedClient, ObservedGateway, Report};
use crate::{serve, trust};

/// Pause before a gateway that did not answer is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// How long a gateway may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs everything that config.toml names, in one process: a gateway, proxies, forwards.
///
/// SIGHUP and `fulmar reload` read the file again: what is the same in it goes on, what is gone takes no new
/// connections, what is new begins. A file with a mistake changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file [default: config.toml beside this machine's identity]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchArgs,
    /// Report as JSON on standard output, a line for each event
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: until it is told to end.
pub async fn run(args: Args) -> Result<(), Failure> {
    raise_descriptor_limit();
    let path = match args.config {
        Some(path) if path.exists() => path,
        Some(path) => return Err(Failure::File(format!("{}: there is no such file", path.display()))),
        None => Config::path(trust::home()?.path()),
    };
    let config = Config::read(&path)?;
    if config.gateway.is_none() && config.proxy.is_empty() && config.forward.is_empty() {
        return Err(Failure::Usage(format!("{}: names neither gateway, proxy nor forward", path.display())));
    }
    let mut watch = args.watch.or(config.metrics).bind().await?;
    let metrics = watch.metrics_address();
    let (house, mut changes) = House::new(path);
    house.apply(config).await?;
    let commands: Vec<Arc<dyn Observed>> = vec![house.clone()];
    watch.start(commands.clone())?;
    let report = house.report();
    let event = json!({ "running": report.at.split(", ").collect::<Vec<_>>(), "metrics": metrics });
    say_ready(args.json, "up", &[format!("Ready: {}", report.at)], event);
    until_told(async {
        tokio::select! {
            () = reload_on_hangup(&commands) => {}
            () = async {
                while let Some(config) = changes.recv().await {
                    if let Err(failure) = house.apply(config).await {
                        tracing::error!("{failure}");
                    }
                }
            } => {}
        }
    })
    .await
}

/// Everything that runs, by the section that asked for it.
struct House {
    path: PathBuf,
    units: Mutex<BTreeMap<String, Unit>>,
    changes: mpsc::UnboundedSender<Config>,
}

/// One section at work. It takes no new connections once this is dropped; those that are there go on.
struct Unit {
    _tasks: JoinSet<()>,
    observed: Arc<Mutex<Option<Arc<dyn Observed>>>>,
    at: String,
}

/// A section of the file.
enum Section {
    Gateway(GatewayConfig),
    Proxy(ProxyConfig),
    Forward(ForwardConfig),
}

impl House {
    fn new(path: PathBuf) -> (Arc<Self>, mpsc::UnboundedReceiver<Config>) {
        let (changes, changed) = mpsc::unbounded_channel();
        (Arc::new(Self { path, units: Mutex::default(), changes }), changed)
    }

    /// Ends what is no longer named, and begins what is new. One that cannot begin does not keep the others
    /// from it.
    async fn apply(&self, config: Config) -> Result<(), Failure> {
        let sections = config.gateway.iter().cloned().map(Section::Gateway);
        let sections = sections.chain(config.proxy.iter().cloned().map(Section::Proxy));
        let sections = sections.chain(config.forward.iter().cloned().map(Section::Forward));
        let named: BTreeMap<String, Section> =
            sections.map(|section| (section.key(&config), section)).collect();
        self.lock().retain(|key, _| named.contains_key(key));
        let mut failed = Ok(());
        for (key, section) in named {
            if self.lock().contains_key(&key) {
                continue;
            }
            match section.begin(&config).await {
                Ok(unit) => drop(self.lock().insert(key, unit)),
                Err(failure) => failed = Err(failure),
            }
        }
        failed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Unit>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observed for House {
    fn report(&self) -> Report {
        let units = self.lock();
        let mut all = Report { pid: std::process::id(), command: "up".into(), ..Report::default() };
        all.at = units.values().map(|unit| unit.at.clone()).collect::<Vec<_>>().join(", ");
        let observed = units.values().filter_map(Unit::observed);
        for report in observed.map(|observed| observed.report()) {
            all.up_seconds = all.up_seconds.max(report.up_seconds);
            all.up_bytes += report.up_bytes;
            all.down_bytes += report.down_bytes;
            all.opened += report.opened;
            all.refused += report.refused;
            all.connections.extend(report.connections);
        }
        all
    }

    fn reload(&self) -> Result<String, String> {
        let config = Config::read(&self.path).map_err(|failure| failure.to_string())?;
        let observed: Vec<_> = self.lock().values().filter_map(Unit::observed).collect();
        observed.iter().try_for_each(|observed| observed.reload().map(drop))?;
        self.changes.send(config).map_err(|_| "it is about to end".to_owned())?;
        Ok(format!("{} was read again", self.path.display()))
    }
}

impl Unit {
    fn observed(&self) -> Option<Arc<dyn Observed>> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Section {
    /// Equal for sections that mean the same.
    fn key(&self, config: &Config) -> String {
        let host = |name: &str| format!("{:?}", config.host(name));
        match self {
            Self::Gateway(section) => format!("gateway {section:?}"),
            // A login shows itself without its password.
            Self::Proxy(section) => {
                let login = section.user.as_ref().map(proxy::Login::digest);
                format!("proxy {section:?} {login:?} {}", host(&section.host))
            }
            Self::Forward(section) => format!("forward {section:?} {}", host(&section.host)),
        }
    }

    async fn begin(self, config: &Config) -> Result<Unit, Failure> {
        let observed = Arc::<Mutex<Option<Arc<dyn Observed>>>>::default();
        let mut tasks = JoinSet::new();
        let at = match self {
            Self::Gateway(section) => {
                let (at, work) = begin_gateway(&section, &observed)?;
                tasks.spawn(work);
                at
            }
            Self::Proxy(section) => {
                let taken = |e| Failure::Unreachable(format!("cannot listen at {}: {e}", section.listen));
                let listener = TcpListener::bind(section.listen).await.map_err(taken)?;
                let at = listener.local_addr().map_err(taken)?.to_string();
                let (route, observed, name) =
                    (route(config, &section.host)?, Arc::clone(&observed), at.clone());
                tasks.spawn(async move {
                    let client = connect(route).await;
                    show(&observed, ObservedClient::new("proxy", name, &client));
                    proxy::serve(listener, client, section.user.map(Arc::new)).await;
                });
                format!("proxy at {at}")
            }
            Self::Forward(section) => {
                let entrances = bind(&section).await?;
                let at: Vec<_> =
                    entrances.iter().filter_map(|e| e.address().map(|a| a.to_string())).collect();
                let at = at.join(" and ");
                let (route, observed, name) =
                    (route(config, &section.host)?, Arc::clone(&observed), at.clone());
                tasks.spawn(forward(route, section, entrances, observed, name));
                format!("forward at {at}")
            }
        };
        Ok(Unit { _tasks: tasks, observed, at })
    }
}

type Shown = Arc<Mutex<Option<Arc<dyn Observed>>>>;

fn show(observed: &Shown, what: Arc<dyn Observed>) {
    *observed.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
}

fn begin_gateway(
    section: &GatewayConfig,
    observed: &Shown,
) -> Result<(String, impl Future<Output = ()> + use<>), Failure> {
    let profile = section.profile.clone().unwrap_or_else(|| "auto".into());
    let server = ServerArgs { listen: section.listen, profile, allowed: Default::default() };
    let gateway = gateway::open()?;
    #[cfg(target_os = "linux")]
    let changed = section.tun().offer(&gateway)?;
    let files = section.root.as_deref().map(|root| open_files(root, section.read_only)).transpose()?;
    let listener = reach::listen_for(&server, serve::services(files.is_some(), true))?;
    show(observed, ObservedGateway::new(listener.address.to_string(), &gateway));
    let at = format!("gateway at {}, key {}", listener.address, listener.fingerprint);
    let work = async move {
        // The changes for tunnels last as long as the gateway.
        #[cfg(target_os = "linux")]
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
    let profile = host.profile.unwrap_or_else(|| "auto".into());
    let manner =
        Manner { profile, accept_new: host.accept_new, connect_timeout: CONNECT_TIMEOUT, is_quiet: true };
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

async fn forward(route: Way, section: ForwardConfig, entrances: Vec<Entrance>, observed: Shown, at: String) {
    let client = connect(route).await;
    show(&observed, ObservedClient::new("forward", at, &client));
    for spec in section.remote {
        if let Err(error) = client.listen(Reverse::from(spec)).await {
            tracing::error!("{error}");
        }
    }
    serve_all(entrances, &client).await;
    // What the gateway listens at needs the client to stay.
    std::future::pending::<()>().await;
}
