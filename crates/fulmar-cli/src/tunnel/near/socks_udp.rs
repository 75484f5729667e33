//! SOCKS 5's UDP ASSOCIATE (RFC 1928, section 7): packets to any target, each as a flow of its own through
//! the tunnel. All leave the gateway from one port.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use fast_socks5::server::{Socks5ServerProtocol, SocksServerError, states};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, new_udp_header, parse_udp_request};
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::client::Client;
use super::owner;
use crate::tunnel::flow::drops::Cause;
use crate::tunnel::flow::tcp::Carried;
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::flow::udp::{self, Packets};
use crate::tunnel::flow::waiting::{Feeder, ROOM_BYTES, Room, Waiting};
use crate::tunnel::wire::message::PACKET_BYTES_MAX;
use crate::tunnel::wire::target::{Place, Target};

/// Targets of one association at the same time; packets to more are dropped. Half of what a key may have at a
/// gateway.
const FLOWS_MAX: usize = 2048;

/// Associations of this process are told apart by it.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Who asks for an association, and how.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Where the client's TCP connection comes from.
    pub peer: SocketAddr,
    /// Where it has come to.
    pub local: SocketAddr,
    /// Where the client says that its packets will come from.
    pub named: TargetAddr,
    /// Clients of this proxy have to know a password.
    pub has_password: bool,
}

/// How it is known whose packets an association takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// From exactly there: the client has said so.
    From(SocketAddr),
    /// Of the user who has the client's TCP connection: both are on this machine.
    Users,
    /// Of whoever sends first from the client's address. Everybody there may use this proxy anyway.
    Firsts,
}

impl Asked {
    /// Whose packets are taken; nobody's if that cannot be known.
    ///
    /// A client that knows its port says it (RFC 1928, section 4), and only that port counts; the address is
    /// the TCP connection's in any case. One that does not, as most that are in the field, names port 0. Then
    /// users of this machine are told apart by the sockets' owners. Those of another machine cannot be: where
    /// a password is to keep its users apart, that is refused.
    fn whose(&self, can_tell_users: bool) -> Option<Whose> {
        let address = self.peer.ip();
        let is_own = |ip: IpAddr| ip.is_unspecified() || ip.to_canonical() == address.to_canonical();
        match self.named {
            TargetAddr::Ip(named) if named.port() != 0 && is_own(named.ip()) => {
                Some(Whose::From(SocketAddr::new(address, named.port())))
            }
            _ if self.is_here() && can_tell_users => Some(Whose::Users),
            _ if self.has_password => None,
            _ => Some(Whose::Firsts),
        }
    }

    /// Whether the client is on this machine.
    fn is_here(&self) -> bool {
        self.peer.ip().to_canonical().is_loopback() || self.peer.ip() == self.local.ip()
    }

    /// Whether what comes from there, the first that comes, is the client's.
    async fn owns(&self, whose: Whose, from: SocketAddr) -> bool {
        match whose {
            Whose::From(source) => from == source,
            Whose::Firsts => from.ip() == self.peer.ip(),
            Whose::Users if from.ip() != self.peer.ip() => false,
            Whose::Users => {
                let tcp = (self.peer, self.local);
                let told =
                    tokio::task::spawn_blocking(move || owner::is_same(tcp, from)).await.ok().flatten();
                let is_own = told.unwrap_or(!self.has_password);
                if !is_own {
                    tracing::warn!(
                        "a packet from {from} is no packet of the client at {}: dropped",
                        self.peer
                    );
                }
                is_own
            }
        }
    }
}

/// Serves one association: as long as the client's TCP connection lasts.
pub async fn serve(
    asking: Socks5ServerProtocol<Carried, states::CommandRead>,
    asked: &Asked,
    client: &Client,
) -> Result<(), SocksServerError> {
    let Some(whose) = asked.whose(cfg!(target_os = "linux")) else {
        tracing::warn!(
            "{} asks for UDP without naming the port that it sends from: with a password and from another \
             machine that is refused, since anybody there could take the association over",
            asked.peer
        );
        return asking.reply_error(&ReplyError::ConnectionNotAllowed).await;
    };
    let bound = UdpSocket::bind((asked.local.ip(), 0)).await;
    let bound = bound.and_then(|socket| Ok((socket.local_addr()?, socket)));
    let Ok((address, socket)) = bound else {
        return asking.reply_error(&ReplyError::GeneralFailure).await;
    };
    let mut stream = asking.reply_success(address).await?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let association = Association { socket: Arc::new(socket), asked, whose, client: client.clone(), number };
    let mut ignored = [0; 64];
    tokio::select! {
        () = association.run() => {}
        // Nothing is said on it any more: it ends, or breaks.
        () = async { while stream.read(&mut ignored).await.is_ok_and(|len| len > 0) {} } => {}
    }
    Ok(())
}

struct Association<'a> {
    socket: Arc<UdpSocket>,
    asked: &'a Asked,
    whose: Whose,
    client: Client,
    number: u32,
}

impl Association<'_> {
    async fn run(&self) {
        let mut flows: HashMap<TargetAddr, Feeder> = HashMap::new();
        let room = Room::new(ROOM_BYTES);
        let drops = &self.client.traffic().drops;
        let mut running = JoinSet::new();
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        // Where the client's packets come from.
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
            if source.is_some_and(|source| source != from) {
                drops.count(Cause::Stranger);
                continue;
            }
            // Fragments are not put together, as RFC 1928 allows.
            let Ok((0, target, packet)) = parse_udp_request(&buffer[..len]).await else { continue };
            if source.is_none() && !self.asked.owns(self.whose, from).await {
                drops.count(Cause::Stranger);
                continue;
            }
            let source = *source.get_or_insert(from);
            let packet = Bytes::copy_from_slice(packet);
            if let Some(flow) = flows.get(&target) {
                if !flow.put(packet) {
                    drops.count(Cause::WaitingFull);
                }
            } else if flows.len() < FLOWS_MAX {
                let (feeder, waiting) = room.queue();
                feeder.put(packet);
                flows.insert(target.clone(), feeder);
                running.spawn(self.flow(target, source, waiting));
            } else {
                drops.count(Cause::TooManyFlows);
            }
        }
    }

    /// Carries the packets between the client and one target.
    fn flow(
        &self,
        target: TargetAddr,
        source: SocketAddr,
        mut waiting: Waiting,
    ) -> impl Future<Output = TargetAddr> + use<> {
        let (client, socket, number) = (self.client.clone(), Arc::clone(&self.socket), self.number);
        async move {
            let Some(first) = waiting.recv().await else { return target };
            let to = Target::Udp(place(target.clone()));
            match client.open_packets(&to, Some(number), &first).await {
                Ok((flow, inbox)) => {
                    // Replies come from where the packets went, which for a name the gateway knows.
                    let sender = flow.address.map_or_else(|| target.clone(), TargetAddr::Ip);
                    let header = new_udp_header(sender).unwrap_or_default();
                    let local = ClientPackets { socket, source, header, waiting };
                    let tunnel = (flow.recv, flow.send);
                    let _ = udp::carry(local, inbox, tunnel, Way::Up, client.traffic()).await;
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
    waiting: Waiting,
}

impl Packets for ClientPackets {
    async fn recv(&mut self) -> Option<Bytes> {
        self.waiting.recv().await
    }

    async fn send(&mut self, packet: &[u8]) -> bool {
        let reply = [&self.header[..], packet].concat();
        self.socket.send_to(&reply, self.source).await.is_ok()
    }
}

/// A SOCKS address as a place.
pub fn place(address: TargetAddr) -> Place {
    let (host, port) = address.into_string_and_port();
    Place::new(host, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(peer: &str, local: &str, named: &str, has_password: bool) -> Asked {
        let named = TargetAddr::Ip(named.parse().unwrap());
        Asked { peer: peer.parse().unwrap(), local: local.parse().unwrap(), named, has_password }
    }

    #[test]
    fn whose_an_association_is_does_not_depend_on_who_sends_first() {
        let (lan, proxy) = ("192.0.2.7:5000", "192.0.2.1:1080");
        let from = |text: &str| Some(Whose::From(text.parse().unwrap()));
        for (peer, named, has_password, can_tell, expected) in [
            // A port that is named is the port, at the address of the TCP connection.
            (lan, "0.0.0.0:6000", true, true, from("192.0.2.7:6000")),
            (lan, "192.0.2.7:6000", false, false, from("192.0.2.7:6000")),
            ("127.0.0.1:5000", "127.0.0.1:6000", true, true, from("127.0.0.1:6000")),
            // Somebody else's address is no name for one's own.
            (lan, "192.0.2.8:6000", false, true, Some(Whose::Firsts)),
            (lan, "192.0.2.8:6000", true, true, None),
            // On one machine owners tell users apart.
            ("127.0.0.1:5000", "0.0.0.0:0", true, true, Some(Whose::Users)),
            ("127.0.0.1:5000", "0.0.0.0:0", false, true, Some(Whose::Users)),
            ("192.0.2.1:5000", "0.0.0.0:0", true, true, Some(Whose::Users)),
            ("127.0.0.1:5000", "0.0.0.0:0", true, false, None),
            // Elsewhere nothing does.
            (lan, "0.0.0.0:0", true, true, None),
            (lan, "0.0.0.0:0", false, true, Some(Whose::Firsts)),
        ] {
            let asked = asked(peer, proxy, named, has_password);
            assert_eq!(asked.whose(can_tell), expected, "{asked:?}");
        }
    }
}
