//! The client's half of a tunnel: a device with its routes, and a connection that is made again when it is
//! lost.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fulmar::identity::Host;

use super::accept::{self, Around};
use super::carry::{MTU_MAX, MTU_MIN, Tunnel};
use super::far::{device, no_device};
use super::fence::Fence;
use super::observed::ObservedTun;
use super::route::{self, Route};
use super::rules;
use crate::exit::Failure;
use crate::network::Network;
use crate::reach::{self, Manner, Service};
use crate::session::Session;
use crate::system::Changed;
use crate::tunnel::flow::datagrams::{Datagrams, End, Inbox};
use crate::tunnel::flow::drops::Drops;
use crate::tunnel::flow::halves::TunnelSend;
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::wire::message::{self, Answer, Request};
use crate::tunnel::wire::packets::{Delivery, Grant, Wish};
use crate::tunnel::{Code, OpenError};

/// Longest packet of a tunnel by default: with its length it fits one symbol of an Ethernet path.
pub const MTU: u16 = 1380;

/// Name of the device by default.
pub const DEVICE: &str = "fulmar0";

/// Pauses between attempts to connect again: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Longest name of a device (IFNAMSIZ, without its end).
const NAME_BYTES_MAX: usize = 15;

/// What a tunnel is to be like.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Wanted {
    /// Network to route through the tunnel, or `default` for everything; can be repeated. The gateway's end
    /// is always routed
    #[arg(long = "route", value_name = "NETWORK")]
    pub routes: Vec<Route>,
    /// How packets are sent, in both directions
    #[arg(long, value_enum, default_value = "any-order")]
    pub delivery: Delivery,
    /// Largest packet (MTU)
    #[arg(long, value_name = "BYTES", default_value_t = MTU, value_parser = parse_mtu)]
    pub mtu: u16,
    /// Device name
    #[arg(long, value_name = "NAME", default_value = DEVICE, value_parser = parse_device)]
    pub device: String,
    /// Networks from which the gateway may choose this end's addresses; can be repeated [default:
    /// 10.97.0.0/16 and fdf1:6675:6c6d::/48]
    #[arg(long, value_name = "NETWORK")]
    pub addresses: Vec<Network>,
    /// Allow connections from the far side to this machine and through it; otherwise only answers come in
    #[arg(long)]
    pub inbound: bool,
}

/// A length that tunnels take.
pub fn parse_mtu(text: &str) -> Result<u16, String> {
    let mtu = text.parse().ok().filter(|mtu| (MTU_MIN..=MTU_MAX).contains(mtu));
    mtu.ok_or_else(|| format!("`{text}` is no MTU of a tunnel: {MTU_MIN} to {MTU_MAX}"))
}

/// A name that Linux takes for a device, and that means nothing else to a shell.
pub fn parse_device(text: &str) -> Result<String, String> {
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

/// A tunnel as its client sees it.
#[derive(Debug)]
pub struct Near {
    gateways: Vec<Host>,
    manner: Manner,
    wanted: Wanted,
    observed: Arc<ObservedTun>,
}

/// A connection on which a gateway has granted a tunnel.
pub struct Opened {
    session: Session,
    gateway: Host,
    grant: Grant,
    around: Around,
    send: TunnelSend,
    recv: fulmar::RecvStream,
    inbox: Inbox,
}

/// The device and its routes, as long as the gateway grants the same addresses.
struct Standing {
    grant: Grant,
    device: Arc<tun_rs::AsyncDevice>,
    fence: Arc<Fence>,
    _changed: Changed,
}

impl Near {
    /// A tunnel to the first of these gateways that grants one.
    pub fn new(gateways: Vec<Host>, manner: Manner, wanted: Wanted) -> Self {
        let observed = Arc::new(ObservedTun::new(&wanted.device));
        Self { gateways, manner, wanted, observed }
    }

    /// What it does, for those who look after it.
    pub fn observed(&self) -> Arc<ObservedTun> {
        Arc::clone(&self.observed)
    }

    /// Opens a tunnel with the first gateway that grants one.
    pub async fn open(&self) -> Result<Opened, Failure> {
        self.open_as(None).await
    }

    /// Carries packets until the device fails. `tell` hears the addresses whenever they are new.
    pub async fn carry(&self, mut opened: Opened, tell: impl Fn(&Grant, &Host)) -> Result<(), Failure> {
        let mut standing: Option<Standing> = None;
        loop {
            let grant = opened.grant.clone();
            let now = match standing.take_if(|standing| standing.grant == grant) {
                Some(same) => same,
                None => {
                    // The device of before must be gone for one of the same name.
                    drop(standing.take());
                    let new = self.stand(grant.clone(), &opened.session, &opened.around)?;
                    tell(&grant, &opened.gateway);
                    new
                }
            };
            let (device, fence) = (Arc::clone(&now.device), Arc::clone(&now.fence));
            standing = Some(now);
            self.observed.has(&opened.session);
            let tunnel = Tunnel {
                device: Arc::clone(&device),
                connection: opened.session.connection().clone(),
                delivery: self.wanted.delivery,
                mtu: grant.mtu,
                fence,
                traffic: Arc::clone(&self.observed.traffic),
                outward: Way::Up,
            };
            let error = tunnel.carry(opened.recv, opened.send, opened.inbox).await;
            if opened.session.is_open() && device.name().is_err() {
                return Err(Failure::Other(format!("{}: {error}", self.wanted.device)));
            }
            opened.session.abandon();
            tracing::warn!("connection with {} lost: {error}; connecting again", opened.gateway);
            opened = self.open_again(&grant).await?;
            tracing::warn!("connected with {} again", opened.gateway);
        }
    }

    /// Makes the device, its routes and its rules.
    fn stand(&self, grant: Grant, session: &Session, around: &Around) -> Result<Standing, Failure> {
        let name = &self.wanted.device;
        let made = device(name, grant.v4, grant.v6, grant.mtu);
        let device = made.map_err(|error| no_device(&format!("the TUN device {name}"), &error))?;
        let own = [IpAddr::from(grant.v4), grant.v6.into()];
        let routed = self.wanted.routes.iter().flat_map(Route::networks);
        let routed = routed.chain(own.into_iter().filter_map(accept::block)).collect();
        let fence = Arc::new(Fence::of_client(&own, routed, around.networks.clone()));
        let gateway = address(session)?;
        let changes = || {
            let inbound = if self.wanted.inbound { None } else { Some(rules::no_inbound(name)) };
            inbound.into_iter().chain(route::changes(&self.wanted.routes, name, gateway)).collect()
        };
        Ok(Standing { grant, device, fence, _changed: Changed::make(&format!("tun-{name}"), changes)? })
    }

    /// Whether a grant is one to take: the gateway is believed no address of ours, and none of our
    /// neighbours'.
    fn check(&self, grant: &Grant, session: &Session) -> Result<Around, String> {
        let gateway = address(session).map_err(|failure| failure.to_string())?;
        let around = Around::look(&self.wanted.device, gateway);
        let around = around.map_err(|error| format!("this machine's addresses: {error}"))?;
        accept::check(grant, self.wanted.mtu, &self.wanted.addresses, &around)?;
        Ok(around)
    }

    async fn open_again(&self, before: &Grant) -> Result<Opened, Failure> {
        let mut pause = BACKOFF.0;
        loop {
            match self.open_as(Some(before)).await {
                Err(Failure::Unreachable(why)) => tracing::debug!("{why}"),
                result => return result,
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(BACKOFF.1);
        }
    }

    async fn open_as(&self, before: Option<&Grant>) -> Result<Opened, Failure> {
        let mut last = Failure::Usage("no gateway was named".into());
        for gateway in &self.gateways {
            match self.open_at(gateway, before).await {
                Ok(opened) => return Ok(opened),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn open_at(&self, gateway: &Host, before: Option<&Grant>) -> Result<Opened, Failure> {
        let session = reach::connect_to(gateway, Service::Tunnel, &self.manner).await?;
        let wish = Wish {
            delivery: self.wanted.delivery,
            mtu: self.wanted.mtu,
            deadline_ms: self.manner.deadline.map(|deadline| deadline.as_millis() as u32),
            address: before.map(|grant| grant.v4),
        };
        match tokio::time::timeout(
            self.manner.connect_timeout,
            ask(&session, wish, &self.observed.traffic.drops),
        )
        .await
        {
            Ok(Ok((grant, send, recv, inbox))) => {
                let around = self.check(&grant, &session);
                let around = around.map_err(|why| Failure::Other(format!("{gateway}: {why}")))?;
                Ok(Opened { session, gateway: gateway.clone(), grant, around, send, recv, inbox })
            }
            Ok(Err(error)) if error.code == Code::Lost => {
                let unreachable = || Failure::Unreachable(format!("{gateway}: {error}"));
                Err(session.close_reason().unwrap_or_else(unreachable))
            }
            Ok(Err(error)) => Err(Failure::Other(format!("{gateway}: {error}"))),
            Err(_) => Err(Failure::Unreachable(format!("{gateway} does not answer"))),
        }
    }
}

/// Where the packets of a connection go.
fn address(session: &Session) -> Result<IpAddr, Failure> {
    let peer = session.peer();
    let peer: SocketAddr = peer.parse().map_err(|_| Failure::Other(format!("{peer} is no address")))?;
    Ok(peer.ip().to_canonical())
}

/// Asks for a tunnel on a connection.
async fn ask(
    session: &Session,
    wish: Wish,
    drops: &Arc<Drops>,
) -> Result<(Grant, TunnelSend, fulmar::RecvStream, Inbox), OpenError> {
    // Packets may come before the answer is read.
    let inbox = Datagrams::of(session.connection(), End::Client, drops).tun();
    let inbox = inbox.ok_or_else(|| OpenError::lost("a connection without datagrams"))?;
    let (send, mut recv) = session.open().await.map_err(OpenError::lost)?;
    let mut send = TunnelSend::from(send);
    message::say(&mut send, &Request::Tun(wish)).await.map_err(OpenError::lost)?;
    match message::hear_answer(&mut recv).await? {
        Answer::Tun(grant) => Ok((grant, send, recv, inbox)),
        other => Err(OpenError::new(Code::Other, format!("it answers {other:?}"))),
    }
}
