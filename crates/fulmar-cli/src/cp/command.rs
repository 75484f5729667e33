//! `fulmar cp`: the command line, the retries, the summary.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use super::error::TransferError;
use super::job::{self, Job};
use super::plan::{Direction, Plan};
use super::progress::{Line, Progress};
use super::target::Location;
use crate::exit::Failure;
use crate::reach::{self, ClientArgs, Service};
use crate::session::Session;
use crate::units;

/// How often the progress line is drawn anew.
const REDRAW: Duration = Duration::from_millis(200);

/// Copies files to or from a machine that runs `fulmar serve`.
///
/// An interrupted copy goes on where it stopped when the same command is given again: what is there already
/// is compared by its BLAKE3 hash, never by name alone. A file takes its final name only when it is complete
/// and verified. Permissions and times are kept; symbolic links found inside folders are left out.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to copy: a path here, or HOST:PATH (relative to the folder that HOST serves)
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<Location>,
    /// Where to: HOST:PATH, or a path here; an existing folder is copied into
    #[arg(required = true, value_name = "DEST")]
    destination: Location,
    /// Copy folders with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// Files on their way at the same time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: u16,
    /// Attempts without any progress before a lost connection is given up
    #[arg(long, default_value_t = 8)]
    retries: u32,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Report as JSON on standard output
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// What is copied from where to where, with one server.
#[derive(Debug)]
enum Way {
    Up { sources: Vec<PathBuf>, host: String, target: String },
    Down { host: String, sources: Vec<String>, target: PathBuf },
}

/// Runs the command.
pub async fn run(mut args: Args) -> Result<(), Failure> {
    args.client.is_quiet = args.quiet;
    let way = Way::of(&args.sources, &args.destination)?;
    let session = reach::connect(way.host(), Service::Copy, &args.client).await?;
    let begin = Instant::now();
    let (session, direction, plan) = make_plan(&way, session, &args).await?;
    let skipped = plan.skipped;

    let progress = Arc::new(Progress::default());
    let mut job = Job::new(direction, plan, &progress);
    let line = Line::new(&progress, !args.quiet && !args.json);
    let (session, result) = carry_out(&mut job, session, way.host(), &args, &line, &progress).await;
    line.clear();
    let result = result.and_then(|()| job::summary(&job.failed).map_or(Ok(()), Err));

    let report = Report { job: &job, progress: &progress, took: begin.elapsed(), skipped, direction };
    if args.json {
        println!("{}", report.json(result.as_ref().err()));
    } else if !args.quiet {
        report.print(result.as_ref().err());
    }
    // Also after a failure: the server may still have to hear of it.
    session.close().await;
    result.map_err(|failure| if args.json { Failure::Reported(Box::new(failure)) } else { failure })
}

impl Way {
    fn of(sources: &[Location], destination: &Location) -> Result<Self, Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.into()));
        match destination {
            Location::There { host, path } => {
                let here = sources.iter().map(|s| match s {
                    Location::Here(path) => Some(path.clone()),
                    Location::There { .. } => None,
                });
                match here.collect::<Option<Vec<_>>>() {
                    Some(sources) => Ok(Self::Up { sources, host: host.clone(), target: path.clone() }),
                    None => usage(
                        "a copy goes from here to a server, or from a server to here, not from one server to another",
                    ),
                }
            }
            Location::Here(target) => {
                let there: Vec<_> = sources
                    .iter()
                    .filter_map(|s| match s {
                        Location::There { host, path } => Some((host.clone(), path.clone())),
                        Location::Here(_) => None,
                    })
                    .collect();
                match there.first() {
                    Some((host, _))
                        if there.len() == sources.len() && there.iter().all(|(h, _)| h == host) =>
                    {
                        let sources = there.iter().map(|(_, path)| path.clone()).collect();
                        Ok(Self::Down { host: host.clone(), sources, target: target.clone() })
                    }
                    _ => usage("one side is a server: HOST:PATH (and all sources are on the same one)"),
                }
            }
        }
    }

    fn host(&self) -> &str {
        match self {
            Self::Up { host, .. } | Self::Down { host, .. } => host,
        }
    }

    async fn plan(&self, session: &Session, is_recursive: bool) -> Result<(Direction, Plan), TransferError> {
        let mut plan = Plan::default();
        match self {
            Self::Up { sources, target, .. } => {
                for source in sources {
                    plan.add_up(session, source, target, is_recursive).await?;
                }
                Ok((Direction::Up, plan))
            }
            Self::Down { sources, target, .. } => {
                for source in sources {
                    plan.add_down(session, source, target, is_recursive).await?;
                }
                Ok((Direction::Down, plan))
            }
        }
    }
}

/// Finds out what is to be copied, over as many connections as it takes.
async fn make_plan(
    way: &Way,
    mut session: Session,
    args: &Args,
) -> Result<(Session, Direction, Plan), Failure> {
    let mut attempts = 0;
    loop {
        let error = match way.plan(&session, args.recursive).await {
            Ok((direction, plan)) => return Ok((session, direction, plan)),
            Err(error) => error,
        };
        let failure = session.explain(error);
        session.close().await;
        if !matches!(failure, Failure::Unreachable(_)) {
            return Err(failure);
        }
        session =
            connect_again(way.host(), args, &|text| eprintln!("{text}"), &mut attempts, failure).await?;
    }
}

/// Works until everything is done, over as many connections as it takes. Gives back the last of them.
async fn carry_out(
    job: &mut Job,
    mut session: Session,
    host: &str,
    args: &Args,
    line: &Line,
    progress: &Progress,
) -> (Session, Result<(), Failure>) {
    let mut attempts = 0;
    let mut moved_before = 0;
    loop {
        let streams = usize::from(args.streams);
        let failure = match watched(job.work(&session, streams), line, &session, progress).await {
            Ok(()) => return (session, Ok(())),
            Err(error) => session.explain(error),
        };
        if !matches!(failure, Failure::Unreachable(_)) {
            return (session, Err(failure));
        }
        if job.moved_bytes() > moved_before {
            (attempts, moved_before) = (0, job.moved_bytes());
        }
        session = match connect_again(host, args, &|text| line.say(text), &mut attempts, failure).await {
            Ok(again) => again,
            Err(failure) => return (session, Err(failure)),
        };
    }
}

async fn connect_again(
    host: &str,
    args: &Args,
    say: &(dyn Fn(&str) + Sync),
    attempts: &mut u32,
    mut failure: Failure,
) -> Result<Session, Failure> {
    loop {
        *attempts += 1;
        if *attempts > args.retries {
            return Err(failure);
        }
        if !args.quiet {
            say(&format!("{failure}; trying again"));
        }
        tokio::time::sleep(job::pause(*attempts)).await;
        match reach::connect(host, Service::Copy, &args.client).await {
            Err(again @ Failure::Unreachable(_)) => failure = again,
            result => return result,
        }
    }
}

/// Draws the line while work goes on.
async fn watched<T>(work: impl Future<Output = T>, line: &Line, session: &Session, progress: &Progress) -> T {
    let mut work = std::pin::pin!(work);
    let mut ticks = tokio::time::interval(REDRAW);
    let mut recent = Recent::default();
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {
                let rate = recent.rate_mbps(progress.moved_bytes.load(Ordering::Relaxed));
                let wire = session.wire_stats();
                let about = format!("{}  RTT {:.0} ms  loss {:.1} %", units::rate(rate), wire.rtt_ms, wire.loss_percent());
                line.show(about);
            }
        }
    }
}

/// The rate over the last two seconds or so.
#[derive(Debug, Default)]
struct Recent(std::collections::VecDeque<(Option<Instant>, u64)>);

impl Recent {
    fn rate_mbps(&mut self, bytes: u64) -> f64 {
        let now = Instant::now();
        self.0.push_back((Some(now), bytes));
        if self.0.len() > 10 {
            self.0.pop_front();
        }
        let Some((Some(then), before)) = self.0.front() else { return 0.0 };
        units::mbps(bytes.saturating_sub(*before), now - *then)
    }
}

/// What is said at the end.
#[derive(Debug)]
struct Report<'a> {
    job: &'a Job,
    progress: &'a Progress,
    took: Duration,
    skipped: u64,
    direction: Direction,
}

impl Report<'_> {
    fn moved_bytes(&self) -> u64 {
        self.progress.moved_bytes.load(Ordering::Relaxed)
    }

    /// A few of them, and how many more.
    fn names_of_waiting(&self) -> String {
        const SHOWN: usize = 10;
        let names: Vec<_> = self.job.waiting().take(SHOWN).map(|item| name_of(&item.local)).collect();
        let more = self.job.waiting().len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    }

    fn print(&self, failure: Option<&Failure>) {
        for (_, error) in self.job.failed.iter().skip(1) {
            eprintln!("failed: {error}");
        }
        if self.skipped > 0 {
            eprintln!(
                "left out: {} entries that are neither file nor folder (symbolic links, say)",
                self.skipped
            );
        }
        if failure.is_some() && self.job.waiting().len() > 0 {
            eprintln!("not copied yet: {}", self.names_of_waiting());
        }
        if self.job.done.is_empty() {
            if matches!(failure, Some(Failure::Unreachable(_))) {
                eprintln!("What has arrived is kept: the same command goes on from there.");
            }
            return;
        }
        let resumed: u64 = self.job.done.iter().map(|(_, outcome)| outcome.resumed_bytes).sum();
        let moved = self.moved_bytes();
        let rate = units::rate(units::mbps(moved, self.took));
        let what = match &self.job.done[..] {
            [(item, _)] => name_of(&item.local),
            many => format!("{} files", many.len()),
        };
        let there_already =
            if resumed > 0 { format!(", {} there already", units::bytes(resumed)) } else { String::new() };
        println!(
            "{what}: {} in {} ({rate}){there_already}, verified with BLAKE3",
            units::bytes(moved),
            units::duration(self.took)
        );
    }

    fn json(&self, failure: Option<&Failure>) -> serde_json::Value {
        let files = self.job.done.iter().map(|(item, outcome)| {
            json!({
                "name": name_of(&item.local),
                "remote": name_of(&item.remote),
                "bytes": outcome.size_bytes,
                "resumed_bytes": outcome.resumed_bytes,
                "blake3": blake3::Hash::from_bytes(outcome.hash).to_hex().as_str(),
            })
        });
        let failed = self.job.failed.iter().map(|(item, error)| {
            json!({ "name": name_of(&item.local), "remote": name_of(&item.remote), "error": error.to_string() })
        });
        json!({
            "ok": failure.is_none(),
            "error": failure.map(Failure::json),
            "direction": match self.direction { Direction::Up => "up", Direction::Down => "down" },
            "bytes_moved": self.moved_bytes(),
            "seconds": self.took.as_secs_f64(),
            "goodput_mbps": units::mbps(self.moved_bytes(), self.took),
            "skipped": self.skipped,
            "files": files.collect::<Vec<_>>(),
            "failed": failed.collect::<Vec<_>>(),
            "waiting": self.job.waiting().map(|item| name_of(&item.local)).collect::<Vec<_>>(),
        })
    }
}

fn name_of(path: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt;
    units::printable(&Path::new(std::ffi::OsStr::from_bytes(path)).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(sources: &[&str], destination: &str) -> Result<Way, Failure> {
        let sources: Vec<Location> = sources.iter().map(|s| s.parse().unwrap()).collect();
        Way::of(&sources, &destination.parse().unwrap())
    }

    #[test]
    fn one_side_is_a_server() {
        assert!(matches!(way(&["a", "b"], "h:x"), Ok(Way::Up { sources, .. }) if sources.len() == 2));
        assert!(matches!(way(&["h:a", "h:b"], "x"), Ok(Way::Down { sources, .. }) if sources.len() == 2));
        for (sources, destination) in
            [(&["a"][..], "b"), (&["h:a"], "g:b"), (&["h:a", "g:b"], "x"), (&["h:a", "b"], "x")]
        {
            assert!(matches!(way(sources, destination), Err(Failure::Usage(_))), "{sources:?} {destination}");
        }
    }
}
