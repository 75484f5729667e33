//! One try to reach a server at one address: by UDP, by TCP, or by what is answered first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::identity::{Host, PORT_DEFAULT};
use fulmar::{ClientConfig, Endpoint};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use super::any_like;
use super::keeper::{Carried, Ways};
use super::remembered::Remembered;
use super::tcp::dial::Dial;
use super::way::{Way, WayArgs, WayWanted, race};
use crate::exit::Failure;
use crate::listen::Ports;
use crate::session::{self, Session};
use crate::trust;

/// Another port of a server is tried beside the first after so long without an answer ..
const PORT_AFTER: Duration = Duration::from_secs(1);
/// .. and so many of them, one after the other: a firewall that shuts one shuts most of them, or few.
const PORTS_TRIED_MAX: usize = 3;

/// What stays the same, by whichever way.
pub(super) struct Attempt {
    pub(super) address: SocketAddr,
    /// What TLS calls the server.
    pub(super) name: String,
    pub(super) config: ClientConfig,
    /// How long to wait for an answer.
    pub(super) time_max: Duration,
    /// This end's key, named to its user where the server does not know it.
    pub(super) own_key: Option<String>,
}

impl Attempt {
    /// Connects, and looks after the way from then on.
    pub(super) async fn open(self, host: &Host, args: WayArgs) -> Result<Session, Failure> {
        let remembered = Remembered::of(trust::home()?.path());
        let server = host.to_string();
        let mut address = self.address;
        address.set_port(args.tcp_port.unwrap_or(address.port()));
        let dial = Arc::new(Dial::new(host.name(), address, args.websocket.clone()));
        let ports = args.other_ports.clone().unwrap_or_else(|| remembered.ports(&server));
        let by_udp = async { Ok((self.by_udp(&ports).await?, None)) };
        let by_tcp = async { self.by_tcp(&dial).await.map(|(session, carried)| (session, Some(carried))) };
        let (way, (session, carried)) = match args.way {
            WayWanted::Udp => (Way::Udp, by_udp.await?),
            WayWanted::Tcp => (Way::Tcp, by_tcp.await?),
            WayWanted::Any => match remembered.way(&server) {
                Way::Udp => race(Way::Udp, by_udp, by_tcp).await?,
                Way::Tcp => race(Way::Tcp, by_tcp, by_udp).await?,
            },
        };
        if way == Way::Tcp && args.way == WayWanted::Any {
            tracing::info!("{}: UDP is not answered; connected by TCP, which is slower", self.address);
        }
        if args.way != WayWanted::Udp {
            remembered.remember(&server, way);
        }
        let (connection, endpoint) = session.parts();
        remembered.remember_ports(&server, &Ports::new(connection.server_ports()));
        let address = if way == Way::Udp { connection.remote_address() } else { self.address };
        let dial = Arc::clone(&dial);
        let ways =
            Ways { connection, endpoint, address, dial, args, remembered, server, moved: Notify::new() };
        Ok(session.with_keeper(ways.keep(carried)))
    }

    fn endpoint(&self) -> Result<Endpoint, Failure> {
        Endpoint::client(any_like(self.address)).map_err(|e| Failure::Unreachable(format!("no socket: {e}")))
    }

    /// At the server's first port; while that is not answered, at others of its ports beside it.
    async fn by_udp(&self, ports: &Ports) -> Result<Session, Failure> {
        let others = ports.each().filter(|port| *port != self.address.port());
        let count = others.clone().count();
        let mut attempts = FuturesUnordered::from_iter([self.at_port(self.address.port())]);
        let (mut tries, mut failure) = (PORTS_TRIED_MAX.min(count), None);
        loop {
            let done = tokio::select! {
                Some(done) = attempts.next() => Some(done),
                () = tokio::time::sleep(PORT_AFTER), if tries > 0 => None,
                else => return Err(failure.unwrap_or_else(|| no_answer(self.address))),
            };
            match done {
                Some(Err(Failure::Unreachable(why))) => _ = failure.get_or_insert(Failure::Unreachable(why)),
                Some(done) => return done,
                None => {}
            }
            if tries > 0 {
                tries -= 1;
                let draw = getrandom::u32().unwrap_or_default() as usize % count;
                attempts.extend(others.clone().nth(draw).map(|port| self.at_port(port)));
            }
        }
    }

    async fn at_port(&self, port: u16) -> Result<Session, Failure> {
        self.connect(self.endpoint()?, SocketAddr::new(self.address.ip(), port)).await
    }

    /// What takes no datagrams as they are, such as a proxy, may take a WebSocket.
    async fn by_tcp(&self, dial: &Dial) -> Result<(Session, Carried), Failure> {
        let nobody = || {
            let why = "no server of ours listens there, or it does not take us in";
            Failure::Unreachable(format!("{} (TCP): {why}", dial.address))
        };
        match self.by_stream(dial).await? {
            Some(session) => Ok(session),
            None if dial.change_coat() => match self.by_stream(dial).await {
                Ok(Some(session)) => Ok(session),
                Ok(None) | Err(Failure::Unreachable(_)) => Err(nobody()),
                Err(failure) => Err(failure),
            },
            None => Err(nobody()),
        }
    }

    /// Connects in a stream; nothing if that ends before.
    async fn by_stream(&self, dial: &Dial) -> Result<Option<(Session, Carried)>, Failure> {
        let failed =
            |why: &dyn std::fmt::Display| Failure::Unreachable(format!("{} (TCP): {why}", dial.address));
        let stream = match tokio::time::timeout(self.time_max, dial.stream()).await {
            Ok(stream) => stream.map_err(|error| failed(&error))?,
            Err(_) => return Err(failed(&"no answer")),
        };
        let endpoint = self.endpoint()?;
        let carrying = endpoint.move_to_stream(stream, self.address).map_err(|error| failed(&error))?;
        let mut carried = tokio::spawn(carrying);
        tokio::select! {
            session = self.open_from(endpoint) => Ok(Some((session?, carried))),
            _ = &mut carried => Ok(None),
        }
    }

    /// Connects from there.
    pub(super) async fn open_from(&self, endpoint: Endpoint) -> Result<Session, Failure> {
        self.connect(endpoint, self.address).await
    }

    async fn connect(&self, endpoint: Endpoint, address: SocketAddr) -> Result<Session, Failure> {
        let connecting = endpoint.connect_with(&self.config, address, &self.name);
        let connecting = connecting.map_err(|e| Failure::Unreachable(format!("{address}: {e}")))?;
        match tokio::time::timeout(self.time_max, connecting).await {
            Ok(Ok(connection)) => Ok(Session::new(connection, endpoint).with_own_key(self.own_key.clone())),
            Ok(Err(reason)) => Err(session::explain(&reason, &address.to_string(), self.own_key.as_deref())),
            Err(_) => Err(no_answer(address)),
        }
    }
}

/// Nobody answers: what to look at, for those who may not have thought of it.
fn no_answer(address: SocketAddr) -> Failure {
    let port = address.port();
    let other = if port == PORT_DEFAULT { " Another port: -p PORT, or HOST:PORT." } else { "" };
    Failure::Unreachable(format!(
        "{address} does not answer. Is `fulmar serve` or `fulmar gateway` running there? Is UDP port {port} open in its \
         firewall?{other}"
    ))
}
