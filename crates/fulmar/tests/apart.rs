//! Strangers, mistakes and closed ports, over real sockets: what goes wrong with one connection is nobody
//! else's affair.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Pair, connect, loopback, soon, until};
use fulmar::crypto::{self, Identity};
use fulmar::{
    Connection, ConnectionError, Endpoint, EndpointConfig, ReadError, ReadExactError, RecvStream, SendStream,
    TransportErrorCode,
};

/// Lets everybody in but those at whose sight it panics.
#[derive(Debug)]
struct Touchy(crypto::PublicKey);

impl crypto::VerifyPeer for Touchy {
    fn verify(&self, key: &crypto::PublicKey, _name: &str) -> Result<(), crypto::Refusal> {
        assert!(*key != self.0, "not them again");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_the_connection_it_happened_in_and_nothing_else() {
    let pair = Pair::new();
    let stranger = Pair { client_identity: Identity::generate(), ..Pair::new() };
    let touchy = Arc::new(Touchy(stranger.client_identity.public_key()));
    let crypto = crypto::ServerConfig::raw_key(&pair.server_identity, Some(touchy));
    let server = Endpoint::server(fulmar::ServerConfig::new(Arc::new(crypto)), loopback()).unwrap();
    let client = pair.client();
    let (before, before_at_server) = connect(&client, &server).await;

    let strangers = stranger.client();
    let _connecting = strangers.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let error = soon(async { server.accept().await.unwrap().await }).await.unwrap_err();
    assert!(
        matches!(&error, ConnectionError::Transport(error) if error.code == TransportErrorCode::Internal),
        "{error}"
    );
    // Gone from the endpoint as well, while the stranger goes on knocking.
    drop(strangers);
    let (after, after_at_server) = connect(&client, &server).await;
    for (here, there) in [(before, before_at_server), (after, after_at_server)] {
        soon(here.send_datagram(Bytes::from_static(b"still here"))).await.unwrap();
        assert_eq!(soon(there.read_datagram()).await.unwrap(), b"still here".as_slice());
    }
}

/// Somebody who takes his time to decide whom he trusts.
#[derive(Debug)]
struct Ponderous {
    slow: crypto::PublicKey,
    is_at_it: std::sync::mpsc::Sender<()>,
    may_go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl crypto::VerifyPeer for Ponderous {
    fn verify(&self, key: &crypto::PublicKey, _name: &str) -> Result<(), crypto::Refusal> {
        if *key == self.slow {
            self.is_at_it.send(()).unwrap();
            self.may_go_on.lock().unwrap().recv_timeout(Duration::from_secs(100)).unwrap();
        }
        Ok(())
    }
}

/// A handshake that stands still stood in everybody's way: packets were received under it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handshake_that_takes_long_holds_up_nobody() {
    let pair = Pair::new();
    let stranger = Pair { client_identity: Identity::generate(), ..Pair::new() };
    let (is_at_it, at_it) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel();
    let slow = stranger.client_identity.public_key();
    let policy = Arc::new(Ponderous { slow, is_at_it, may_go_on: may_go_on.into() });
    let crypto = crypto::ServerConfig::raw_key(&pair.server_identity, Some(policy));
    let server = Endpoint::server(fulmar::ServerConfig::new(Arc::new(crypto)), loopback()).unwrap();
    let address = server.local_addr().unwrap();
    let strangers = stranger.client();
    let _slow_client = soon(strangers.connect(address, "localhost").unwrap()).await.unwrap();
    let slow_connection = soon(server.accept()).await.unwrap();
    tokio::task::spawn_blocking(move || at_it.recv_timeout(Duration::from_secs(100)).unwrap()).await.unwrap();

    // Old and new connections work meanwhile.
    let client = pair.client();
    let (here, there) = connect(&client, &server).await;
    soon(here.send_datagram(Bytes::from_static(b"meanwhile"))).await.unwrap();
    assert_eq!(soon(there.read_datagram()).await.unwrap(), b"meanwhile".as_slice());
    go_on.send(()).unwrap();
    soon(slow_connection).await.unwrap();
}

/// Linux tells with ICMP; the handshake would go on for a minute.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_port_is_noticed() {
    let pair = Pair::new();
    for (local, host) in [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let Ok(nobody) = std::net::UdpSocket::bind((host, 0)) else { continue };
        let Ok(client) = Endpoint::client(local.parse().unwrap()) else { continue };
        client.set_client_config(pair.client_config());
        let address = nobody.local_addr().unwrap();
        drop(nobody);
        let connecting = client.connect(address, "localhost").unwrap();
        let error = tokio::time::timeout(Duration::from_secs(20), connecting).await.unwrap().unwrap_err();
        assert!(
            matches!(&error, ConnectionError::Transport(error)
            if error.code == TransportErrorCode::ConnectionRefused),
            "{local} {host}: {error}"
        );
        // Others are reached through the same socket.
        let server = pair.server();
        connect(&client, &server).await;
    }
}

/// Each holds what flow control allows, and together they are more than there is: those who hold most end, by
/// name, and those who hold little notice nothing.
#[tokio::test(flavor = "multi_thread")]
async fn memory_has_a_bound_over_all_connections() {
    const MEMORY_BYTES: usize = 4 << 20;
    const GREEDY: usize = 20;
    let pair = Pair::new();
    let mut config = EndpointConfig::default();
    config.memory_bytes(MEMORY_BYTES);
    let server = pair.server_with(&config);
    let client = pair.client();
    let (modest, modest_at_server) = connect(&client, &server).await;
    let mut held_at_server = Vec::new();
    let mut greedy = Vec::new();
    for _ in 0..GREEDY {
        // Refused while nothing is left; that is the point.
        let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let Ok(connection) = soon(connecting).await else { continue };
        // Not read by anybody.
        held_at_server.push(soon(async { server.accept().await.unwrap().await }).await);
        let Ok(mut stream) = connection.open_uni().await else { continue };
        let _ = tokio::time::timeout(Duration::from_millis(200), stream.write_all(&vec![0; 1 << 20])).await;
        greedy.push((connection, stream));
    }
    let ended = greedy.iter().filter_map(|(connection, _)| connection.close_reason()).collect::<Vec<_>>();
    assert!(!ended.is_empty(), "{} bytes are held", server.held_bytes());
    for reason in &ended {
        assert!(
            matches!(reason, ConnectionError::PeerTransport(error)
            if error.code == TransportErrorCode::Internal && error.reason.contains("hold more than")),
            "{reason}"
        );
    }
    // What comes within the 10 ms between two looks may be beyond it.
    assert!(server.held_bytes() <= MEMORY_BYTES + (2 << 20), "{}", server.held_bytes());
    soon(modest.send_datagram(Bytes::from_static(b"still here"))).await.unwrap();
    assert_eq!(soon(modest_at_server.read_datagram()).await.unwrap(), b"still here".as_slice());
    drop((greedy, held_at_server, modest, modest_at_server));
    client.close(0, b"");
    soon(server.wait_idle()).await;
    until(|| server.held_bytes() == 0).await;
}

/// What an upload leaves with whoever does not read it.
const UNREAD: usize = 1 << 20;

/// A client's stream of which [`UNREAD`] bytes have arrived, and the server's end of it.
async fn upload(here: &Connection, there: &Connection) -> [(SendStream, RecvStream); 2] {
    let mut at_client = soon(here.open_bi()).await.unwrap();
    soon(at_client.0.write_all(&vec![7; UNREAD])).await.unwrap();
    let at_server = soon(there.accept_bi()).await.unwrap();
    until(|| there.stats().streams.received_bytes == UNREAD as u64).await;
    [at_client, at_server]
}

/// A server whose requests wait for something may hold their streams long after the client has gone. What it
/// was about to send went uncounted and stayed; what has arrived can be read, and counts.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_an_ended_connection_is_what_can_be_read_of_it() {
    let pair = Pair::new();
    let (server, client) = (pair.server(), pair.client());
    let (here, there) = connect(&client, &server).await;
    let [_at_client, (mut download, mut unread)] = upload(&here, &there).await;
    // More than the client takes unread.
    let stuck = vec![0; 64 << 20];
    let writing = download.write_all(&stuck);
    assert!(tokio::time::timeout(Duration::from_millis(500), writing).await.is_err());
    here.close(1, b"gone");
    soon(server.wait_idle()).await;
    let held = server.held_bytes();
    // With the stream itself, and what else is counted of the end.
    assert!((UNREAD..UNREAD + 3000).contains(&held), "{held} bytes are left");
    let mut read = vec![0; UNREAD];
    soon(unread.read_exact(&mut read)).await.unwrap();
    assert!(read.iter().all(|&byte| byte == 7));
    assert!(download.finish().is_err() && download.write(b"x").await.is_err());
    drop((download, unread, there));
    until(|| server.held_bytes() == 0).await;
}

/// The same where memory is short, which means that less than half is left. Each connection holds its symbols
/// for the decoder as well as what is unread: those that stay hold more than half.
#[tokio::test(flavor = "multi_thread")]
async fn where_memory_is_short_nothing_is_left_of_an_ended_connection() {
    let pair = Pair::new();
    let mut config = EndpointConfig::default();
    config.memory_bytes(13 * UNREAD);
    let (server, client) = (pair.server_with(&config), pair.client());
    let mut open = Vec::new();
    for _ in 0..6 {
        let (here, there) = connect(&client, &server).await;
        let streams = upload(&here, &there).await;
        open.push((here, there, streams));
    }
    let (here, there, [_at_client, (mut download, mut unread)]) = open.pop().unwrap();
    here.close(1, b"gone");
    until(|| server.open_connections() == open.len()).await;
    let held = server.held_bytes();
    assert!(held > 13 * UNREAD / 2, "{held} bytes are left: memory is not short");
    let lost = soon(unread.read_exact(&mut [0])).await;
    assert!(matches!(lost, Err(ReadExactError::Read(ReadError::ConnectionLost(_)))), "{lost:?}");
    assert!(download.finish().is_err() && download.write(b"x").await.is_err());
    drop((download, unread, there, open));
    until(|| server.held_bytes() == 0).await;
}

/// First packets of handshakes, complete and all different, from people who say no more.
async fn first_packets(pair: &Pair, count: usize) -> Vec<Vec<u8>> {
    let ear = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let address = ear.local_addr().unwrap();
    let mut packets = std::collections::BTreeMap::new();
    while packets.len() < count {
        let caller = pair.client();
        let _calls: Vec<_> = (0..50).map(|_| caller.connect(address, "localhost").unwrap()).collect();
        let mut buffer = vec![0; 2000];
        // Among them are second copies, and farewells.
        while let Ok(Ok(length)) =
            tokio::time::timeout(Duration::from_millis(20), ear.recv(&mut buffer)).await
        {
            if length >= 1200 {
                packets.insert(buffer[5..14].to_vec(), buffer[..length].to_vec());
            }
        }
    }
    packets.into_values().take(count).collect()
}

/// At default settings: the counter that makes a server ask for proof fell back when a hello had been read,
/// so it never did.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_first_packets_has_to_prove_its_address() {
    let pair = Pair::new();
    let packets = first_packets(&pair, 3000).await;
    let server = pair.server();
    let flood = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    for packet in &packets {
        soon(flood.send_to(packet, server.local_addr().unwrap())).await.unwrap();
    }
    let is_over = async {
        while server.stats().received_datagrams < packets.len() as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(is_over).await;
    assert!(server.stats().answered_datagrams >= 1000, "{:?}", server.stats());
    assert!(server.open_connections() <= 1100, "{}", server.open_connections());
    let client = pair.client();
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let honest = soon(connecting).await.unwrap();
    soon(honest.open_uni()).await.unwrap();
}
