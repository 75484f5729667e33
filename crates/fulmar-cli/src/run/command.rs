//! The command line of `fulmar run`.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::broker::{Broker, Dial};
use super::errno::Errno;
use super::{child, left, program};
use crate::exit::Failure;
use crate::tunnel::commands::{ClientArgs, raise_descriptor_limit};
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::tcp::boxed_tcp;
use crate::tunnel::flow::traffic::{Traffic, Way};
use crate::tunnel::{Client, Flow, Place, Target};
use crate::units::printable;

/// How long the last bytes of a program that has ended may stand still.
const STANDSTILL_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether what the program has left still runs.
const STAY_STEP: Duration = Duration::from_millis(200);

/// Run a program whose TCP connections go through a gateway.
///
/// The gateway also resolves names. The program needs no configuration: a library is loaded before its C
/// library. Connections to this machine, Unix sockets and UDP are not changed. It does not work for
/// statically linked programs, Go programs and setuid programs; use `fulmar proxy`, `fulmar transparent` or
/// `fulmar tun` for them.
///
/// Fulmar prints nothing on standard output. The exit code, or the signal that ended the program, is passed
/// on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar run server.example.org -- curl https://intranet.example/
    fulmar run --stay server.example.org -- ssh -f -N -L 8080:localhost:80 web")]
pub struct Args {
    /// How to reach the gateway.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Also wait for the processes that the program leaves running
    #[arg(long)]
    stay: bool,
    /// Program and its arguments
    #[arg(last = true, required = true, value_names = ["PROGRAM", "ARGS"])]
    program: Vec<OsString>,
}

/// Runs the command; tells how the program has ended.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let name = args.program.first().ok_or_else(|| Failure::Usage("which program?".into()))?;
    program::check(name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Other(format!("no runtime: {e}")))?;
    let status = runtime.block_on(carry(args));
    // What still runs belongs to programs that were left behind.
    runtime.shutdown_background();
    Ok(child::end_as(status?))
}

async fn carry(args: &Args) -> Result<std::process::ExitStatus, Failure> {
    let library = child::library()?;
    let client = args.client.connect().await?;
    // The folder goes when this returns, before the process may end by a signal.
    let (broker, folder) = Broker::new()?;
    let socket = folder.path();
    let traffic = Arc::new(Traffic::default());
    let dialer = Dialer { client: client.clone(), traffic: Arc::clone(&traffic), open: Arc::default() };
    let open = Arc::clone(&dialer.open);
    let mut serving = tokio::spawn(broker.serve(dialer));
    let mut told = child::Told::listen()?;
    left::adopt();
    let mut child = child::start(&args.program, &library, &socket)?;
    // Only now: the program keeps the limit that it was given.
    raise_descriptor_limit();
    let status = tokio::select! {
        status = child::wait(&mut child, &mut told) => status?,
        broken = &mut serving => {
            return Err(broken.map_or_else(|e| Failure::Other(e.to_string()), |end| end.err().unwrap_or(Failure::Interrupted)));
        }
    };
    if args.stay {
        stay(&args.program[0], &mut told).await;
    }
    finish(&open, &traffic).await;
    say_what_ends(&args.program[0], Arc::strong_count(&open).saturating_sub(IDLE_HANDLES));
    client.close().await;
    Ok(status)
}

/// Waits for what the program has left running, or for a signal.
async fn stay(program: &OsStr, told: &mut child::Told) {
    let left = left::running();
    if left.is_empty() {
        return;
    }
    let program = printable(&program.to_string_lossy());
    eprintln!("fulmar: {program} has ended; what it has left running is carried on: {}", left.join(", "));
    let ended = async {
        while !left::running().is_empty() {
            tokio::time::sleep(STAY_STEP).await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = told.anything() => {}
    }
}

/// A daemon's connections end with us, and nothing else would tell why.
fn say_what_ends(program: &OsStr, flows: usize) {
    let left = left::running();
    if left.is_empty() {
        return;
    }
    let program = printable(&program.to_string_lossy());
    eprintln!(
        "fulmar: {program} has ended, and what it has left running is carried no longer: {}. {flows} open connections \
         end now, new ones fail. With --stay it would be carried on",
        left.join(", ")
    );
}

/// Waits until what the program has said last is on its way to the target, as long as it moves.
async fn finish(open: &Arc<()>, traffic: &Traffic) {
    let mut last = (traffic.bytes(), tokio::time::Instant::now());
    while Arc::strong_count(open) > IDLE_HANDLES && last.1.elapsed() < STANDSTILL_MAX {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if traffic.bytes() != last.0 {
            last = (traffic.bytes(), tokio::time::Instant::now());
        }
    }
}

/// Handles to [`Dialer::open`] when nothing is carried: the dialer's and that of whoever waits.
const IDLE_HANDLES: usize = 2;

/// Connects through the tunnel.
#[derive(Debug)]
struct Dialer {
    client: Client,
    traffic: Arc<Traffic>,
    /// Each flow holds one handle.
    open: Arc<()>,
}

impl Dial for Dialer {
    type Flow = Flow;

    async fn dial(&self, target: Place) -> Result<Flow, Errno> {
        let named = target.to_string();
        self.client.open(&Target::Tcp(target)).await.map_err(|error| {
            // What the program can say about it is one number.
            tracing::debug!("{named}: {error}");
            error.code.into()
        })
    }

    async fn carry(&self, program: TcpStream, flow: Flow) {
        let _open = Arc::clone(&self.open);
        pump(boxed_tcp(program), (flow.recv, flow.send), Way::Up, &self.traffic).await;
    }
}
