//! `fulmar cp`: the command line, the retries, the summary.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::error::TransferError;
use super::job::{self, Bound, Job};
use super::observed::ObservedCopy;
use super::plan::{Direction, Plan};
use super::progress::{Line, Progress};
use super::report::Report;
use super::target::Location;
use crate::exit::Failure;
use crate::reach::{self, ClientArgs, Service};
use crate::session::Session;
use crate::tunnel::config::keep_limits;
use crate::units;

/// A server that has not answered for so long is silent: another connection is made.
const SILENCE_MAX: Duration = Duration::from_secs(12);

/// Between two attempts to make it.
const BESIDE_INTERVAL: Duration = Duration::from_secs(1);

/// How often the progress line is drawn anew.
const REDRAW: Duration = Duration::from_millis(200);

/// Copy files to or from a machine that runs `fulmar serve`.
///
/// Run the same command again to resume an interrupted copy. Data that are there already are compared by
/// their BLAKE3 hash, never by name alone. A file appears under its final name only when it is complete and
/// verified. Permissions, times and holes are preserved. If some files cannot be copied (links, pipes,
/// devices, unreadable files), they are named, the others are copied, and the exit code is 7.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar cp report.pdf server.example.org:              # to its folder
    fulmar cp server.example.org:report.pdf .             # from there
    fulmar cp -r photos server.example.org:backup         # a folder
    fulmar cp -p 443 report.pdf server.example.org:       # another port")]
pub struct Args {
    /// Files to copy: paths on this machine, or HOST:PATH (relative to the folder that HOST serves)
    #[arg(required = true, value_name = "SRC", value_hint = clap::ValueHint::AnyPath)]
    sources: Vec<OsString>,
    /// Destination: HOST:PATH, or a path on this machine. Files go into an existing folder
    #[arg(required = true, value_name = "DEST", value_hint = clap::ValueHint::AnyPath)]
    destination: OsString,
    /// Copy folders and their contents
    #[arg(short, long)]
    recursive: bool,
    /// Number of files to send at the same time [default: 16, up to 256 while they are small]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: Option<u16>,
    /// Give up after this many reconnects without progress
    #[arg(long, default_value_t = 8)]
    retries: u32,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// What is copied from where to where, with one server.
#[derive(Debug)]
enum Way {
    Up { sources: Vec<PathBuf>, host: String, target: Vec<u8> },
    Down { host: String, sources: Vec<Vec<u8>>, target: PathBuf },
}

/// Runs the command.
pub async fn run(mut args: Args) -> Result<(), Failure> {
    args.client.is_quiet = args.quiet;
    let read = |text: &OsString| Location::parse(text).map_err(Failure::Usage);
    let sources = args.sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let way = Way::of(&sources, &read(&args.destination)?)?;
    keep_limits(&args.client.limits)?;
    let session = reach::connect(way.host(), Service::Copy, &args.client).await?;
    let begin = Instant::now();
    let (session, direction, plan) = make_plan(&way, session, &args).await?;

    let progress = Arc::new(Progress::default());
    let observed = ObservedCopy::new(way.host(), direction, &progress, &session);
    let _status = observed.answer();
    let mut job = Job::new(direction, plan, &progress);
    let line = Line::new(&progress, !args.quiet && !args.json, !args.quiet);
    let (session, result) = carry_out(&mut job, session, &observed, &args, &line, &progress).await;
    line.clear();
    let result = result.and_then(|()| job.verdict().map_or(Ok(()), Err));

    let report = Report { job: &job, progress: &progress, took: begin.elapsed(), direction };
    if args.json {
        println!("{}", report.json(result.as_ref().err()));
    } else if !args.quiet {
        report.print(result.as_ref().err());
    }
    // Also after a failure: the server may still have to hear of it.
    session.close().await;
    result.map_err(|failure| if args.json { Failure::Reported(Box::new(failure)) } else { failure })
}

/// What was meant, perhaps, where no server is named, or several are.
fn no_server(sources: &[Location], destination: &Location) -> String {
    match destination {
        Location::Here(path) if sources.iter().all(|source| matches!(source, Location::Here(_))) => format!(
            "no server is named: the source or the destination is HOST:PATH. Did you mean `{}:`?",
            crate::units::printable(&path.display().to_string())
        ),
        _ => "all sources have to be on the same server: HOST:PATH".into(),
    }
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
                        "a copy goes from here to a server, or from a server to here, not from one server to another \
                         (a file here with a colon in its name is written ./NAME)",
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
                    _ => Err(Failure::Usage(no_server(sources, destination))),
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
        match self {
            Self::Up { sources, target, .. } => {
                Ok((Direction::Up, Plan::up(session, sources, target, is_recursive).await?))
            }
            Self::Down { sources, target, .. } => {
                Ok((Direction::Down, Plan::down(session, sources, target, is_recursive).await?))
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
        let planned = tokio::select! {
            planned = way.plan(&session, args.recursive) => planned,
            () = session.silent_for(SILENCE_MAX) => {
                Err(TransferError::Connection(std::io::ErrorKind::TimedOut.into()))
            }
        };
        let error = match planned {
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
    observed: &ObservedCopy,
    args: &Args,
    line: &Line,
    progress: &Progress,
) -> (Session, Result<(), Failure>) {
    let mut attempts = 0;
    let mut moved_before = 0;
    let host = observed.host();
    loop {
        observed.moves_to(&session);
        let bound = args.streams.map_or_else(Bound::default, |streams| Bound::files(streams.into()));
        let beside = successor(&session, host, args);
        let (worked, next) = watched(job.work(&session, bound), beside, line, &session, progress).await;
        let failure = match (worked, next) {
            (Ok(()), _) => return (session, Ok(())),
            (Err(error), Some(next)) if error.is_interruption() => {
                line.say(&format!("{} was silent: going on over another connection", session.peer()));
                (session, attempts, moved_before) = (next, 0, job.moved_bytes());
                continue;
            }
            (Err(error), _) => session.explain(error),
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

/// Another connection, if this one is silent for long. It may come to life again: until another one stands,
/// and has not been silent alone, work goes on over it.
async fn successor(session: &Session, host: &str, args: &Args) -> Session {
    loop {
        session.silent_for(SILENCE_MAX).await;
        let before = session.received_datagrams();
        let made = reach::connect(host, Service::Copy, &args.client).await;
        match made {
            Ok(made) if session.received_datagrams() == before => return made,
            Ok(made) => made.abandon(),
            Err(_) => tokio::time::sleep(BESIDE_INTERVAL).await,
        }
    }
}

/// Draws the line while work goes on. When there is another connection, this one is given up, and the work
/// with it; what it had begun is known then.
async fn watched<T>(
    work: impl Future<Output = T>,
    beside: impl Future<Output = Session>,
    line: &Line,
    session: &Session,
    progress: &Progress,
) -> (T, Option<Session>) {
    let mut work = std::pin::pin!(work);
    let mut beside = std::pin::pin!(beside);
    let mut next = None;
    let mut ticks = tokio::time::interval(REDRAW);
    let mut recent = Recent::default();
    loop {
        tokio::select! {
            done = &mut work => return (done, next),
            made = &mut beside, if next.is_none() => {
                session.abandon();
                next = Some(made);
            }
            _ = ticks.tick() => {
                let rate = recent.rate_mbps(progress.moved_bytes.load(Ordering::Relaxed));
                let wire = session.wire_stats();
                let about = format!("{}  RTT {:.0} ms  loss {:.1} %", units::rate(rate), wire.rtt_ms, wire.loss_percent());
                line.show(rate, &about);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn way(sources: &[&str], destination: &str) -> Result<Way, Failure> {
        let read = |text: &str| Location::parse(text.as_ref()).unwrap();
        let sources: Vec<Location> = sources.iter().map(|s| read(s)).collect();
        Way::of(&sources, &read(destination))
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
