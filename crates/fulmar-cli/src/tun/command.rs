//! The command line of `fulmar tun`, and its half of the tunnel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::identity::Host;

use super::carry::{Delivery, MTU_MAX, Tunnel};
use super::far::{Grant, MTU_MIN, Wish, device, no_device};
use super::observed::ObservedTun;
use super::route::{self, Route};
use crate::exit::Failure;
use crate::reach::{self, Manner, Service};
use crate::session::Session;
use crate::system::Changed;
use crate::tunnel::commands::watch::WatchArgs;
use crate::tunnel::commands::{ClientArgs, say_ready};
use crate::tunnel::datagrams::{Datagrams, End, Inbox};
use crate::tunnel::halves::TunnelSend;
use crate::tunnel::message::{self, Answer, Request};
use crate::tunnel::pump::Way;
use crate::tunnel::{Code, OpenError};

/// Longest packet of a tunnel by default: with its length it fits one symbol of an Ethernet path.
const MTU: u16 = 1380;

/// Pauses between attempts to connect again: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Longest name of a device (IFNAMSIZ, without its end).
const NAME_BYTES_MAX: usize = 15;

/// Carries IP packets of any protocol to a gateway and back, by a TUN device at either end.
///
/// Needs root, or CAP_NET_ADMIN, here, and a gateway that was started with --tun NETWORK. The device, its
/// addresses and routes are gone when this program ends, however it ends.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to reach the gateway.
    #[command(flatten)]
    pub client: ClientArgs,
    /// What goes through the tunnel: a network, or `default` for everything; may be given several times. The
    /// gateway's end always does
    #[arg(long = "route", value_name = "NETWORK")]
    routes: Vec<Route>,
    /// How packets travel, both ways
    #[arg(long, value_enum, default_value = "any-order")]
    delivery: Delivery,
    /// Longest packet
    #[arg(long, value_name = "BYTES", default_value_t = MTU, value_parser = clap::value_parser!(u16).range(i64::from(MTU_MIN)..=i64::from(MTU_MAX)))]
    mtu: u16,
    #[command(flatten)]
    watch: WatchArgs,
    /// Name of the device
    #[arg(long, value_name = "NAME", default_value = "fulmar0", value_parser = parse_device)]
    device: String,
}

/// A name that Linux takes for a device, and that means nothing else to a shell.
fn parse_device(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.is_empty()
        || text.len() > NAME_BYTES_MAX
        || text.starts_with(['-', '.'])
        || !text.chars().all(is_plain)
    {
        return Err(format!("`{text}` is no name of a device: at most {NAME_BYTES_MAX} letters and digits"));
    }
    Ok(text.to_owned())
}

/// The device and its routes, as long as the gateway grants the same addresses.
struct Standing {
    grant: Grant,
    device: Arc<tun_rs::AsyncDevice>,
    _changed: Changed,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    let (gateways, manner) = args.client.gateways()?;
    let mut watch = args.watch.bind().await?;
    let metrics = watch.metrics_address();
    let (mut session, mut gateway, mut opened) = open_any(&gateways, &manner, &args, None).await?;
    let observed = Arc::new(ObservedTun::new(&args.device));
    watch.start(vec![observed.clone()])?;
    let mut standing: Option<Standing> = None;
    loop {
        let grant = opened.grant.clone();
        if standing.as_ref().is_none_or(|standing| standing.grant != grant) {
            // The device of before must be gone for one of the same name.
            drop(standing.take());
            standing = Some(stand(&args, grant.clone(), &session)?);
            tell_ready(&args, &grant, &gateway, metrics.as_deref());
        }
        let device = standing.as_ref().map(|standing| Arc::clone(&standing.device));
        let device = device.ok_or_else(|| Failure::Other("no device".into()))?;
        observed.has(&session);
        let tunnel = Tunnel {
            device: Arc::clone(&device),
            connection: session.connection().clone(),
            delivery: args.delivery,
            mtu: grant.mtu,
            traffic: Arc::clone(&observed.traffic),
            outward: Way::Up,
        };
        let error = tunnel.carry(opened.recv, opened.send, opened.inbox).await;
        if session.connection().close_reason().is_none() && !device_works(&device) {
            return Err(Failure::Other(format!("{}: {error}", args.device)));
        }
        session.abandon();
        tracing::warn!("connection with {gateway} lost: {error}; connecting again");
        (session, gateway, opened) = open_again(&gateways, &manner, &args, &grant).await?;
        tracing::warn!("connected with {gateway} again");
    }
}

fn device_works(device: &tun_rs::AsyncDevice) -> bool {
    device.name().is_ok()
}

/// Makes the device and its routes.
fn stand(args: &Args, grant: Grant, session: &Session) -> Result<Standing, Failure> {
    let made = device(Some(&args.device), grant.v4, grant.v6, grant.mtu);
    let device = made.map_err(|error| no_device(&format!("the TUN device {}", args.device), &error))?;
    let peer = session.peer();
    let peer: SocketAddr = peer.parse().map_err(|_| Failure::Other(format!("{peer} is no address")))?;
    let changes = route::changes(&args.routes, &args.device, peer.ip().to_canonical());
    Ok(Standing { grant, device, _changed: Changed::make(&changes)? })
}

fn tell_ready(args: &Args, grant: &Grant, gateway: &Host, metrics: Option<&str>) {
    let line = format!(
        "Ready: {} at {} and {} (MTU {}); {gateway} is {} and {}",
        args.device, grant.v4, grant.v6, grant.mtu, grant.gateway_v4, grant.gateway_v6
    );
    let event = serde_json::json!({
        "gateway": gateway.to_string(), "device": args.device, "mtu": grant.mtu,
        "addresses": [grant.v4.to_string(), grant.v6.to_string()],
        "gateway_addresses": [grant.gateway_v4.to_string(), grant.gateway_v6.to_string()],
        "metrics": metrics,
    });
    say_ready(args.client.json, "tun", &[line], event);
}

/// A stream on which a gateway has granted a tunnel.
struct Opened {
    grant: Grant,
    send: TunnelSend,
    recv: fulmar::RecvStream,
    inbox: Inbox,
}

async fn open_again(
    gateways: &[Host],
    manner: &Manner,
    args: &Args,
    before: &Grant,
) -> Result<(Session, Host, Opened), Failure> {
    let mut pause = BACKOFF.0;
    loop {
        match open_any(gateways, manner, args, Some(before)).await {
            Err(Failure::Unreachable(why)) => tracing::debug!("{why}"),
            result => return result,
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(BACKOFF.1);
    }
}

/// Opens a tunnel with the first gateway that grants one.
async fn open_any(
    gateways: &[Host],
    manner: &Manner,
    args: &Args,
    before: Option<&Grant>,
) -> Result<(Session, Host, Opened), Failure> {
    let mut last = Failure::Usage("no gateway was named".into());
    for gateway in gateways {
        match open(gateway, manner, args, before).await {
            Ok((session, opened)) => return Ok((session, gateway.clone(), opened)),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

async fn open(
    gateway: &Host,
    manner: &Manner,
    args: &Args,
    before: Option<&Grant>,
) -> Result<(Session, Opened), Failure> {
    let session = reach::connect_to(gateway, Service::Tunnel, manner).await?;
    let wish = Wish { delivery: args.delivery, mtu: args.mtu, address: before.map(|grant| grant.v4) };
    let granted = async {
        // Packets may come before the answer is read.
        let inbox = Datagrams::of(session.connection(), End::Client).tun();
        let inbox = inbox.ok_or_else(|| OpenError::lost("a connection without datagrams"))?;
        let (send, mut recv) = session.open().await.map_err(OpenError::lost)?;
        let mut send = TunnelSend::from(send);
        message::say(&mut send, &Request::Tun(wish)).await.map_err(OpenError::lost)?;
        match message::hear_answer(&mut recv).await? {
            Answer::Tun(grant) => Ok(Opened { grant, send, recv, inbox }),
            other => Err(OpenError::new(Code::Other, format!("it answers {other:?}"))),
        }
    };
    match tokio::time::timeout(manner.connect_timeout, granted).await {
        Ok(Ok(opened)) => Ok((session, opened)),
        Ok(Err(error)) => Err(match error.code {
            Code::Lost => {
                session.close_reason().unwrap_or_else(|| Failure::Unreachable(format!("{gateway}: {error}")))
            }
            _ => Failure::Other(format!("{gateway}: {error}")),
        }),
        Err(_) => Err(Failure::Unreachable(format!("{gateway} does not answer"))),
    }
}
