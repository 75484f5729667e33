//! Streams and datagrams over real sockets.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Pair, connect, echo, noise, soon};
use fulmar::{
    ClientConfig, ConnectionError, DatagramClass, DatagramOptions, EndpointConfig, FinishError, Profile,
    ReadError, ReadToEndError, SendDatagramError, ServerConfig, TransportConfig, WriteError, crypto,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn an_echo_comes_back() {
    let c = Pair::new().connect().await;
    tokio::spawn(echo(c.server));
    let (mut send, mut receive) = soon(c.client.open_bi()).await.unwrap();
    soon(send.write_all(b"hello")).await.unwrap();
    send.finish().unwrap();
    assert_eq!(soon(receive.read_to_end(100)).await.unwrap(), b"hello");
    // The end stays the end, and a finished stream finished.
    assert_eq!(soon(receive.read(&mut [0; 8])).await, Ok(None));
    assert_eq!(soon(send.write(b"more")).await, Err(WriteError::ClosedStream));
    assert_eq!(send.finish(), Err(FinishError::ClosedStream));
    assert_eq!(soon(send.stopped()).await, Ok(None));
    assert!(!c.client.rtt().is_zero());
}

#[tokio::test]
async fn both_ends_know_each_other() {
    use fulmar::crypto::PeerIdentity::RawKey;
    let pair = Pair::new();
    let c = pair.connect().await;
    assert_eq!(c.client.peer_identity(), Some(RawKey(pair.server_identity.public_key())));
    assert_eq!(c.server.peer_identity(), Some(RawKey(pair.client_identity.public_key())));
    assert_eq!(c.client.remote_address(), c.server_endpoint.local_addr().unwrap());
    assert_eq!(c.server.remote_address(), c.client_endpoint.local_addr().unwrap());
    assert_ne!(c.client.side(), c.server.side());
    assert_ne!(c.client.stable_id(), c.server.stable_id());
    let mut secrets = [[0; 32]; 2];
    c.client.export_keying_material(&mut secrets[0], b"label", b"context").unwrap();
    c.server.export_keying_material(&mut secrets[1], b"label", b"context").unwrap();
    assert_eq!(secrets[0], secrets[1]);
    assert_ne!(secrets[0], [0; 32]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_at_once() {
    let c = Pair::new().connect().await;
    tokio::spawn(echo(c.server));
    let tasks: Vec<_> = (0..1000)
        .map(|index| {
            let connection = c.client.clone();
            tokio::spawn(async move {
                let sent = noise(index, 1000 + index as usize);
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                send.write_all(&sent).await.unwrap();
                send.finish().unwrap();
                assert_eq!(receive.read_to_end(10_000).await.unwrap(), sent);
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(c.client.stats().streams.streams_opened, 1000);
}

#[tokio::test]
async fn more_streams_than_the_peer_allows_wait_for_their_turn() {
    let mut transport = TransportConfig::default();
    transport.streams_uni(3).expect("in range");
    let c = Pair::with(transport).connect().await;
    let sending = async {
        for index in 0..20u8 {
            let mut send = c.client.open_uni().await.unwrap();
            send.write_all(&[index]).await.unwrap();
            send.finish().unwrap();
        }
    };
    let receiving = async {
        let mut seen = Vec::new();
        while seen.len() < 20 {
            seen.extend(c.server.accept_uni().await.unwrap().read_to_end(1).await.unwrap());
        }
        seen
    };
    let ((), seen) = soon(async { tokio::join!(sending, receiving) }).await;
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
}

async fn transfer(pair: Pair, config: EndpointConfig, len: usize) {
    let (client_endpoint, server_endpoint) = (pair.client_with(&config), pair.server());
    let (client, server) = connect(&client_endpoint, &server_endpoint).await;
    let sent = noise(7, len);
    let expected = sent.clone();
    let sending = tokio::spawn(async move {
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&sent).await.unwrap();
        send.finish().unwrap();
        assert_eq!(send.stopped().await, Ok(None));
        client
    });
    let mut receive = soon(server.accept_uni()).await.unwrap();
    let received = soon(receive.read_to_end(len)).await.unwrap();
    assert!(received == expected, "bytes differ");
    let client = soon(sending).await.unwrap();
    assert_eq!(client.stats().streams.sent_bytes, len as u64);
    assert_eq!(server.stats().streams.read_bytes, len as u64);
}

#[tokio::test]
async fn a_large_transfer_on_one_thread() {
    transfer(Pair::new(), EndpointConfig::default(), 30 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_transfer_on_two_threads() {
    transfer(Pair::new(), EndpointConfig::default(), 30 << 20).await;
}

#[tokio::test]
async fn without_segmentation_offload() {
    let mut config = EndpointConfig::default();
    config.segmentation_offload(false).socket_buffer_bytes(256 << 10);
    transfer(Pair::new(), config, 4 << 20).await;
}

#[tokio::test]
async fn with_every_profile() {
    for name in fulmar::profile_names() {
        let mut transport = TransportConfig::default();
        transport.profile(Profile::parse(name).unwrap());
        transfer(Pair::with(transport), EndpointConfig::default(), 1 << 20).await;
    }
}

#[tokio::test]
async fn streams_are_async_read_and_write() {
    let c = Pair::new().connect().await;
    tokio::spawn(echo(c.server));
    let (mut send, mut receive) = soon(c.client.open_bi()).await.unwrap();
    let sent = noise(3, 300_000);
    let writing = async {
        AsyncWriteExt::write_all(&mut send, &sent).await.unwrap();
        send.flush().await.unwrap();
        send.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    soon(async { tokio::join!(writing, AsyncReadExt::read_to_end(&mut receive, &mut received)) })
        .await
        .1
        .unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn chunks_and_exact_reads() {
    let c = Pair::new().connect().await;
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(b"0123456789")).await.unwrap();
    send.finish().unwrap();
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    let mut three = [0; 3];
    soon(receive.read_exact(&mut three)).await.unwrap();
    assert_eq!(&three, b"012");
    assert_eq!(soon(receive.read_chunk(4)).await.unwrap().unwrap(), b"3456".as_slice());
    let error = soon(receive.read_exact(&mut [0; 9])).await.unwrap_err();
    assert_eq!(error, fulmar::ReadExactError::FinishedEarly(3));
}

#[tokio::test]
async fn reset_stop_and_limits() {
    let c = Pair::new().connect().await;
    // A reset reaches the reader.
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(b"x")).await.unwrap();
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    send.reset(7).unwrap();
    let error = loop {
        match soon(receive.read(&mut [0; 8])).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error, ReadError::Reset(7));

    // A stop reaches the writer.
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(b"x")).await.unwrap();
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    receive.stop(9).unwrap();
    assert!(receive.stop(9).is_err());
    assert_eq!(soon(send.stopped()).await, Ok(Some(9)));
    assert_eq!(soon(send.write(b"y")).await, Err(WriteError::Stopped(9)));

    // A reader has its limits.
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(&[0; 100])).await.unwrap();
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    let error = soon(receive.read_to_end(99)).await.unwrap_err();
    assert_eq!(error, ReadToEndError::TooLong { limit_bytes: 99 });
}

/// A part never looks like the whole: neither where the sender drops the stream, nor where a write of it is
/// cancelled.
#[tokio::test]
async fn streams_dropped_before_their_end_are_reset() {
    let c = Pair::new().connect().await;
    let (mut send, receive) = soon(c.client.open_bi()).await.unwrap();
    soon(send.write_all(b"a part of it")).await.unwrap();
    drop((send, receive));
    let (mut back, mut receive) = soon(c.server.accept_bi()).await.unwrap();
    let error = soon(receive.read_to_end(100)).await.unwrap_err();
    assert_eq!(error, ReadToEndError::Read(ReadError::Reset(0)));
    assert_eq!(soon(back.stopped()).await, Ok(Some(0)));

    let mut send = soon(c.client.open_uni()).await.unwrap();
    let upload = async {
        let endless = vec![0; 1 << 20];
        loop {
            send.write_all(&endless).await.unwrap();
        }
    };
    // Nobody reads: it stands still, and is given up.
    assert!(tokio::time::timeout(Duration::from_millis(50), upload).await.is_err());
    drop(send);
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    let error = soon(receive.read_to_end(usize::MAX)).await.unwrap_err();
    assert_eq!(error, ReadToEndError::Read(ReadError::Reset(0)));

    // Finished ones are delivered.
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(b"all of it")).await.unwrap();
    send.finish().unwrap();
    drop(send);
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    assert_eq!(soon(receive.read_to_end(100)).await.unwrap(), b"all of it");
}

/// The way of quinn, where it is asked for.
#[tokio::test]
async fn dropped_streams_end_where_the_connection_says_so() {
    let c = Pair::new().connect().await;
    c.client.finish_dropped_streams(true);
    let mut send = soon(c.client.open_uni()).await.unwrap();
    soon(send.write_all(b"all of it")).await.unwrap();
    drop(send);
    let mut receive = soon(c.server.accept_uni()).await.unwrap();
    assert_eq!(soon(receive.read_to_end(100)).await.unwrap(), b"all of it");
}

#[tokio::test]
async fn both_ends_know_the_protocol_that_was_agreed_on() {
    let pair = Pair::new();
    let server = pair.server();
    let names: [&[u8]; 2] = [b"test/2", b"test/1"];
    let with = |config: &crypto::ServerConfig| Arc::new(config.clone().with_alpn(&names));
    let config = pair.server_config();
    server.set_server_config(Some(ServerConfig { crypto: with(&config.crypto), ..config }));
    let client = pair.client();
    let config = pair.client_config();
    let crypto = Arc::new(config.crypto.as_ref().clone().with_alpn(&[b"test/1"]));
    client.set_client_config(ClientConfig { crypto, ..config });
    let (near, far) = connect(&client, &server).await;
    assert_eq!((near.alpn().as_deref(), far.alpn().as_deref()), (Some(&b"test/1"[..]), Some(&b"test/1"[..])));
    assert_eq!(far.server_name(), None);
}

#[tokio::test]
async fn priority_goes_first() {
    let c = Pair::new().connect().await;
    let mut low = soon(c.client.open_uni()).await.unwrap();
    let mut high = soon(c.client.open_uni()).await.unwrap();
    low.set_priority(-1).unwrap();
    high.set_priority(1).unwrap();
    // Both are queued before the task that sends gets its turn, and take many round trips.
    let (bulk, urgent) = (noise(1, 200_000), noise(2, 200_000));
    soon(low.write_all(&bulk)).await.unwrap();
    soon(high.write_all(&urgent)).await.unwrap();
    low.finish().unwrap();
    high.finish().unwrap();
    assert!(low.set_priority(0).is_ok());
    let mut first = soon(c.server.accept_uni()).await.unwrap();
    let mut second = soon(c.server.accept_uni()).await.unwrap();
    let (mut low, mut high) =
        (std::pin::pin!(first.read_to_end(1 << 20)), std::pin::pin!(second.read_to_end(1 << 20)));
    let urgently = async {
        tokio::select! {
            biased;
            _ = &mut low => panic!("the stream of low priority came first"),
            received = &mut high => received.unwrap(),
        }
    };
    assert!(soon(urgently).await == urgent);
    assert!(soon(low).await.unwrap() == bulk);
}

#[tokio::test]
async fn datagrams_come_whole_or_not_at_all() {
    let c = Pair::new().connect().await;
    let max = c.client.datagram_bytes_max().unwrap();
    assert!(max > 1000, "{max}");
    let sent: Vec<Bytes> = (0..50).map(|index| noise(index, 1 + index as usize * 20).into()).collect();
    for datagram in &sent {
        soon(c.client.send_datagram(datagram.clone())).await.unwrap();
    }
    // Nothing gets lost on an idle loopback interface of which the buffers are large enough.
    for datagram in &sent {
        assert_eq!(soon(c.server.read_datagram()).await.unwrap(), datagram);
    }
    let too_long = Bytes::from(vec![0; 70_000]);
    let error = soon(c.client.send_datagram(too_long)).await.unwrap_err();
    assert!(matches!(error, SendDatagramError::TooLarge { max_bytes } if max_bytes >= max), "{error}");
}

#[tokio::test]
async fn datagrams_are_repaired_and_cut_where_that_is_asked_for() {
    // A tenth of what comes is dropped, both ways.
    let mut losing = EndpointConfig::default();
    losing.lose_received_ppm(100_000);
    let pair = Pair::new();
    let (client, server) = (pair.client_with(&losing), pair.server_with(&losing));
    let (client, server) = connect(&client, &server).await;
    let options = DatagramOptions::new(DatagramClass::Repaired).cost_percent(500);
    let max = client.any_datagram_bytes_max().unwrap();
    assert_eq!(max, 65_535);
    let sending = async {
        for number in 0..300_u32 {
            let mut data = number.to_be_bytes().to_vec();
            data.resize(if number % 100 == 99 { 20_000 } else { 200 }, 1);
            client.send_datagram_with(data.into(), options).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let mut heard = Vec::new();
    let hearing = async {
        while let Ok(data) = server.read_datagram().await {
            heard.push(u32::from_be_bytes(data[..4].try_into().unwrap()));
        }
    };
    tokio::select! {
        () = async { sending.await; tokio::time::sleep(Duration::from_millis(500)).await } => {}
        () = hearing => panic!("the connection ended"),
    }
    // Unrepaired 267 of the short ones would come, and none of the long.
    assert!(heard.len() >= 280, "{} came", heard.len());
    let stats = server.stats().datagrams;
    assert!(stats.repaired >= 10, "{stats:?}");
    let error = client.try_send_datagram_with(vec![0; max + 1].into(), options).unwrap_err();
    assert_eq!(error, SendDatagramError::TooLarge { max_bytes: max });
}

#[tokio::test]
async fn a_full_queue_of_datagrams_is_waited_for() {
    let mut transport = TransportConfig::default();
    transport.datagram_buffer_bytes(10_000).expect("in range");
    let c = Pair::with(transport).connect().await;
    let fill = || (0..11).find_map(|_| c.client.try_send_datagram(Bytes::from_static(&[0; 1000])).err());
    assert_eq!(fill(), Some(SendDatagramError::Full));
    for _ in 0..100 {
        soon(c.client.send_datagram(Bytes::from_static(&[0; 1000]))).await.unwrap();
    }
}

#[tokio::test]
async fn no_datagrams_for_those_who_take_none() {
    let mut transport = TransportConfig::default();
    transport.datagram_buffer_bytes(0).expect("in range");
    let c = Pair::with(transport).connect().await;
    assert_eq!(c.client.datagram_bytes_max(), None);
    assert_eq!(c.client.try_send_datagram(Bytes::new()), Err(SendDatagramError::Unsupported));
    c.client.close(1, b"");
    let lost = SendDatagramError::ConnectionLost(ConnectionError::LocallyClosed);
    assert_eq!(c.client.try_send_datagram(Bytes::new()), Err(lost));
}
