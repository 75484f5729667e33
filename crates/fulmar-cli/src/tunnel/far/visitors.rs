//! Listening at the gateway for a client: `fulmar forward -R`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::UdpSocket;

use super::account::{Account, Seat};
use crate::session::Session;
use crate::tunnel::flow::datagrams::Datagrams;
use crate::tunnel::flow::drops::Cause;
use crate::tunnel::flow::halves::{BoxedHalves, RecvHalf, SendHalf, TunnelSend};
use crate::tunnel::flow::local::Listener;
use crate::tunnel::flow::lookups::Lookups;
use crate::tunnel::flow::peers::Source;
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::shared_socket::{PeerPackets, serve_peers};
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::flow::udp;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::message::{self, Request};
use crate::tunnel::wire::target::Target;

/// What is needed to bring a visitor to the client.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) session: Session,
    pub(super) account: Arc<Account>,
    pub(super) datagrams: Arc<Datagrams>,
    /// The client's number for the listener.
    pub(super) listener: u64,
}

/// A place at the gateway that is listened at.
pub(super) enum Bound {
    Streams(Listener),
    Udp(UdpSocket),
}

impl Bound {
    /// Listens there.
    pub(super) async fn at(at: &Target, lookups: &Lookups) -> Result<Self, OpenError> {
        let address = match at {
            Target::Unix(_) => return Listener::bind(at).await.map(Self::Streams),
            Target::Tcp(place) | Target::Udp(place) => lookups.addresses(place).await?.first().copied(),
        };
        let none = || OpenError::new(Code::NameUnknown, format!("{at} has no address"));
        let address = address.ok_or_else(none)?;
        match at {
            Target::Udp(_) => {
                let failed =
                    |error: std::io::Error| OpenError::of_connect(&error, format!("cannot listen at {at}"));
                UdpSocket::bind(address).await.map(Self::Udp).map_err(failed)
            }
            _ => Listener::at(address, at).await.map(Self::Streams),
        }
    }

    /// Where; a Unix socket has no address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Streams(listener) => listener.address(),
            Self::Udp(socket) => socket.local_addr().ok(),
        }
    }

    /// Brings visitors to the client. Those that are there stay when listening ends; they have seats of their
    /// own.
    pub(super) async fn receive(self, door: Door) {
        match self {
            Self::Streams(listener) => loop {
                let (halves, peer) = listener.accept().await;
                // Those of a Unix socket have no address: one source.
                let address =
                    peer.parse().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer: SocketAddr| peer.ip());
                let (door, seat) = (door.clone(), door.account.visitor(Source::from(address)));
                tokio::spawn(async move {
                    if let Err(error) = door.bring(halves, peer, seat).await {
                        tracing::debug!("a visitor was refused: {error}");
                    }
                });
            },
            Self::Udp(socket) => {
                let drops = Arc::clone(&door.account.traffic.drops);
                let open = move |peer, packets| door.clone().bring_packets(peer, packets);
                serve_peers(Arc::new(socket), drops, open).await;
            }
        }
    }
}

impl Door {
    async fn bring(
        self,
        (mut recv, mut send): BoxedHalves,
        peer: String,
        seat: Result<Seat, OpenError>,
    ) -> Result<(), OpenError> {
        let opened = match seat {
            Ok(seat) => self.announce(peer, None).await.map(|streams| (streams, seat)),
            Err(error) => Err(error),
        };
        match opened {
            Ok((streams, _seat)) => {
                pump((recv, send), streams, Way::Down, &self.account.traffic).await;
                Ok(())
            }
            Err(error) => {
                recv.cut_off();
                send.cut_off();
                Err(error)
            }
        }
    }

    /// A stream to the client, which has taken the visitor.
    async fn announce(
        &self,
        peer: String,
        flow: Option<u32>,
    ) -> Result<(fulmar::RecvStream, TunnelSend), OpenError> {
        let (send, mut recv) = self.session.open().await.map_err(OpenError::lost)?;
        let mut send = TunnelSend::from(send);
        let request = Request::Incoming { listener: self.listener, peer, flow };
        message::say(&mut send, &request).await.map_err(OpenError::lost)?;
        message::hear_answer(&mut recv).await?;
        Ok((recv, send))
    }

    async fn bring_packets(self, peer: SocketAddr, packets: PeerPackets) {
        let Ok(_seat) = self.account.visitor(Source::from(peer.ip())) else {
            return self.account.traffic.drops.count(Cause::TooManyFlows);
        };
        let inbox = self.datagrams.open();
        let Ok(streams) = self.announce(peer.to_string(), Some(inbox.flow())).await else { return };
        let traffic = &self.account.traffic;
        let _ = udp::carry(packets, inbox, streams, Way::Down, traffic).await;
    }
}
