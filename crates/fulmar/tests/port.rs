//! A NAT that lets a port's packets through for a while and then never again, over real sockets.

mod common;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Pair, loopback, noise, soon};
use fulmar::{Endpoint, EndpointConfig};
use tokio::net::UdpSocket;
use tokio::time::Instant;

/// So long a port works.
const LIFE: Duration = Duration::from_millis(1500);

/// Two relays: this one takes what clients send, and each port of theirs has one of its own that brings the
/// answers. Both stop for good when the port is closed. Returns where it listens, and counts ports.
async fn nat(server: SocketAddr) -> (SocketAddr, Arc<AtomicU32>) {
    let outside = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
    let (address, ports) = (outside.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
    let count = ports.clone();
    tokio::spawn(async move {
        let mut known: HashMap<SocketAddr, (Arc<UdpSocket>, Instant)> = HashMap::new();
        let mut datagram = vec![0; 1 << 16];
        while let Ok((bytes, from)) = outside.recv_from(&mut datagram).await {
            let (inside, closes_at) = match known.entry(from) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let inside = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
                    let closes_at = Instant::now() + LIFE;
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(bring_back(inside.clone(), outside.clone(), from, closes_at));
                    new.insert((inside, closes_at))
                }
            };
            if Instant::now() < *closes_at {
                let _ = inside.send_to(&datagram[..bytes], server).await;
            }
        }
    });
    (address, ports)
}

async fn bring_back(inside: Arc<UdpSocket>, outside: Arc<UdpSocket>, client: SocketAddr, closes_at: Instant) {
    let mut datagram = vec![0; 1 << 16];
    while let Ok((bytes, _)) = inside.recv_from(&mut datagram).await {
        if Instant::now() < closes_at {
            let _ = outside.send_to(&datagram[..bytes], client).await;
        }
    }
}

/// Sixty parts, one each tenth of a second, so that several ports are needed.
const PARTS: usize = 60;
const PART_BYTES: usize = 2000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_outlives_its_port_both_ways() {
    let pair = Pair::new();
    let server = pair.server();
    let (address, ports) = nat(server.local_addr().unwrap()).await;
    let client = Endpoint::client(loopback()).unwrap();
    client.set_client_config(pair.client_config());
    let connecting = client.connect(address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = soon(async { tokio::join!(connecting, accepting) }).await;
    let connected = connected.unwrap();
    let expected = noise(5, PARTS * PART_BYTES);
    for (from, to) in [(&connected, &accepted), (&accepted, &connected)] {
        let before = ports.load(Ordering::Relaxed);
        let (from, data) = (from.clone(), expected.clone());
        let sending = tokio::spawn(async move {
            let mut send = from.open_uni().await.unwrap();
            for part in data.chunks(PART_BYTES) {
                send.write_all(part).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            send.finish().unwrap();
            send.stopped().await
        });
        let mut receive = soon(to.accept_uni()).await.unwrap();
        assert!(soon(receive.read_to_end(1 << 20)).await.unwrap() == expected);
        assert_eq!(soon(sending).await.unwrap(), Ok(None));
        assert!(ports.load(Ordering::Relaxed) > before, "another port was taken");
    }
    assert!(accepted.stats().path.changes > 0);
}

#[tokio::test]
async fn a_port_that_the_program_has_chosen_is_kept() {
    let pair = Pair::new();
    let server = pair.server();
    let (address, ports) = nat(server.local_addr().unwrap()).await;
    let client = pair.client_with(&EndpointConfig::default());
    let port = client.local_addr().unwrap();
    let connecting = client.connect(address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, _accepted) = soon(async { tokio::join!(connecting, accepting) }).await;
    let mut send = connected.unwrap().open_uni().await.unwrap();
    for _ in 0..40 {
        send.write_all(&[1; 100]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!((client.local_addr().unwrap(), ports.load(Ordering::Relaxed)), (port, 1));
}
