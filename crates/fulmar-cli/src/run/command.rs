//! The command line of `fulmar run`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::broker::{Broker, Dial};
use super::errno::Errno;
use super::{child, program};
use crate::exit::Failure;
use crate::tunnel::commands::{ClientArgs, raise_descriptor_limit};
use crate::tunnel::pump::pump;
use crate::tunnel::tcp::boxed_tcp;
use crate::tunnel::traffic::{Traffic, Way};
use crate::tunnel::{Client, Flow, Place, Target};

/// How long the last bytes of a program that has ended may stand still.
const STANDSTILL_MAX: Duration = Duration::from_secs(10);

/// Runs a program whose TCP connections, and the names they go to, leave at a gateway.
///
/// The program needs no setting and knows nothing of it: a library is put before its C library. Connections
/// to this machine, Unix sockets and UDP are left alone. Statically linked programs, those written in Go, and
/// setuid programs cannot be carried; `fulmar proxy`, `fulmar transparent` and `fulmar tun` are for them.
///
/// Standard output is the program's, so nothing is said there when it starts; its exit code, or the signal
/// that ends it, is passed on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to reach the gateway.
    #[command(flatten)]
    pub client: ClientArgs,
    /// The program, and what it is told
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
    let mut child = child::start(&args.program, &library, &socket)?;
    // Only now: the program keeps the limit that it was given.
    raise_descriptor_limit();
    let status = tokio::select! {
        status = child::wait(&mut child, &mut told) => status?,
        broken = &mut serving => {
            return Err(broken.map_or_else(|e| Failure::Other(e.to_string()), |end| end.err().unwrap_or(Failure::Interrupted)));
        }
    };
    finish(&open, &traffic).await;
    client.close().await;
    Ok(status)
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
