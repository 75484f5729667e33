//! Listening at the gateway for a client: `fulmar forward -R`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::account::{Account, Seat};
use super::datagrams::Datagrams;
use super::error::OpenError;
use super::halves::{BoxedHalves, RecvHalf, SendHalf, TunnelSend};
use super::local::{self, Listener};
use super::message::{self, PACKET_BYTES_MAX, Request};
use super::packets::{self, Packets};
use super::pump::pump;
use super::target::{Place, Target};
use super::traffic::Way;
use crate::session::Session;

/// Packets of one UDP peer that wait for the tunnel.
const WAITING_PACKETS: usize = 64;

/// UDP peers of one socket at the same time; packets of more are dropped.
pub const PEERS_MAX: usize = 1024;

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
    pub(super) async fn at(place: &Target) -> Result<Self, OpenError> {
        match place {
            Target::Udp(place) => bind_udp(place).await.map(Self::Udp),
            _ => Listener::bind(place).await.map(Self::Streams),
        }
    }

    /// Where; a Unix socket has no address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Streams(listener) => listener.address(),
            Self::Udp(socket) => socket.local_addr().ok(),
        }
    }

    /// Brings visitors to the client. Those that are there stay when listening ends; they have seats of their own.
    pub(super) async fn receive(self, door: Door) {
        match self {
            Self::Streams(listener) => loop {
                let (halves, peer) = listener.accept().await;
                let (door, seat) = (door.clone(), door.account.seat());
                tokio::spawn(async move {
                    if let Err(error) = door.bring(halves, peer, seat).await {
                        tracing::debug!("a visitor was turned away: {error}");
                    }
                });
            },
            Self::Udp(socket) => {
                let open = move |peer, packets| door.clone().bring_packets(peer, packets);
                serve_peers(Arc::new(socket), open).await;
            }
        }
    }
}

async fn bind_udp(place: &Place) -> Result<UdpSocket, OpenError> {
    let failed =
        |error: std::io::Error| OpenError::of_connect(&error, format!("cannot listen at {place}/udp"));
    UdpSocket::bind(local::address(place).await.map_err(failed)?).await.map_err(failed)
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
        let Ok(_seat) = self.account.seat() else { return };
        let inbox = self.datagrams.open();
        let Ok(streams) = self.announce(peer.to_string(), Some(inbox.flow())).await else { return };
        let traffic = &self.account.traffic;
        let _ = packets::carry(packets, inbox, streams, Way::Down, traffic).await;
    }
}

/// One peer of a UDP socket that many send to.
#[derive(Debug)]
pub struct PeerPackets {
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    waiting: mpsc::Receiver<Bytes>,
}

impl Packets for PeerPackets {
    async fn recv(&mut self) -> Option<Bytes> {
        self.waiting.recv().await
    }

    async fn send(&mut self, packet: &[u8]) {
        let _ = self.socket.send_to(packet, self.peer).await;
    }
}

/// Makes a flow for each peer that sends to a socket, with what `open` does with it.
pub async fn serve_peers<F, O>(socket: Arc<UdpSocket>, open: O)
where
    F: Future<Output = ()> + Send + 'static,
    O: Fn(SocketAddr, PeerPackets) -> F,
{
    let mut peers: HashMap<SocketAddr, mpsc::Sender<Bytes>> = HashMap::new();
    let mut flows = JoinSet::new();
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        let (len, peer) = tokio::select! {
            received = socket.recv_from(&mut buffer) => match received {
                Ok(received) => received,
                Err(_) => continue,
            },
            Some(ended) = flows.join_next() => {
                if let Ok(peer) = ended {
                    peers.remove(&peer);
                }
                continue;
            }
        };
        let packet = Bytes::copy_from_slice(&buffer[..len]);
        if let Some(waiting) = peers.get(&peer) {
            // What does not fit is dropped, as packets are.
            let _ = waiting.try_send(packet);
        } else if peers.len() < PEERS_MAX {
            let (send, waiting) = mpsc::channel(WAITING_PACKETS);
            let _ = send.try_send(packet);
            peers.insert(peer, send);
            let flow = open(peer, PeerPackets { socket: Arc::clone(&socket), peer, waiting });
            flows.spawn(async move {
                flow.await;
                peer
            });
        }
    }
}
