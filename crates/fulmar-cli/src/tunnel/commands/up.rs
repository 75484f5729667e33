//! `fulmar up`: everything that config.toml names, in one process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::section::{Section, Unit};
use super::watch::{WatchArgs, reload_on_hangup};
use super::{raise_descriptor_limit, say_ready, until_told};
use crate::exit::Failure;
use crate::limits::{self, LimitArgs};
use crate::trust;
use crate::tunnel::config::Config;
use crate::tunnel::watch::report::{Observed, Report};

/// Run everything that config.toml names: a gateway, proxies, forwards, tunnels.
///
/// All of it runs in one process. `fulmar reload` and SIGHUP read the file again. Unchanged entries keep
/// running, removed ones stop accepting connections, new ones start. A file with a mistake changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example of a config.toml:
    [[proxy]]
    host = \"server.example.org:443\"
    listen = \"127.0.0.1:1080\"

    [[forward]]
    host = \"server.example.org:443\"
    local = [\"5432:db:5432\"]")]
pub struct Args {
    /// Configuration file [default: config.toml next to this machine's identity]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print events in JSON, one on each line
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: until it is told to end.
pub async fn run(args: Args) -> Result<(), Failure> {
    raise_descriptor_limit();
    let path = match args.config {
        Some(path) if path.exists() => path,
        Some(path) => return Err(missing(&path)),
        None => Config::path(trust::home()?.path()),
    };
    if !path.exists() {
        return Err(missing(&path));
    }
    let config = Config::read(&path)?;
    if Section::all(&config).is_empty() {
        return Err(Failure::Usage(format!(
            "{}: names nothing to run: [gateway], [[proxy]], [[forward]], [[tun]] or [[transparent]]",
            path.display()
        )));
    }
    let file = path.clone();
    limits::keep(&args.limits, move || Ok(Config::read(&file)?.limits()))?;
    let mut watch = args.watch.or(config.metrics).bind().await?;
    let metrics = watch.metrics_address();
    let (house, mut changes) = House::new(path);
    house.apply(config).await?;
    let commands: Vec<Arc<dyn Observed>> = vec![house.clone()];
    watch.start(commands.clone())?;
    let report = house.report();
    let event = json!({ "running": report.at.split(", ").collect::<Vec<_>>(), "metrics": metrics });
    say_ready(args.json, "up", &[format!("Ready: {}", report.at)], event);
    let result = until_told(async {
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
    });
    let result = result.await;
    house.close().await;
    result
}

/// Nothing is there to be run.
fn missing(path: &std::path::Path) -> Failure {
    Failure::File(format!("{}: there is no such file. `fulmar up --help` has an example", path.display()))
}

/// What a changed gateway at the same port comes to.
const STAYS: &str = "the gateway stays as it was until a restart, since its connections hold the port";

/// Everything that runs, by the section that asked for it.
struct House {
    path: PathBuf,
    units: Mutex<BTreeMap<String, Unit>>,
    changes: mpsc::UnboundedSender<Config>,
}

impl House {
    fn new(path: PathBuf) -> (Arc<Self>, mpsc::UnboundedReceiver<Config>) {
        let (changes, changed) = mpsc::unbounded_channel();
        (Arc::new(Self { path, units: Mutex::default(), changes }), changed)
    }

    /// Ends what is no longer named, and begins what is new. One that cannot begin does not keep the others
    /// from it.
    async fn apply(&self, config: Config) -> Result<(), Failure> {
        let named = Section::all(&config);
        self.keep_staying(&named);
        let units = std::mem::take(&mut *self.lock());
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            units.into_iter().partition(|(key, _)| named.contains_key(key));
        *self.lock() = kept;
        // What comes may want the ports of what goes.
        for unit in gone.into_values() {
            unit.end().await;
        }
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

    /// Ends everything, and tells the other ends: all at once, for each may take its time.
    async fn close(&self) {
        let units = std::mem::take(&mut *self.lock());
        units.into_values().map(Unit::close).collect::<JoinSet<()>>().join_all().await;
    }

    /// Sections that are others now, and whose ports are held by connections that are to go on: by their keys
    /// of before and now.
    fn staying(&self, named: &BTreeMap<String, Section>) -> Vec<(String, String)> {
        let units = self.lock();
        let other = |key: &String| !named.contains_key(key);
        let held =
            units.iter().filter(|(key, _)| other(key)).filter_map(|(key, unit)| Some((key, unit.held?)));
        let now =
            |at| named.iter().find(|(key, section)| section.held() == Some(at) && !units.contains_key(*key));
        held.filter_map(|(key, at)| Some((key.clone(), now(at)?.0.clone()))).collect()
    }

    /// These stay as they were, rather than let nobody new in.
    fn keep_staying(&self, named: &BTreeMap<String, Section>) {
        for (before, now) in self.staying(named) {
            let mut units = self.lock();
            if let Some(unit) = units.remove(&before) {
                tracing::warn!("{}: {STAYS}", unit.at);
                units.insert(now, unit);
            }
        }
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
        let is_all = self.staying(&Section::all(&config)).is_empty();
        self.changes.send(config).map_err(|_| "it is about to end".to_owned())?;
        let path = self.path.display();
        Ok(if is_all { format!("{path} was read again") } else { format!("{path} was read again; {STAYS}") })
    }
}
