//! One run: the lines of program and way put together, started at the ends of a bridge, and the numbers read.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::key;
use super::{Application, Cell, Record, Way};
use crate::bridge::{CLIENT_ADDRESS, SERVER_ADDRESS, TcpSettings};
use crate::experiment::COMMIT;
use crate::programs::{self, Finished, Programs, search_path};

/// What a run may take beside its program: to get ready, and to end.
const AROUND: Duration = Duration::from_secs(60);
/// A run whose packets the machine could not move in time is tried so often.
const ATTEMPTS_MAX: u32 = 2;

/// What all runs have in common.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// Folder of the applications' files.
    pub here: PathBuf,
    /// Folder of files that are made once: those that are carried.
    pub data: PathBuf,
    /// Size of the file, in millions of bytes.
    pub megabytes: u32,
    /// Bound on the bridge's lateness.
    pub lateness_p99_max: Duration,
    /// Seed of the link's draws.
    pub seed: u64,
}

impl Workshop {
    /// Makes the file that is carried, `$DATA/file`, the same everywhere, with its hash beside it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn furnish(&self) -> std::io::Result<()> {
        let folder = self.data_folder();
        fs::create_dir_all(&folder)?;
        let path = folder.join("file");
        let bytes = u64::from(self.megabytes) * 1_000_000;
        if fs::metadata(&path).is_ok_and(|meta| meta.len() == bytes) {
            return Ok(());
        }
        let mut content = vec![0; bytes as usize];
        blake3::Hasher::new().update(b"applications").finalize_xof().fill(&mut content);
        fs::write(path, content)
    }

    fn data_folder(&self) -> PathBuf {
        self.data.join(self.megabytes.to_string())
    }

    /// What a run of this cell is kept under.
    pub fn key(&self, application: &Application, way: &Way, cell: &Cell) -> String {
        key(application, way, cell, self.megabytes, self.seed)
    }
}

/// Runs a cell. A program that fails is a record that says so.
///
/// # Errors
/// If the bridge cannot be.
pub fn run(workshop: &Workshop, application: &Application, way: &Way, cell: &Cell) -> Result<Record, String> {
    let mut record = once(workshop, application, way, cell)?;
    for _ in 1..ATTEMPTS_MAX {
        if record.valid {
            break;
        }
        record = once(workshop, application, way, cell)?;
    }
    Ok(record)
}

fn once(workshop: &Workshop, application: &Application, way: &Way, cell: &Cell) -> Result<Record, String> {
    let work = tempfile::tempdir().map_err(|error| format!("no folder to work in: {error}"))?;
    let programs = Programs {
        link: cell.link()?,
        server: format!("{READY}{}", far_end(application, way)),
        client: format!("{READY}{}", near_end(application, way)),
        environment: environment(workshop, application, way, work.path())?,
        settle: Duration::from_millis(50),
        limit: application.limit + AROUND,
        settings: TcpSettings::default(),
        lateness_p99_max: workshop.lateness_p99_max,
    };
    let finished = programs::run(&programs, workshop.seed)?;
    let lateness = finished.outcome.lateness.as_ref();
    let (measures, failed) = read(&finished, application, work.path());
    Ok(Record {
        key: workshop.key(application, way, cell),
        application: application.name.clone(),
        way: way.name.clone(),
        link: cell.link.clone(),
        seed: workshop.seed,
        measures,
        failed,
        valid: finished.outcome.valid,
        lateness_p99_ms: lateness.map_or(0.0, |lateness| lateness.delays.p99_ms),
        commit: COMMIT.into(),
    })
}

/// Before the lines of both ends.
const READY: &str =
    "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY no_proxy\ncd \"$WORK\"\n";

/// What both ends' lines find in their environment. The lines are the project's own files; what varies from
/// run to run, and every path, is here and becomes text of no line.
fn environment(
    workshop: &Workshop,
    application: &Application,
    way: &Way,
    work: &Path,
) -> Result<Vec<(OsString, OsString)>, String> {
    let mut path = search_path();
    path.extend(["/usr/sbin".into(), "/sbin".into()]);
    let path = env::join_paths(path).map_err(|error| error.to_string())?;
    let here =
        fs::canonicalize(&workshop.here).map_err(|error| format!("{}: {error}", workshop.here.display()))?;
    let text = |value: &dyn std::fmt::Display| OsString::from(value.to_string());
    let folder = |path: &Path| OsStr::new(path).to_owned();
    let variables = [
        ("PATH", path),
        ("WORK", folder(work)),
        ("DATA", folder(&workshop.data_folder())),
        ("HERE", folder(&here)),
        ("SERVER", text(&Ipv4Addr::from(SERVER_ADDRESS))),
        ("CLIENT", text(&Ipv4Addr::from(CLIENT_ADDRESS))),
        ("NEEDS", text(&application.needs.join(" "))),
        ("PORTS", text(&application.ports.join(" "))),
        ("MEGABYTES", text(&workshop.megabytes)),
        ("LIMIT", text(&application.limit.as_secs())),
        ("WAY", text(&way.name)),
    ];
    Ok(variables.map(|(name, value)| (name.into(), value)).into())
}

/// Prepares, starts what listens, and says so in a file that the near end waits for.
fn far_end(application: &Application, way: &Way) -> String {
    format!(
        "exec 2>\"$WORK/far.log\"\nset -e\n{}\nset +e\n{}\n{}\ntouch \"$WORK/prepared\"\nsleep infinity\n",
        application.prepare, way.server, application.server
    )
}

fn near_end(application: &Application, way: &Way) -> String {
    let mut line = format!(
        "exec 2>\"$WORK/near.log\"\nn=0; until [ -e \"$WORK/prepared\" ]; do \
         n=$((n+1)); [ $n -gt 600 ] && echo 'the far end was not ready after 30 s' >&2 && exit 1; sleep 0.05; done\n{}\n",
        way.client
    );
    for (name, value) in &way.environment {
        let _ = writeln!(line, "export {name}=\"{value}\"");
    }
    line + &application.client
}

/// The numbers that were printed, or why there are none.
fn read(finished: &Finished, application: &Application, work: &Path) -> (BTreeMap<String, f64>, String) {
    let mut measures = BTreeMap::new();
    for (name, value) in finished.client.iter().filter_map(|json| json.as_object()).flatten() {
        if let Some(value) = value.as_f64() {
            measures.insert(name.clone(), value);
        }
    }
    if application.measures.iter().any(|measure| measures.contains_key(&measure.name)) {
        return (measures, String::new());
    }
    let last = |file: &str| {
        let text = fs::read_to_string(work.join(file)).unwrap_or_default();
        text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
    };
    let status = finished.exit_status.map_or("a signal".into(), |status| format!("status {status}"));
    let words = finished.output.lines().last().map(str::to_owned).or_else(|| last("near.log"));
    let words = words.or_else(|| last("far.log")).unwrap_or_else(|| "nothing".into());
    (measures, format!("ended by {status}: {words}"))
}
