//! How connections begin, move and end, over real sockets.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Pair, connect, echo, loopback, noise, soon};
use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::{
    ClientConfig, ConnectError, ConnectionError, Endpoint, EndpointConfig, ReadError, TransportConfig,
    TransportErrorCode,
};

/// RFC 8446 6.2.
const ALERT_ACCESS_DENIED: u8 = 49;
const ALERT_CERTIFICATE_UNKNOWN: u8 = 46;

#[tokio::test]
async fn an_unknown_client_is_refused() {
    let pair = Pair::new();
    let (client, server) = (pair.client(), pair.server());
    let stranger = Pair { client_identity: Identity::generate(), ..Pair::new() };
    let address = server.local_addr().unwrap();
    let connecting = client.connect_with(&stranger.client_config(), address, "localhost").unwrap();
    let at_server = soon(async { server.accept().await.unwrap().await }).await.unwrap_err();
    assert!(
        matches!(&at_server, ConnectionError::Transport(error)
        if error.code == TransportErrorCode::Tls(ALERT_ACCESS_DENIED)),
        "{at_server}"
    );
    // The client is done before the server judges it.
    let at_client = match soon(connecting).await {
        Ok(connection) => soon(connection.closed()).await,
        Err(error) => error,
    };
    assert!(
        matches!(&at_client, ConnectionError::PeerTransport(error)
        if error.code == TransportErrorCode::Tls(ALERT_ACCESS_DENIED)),
        "{at_client}"
    );
    // Others are still welcome.
    connect(&client, &server).await;
}

#[tokio::test]
async fn a_server_with_the_wrong_key_is_refused() {
    let pair = Pair::new();
    let (client, server) = (pair.client(), pair.server());
    let trust = Arc::new(TrustKeys::new([Identity::generate().public_key()]));
    let crypto = crypto::ClientConfig::raw_key(Some(&pair.client_identity), trust);
    let config = ClientConfig::new(Arc::new(crypto));
    let address = server.local_addr().unwrap();
    let error = soon(client.connect_with(&config, address, "localhost").unwrap()).await.unwrap_err();
    let fingerprint = pair.server_identity.public_key().fingerprint().to_string();
    assert!(error.to_string().contains(&fingerprint), "{error}");
    let at_server = soon(async { server.accept().await.unwrap().await }).await.unwrap_err();
    assert!(
        matches!(&at_server, ConnectionError::PeerTransport(error)
        if error.code == TransportErrorCode::Tls(ALERT_CERTIFICATE_UNKNOWN)),
        "{at_server}"
    );
}

#[tokio::test]
async fn what_cannot_be_begun() {
    let pair = Pair::new();
    let client = Endpoint::client(loopback()).unwrap();
    let somewhere = "127.0.0.1:9".parse().unwrap();
    assert_eq!(client.connect(somewhere, "localhost").unwrap_err(), ConnectError::NoClientConfig);
    client.set_client_config(pair.client_config());
    let ipv6 = "[::1]:9".parse().unwrap();
    assert_eq!(client.connect(ipv6, "localhost").unwrap_err(), ConnectError::InvalidAddress(ipv6));
    assert!(matches!(client.connect(somewhere, "not a name"), Err(ConnectError::Handshake(_))));
    client.close(0, b"");
    assert_eq!(client.connect(somewhere, "localhost").unwrap_err(), ConnectError::EndpointClosed);
    assert!(soon(client.accept()).await.is_none());
    soon(client.wait_idle()).await;
}

#[tokio::test]
async fn shutdown_delivers_everything_first() {
    let c = Pair::new().connect().await;
    let sent = noise(5, 8 << 20);
    let mut send = soon(c.client.open_uni()).await.unwrap();
    let mut receive = {
        let (written, receive) =
            soon(async { tokio::join!(send.write_all(&sent[..1000]), c.server.accept_uni()) }).await;
        written.unwrap();
        receive.unwrap()
    };
    let writing = async {
        send.write_all(&sent[1000..]).await.unwrap();
        send.finish().unwrap();
        c.client.shutdown(42, b"all said").await
    };
    // The reader is slow to begin: everything that fits the windows waits for it.
    let reading = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        receive.read_to_end(sent.len()).await
    };
    let (ended, received) = soon(async { tokio::join!(writing, reading) }).await;
    assert_eq!(ended, Ok(()));
    assert!(received.unwrap() == sent);
    let reason = ConnectionError::ApplicationClosed { code: 42, reason: Bytes::from_static(b"all said") };
    assert_eq!(soon(c.server.closed()).await, reason);
    assert_eq!(c.client.close_reason(), Some(ConnectionError::LocallyClosed));
    assert_eq!(soon(c.client.open_uni()).await.unwrap_err(), ConnectionError::LocallyClosed);
    soon(c.client_endpoint.wait_idle()).await;
}

#[tokio::test]
async fn what_came_before_the_end_can_be_read_after_it() {
    let c = Pair::new().connect().await;
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(b"last words")).await.unwrap();
    send.finish().unwrap();
    soon(c.client.shutdown(1, b"bye")).await.unwrap();
    let reason = soon(c.server.closed()).await;
    assert_eq!(reason, ConnectionError::ApplicationClosed { code: 1, reason: Bytes::from_static(b"bye") });
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    assert_eq!(soon(receive.read_to_end(100)).await.unwrap(), b"last words");
    assert_eq!(soon(c.server.accept_uni()).await.unwrap_err(), reason);
}

#[tokio::test]
async fn close_reaches_those_who_wait() {
    let c = Pair::new().connect().await;
    let (mut send, mut receive) = soon(c.client.open_bi()).await.unwrap();
    soon(send.write_all(b"x")).await.unwrap();
    let (_back, mut at_server) = soon(c.server.accept_bi()).await.unwrap();
    soon(at_server.read_exact(&mut [0])).await.unwrap();
    let closing = async {
        tokio::task::yield_now().await;
        c.server.close(3, b"enough");
    };
    let everything = async {
        tokio::join!(
            receive.read_chunk(10),
            send.stopped(),
            c.client.accept_bi(),
            c.client.read_datagram(),
            c.client.closed(),
            closing
        )
    };
    let (read, stopped, accepted, datagram, closed, ()) = soon(everything).await;
    let reason = ConnectionError::ApplicationClosed { code: 3, reason: Bytes::from_static(b"enough") };
    assert_eq!(read.unwrap_err(), ReadError::ConnectionLost(reason.clone()));
    assert_eq!(stopped.unwrap_err(), reason);
    assert_eq!(accepted.unwrap_err(), reason);
    assert_eq!(datagram.unwrap_err(), reason);
    assert_eq!(closed, reason);
    soon(c.server_endpoint.wait_idle()).await;
    soon(c.client_endpoint.wait_idle()).await;
    assert_eq!(c.server_endpoint.open_connections(), 0);
}

#[tokio::test]
async fn the_last_handle_ends_the_connection_in_order() {
    let c = Pair::new().connect().await;
    let sent = noise(9, 300_000);
    let mut send = soon(c.client.open_uni()).await.unwrap();
    drop(c.client);
    // A stream keeps its connection.
    soon(send.write_all(&sent)).await.unwrap();
    send.finish().unwrap();
    drop(send);
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    assert!(soon(receive.read_to_end(1 << 20)).await.unwrap() == sent);
    let reason = ConnectionError::ApplicationClosed { code: 0, reason: Bytes::new() };
    assert_eq!(soon(c.server.closed()).await, reason);
    soon(c.client_endpoint.wait_idle()).await;
}

#[tokio::test]
async fn silence_ends_a_connection() {
    let mut transport = TransportConfig::default();
    transport.idle_timeout(Some(Duration::from_millis(300))).expect("in range");
    let c = Pair::with(transport).connect().await;
    assert_eq!(soon(c.client.closed()).await, ConnectionError::TimedOut);
    assert_eq!(soon(c.server.closed()).await, ConnectionError::TimedOut);
}

#[tokio::test]
async fn keep_alive_keeps_it() {
    let mut transport = TransportConfig::default();
    transport.idle_timeout(Some(Duration::from_secs(3))).expect("in range");
    transport.keep_alive(Some(Duration::from_millis(100))).expect("in range");
    let c = Pair::with(transport).connect().await;
    let ended = tokio::time::timeout(Duration::from_secs(5), c.client.closed()).await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(c.server.close_reason(), None);
}

#[tokio::test]
async fn a_server_that_restarts_says_so() {
    let pair = Pair::new();
    let mut config = EndpointConfig::default();
    config.reset_key([7; 32]);
    let start = |address| {
        let socket = std::net::UdpSocket::bind(address).unwrap();
        Endpoint::new(&config, Some(pair.server_config()), socket).unwrap()
    };
    let client = pair.client();
    // The first life of the server ends with its runtime, before its handles: nobody says goodbye.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first_server = {
        let _within = runtime.enter();
        start(loopback())
    };
    let address = first_server.local_addr().unwrap();
    let accepting = {
        let server = first_server.clone();
        runtime.spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            assert_eq!(connection.read_datagram().await.unwrap(), b"x".as_slice());
            connection
        })
    };
    let connection = soon(client.connect(address, "localhost").unwrap()).await.unwrap();
    // One that works, so that the server has it for sure.
    soon(connection.send_datagram(Bytes::from_static(b"x"))).await.unwrap();
    let accepted = soon(accepting).await.unwrap();
    tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(10))).await.unwrap();
    drop((accepted, first_server));
    let server = soon(async {
        loop {
            // Until the old socket is closed.
            match std::net::UdpSocket::bind(address) {
                Ok(socket) => break Endpoint::new(&config, Some(pair.server_config()), socket).unwrap(),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await;
    connection.ping();
    assert_eq!(soon(connection.closed()).await, ConnectionError::Reset);
    let (_client, _server) = connect(&client, &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_survives_that_the_client_moves() {
    let c = Pair::new().connect().await;
    let sent = noise(11, 12 << 20);
    let expected = sent.clone();
    let (client, endpoint) = (c.client.clone(), c.client_endpoint.clone());
    let sending = tokio::spawn(async move {
        let mut send = client.open_uni().await.unwrap();
        let mut ports = vec![endpoint.local_addr().unwrap().port()];
        for part in sent.chunks(4 << 20) {
            send.write_all(part).await.unwrap();
            endpoint.rebind(std::net::UdpSocket::bind(loopback()).unwrap()).unwrap();
            ports.push(endpoint.local_addr().unwrap().port());
        }
        send.finish().unwrap();
        assert_eq!(send.stopped().await, Ok(None));
        ports
    });
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    assert!(soon(receive.read_to_end(16 << 20)).await.unwrap() == expected);
    let ports = soon(sending).await.unwrap();
    // The server asks an address before it follows: that may end after the transfer.
    soon(async {
        while c.server.remote_address().port() != *ports.last().unwrap() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(c.server.stats().path.changes > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections() {
    let pair = Pair::new();
    let (client, server) = (pair.client(), pair.server());
    let address = server.local_addr().unwrap();
    let serving = {
        let server = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        echo(connection).await;
                    }
                });
            }
        })
    };
    let tasks: Vec<_> = (0..100u64)
        .map(|index| {
            let client = client.clone();
            tokio::spawn(async move {
                let connection = client.connect(address, "localhost").unwrap().await.unwrap();
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                let sent = noise(index, 5000);
                send.write_all(&sent).await.unwrap();
                send.finish().unwrap();
                assert!(receive.read_to_end(10_000).await.unwrap() == sent);
                connection.shutdown(0, b"").await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(server.stats().accepted, 100);
    assert_eq!(client.stats().connected, 100);
    soon(client.wait_idle()).await;
    soon(server.wait_idle()).await;
    server.close(0, b"");
    soon(serving).await.unwrap();
}

#[tokio::test]
async fn clients_nobody_accepts_are_turned_away() {
    let pair = Pair::new();
    let mut config = EndpointConfig::default();
    config.incoming_max(1);
    let server =
        Endpoint::new(&config, Some(pair.server_config()), std::net::UdpSocket::bind(loopback()).unwrap())
            .unwrap();
    let address = server.local_addr().unwrap();
    let client = pair.client();
    let first = soon(client.connect(address, "localhost").unwrap()).await.unwrap();
    let second = soon(client.connect(address, "localhost").unwrap()).await;
    assert_eq!(server.stats().turned_away, 1);
    assert!(second.is_err(), "{second:?}");
    let accepted = soon(async { server.accept().await.unwrap().await }).await.unwrap();
    assert_eq!(accepted.remote_address(), client.local_addr().unwrap());
    // One that the application refuses, by when the client may think that it is connected.
    let third = client.connect(address, "localhost").unwrap();
    let refusing = async { server.accept().await.unwrap().refuse(5, b"no") };
    let (third, ()) = soon(async { tokio::join!(third, refusing) }).await;
    if let Ok(connection) = third {
        soon(connection.closed()).await;
    }
    assert_eq!(first.close_reason(), None);
}

#[tokio::test]
async fn ipv4_through_a_dual_stack_socket() {
    let pair = Pair::new();
    let Ok(server) = Endpoint::server(pair.server_config(), "[::]:0".parse().unwrap()) else {
        return; // A machine without IPv6.
    };
    let client = pair.client();
    let address = ([127, 0, 0, 1], server.local_addr().unwrap().port()).into();
    let connecting = client.connect(address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = soon(async { tokio::join!(connecting, accepting) }).await;
    let connection = connected.unwrap();
    assert_eq!(accepted.remote_address(), client.local_addr().unwrap());
    tokio::spawn(echo(accepted));
    let (mut send, mut receive) = soon(connection.open_bi()).await.unwrap();
    soon(send.write_all(b"hello")).await.unwrap();
    send.finish().unwrap();
    assert_eq!(soon(receive.read_to_end(10)).await.unwrap(), b"hello");
}
