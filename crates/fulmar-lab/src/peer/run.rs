//! A run of a peer: its commands with what they find in their environment, and the figures from what it
//! printed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{ChosenPeer, Printer};
use crate::bridge::TcpSettings;
use crate::link::LinkSpec;
use crate::outcome::{Flow, Outcome};
use crate::programs::{self, Finished, Programs, search_path};

/// How much longer than its time a client may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One run of a peer without its seed.
#[derive(Clone, Debug)]
pub struct PeerScenario {
    /// Who sends, as much as goes.
    pub peer: ChosenPeer,
    /// The link between the ends.
    pub link: LinkSpec,
    /// How long.
    pub duration: Duration,
    /// Settings of the kernel's TCP, for peers that use it.
    pub settings: TcpSettings,
    /// Bound on the bridge's lateness.
    pub lateness_p99_max: Duration,
}

impl PeerScenario {
    /// What tells runs apart beside the link: the commands, not where their files are.
    pub fn words(&self) -> String {
        let peer = &self.peer.peer;
        format!("{} | {} | {}", self.peer.label(), peer.server, peer.client)
    }
}

/// Runs a peer over a link in real time. A run that has no figures to show is invalid.
///
/// # Errors
/// If something is not installed, or the bridge cannot be.
pub fn run(scenario: &PeerScenario, seed: u64) -> Result<Outcome, String> {
    let peer = &scenario.peer.peer;
    peer.check_installed()?;
    let build = build_folder(&peer.name)?;
    let environment = scenario.environment(&build)?;
    if let Some(line) = &peer.build {
        make(line, &environment)
            .map_err(|reason| format!("peer '{}' cannot be built: {reason}", peer.name))?;
    }
    let finished = programs::run(
        &Programs {
            link: scenario.link.clone(),
            server: peer.server.clone(),
            client: peer.client.clone(),
            environment,
            settle: peer.settle,
            limit: scenario.duration + PATIENCE,
            settings: scenario.settings,
            lateness_p99_max: scenario.lateness_p99_max,
        },
        seed,
    )
    .map_err(|reason| format!("peer '{}': {reason}", peer.name))?;
    Ok(scenario.outcome(finished))
}

/// Where a peer may keep what is made for it: in the user's cache.
fn build_folder(name: &str) -> Result<PathBuf, String> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_else(env::temp_dir);
    let folder = cache.join("fulmar-lab").join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Runs a build command; its output is shown only if it fails.
fn make(line: &str, environment: &[(OsString, OsString)]) -> Result<(), String> {
    let output = Command::new("sh")
        .args(["-c", line])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}\n{}", String::from_utf8_lossy(&output.stderr).trim_end()))
}

impl PeerScenario {
    /// What the commands find in their environment, beside the addresses. Nothing of it becomes text of a
    /// line.
    fn environment(&self, build: &Path) -> Result<Vec<(OsString, OsString)>, String> {
        let peer = &self.peer.peer;
        let here = fs::canonicalize(&peer.folder).unwrap_or_else(|_| peer.folder.clone());
        let mbps = self.link.capacity_bps(Duration::ZERO, self.duration).unwrap_or(0.0) / 1e6;
        let path = env::join_paths(search_path()).map_err(|error| error.to_string())?;
        let choice = self.peer.choice.as_deref().unwrap_or("");
        let variables: [(&str, &OsStr); 6] = [
            ("CHOICE", choice.as_ref()),
            ("DURATION", &OsString::from(self.duration.as_secs_f64().to_string())),
            ("RATE_MBPS", &OsString::from(mbps.to_string())),
            ("HERE", here.as_ref()),
            ("BUILD", build.as_ref()),
            ("PATH", &path),
        ];
        Ok(variables.map(|(name, value)| (name.into(), value.into())).into())
    }

    fn outcome(&self, finished: Finished) -> Outcome {
        let peer = &self.peer.peer;
        let json = match peer.result.from {
            Printer::Client => finished.client,
            Printer::Server => finished.server,
        };
        let number = |pointer: &Option<String>| {
            pointer.as_ref().and_then(|pointer| json.as_ref()?.pointer(pointer).and_then(Value::as_f64))
        };
        let mbps = number(&peer.result.mbps).or(number(&peer.result.bits_per_second).map(|bps| bps / 1e6));
        let bytes = number(&peer.result.bytes).filter(|bytes| *bytes > 0.0);
        let mut outcome = finished.outcome;
        let sent_bytes = outcome.links.first().map(|link| link.offered_bytes as f64);
        outcome.flows = vec![Flow {
            name: self.peer.label(),
            traffic: "bulk".into(),
            goodput_mbps: mbps.unwrap_or(0.0),
            received_bytes: bytes.unwrap_or(0.0) as u64,
            wire_ratio: bytes.zip(sent_bytes).map(|(bytes, sent)| sent / bytes),
            processor_s_per_gb: bytes.map(|bytes| finished.processor_seconds / (bytes / 1e9)),
            ..Flow::default()
        }];
        outcome.seconds = self.duration.as_secs_f64();
        let capacity = self.link.capacity_bps(Duration::ZERO, self.duration);
        outcome.summarise(capacity, self.link.mean_loss());
        if mbps.is_none() {
            outcome.valid = false;
            let last = finished.output.lines().last().unwrap_or("nothing").trim();
            let status = finished.exit_status.map_or("a signal".into(), |status| format!("status {status}"));
            outcome
                .remarks
                .push(format!("no goodput was printed; the client ended by {status}, its last word: {last}"));
        }
        outcome
    }
}
