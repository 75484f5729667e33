//! `fulmar transparent`: the TCP connections of a whole machine, or of a network behind it, through a
//! gateway.

pub mod rules;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::system::{self, Changed};
use crate::tunnel::commands::watch::WatchArgs;
use crate::tunnel::commands::{ClientArgs, gateway_name, raise_descriptor_limit, say_ready, until_told};
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::tcp::{Carried, reset_on_close};
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::watch::report::ObservedClient;
use crate::tunnel::{Client, OpenError, Place, Target};
use rules::{Mode, Rules};

/// Connections that wait until they are accepted.
const BACKLOG: i32 = 1024;

/// What happens with the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Handling {
    /// Install them, and remove them when this program ends, also if it is killed
    Install,
    /// Print them, and do nothing else
    Print,
    /// Leave them to you
    None,
}

/// Send this machine's TCP connections through a gateway, programs unchanged.
///
/// With --mode tproxy, also those of machines that it forwards for. It uses nftables, and needs root or
/// CAP_NET_ADMIN. Connections within this machine and everything that is not TCP are not changed; names are
/// resolved here. The program sees its connection accepted before the gateway has reached the target, so a
/// target that refuses shows as a reset.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    sudo fulmar transparent server.example.org
    sudo fulmar transparent server.example.org --only 10.0.0.0/8
    fulmar transparent server.example.org --rules print      # changes nothing")]
pub struct Args {
    #[command(flatten)]
    wanted: Rules,
    /// What to do with the rules
    #[arg(long, value_enum, default_value = "install")]
    rules: Handling,
    /// How to reach the gateway.
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    let changes = args.wanted.changes();
    if args.rules == Handling::Print {
        print!("{}", system::script(&changes));
        return Ok(());
    }
    raise_descriptor_limit();
    let entrance = Entrance::bind(&args.wanted)?;
    let mut watch = args.watch.bind().await?;
    let metrics = watch.metrics_address();
    let client = args.client.connect().await?;
    // In force as long as this value lives.
    let changed = match args.rules {
        Handling::Install => Some(Changed::make(&args.wanted.name(), || changes)?),
        _ => None,
    };
    let gateway = gateway_name(&client);
    let port = args.wanted.port;
    watch.start(vec![ObservedClient::new("transparent", format!("port {port}"), &client)])?;
    let event = serde_json::json!({ "port": port, "gateway": gateway, "metrics": metrics });
    say_ready(
        args.client.json,
        "transparent",
        &[format!("Ready: TCP connections leave at {gateway}")],
        event,
    );
    let flows = Arc::<Flows>::default();
    let result = until_told(entrance.serve(client.clone(), Arc::clone(&flows))).await;
    // Before the rules go: without them a reset would not find its program, and the program's next packet
    // would go to the target itself.
    flows.end().await;
    client.close().await;
    drop(changed);
    result
}

/// The connections that were handed over and are carried now.
#[derive(Debug)]
pub struct Flows(Mutex<Option<JoinSet<()>>>);

impl Default for Flows {
    fn default() -> Self {
        Self(Mutex::new(Some(JoinSet::new())))
    }
}

impl Flows {
    fn begin(&self, flow: impl Future<Output = ()> + Send + 'static) {
        let mut flows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who comes when it is over is dropped, and so reset.
        let Some(flows) = flows.as_mut() else { return };
        while flows.try_join_next().is_some() {}
        flows.spawn(flow);
    }

    /// Ends them all, and who comes later: their programs have been sent a reset when this returns.
    pub async fn end(&self) {
        let flows = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut flows) = flows {
            flows.shutdown().await;
        }
    }
}

/// Where connections come that were handed over.
#[derive(Debug)]
pub struct Entrance {
    listeners: Vec<TcpListener>,
    mode: Mode,
}

impl Entrance {
    /// Listens at loopback, by each family there is.
    pub fn bind(wanted: &Rules) -> Result<Self, Failure> {
        let Rules { port, mode, .. } = *wanted;
        let v4 = listener(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), mode);
        let v4 =
            v4.map_err(|e| Failure::Unreachable(format!("cannot listen at port {port} of loopback: {e}")))?;
        let v6 = listener(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port), mode).ok();
        Ok(Self { listeners: [Some(v4), v6].into_iter().flatten().collect(), mode })
    }

    /// Hands over who comes, until this is dropped; those who are there stay as long as `flows`.
    pub async fn serve(self, client: Client, flows: Arc<Flows>) {
        let accepting = |listener| accept(listener, self.mode, client.clone(), Arc::clone(&flows));
        let mut serving: JoinSet<()> = self.listeners.into_iter().map(accepting).collect();
        while serving.join_next().await.is_some() {}
    }
}

fn listener(address: SocketAddr, mode: Mode) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if mode == Mode::Tproxy {
        // Linux keeps one such flag for both families.
        socket.set_ip_transparent_v4(true)?;
    }
    socket.bind(&address.into())?;
    reset_on_close(&socket);
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

async fn accept(listener: TcpListener, mode: Mode, client: Client, flows: Arc<Flows>) {
    let own = listener.local_addr().ok();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors: those that are in use come back.
                tracing::warn!("no connection could be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Who connects here by himself would be sent back here for ever.
        let Some(target) = target(&stream, mode).filter(|target| Some(*target) != own) else { continue };
        let (stream, client) = (Carried::new(stream), client.clone());
        flows.begin(async move {
            if let Err(error) = carry(stream, target, &client).await {
                tracing::debug!("{}", error.about(&target));
            }
        });
    }
}

/// Where a connection was to go before the rules brought it here.
fn target(stream: &TcpStream, mode: Mode) -> Option<SocketAddr> {
    let local = stream.local_addr().ok()?;
    match (mode, local) {
        (Mode::Tproxy, _) => Some(local),
        (Mode::Redirect, SocketAddr::V4(_)) => {
            rustix::net::sockopt::ip_original_dst(stream).ok().map(Into::into)
        }
        (Mode::Redirect, SocketAddr::V6(_)) => {
            rustix::net::sockopt::ipv6_original_dst(stream).ok().map(Into::into)
        }
    }
}

/// Whose target cannot be reached is reset, as all who are dropped.
async fn carry(stream: Carried, target: SocketAddr, client: &Client) -> Result<(), OpenError> {
    let flow = client.open(&Target::Tcp(Place::from(target))).await?;
    pump(stream.into_boxed(), flow.into_halves(), Way::Up, client.traffic()).await;
    Ok(())
}
