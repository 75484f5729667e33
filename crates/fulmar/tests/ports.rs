//! A server at several ports, and clients that go from one to another on the same connection.

mod common;

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use common::{Pair, ask, echo, soon, until};
use fulmar::{Endpoint, EndpointConfig, TransportConfig};

const PORTS: usize = 5;

/// A server with sockets at ports that the system draws, which it tells its clients.
fn server(at: &str) -> (Pair, Endpoint, BTreeSet<u16>) {
    let sockets: Vec<_> = (0..PORTS).map(|_| UdpSocket::bind(at).unwrap()).collect();
    let ports: BTreeSet<u16> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
    let mut transport = TransportConfig::default();
    transport.ports(ports.iter().map(|port| *port..=*port).collect()).unwrap();
    let pair = Pair::with(transport);
    let mut sockets = sockets.into_iter();
    let first = sockets.next().unwrap();
    let server = Endpoint::new(&EndpointConfig::default(), Some(pair.server_config()), first).unwrap();
    sockets.for_each(|socket| server.open_port(socket).unwrap());
    (pair, server, ports)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_goes_from_port_to_port() {
    for (at, here) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1")] {
        let (pair, server, ports) = server(at);
        // Any of them is a door.
        for first in &ports {
            let to = SocketAddr::new(here.parse().unwrap(), *first);
            let client = Endpoint::client(SocketAddr::new(here.parse().unwrap(), 0)).unwrap();
            client.set_client_config(pair.client_config());
            let connecting = client.connect(to, "localhost").unwrap();
            let accepting = async { server.accept().await.unwrap().await.unwrap() };
            let (connected, accepted) = soon(async { tokio::join!(connecting, accepting) }).await;
            let connected = connected.unwrap();
            tokio::spawn(echo(accepted.clone()));
            assert_eq!(accepted.remote_address(), client.local_addr().unwrap(), "as people know it");
            let mut before = (to, client.local_addr().unwrap());
            for round in 0..4 {
                client.change_port().unwrap();
                let now = (connected.remote_address(), client.local_addr().unwrap());
                assert!(now.0.port() != before.0.port() && now.1 != before.1);
                assert!(ports.contains(&now.0.port()));
                ask(&connected, round).await;
                until(|| accepted.remote_address() == now.1).await;
                before = now;
            }
            // What was measured holds: it is the same path.
            let stats = accepted.stats();
            assert!(stats.path.changes >= 4 && !(connected.is_in_stream() || accepted.is_in_stream()));
            connected.close(0, b"");
        }
    }
}

#[tokio::test]
async fn a_server_with_one_port_is_spoken_to_there() {
    let pair = Pair::new();
    let (client, server) = (pair.client(), pair.server());
    let (connected, accepted) = common::connect(&client, &server).await;
    tokio::spawn(echo(accepted));
    client.change_port().unwrap();
    ask(&connected, 1).await;
    assert_eq!(connected.remote_address(), server.local_addr().unwrap());
}
