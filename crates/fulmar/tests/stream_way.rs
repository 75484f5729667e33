//! Connections whose datagrams go by a byte stream, and between it and UDP.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Pair, ask, connect, echo, loopback, noise, soon, until};
use fulmar::{Carrying, Endpoint};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A server that is carried at a port of TCP as well, and how many who came are known.
async fn door(server: &Endpoint) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let (address, server) = (listener.local_addr().unwrap(), server.clone());
    let known = Arc::<AtomicU32>::default();
    let counted = known.clone();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let carrying = server.carry(stream, peer).unwrap();
            let (is_known, counted) = (carrying.known(), counted.clone());
            tokio::spawn(carrying);
            tokio::spawn(async move {
                is_known.await;
                counted.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    (address, known)
}

async fn move_to(door: SocketAddr, client: &Endpoint, server: SocketAddr) -> JoinHandle<std::io::Result<()>> {
    let stream = TcpStream::connect(door).await.unwrap();
    tokio::spawn(client.move_to_stream(stream, server).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_begins_in_a_stream_and_ends_with_it() {
    let pair = Pair::new();
    let server = pair.server();
    let (door, known) = door(&server).await;
    // Nobody is there by UDP: all goes by the stream.
    let nobody = std::net::UdpSocket::bind(loopback()).unwrap();
    let client = pair.client();
    let carried = move_to(door, &client, nobody.local_addr().unwrap()).await;
    let connecting = client.connect(nobody.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = soon(async { tokio::join!(connecting, accepting) }).await;
    let connected = connected.unwrap();
    assert!(connected.is_in_stream() && accepted.is_in_stream());
    assert!(accepted.remote_address().is_ipv4(), "people see the address that they know");
    tokio::spawn(echo(accepted.clone()));
    ask(&connected, 1).await;
    assert_eq!(known.load(Ordering::Relaxed), 1);
    assert_eq!((connected.stats().recovery.lost_packets, accepted.stats().recovery.lost_packets), (0, 0));
    connected.close(7, b"done");
    assert!(soon(accepted.closed()).await.to_string().contains("done"));
    // Whoever drops the endpoint need not look after the stream.
    drop((connected, client));
    soon(carried).await.unwrap().unwrap();
}

/// There and back while a stream is under way, which loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_moves_between_udp_and_streams() {
    let pair = Pair::new();
    let (client, server) = (pair.client(), pair.server());
    let (door, known) = door(&server).await;
    let (connected, accepted) = connect(&client, &server).await;
    let expected = noise(9, 8_000_000);
    let (data, from) = (expected.clone(), accepted.clone());
    let sending = tokio::spawn(async move {
        let mut send = from.open_uni().await.unwrap();
        for part in data.chunks(20_000) {
            send.write_all(part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        send.finish().unwrap();
        send.stopped().await
    });
    let receiving = tokio::spawn({
        let connected = connected.clone();
        async move { connected.accept_uni().await.unwrap().read_to_end(1 << 24).await.unwrap() }
    });
    tokio::spawn(echo(accepted.clone()));
    let address = server.local_addr().unwrap();
    let mut carried = Vec::new();
    for round in 0..2 {
        carried.push(move_to(door, &client, address).await);
        ask(&connected, round).await;
        until(|| connected.is_in_stream() && accepted.is_in_stream()).await;
        client.move_to_udp().unwrap();
        ask(&connected, round).await;
        until(|| !(connected.is_in_stream() || accepted.is_in_stream())).await;
        assert_eq!(accepted.remote_address(), client.local_addr().unwrap());
    }
    // From one stream to another: the first has ended.
    let first = move_to(door, &client, address).await;
    until(|| accepted.is_in_stream()).await;
    first.abort();
    let _second = move_to(door, &client, address).await;
    assert!(soon(receiving).await.unwrap() == expected, "nothing is missing");
    assert_eq!(soon(sending).await.unwrap(), Ok(None));
    assert!(accepted.stats().path.changes >= 4);
    assert_eq!(known.load(Ordering::Relaxed), 4, "each stream was one of a client that is let in");
}

#[tokio::test]
async fn a_server_is_heard_by_udp_and_nobody_else_is() {
    let server = Pair::new().server();
    assert!(soon(fulmar::is_heard_by_udp(server.local_addr().unwrap())).await);
    assert_eq!(server.open_connections(), 0);
    // An echo, a client's socket, and a port that nobody listens at.
    let echo = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let (echoing, client) = (echo.local_addr().unwrap(), Pair::new().client());
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((bytes, from)) = echo.recv_from(&mut buffer).await {
            let _ = echo.send_to(&buffer[..bytes], from).await;
        }
    });
    let closed = std::net::UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let all = [echoing, client.local_addr().unwrap(), closed].map(fulmar::is_heard_by_udp);
    let [echo, client, closed] = all;
    assert_eq!(soon(async { tokio::join!(echo, client, closed) }).await, (false, false, false));
}

async fn stranger(server: &Endpoint, says: &[u8]) -> (Carrying, TcpStream) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, peer) = listener.accept().await.unwrap();
    near.write_all(says).await.unwrap();
    (server.carry(far, peer).unwrap(), near)
}

#[tokio::test]
async fn strangers_are_never_known_and_leave_nothing_behind() {
    let server = Pair::new().server();
    let before = server.held_bytes();
    let mut frames = Vec::new();
    for seed in 0..200 {
        // The head of a packet with a short header now and then, and never one that anybody can open.
        let mut datagram = noise(seed, 1 + seed as usize * 6);
        datagram[0] = [0x40, 0xc0, datagram[0]][seed as usize % 3];
        frames.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
        frames.extend_from_slice(&datagram);
    }
    for (says, is_refused) in [(&b"GET / HTTP/1.1\r\n\r\n"[..], true), (&[0, 0], true), (&frames, false)] {
        let (carrying, near) = stranger(&server, says).await;
        let known = carrying.known();
        assert!(server.held_bytes() > before, "a stream has its price");
        let silent = tokio::time::sleep(Duration::from_millis(300));
        tokio::select! {
            ended = carrying => assert!(is_refused && ended.is_err()),
            () = known => panic!("a stranger is known"),
            () = silent => assert!(!is_refused),
        }
        drop(near);
        assert_eq!(server.held_bytes(), before);
    }
    assert_eq!((server.open_connections(), server.stats().accepted), (0, 0));
}
