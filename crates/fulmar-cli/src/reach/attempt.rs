//! One try to reach a server at one address: by UDP, by TCP, or by what is answered first.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar::identity::{Host, PORT_DEFAULT};
use fulmar::{ClientConfig, Endpoint};

use super::any_like;
use super::keeper::{Carried, Ways};
use super::remembered::Remembered;
use super::tcp::dial::Dial;
use super::way::{Way, WayArgs, WayWanted, race};
use crate::exit::Failure;
use crate::session::{self, Session};
use crate::trust;

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
        let mut address = self.address;
        address.set_port(args.tcp_port.unwrap_or(address.port()));
        let dial = Dial { name: host.name().to_owned(), address };
        let by_udp = async { Ok((self.by_udp().await?, None)) };
        let by_tcp = async { self.by_tcp(&dial).await.map(|(session, carried)| (session, Some(carried))) };
        let remembered = Remembered::of(trust::home()?.path());
        let server = host.to_string();
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
        let address = self.address;
        let dial = dial.clone();
        let ways = Ways { connection, endpoint, address, dial, args, remembered, server };
        Ok(session.with_keeper(ways.keep(carried)))
    }

    fn endpoint(&self) -> Result<Endpoint, Failure> {
        Endpoint::client(any_like(self.address)).map_err(|e| Failure::Unreachable(format!("no socket: {e}")))
    }

    async fn by_udp(&self) -> Result<Session, Failure> {
        self.open_from(self.endpoint()?).await
    }

    async fn by_tcp(&self, dial: &Dial) -> Result<(Session, Carried), Failure> {
        let at = dial.address;
        let failed = |why: &dyn std::fmt::Display| Failure::Unreachable(format!("{at} (TCP): {why}"));
        let stream = match tokio::time::timeout(self.time_max, dial.stream()).await {
            Ok(stream) => stream.map_err(|error| failed(&error))?,
            Err(_) => return Err(failed(&"no answer")),
        };
        let endpoint = self.endpoint()?;
        let carrying = endpoint.move_to_stream(stream, self.address).map_err(|error| failed(&error))?;
        let mut carried = tokio::spawn(carrying);
        tokio::select! {
            session = self.open_from(endpoint) => Ok((session?, carried)),
            _ = &mut carried => Err(failed(&"no server of ours listens there, or it does not take us in")),
        }
    }

    /// Connects from there.
    pub(super) async fn open_from(&self, endpoint: Endpoint) -> Result<Session, Failure> {
        let address = self.address;
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
