//! A server receives on all cores without being asked.

mod common;

use std::io::ErrorKind;

use common::{Pair, connect, echo, loopback, noise, soon};
use fulmar::{Endpoint, EndpointConfig};

const CLIENTS: u64 = 24;

/// Echoes through a server for `CLIENTS` clients with a socket each; how many sockets the server received on.
async fn sockets_used(pair: &Pair, server: &Endpoint) -> u64 {
    let mut clients = Vec::new();
    for seed in 0..CLIENTS {
        let endpoint = pair.client();
        let (client, accepted) = connect(&endpoint, server).await;
        tokio::spawn(echo(accepted));
        clients.push(tokio::spawn(async move {
            let sent = noise(seed, 100_000);
            let (mut send, mut receive) = client.open_bi().await.unwrap();
            let writing = async {
                send.write_chunk(sent.clone().into()).await.unwrap();
                send.finish().unwrap();
            };
            let ((), received) = tokio::join!(writing, receive.read_to_end(1 << 20));
            assert_eq!(received.unwrap(), sent);
            drop(endpoint);
        }));
    }
    for client in clients {
        soon(client).await.unwrap();
    }
    server.stats().receiving_sockets
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn clients_are_spread_over_as_many_sockets_as_workers() {
    let pair = Pair::new();
    let server = pair.server();
    // 24 clients miss one of three sockets with a probability of 0.02 %; two must do.
    let used = sockets_used(&pair, &server).await;
    assert!((2..=3).contains(&used), "{used}");
    // Who comes later with the same address is told that it is taken.
    let late = Endpoint::server(pair.server_config(), server.local_addr().unwrap());
    assert_eq!(late.unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn one_socket_is_enough_where_no_more_are_wanted() {
    let pair = Pair::new();
    let mut config = EndpointConfig::default();
    config.sockets_max(1);
    let socket = std::net::UdpSocket::bind(loopback()).unwrap();
    let server = Endpoint::new(&config, Some(pair.server_config()), socket).unwrap();
    assert_eq!(sockets_used(&pair, &server).await, 1);
}

/// The sockets beside the first go with it, and what comes afterwards comes to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_that_moves_keeps_working() {
    let pair = Pair::new();
    let server = pair.server();
    let old = server.local_addr().unwrap();
    server.rebind(std::net::UdpSocket::bind(loopback()).unwrap()).unwrap();
    assert_ne!(server.local_addr().unwrap(), old);
    let client = pair.client();
    let (_client, _server) = connect(&client, &server).await;
}
