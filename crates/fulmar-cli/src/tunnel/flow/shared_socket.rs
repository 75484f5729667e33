//! One UDP socket that many peers send to: a flow for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::drops::{Cause, Drops};
use super::peers::{Activity, Peers};
use super::udp::{IDLE_MAX, Packets};
use super::waiting::{Feeder, ROOM_BYTES, Room, Waiting};
use crate::tunnel::wire::message::PACKET_BYTES_MAX;

/// UDP peers of one socket at the same time; docs/guide.md names it.
pub const PEERS_MAX: usize = 1024;

/// A flow that is one packet, without an answer, ends after this time: it costs a stranger nothing to make
/// it.
const SINGLE_IDLE_MAX: Duration = Duration::from_secs(10);

/// One peer of a UDP socket that many send to.
#[derive(Debug)]
pub struct PeerPackets {
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    activity: Arc<Activity>,
    waiting: Waiting,
}

impl Packets for PeerPackets {
    async fn recv(&mut self) -> Option<Bytes> {
        self.waiting.recv().await
    }

    async fn send(&mut self, packet: &[u8]) -> bool {
        self.activity.count();
        self.socket.send_to(packet, self.peer).await.is_ok()
    }

    fn idle_max(&self) -> Duration {
        if self.activity.is_single() { SINGLE_IDLE_MAX } else { IDLE_MAX }
    }
}

/// Makes a flow for each peer that sends to a socket, with what `open` does with it.
pub async fn serve_peers<F, O>(socket: Arc<UdpSocket>, drops: Arc<Drops>, open: O)
where
    F: Future<Output = ()> + Send + 'static,
    O: Fn(SocketAddr, PeerPackets) -> F,
{
    let mut peers = Peers::<Feeder>::new(PEERS_MAX);
    let room = Room::new(ROOM_BYTES);
    let mut flows = JoinSet::new();
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        let (len, peer) = tokio::select! {
            received = socket.recv_from(&mut buffer) => match received {
                Ok(received) => received,
                Err(_) => continue,
            },
            Some(ended) = flows.join_next() => {
                if let Ok((peer, number)) = ended {
                    peers.remove(peer, number);
                }
                continue;
            }
        };
        let packet = Bytes::copy_from_slice(&buffer[..len]);
        // What does not fit is dropped, as packets are.
        if let Some(feeder) = peers.get(&peer) {
            if !feeder.put(packet) {
                drops.count(Cause::WaitingFull);
            }
        } else if let Some((number, activity)) = peers.admit(peer) {
            let (feeder, waiting) = room.queue();
            feeder.put(packet);
            peers.insert(peer, (number, Arc::clone(&activity)), feeder);
            let flow = open(peer, PeerPackets { socket: Arc::clone(&socket), peer, activity, waiting });
            flows.spawn(async move {
                flow.await;
                (peer, number)
            });
        } else {
            drops.count(Cause::TooManyFlows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip of a second, a hundred packets a second: 36 of 100 were dropped, and counted nowhere.
    #[tokio::test]
    async fn what_comes_while_a_flow_is_opened_waits_for_it() {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let at = socket.local_addr().unwrap();
        let drops = Arc::<Drops>::default();
        let (open, is_open) = tokio::sync::watch::channel(false);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let flow = move |_, mut packets: PeerPackets| {
            let (mut is_open, tell) = (is_open.clone(), tell.clone());
            async move {
                is_open.wait_for(|is_open| *is_open).await.unwrap();
                while let Some(packet) = packets.recv().await {
                    tell.send(packet).unwrap();
                }
            }
        };
        tokio::spawn(serve_peers(socket, Arc::clone(&drops), flow));
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for number in 0..500_u16 {
            peer.send_to(&[&number.to_be_bytes()[..], &[0; 1000]].concat(), at).await.unwrap();
            // The kernel's queue is not what is looked at here.
            if number % 20 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        open.send(true).unwrap();
        for number in 0..500_u16 {
            assert_eq!(told.recv().await.unwrap()[..2], number.to_be_bytes());
        }
        assert_eq!(drops.of(Cause::WaitingFull), 0);
    }

    #[tokio::test]
    async fn a_flow_of_one_packet_is_over_sooner_than_a_conversation() {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let at = socket.local_addr().unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let flow = move |_, mut packets: PeerPackets| {
            let tell = tell.clone();
            async move {
                while packets.recv().await.is_some() {
                    tell.send(packets.idle_max()).unwrap();
                }
            }
        };
        tokio::spawn(serve_peers(socket, Arc::default(), flow));
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for expected in [SINGLE_IDLE_MAX, IDLE_MAX, IDLE_MAX] {
            peer.send_to(b"x", at).await.unwrap();
            assert_eq!(told.recv().await, Some(expected));
        }
    }
}
