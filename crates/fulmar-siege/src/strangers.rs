//! Who takes a server's memory without ever being a client: handshakes that go no further than an answer to
//! the Retry, and greetings of a key that is let in, on as many streams as it is given.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity};
use fulmar::{ClientConfig, Endpoint};
use tokio::net::UdpSocket;

use crate::enemies::Anybody;
use crate::field::Field;

/// Handshakes of one wave, and between two of them.
const WAVE: usize = 10;
const PAUSE: Duration = Duration::from_millis(150);

/// Handshakes that are told apart at a time; who is forgotten may repeat himself.
const KNOWN_MAX: usize = 10_000;

/// RFC 9000 8.1, and docs/internals/wire.md 5.2.5 also for who has proved his address.
const AMPLIFICATION_MAX: u64 = 3;

/// Streams on which a connection greets.
const GREETINGS: usize = 3000;

/// Where the ids of both ends are in a first packet.
const IDS: std::ops::Range<usize> = 5..23;

/// Handshakes under way that stand still, all the time: from `from`, whose network no honest client is in.
pub(crate) async fn half_open(field: Arc<Field>, server: SocketAddr, alpn: &'static [u8], from: [u8; 4]) {
    while !field.is_over() {
        if let Err(error) = wave_after_wave(&field, server, alpn, from).await {
            field.verdict.count(format!("half handshakes interrupted: {}", error.kind()));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn wave_after_wave(
    field: &Arc<Field>,
    server: SocketAddr,
    alpn: &'static [u8],
    from: [u8; 4],
) -> io::Result<()> {
    let near = UdpSocket::bind("127.0.0.1:0").await?;
    let address = near.local_addr()?;
    let far = UdpSocket::bind((std::net::Ipv4Addr::from(from), 0)).await?;
    let muffling = tokio::spawn(muffle(Arc::clone(field), near, far, server));
    let calling = Endpoint::client("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
    let crypto = crypto::ClientConfig::raw_key(Some(&Identity::generate()), Arc::new(Anybody));
    let config = ClientConfig::new(Arc::new(crypto.with_alpn(&[alpn])));
    while !field.is_over() && !muffling.is_finished() {
        let calls: Result<Vec<_>, _> = (0..WAVE)
            .map(|_| calling.connect_with(&config, address, "x").map_err(io::Error::other))
            .collect();
        tokio::time::sleep(PAUSE).await;
        drop(calls?);
    }
    muffling.abort();
    Ok(())
}

/// Lets first packets through, each once, and back only what asks for a proof of the address. To the server
/// those are handshakes that go no further; what it sends meanwhile is counted.
async fn muffle(field: Arc<Field>, near: UdpSocket, far: UdpSocket, server: SocketAddr) -> io::Result<()> {
    let (mut seen, mut caller) = (HashSet::new(), None);
    let (mut first, mut back) = ([0; 2048], [0; 2048]);
    let (mut sent_bytes, mut back_bytes) = (0, 0);
    loop {
        tokio::select! {
            datagram = near.recv_from(&mut first) => {
                let (len, from) = datagram?;
                caller = Some(from);
                if seen.len() >= KNOWN_MAX {
                    seen.clear();
                }
                if len >= 1200 && seen.insert(first[IDS].to_vec()) {
                    far.send_to(&first[..len], server).await?;
                    sent_bytes += len as u64;
                    field.verdict.count("first packets of handshakes that went no further");
                }
            }
            // A server that was killed says so on this socket: what is sent to it is lost, and no more.
            datagram = far.recv_from(&mut back) => {
                let Ok((len, _)) = datagram else { continue };
                back_bytes += len as u64;
                if back_bytes > sent_bytes * AMPLIFICATION_MAX {
                    field.verdict.complain(format!("{back_bytes} bytes came back for {sent_bytes} of half handshakes"));
                    return Ok(());
                }
                if let Some(caller) = caller.filter(|_| back[0] >> 4 == 0xf) {
                    field.verdict.count("proofs of an address asked for");
                    let _ = near.send_to(&back[..len], caller).await;
                }
            }
        }
    }
}

/// Connections of somebody with a key that greet on each stream, and say no more.
pub(crate) async fn greet(field: Arc<Field>, identity: Identity, server: SocketAddr) {
    while !field.is_over() {
        let greeted = tokio::time::timeout(Duration::from_secs(20), greet_once(&identity, server)).await;
        match greeted {
            Ok(Ok(streams)) => field.verdict.count(match streams {
                0 => "greetings that nobody took",
                _ => "connections that greeted again and again",
            }),
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// On how many streams.
async fn greet_once(identity: &Identity, server: SocketAddr) -> io::Result<usize> {
    let crypto = crypto::ClientConfig::raw_key(Some(identity), Arc::new(Anybody));
    let config = ClientConfig::new(Arc::new(crypto.with_alpn(&[b"fulmar-tunnel/1"])));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
    let connecting = endpoint.connect_with(&config, server, "x").map_err(io::Error::other)?;
    let connection = connecting.await.map_err(io::Error::other)?;
    let hello = serde_json::json!({ "hello": { "version": 1 } }).to_string();
    let mut held = Vec::new();
    for _ in 0..GREETINGS {
        let opening = tokio::time::timeout(Duration::from_millis(200), connection.open_bi());
        let Ok(Ok((mut send, recv))) = opening.await else { break };
        let greeting = [&[1][..], &(hello.len() as u32).to_be_bytes(), hello.as_bytes()].concat();
        let _ = tokio::time::timeout(Duration::from_millis(200), send.write_all(&greeting)).await;
        held.push((send, recv));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(held.len())
}
