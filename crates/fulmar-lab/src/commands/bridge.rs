//! `fulmar-lab tcp` and `fulmar-lab bridge`.

use std::time::Duration;

use fulmar_net::parse;

use super::print;
use super::sim::seconds;
use crate::bridge::{self, TcpSettings};
use crate::link::LinkSpec;
use crate::programs::{self, Programs};
use crate::tcp::{self, TcpFlow, TcpScenario};
use crate::traffic::Traffic;

/// What runs in real time have in common.
#[derive(clap::Args, Debug)]
pub(super) struct Common {
    /// Seed of every random draw of the link
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The kernel's TCP negotiates ECN
    #[arg(long)]
    ecn: bool,
    /// The kernel's TCP does without selective acknowledgments
    #[arg(long)]
    no_sack: bool,
    /// The run is invalid if 1 % of packets are later than this, or programs wake later than five times this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse::duration)]
    pub(super) late_max: Duration,
    /// Print the whole outcome as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) link: LinkSpec,
}

impl Common {
    pub(super) fn settings(&self) -> TcpSettings {
        TcpSettings { has_sack: !self.no_sack, has_ecn: self.ecn }
    }
}

/// Run the kernel's TCP over the same link in real time (root, or user namespaces)
///
/// Sender and receiver are threads of this program in two network namespaces; the model moves every packet
/// between them. A run whose packets the machine could not move in time, or whose programs it kept waiting,
/// is called invalid, and the exit code is 1.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab tcp --cc cubic,bbr --rate 100M --rtt 20ms -t 15
  fulmar-lab tcp --cc bbr --messages --rate 10M --rtt 50ms --loss 5%
  fulmar-lab tcp --cc reno --ecn --mark 5% --loss-free-handshake --json")]
pub(super) struct TcpArgs {
    /// Congestion control of each flow, by commas: cubic, bbr, reno
    #[arg(long, default_value = "cubic", value_delimiter = ',')]
    cc: Vec<String>,
    /// Number of flows; the list of --cc is dealt out in turns
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Traffic of each flow, by commas: bulk, fixed:10MB, messages:1200/5ms, cbr:64k, voip
    #[arg(long, default_value = "bulk", value_delimiter = ',')]
    traffic: Vec<Traffic>,
    /// The same as --traffic messages:1200/5ms
    #[arg(long, conflicts_with = "traffic")]
    messages: bool,
    /// Length of the run
    #[arg(short = 't', long = "time", default_value = "15", value_parser = seconds)]
    time: Duration,
    /// What arrives before this does not count
    #[arg(long, default_value = "0", value_parser = parse::duration)]
    warm_up: Duration,
    /// Each flow starts so much later than the one before it
    #[arg(long, default_value = "0", value_parser = parse::duration)]
    stagger: Duration,
    /// No faults until the handshakes are complete
    #[arg(long)]
    loss_free_handshake: bool,
    /// Record values over time at this interval (in the JSON)
    #[arg(long, value_name = "INTERVAL", value_parser = parse::duration)]
    series: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run_tcp(args: &TcpArgs) -> Result<(), String> {
    bridge::acquire_rights()?;
    let messages = [Traffic::Messages { bytes: 1200, interval: Duration::from_millis(5) }];
    let traffic = if args.messages { &messages[..] } else { &args.traffic[..] };
    let flows = (0..args.flows.max(args.cc.len()).max(traffic.len())).map(|index| TcpFlow {
        congestion: args.cc[index % args.cc.len()].clone(),
        traffic: traffic[index % traffic.len()],
        start: args.stagger.saturating_mul(index as u32),
    });
    let scenario = TcpScenario {
        link: args.common.link.clone(),
        flows: flows.collect(),
        duration: args.time,
        warm_up: args.warm_up,
        loss_free_handshake: args.loss_free_handshake,
        sample_interval: args.series,
        settings: args.common.settings(),
        lateness_p99_max: args.common.late_max,
    };
    let outcome = tcp::run(&scenario, args.common.seed)?;
    print::outcome(&outcome, args.common.json)?;
    print::validity(&outcome)
}

/// Run any two programs over the same link in real time (root, or user namespaces)
///
/// In the commands, {server} and {client} stand for the addresses of the ends. The server runs first and is
/// ended when the client has ended; nothing that either has started outlives the run. The exit code is 1 if
/// the client failed or the run is invalid.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  fulmar-lab bridge --loss 2% --server 'iperf3 -s' --client 'iperf3 -c {server} -J -t 10' --json")]
pub(super) struct BridgeArgs {
    /// Command at the receiving end, such as 'iperf3 -s'
    #[arg(long, value_name = "CMD")]
    server: String,
    /// Command at the sending end, such as 'iperf3 -c {server} -J -t 10'
    #[arg(long, value_name = "CMD")]
    client: String,
    /// From the start of the server to that of the client
    #[arg(long, default_value = "300ms", value_parser = parse::duration)]
    settle: Duration,
    /// The client is ended after this
    #[arg(short = 't', long = "time", default_value = "60", value_parser = seconds)]
    time: Duration,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run_bridge(args: &BridgeArgs) -> Result<(), String> {
    bridge::acquire_rights()?;
    let finished = programs::run(
        &Programs {
            link: args.common.link.clone(),
            server: args.server.clone(),
            client: args.client.clone(),
            environment: Vec::new(),
            settle: args.settle,
            limit: args.time,
            settings: args.common.settings(),
            lateness_p99_max: args.common.late_max,
        },
        args.common.seed,
    )?;
    if args.common.json {
        println!("{}", serde_json::to_string_pretty(&finished).map_err(|error| error.to_string())?);
    } else {
        print!("{}", finished.output);
        print::outcome(&finished.outcome, false)?;
    }
    match finished.exit_status {
        Some(0) => print::validity(&finished.outcome),
        Some(status) => Err(format!("the client ended with status {status}")),
        None => Err("the client was ended by a signal".into()),
    }
}
