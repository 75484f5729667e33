//! `fulmar perf`: the command line, in iperf3's manner.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar::AllowedProfiles;

use super::protocol::Load;
use super::report::Interval;
use super::{client, server};
use crate::exit::Failure;
use crate::host_names::HostParser;
use crate::listen::parse_listen;
use crate::reach::{self, ClientArgs, ServerArgs, Service, TcpArgs};
use crate::tunnel::config::keep_limits;
use crate::units::{self, parse_seconds, parse_size};

/// Seconds of a test that says neither how long nor how much.
const SECONDS_DEFAULT: f64 = 10.0;

/// Measure a path, like iperf3.
///
/// Run `fulmar perf -s` on one machine and `fulmar perf -c HOST` on the other. Goodput counts the bytes that
/// the receiving application got, from its first to its last byte. With --messages, a message of --size bytes
/// is due at each --interval. The report has percentiles of the time until each was delivered in order.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar perf -s                             # there
    fulmar perf -c server.example.org          # here: how fast can I send?
    fulmar perf -c server.example.org -R       # how fast can I receive?
    fulmar perf -c server.example.org --messages --interval 20ms")]
pub struct Args {
    /// Wait for clients, and measure with each
    #[arg(short, long, conflicts_with = "client")]
    server: bool,
    /// Measure the path to the server at this name or address
    #[arg(short, long, value_name = "HOST", value_parser = HostParser, hide_possible_values = true)]
    client: Option<String>,
    /// Seconds to send [default: 10, unless -n is given]
    #[arg(short, long, value_parser = parse_seconds, conflicts_with = "bytes")]
    time: Option<Duration>,
    /// Total bytes to send, such as 100M
    #[arg(short = 'n', long, value_parser = parse_size)]
    bytes: Option<u64>,
    /// Number of parallel streams
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    parallel: u32,
    /// The server sends, the client receives
    #[arg(short = 'R', long)]
    reverse: bool,
    /// Seconds between reports, 0 for no reports
    #[arg(short = 'i', long = "report", value_name = "SECONDS", value_parser = parse_seconds, default_value = "1")]
    report: Duration,
    /// Send fixed-size messages at an interval instead of bulk data
    #[arg(long, conflicts_with_all = ["bytes", "parallel"])]
    messages: bool,
    /// Message size in bytes
    #[arg(long, default_value_t = 1200, requires = "messages")]
    size: u32,
    /// Time between messages, in milliseconds or with a unit
    #[arg(long, value_parser = units::parse_millis, default_value = "5ms", requires = "messages")]
    interval: Duration,
    /// Server: address to listen on: ADDRESS:PORT, ADDRESS, :PORT or PORT
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen, conflicts_with_all = ["port", "client"])]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    tcp: TcpArgs,
    /// Server: exit after one test
    #[arg(short = '1', long, requires = "server")]
    one_off: bool,
    /// Server: extra profiles that clients may request: names separated by commas, or `all`. Profiles with
    /// congestion control are always allowed
    #[arg(long, value_name = "NAMES", requires = "server")]
    allow_profiles: Option<AllowedProfiles>,
    /// Print a report in JSON
    #[arg(short = 'J', long)]
    pub json: bool,
    #[command(flatten)]
    net: ClientArgs,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Failure> {
    keep_limits(&args.net.limits)?;
    match &args.client {
        Some(_) if args.tcp != TcpArgs::default() => {
            Err(Failure::Usage("--tcp is the server's: with -c it is `--way tcp`".into()))
        }
        Some(host) => measure(host, &args).await,
        None if args.server => serve(&args).await,
        None => Err(Failure::Usage(
            "say -s (wait for clients, on one machine) or -c HOST (measure the path to it, on the other)"
                .into(),
        )),
    }
}

async fn measure(host: &str, args: &Args) -> Result<(), Failure> {
    let load = load(args);
    load.check().map_err(Failure::Usage)?;
    let session = reach::connect(host, Service::Perf, &args.net).await?;
    if !args.json {
        println!("{host}, profile {}: {}", args.net.profile(), describe(load, args.reverse));
        if !args.report.is_zero() {
            println!("{}", Interval::head());
        }
    }
    let on_interval = |interval: &Interval| {
        if !args.json && !args.report.is_zero() {
            println!("{}", interval.line());
        }
    };
    let result = client::run(&session, load, args.reverse, args.report, on_interval).await;
    let report = result.map_err(|failure| session.explain_failure(failure))?;
    session.close().await;
    if args.json {
        let json = serde_json::to_string_pretty(&report).map_err(|e| Failure::Other(e.to_string()))?;
        println!("{json}");
    } else {
        println!("{}", report.text());
    }
    Ok(())
}

fn load(args: &Args) -> Load {
    let seconds = args.time.map_or(SECONDS_DEFAULT, |t| t.as_secs_f64());
    if args.messages {
        let interval_us = args.interval.as_micros() as u64;
        return Load::Messages { size_bytes: args.size, interval_us, seconds };
    }
    Load::Bulk { streams: args.parallel, seconds: args.bytes.is_none().then_some(seconds), bytes: args.bytes }
}

fn describe(load: Load, is_reverse: bool) -> String {
    let who = if is_reverse { "the server sends" } else { "this side sends" };
    match load {
        Load::Bulk { streams, seconds, bytes } => {
            let streams = if streams == 1 { "one stream".into() } else { format!("{streams} streams") };
            let until = match (seconds, bytes) {
                (_, Some(bytes)) => units::bytes(bytes),
                (seconds, None) => format!("{} s", seconds.unwrap_or_default()),
            };
            format!("{who} {until} on {streams}")
        }
        Load::Messages { size_bytes, interval_us, seconds } => {
            format!("{who} {size_bytes} bytes each {} ms for {seconds} s", interval_us as f64 / 1e3)
        }
    }
}

async fn serve(args: &Args) -> Result<(), Failure> {
    let listen = args.listen.unwrap_or_else(|| reach::any_address(args.net.port));
    let allowed = args.allow_profiles.clone().unwrap_or_default();
    let server = ServerArgs {
        listen: listen.into(),
        profile: args.net.profile(),
        allowed,
        memory_bytes: None,
        invites: false,
        tcp: args.tcp.clone(),
    };
    let listener = reach::listen(&server, Service::Perf)?;
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "listening": listener.address.to_string(), "tcp": listener.tcp_address() })
        );
    } else {
        println!("Waiting for `fulmar perf -c` at {}", listener.places());
    }
    loop {
        let failed = || Failure::Other("the socket has failed".into());
        let incoming = listener.next().await.ok_or_else(failed)?;
        if args.one_off {
            // A visitor that is turned away does not use up the one test.
            if let Some(session) = incoming.await {
                return test(session, args.json).await;
            }
            continue;
        }
        let is_json = args.json;
        tokio::spawn(async move {
            let Some(session) = incoming.await else { return };
            if let Err(failure) = test(session, is_json).await {
                tracing::warn!("{failure}");
            }
        });
    }
}

async fn test(session: crate::session::Session, is_json: bool) -> Result<(), Failure> {
    let (test, outcome) = server::run(&session).await.map_err(|failure| session.explain_failure(failure))?;
    if is_json {
        println!("{}", serde_json::json!({ "client": session.peer(), "test": test, "outcome": outcome }));
    } else {
        let load = describe(test.load, !test.is_reverse).replace("the server", "the client");
        let got = outcome.received.as_ref().map_or(String::new(), |r| {
            let time = Duration::from_secs_f64(r.seconds);
            format!(
                ": {} in {}, {}",
                units::bytes(r.bytes),
                units::duration(time),
                units::rate(units::mbps(r.bytes, time))
            )
        });
        println!("{}: {load}{got}", session.peer());
    }
    // The client closes when it has read the outcome.
    session.wait_until_closed(Duration::from_secs(5)).await;
    Ok(())
}
