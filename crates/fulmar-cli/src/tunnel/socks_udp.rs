//! SOCKS 5's UDP ASSOCIATE (RFC 1928, section 7): packets to any target, each as a flow of its own through
//! the tunnel.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use fast_socks5::server::{Socks5ServerProtocol, SocksServerError, states};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, new_udp_header, parse_udp_request};
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::Client;
use super::message::PACKET_BYTES_MAX;
use super::packets::{self, Packets};
use super::target::{Place, Target};
use super::tcp::Carried;
use super::traffic::Way;

/// Targets of one association at the same time; packets to more are dropped.
const FLOWS_MAX: usize = 512;

/// Packets to one target that wait for the tunnel.
const WAITING_PACKETS: usize = 64;

/// Serves one association: as long as the client's TCP connection lasts.
pub async fn serve(
    asking: Socks5ServerProtocol<Carried, states::CommandRead>,
    peer: IpAddr,
    local: IpAddr,
    client: &Client,
) -> Result<(), SocksServerError> {
    let bound = UdpSocket::bind((local, 0)).await.and_then(|socket| Ok((socket.local_addr()?, socket)));
    let Ok((address, socket)) = bound else {
        return asking.reply_error(&ReplyError::GeneralFailure).await;
    };
    let mut stream = asking.reply_success(address).await?;
    let association = Association { socket: Arc::new(socket), peer, client: client.clone() };
    let mut ignored = [0; 64];
    tokio::select! {
        () = association.run() => {}
        // Nothing is said on it any more: it ends, or breaks.
        () = async { while stream.read(&mut ignored).await.is_ok_and(|len| len > 0) {} } => {}
    }
    Ok(())
}

struct Association {
    socket: Arc<UdpSocket>,
    /// Whose packets are taken.
    peer: IpAddr,
    client: Client,
}

impl Association {
    async fn run(&self) {
        let mut flows: HashMap<TargetAddr, mpsc::Sender<Bytes>> = HashMap::new();
        let mut running = JoinSet::new();
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        // The port that the client's first packet comes from is the client's.
        let mut source: Option<SocketAddr> = None;
        loop {
            let (len, from) = tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok(received) => received,
                    Err(_) => continue,
                },
                Some(ended) = running.join_next() => {
                    if let Ok(target) = ended {
                        flows.remove(&target);
                    }
                    continue;
                }
            };
            if from.ip() != self.peer || source.is_some_and(|source| source != from) {
                continue;
            }
            // Fragments are not put together, as RFC 1928 allows.
            let Ok((0, target, packet)) = parse_udp_request(&buffer[..len]).await else { continue };
            let source = *source.get_or_insert(from);
            let packet = Bytes::copy_from_slice(packet);
            if let Some(flow) = flows.get(&target) {
                let _ = flow.try_send(packet);
            } else if flows.len() < FLOWS_MAX {
                let (send, waiting) = mpsc::channel(WAITING_PACKETS);
                let _ = send.try_send(packet);
                flows.insert(target.clone(), send);
                running.spawn(self.flow(target, source, waiting));
            }
        }
    }

    /// Carries the packets between the client and one target.
    fn flow(
        &self,
        target: TargetAddr,
        source: SocketAddr,
        mut waiting: mpsc::Receiver<Bytes>,
    ) -> impl Future<Output = TargetAddr> + use<> {
        let (client, socket) = (self.client.clone(), Arc::clone(&self.socket));
        async move {
            let Some(first) = waiting.recv().await else { return target };
            match client.open_packets(&Target::Udp(place(target.clone())), &first).await {
                Ok((flow, inbox)) => {
                    // Replies come from where the packets went, which for a name the gateway knows.
                    let sender = flow.address.map_or_else(|| target.clone(), TargetAddr::Ip);
                    let header = new_udp_header(sender).unwrap_or_default();
                    let local = ClientPackets { socket, source, header, waiting };
                    let tunnel = (flow.recv, flow.send);
                    let _ = packets::carry(local, inbox, tunnel, Way::Up, client.traffic()).await;
                }
                Err(error) => tracing::info!("{target}/udp: {error}"),
            }
            target
        }
    }
}

/// The client's side of a flow.
struct ClientPackets {
    socket: Arc<UdpSocket>,
    source: SocketAddr,
    header: Vec<u8>,
    waiting: mpsc::Receiver<Bytes>,
}

impl Packets for ClientPackets {
    async fn recv(&mut self) -> Option<Bytes> {
        self.waiting.recv().await
    }

    async fn send(&mut self, packet: &[u8]) {
        let reply = [&self.header[..], packet].concat();
        let _ = self.socket.send_to(&reply, self.source).await;
    }
}

/// A SOCKS address as a place.
pub fn place(address: TargetAddr) -> Place {
    let (host, port) = address.into_string_and_port();
    Place::new(host, port)
}
