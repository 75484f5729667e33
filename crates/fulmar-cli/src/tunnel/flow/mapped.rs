//! UDP flows that leave from one port, whatever their targets are, as games and calls need it that are told
//! by others where they are seen: endpoint-independent mapping (RFC 4787, REQ-1). What comes to the port is
//! taken from the targets of open flows only: address- and port-dependent filtering (section 5).

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::drops::{Cause, Drops};
use super::udp::Packets;
use super::waiting::{Feeder, ROOM_BYTES, Room, Waiting};
use crate::reach::any_like;
use crate::tunnel::wire::message::PACKET_BYTES_MAX;

type Flows = Arc<Mutex<HashMap<SocketAddr, Feeder>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ports of one client, each as long as it has flows: by the number of their association, and by whether
/// they are of IPv4.
#[derive(Debug, Default)]
pub struct Mappings(Mutex<HashMap<(u32, bool), Weak<Port>>>);

/// One port.
#[derive(Debug)]
struct Port {
    socket: Arc<UdpSocket>,
    flows: Flows,
    room: Arc<Room>,
    receiving: AbortHandle,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

/// A flow between a port and one target.
#[derive(Debug)]
pub struct Mapped {
    port: Arc<Port>,
    target: SocketAddr,
    waiting: Waiting,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        lock(&self.port.flows).remove(&self.target);
    }
}

impl Mappings {
    /// A flow to `target` from the port of an association; `None` if there is one already.
    pub async fn open(
        &self,
        association: u32,
        target: SocketAddr,
        drops: &Arc<Drops>,
    ) -> io::Result<Option<Mapped>> {
        let key = (association, target.is_ipv4());
        let known = || lock(&self.0).get(&key).and_then(Weak::upgrade);
        let port = match known() {
            Some(port) => port,
            None => {
                let fresh = Arc::new(Port::bind(target, drops).await?);
                let mut ports = lock(&self.0);
                ports.retain(|_, port| port.strong_count() > 0);
                // Another flow of this association may have been opened meanwhile.
                let taken = ports.get(&key).and_then(Weak::upgrade);
                taken.unwrap_or_else(|| {
                    ports.insert(key, Arc::downgrade(&fresh));
                    fresh
                })
            }
        };
        Ok(port.flow(target))
    }
}

impl Port {
    async fn bind(target: SocketAddr, drops: &Arc<Drops>) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind(any_like(target)).await?);
        let flows = Flows::default();
        let receiving = tokio::spawn(receive(Arc::clone(&socket), Arc::clone(&flows), Arc::clone(drops)));
        Ok(Self { socket, flows, room: Room::new(ROOM_BYTES), receiving: receiving.abort_handle() })
    }

    fn flow(self: Arc<Self>, target: SocketAddr) -> Option<Mapped> {
        let (feeder, waiting) = self.room.queue();
        {
            let mut flows = lock(&self.flows);
            if flows.contains_key(&target) {
                return None;
            }
            flows.insert(target, feeder);
        }
        Some(Mapped { port: self, target, waiting })
    }
}

/// Gives what comes to the flow whose target it is from.
async fn receive(socket: Arc<UdpSocket>, flows: Flows, drops: Arc<Drops>) {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        // What is wrong at one target, as a port that is closed, is nothing to the others.
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
        match lock(&flows).get(&from) {
            Some(feeder) if feeder.put(Bytes::copy_from_slice(&buffer[..len])) => {}
            Some(_) => drops.count(Cause::WaitingFull),
            None => drops.count(Cause::Stranger),
        }
    }
}

impl Packets for Mapped {
    async fn recv(&mut self) -> Option<Bytes> {
        self.waiting.recv().await
    }

    async fn send(&mut self, packet: &[u8]) -> bool {
        self.port.socket.send_to(packet, self.target).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn peer() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[tokio::test]
    async fn flows_of_an_association_have_one_port_and_hear_their_targets_only() {
        let (mappings, drops) = (Mappings::default(), Arc::<Drops>::default());
        let open = |association, target| mappings.open(association, target, &drops);
        let (one, other, stranger) = (peer().await, peer().await, peer().await);
        let mut first = open(1, one.1).await.unwrap().unwrap();
        let mut second = open(1, other.1).await.unwrap().unwrap();
        assert!(open(1, one.1).await.unwrap().is_none(), "there is one");
        let mut apart = open(2, one.1).await.unwrap().unwrap();
        let mut seen = Vec::new();
        for (flow, peer) in [(&mut first, &one.0), (&mut second, &other.0), (&mut apart, &one.0)] {
            assert!(flow.send(b"question").await);
            let (_, from) = peer.recv_from(&mut [0; 20]).await.unwrap();
            seen.push(from);
        }
        assert!(seen[0] == seen[1] && seen[0] != seen[2]);
        // Each hears its own target, and nobody a stranger.
        stranger.0.send_to(b"a stranger", seen[0]).await.unwrap();
        other.0.send_to(b"the other", seen[0]).await.unwrap();
        one.0.send_to(b"the one", seen[0]).await.unwrap();
        assert_eq!(first.recv().await.unwrap(), &b"the one"[..]);
        assert_eq!(second.recv().await.unwrap(), &b"the other"[..]);
        assert_eq!(drops.of(Cause::Stranger), 1);
        // The port goes with its last flow.
        drop((first, second));
        assert!(open(3, one.1).await.unwrap().is_some());
        assert!(!lock(&mappings.0).contains_key(&(1, true)));
    }
}
