//! Carries the packets of one UDP flow: by unreliable datagrams, and by its stream where they are too long
//! for that or the other side is not known to expect them yet.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

use super::datagrams::Inbox;
use super::drops::Cause;
use super::halves::{RecvHalf, SendHalf};
use super::traffic::{Traffic, Way};
use crate::tunnel::wire::message::{self, PACKET_BYTES_MAX};

/// A flow without packets for so long is over (RFC 4787, REQ-5: not less than two minutes).
pub const IDLE_MAX: Duration = Duration::from_secs(150);

/// The local end of a UDP flow.
pub trait Packets: Send {
    /// The next packet to go through the tunnel; `None` at the end of the flow. Cancel-safe.
    fn recv(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// A packet has come out of the tunnel; false if it got no further.
    fn send(&mut self, packet: &[u8]) -> impl Future<Output = bool> + Send;

    /// How long the flow may be without packets.
    fn idle_max(&self) -> Duration {
        IDLE_MAX
    }
}

/// A socket that is connected with the target.
#[derive(Debug)]
pub struct Connected(UdpSocket);

impl Connected {
    /// The flow of this socket.
    pub fn new(socket: UdpSocket) -> Self {
        Self(socket)
    }
}

thread_local! {
    /// Where packets are received, so that a flow that is quiet holds no room for a long one.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PACKET_BYTES_MAX]);
}

impl Packets for Connected {
    async fn recv(&mut self) -> Option<Bytes> {
        loop {
            self.0.readable().await.ok()?;
            let received = BUFFER.with_borrow_mut(|buffer| {
                self.0.try_recv(buffer).map(|len| Bytes::copy_from_slice(&buffer[..len]))
            });
            match received {
                Ok(packet) => return Some(packet),
                // Nothing there after all; or nobody listens at the target: for now, says UDP.
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
                Err(_) => return None,
            }
        }
    }

    async fn send(&mut self, packet: &[u8]) -> bool {
        // What the network does not take is lost, as packets are.
        self.0.send(packet).await.is_ok()
    }
}

/// Carries a flow until either side ends it or nothing has come for long ([`Packets::idle_max`]).
pub async fn carry<P, R, W>(
    mut local: P,
    mut inbox: Inbox,
    tunnel: (R, W),
    outward: Way,
    traffic: &Traffic,
) -> io::Result<()>
where
    P: Packets,
    R: RecvHalf,
    W: SendHalf,
{
    let (recv, mut send) = tunnel;
    let mut hearing = Box::pin(hear(recv));
    loop {
        let idle_max = local.idle_max();
        tokio::select! {
            packet = local.recv() => {
                let Some(packet) = packet else { break };
                traffic.admit(outward, packet.len()).await;
                if !inbox.send(&packet) {
                    message::say_packet(&mut send, &packet).await?;
                }
                traffic.count(outward, packet.len());
            }
            Some(packet) = inbox.recv() => deliver(&mut local, &packet, outward, traffic).await,
            (recv, heard) = &mut hearing => {
                let Some(packet) = heard? else { break };
                deliver(&mut local, &packet, outward, traffic).await;
                hearing = Box::pin(hear(recv));
            }
            () = tokio::time::sleep(idle_max) => break,
        }
    }
    send.shutdown().await
}

async fn deliver<P: Packets>(local: &mut P, packet: &[u8], outward: Way, traffic: &Traffic) {
    if local.send(packet).await {
        traffic.count(outward.back(), packet.len());
    } else {
        traffic.drops.count(Cause::Socket);
    }
}

/// Half a frame must not be forgotten when something else comes first: the stream travels with its future.
async fn hear<R: RecvHalf>(mut recv: R) -> (R, io::Result<Option<Bytes>>) {
    let heard = message::hear_packet(&mut recv).await;
    (recv, heard)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{duplex, split};
    use tokio::time::Instant;

    use super::super::datagrams::{Datagrams, End};
    use super::*;

    /// A local end that is quiet, and refuses what comes.
    struct Quiet;

    impl Packets for Quiet {
        async fn recv(&mut self) -> Option<Bytes> {
            std::future::pending().await
        }
        async fn send(&mut self, _: &[u8]) -> bool {
            false
        }
        fn idle_max(&self) -> Duration {
            Duration::from_secs(10)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flow_ends_when_it_was_idle_for_as_long_as_it_may_be() {
        let (near, mut far) = duplex(1000);
        let traffic = Arc::<Traffic>::default();
        let begin = Instant::now();
        let carrying = {
            let traffic = Arc::clone(&traffic);
            let inbox = Datagrams::none(End::Client).open();
            tokio::spawn(async move { carry(Quiet, inbox, split(near), Way::Up, &traffic).await })
        };
        tokio::time::sleep(Duration::from_secs(7)).await;
        message::say_packet(&mut far, b"late").await.unwrap();
        carrying.await.unwrap().unwrap();
        assert_eq!(begin.elapsed(), Duration::from_secs(17));
        assert_eq!((traffic.drops.of(Cause::Socket), traffic.bytes()), (1, (0, 0)));
    }
}
