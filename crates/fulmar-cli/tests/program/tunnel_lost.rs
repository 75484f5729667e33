//! Gateways that are lost while flows are being opened: who has not been answered yet does not notice.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use fulmar::Connection;
use serde_json::json;

use crate::common::{Home, PATIENCE, Server};
use crate::tunnel_liar::{frame, gateway_that, hear, welcome};

/// How long the gateway waits for what is sent ahead of its answer.
const AHEAD_BYTES: usize = 5;

/// What a gateway does on the first connection before it is lost.
#[derive(Clone, Copy)]
enum Last {
    /// It has heard what it was asked, and what was sent ahead.
    Hears(usize),
    /// It has begun to answer.
    Begins,
}

/// A gateway that is lost with its first connection, and is an echo on all others. What it was asked comes
/// out of the channel, with the first bytes behind it.
fn gateway(home: &Home, last: Last) -> (SocketAddr, mpsc::Receiver<(usize, Vec<u8>)>) {
    let (tell, told) = mpsc::channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let serve = move |connection: Connection| {
        let (tell, number) = (tell.clone(), connections.fetch_add(1, Ordering::Relaxed));
        async move {
            let _greeting = welcome(&connection).await;
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                assert!(hear(&mut recv).await["open"]["target"].is_object());
                let mut ahead = vec![0; if let Last::Hears(bytes) = last { bytes } else { 0 }];
                recv.read_exact(&mut ahead).await.unwrap();
                tell.send((number, ahead.clone())).unwrap();
                let answer = frame(&json!({"opened": {"address": "192.0.2.1:80"}}));
                if number == 0 {
                    if let Last::Begins = last {
                        send.write_all(&answer[..1]).await.unwrap();
                        // It must have arrived, or nothing of an answer has been seen.
                        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                    }
                    connection.close(1, b"lost");
                    return;
                }
                tokio::spawn(async move {
                    send.write_all(&answer).await.unwrap();
                    send.write_all(&ahead).await.unwrap();
                    while let Ok(Some(chunk)) = recv.read_chunk(usize::MAX).await {
                        send.write_all(&chunk).await.unwrap();
                    }
                    let _ = send.finish();
                });
            }
        }
    };
    (gateway_that(home, serve), told)
}

fn proxy(home: &Home, gateway: SocketAddr) -> Server {
    Server::start(home.command(&["proxy", &gateway.to_string(), "--json", "--listen", "127.0.0.1:0"]))
}

/// Where `fulmar forward` listens.
fn forward(home: &Home, gateway: SocketAddr) -> (Server, SocketAddr) {
    let forward = ["forward", &gateway.to_string(), "--json", "-L", "127.0.0.1:0:far.example:80"];
    let server = Server::start_any(home.command(&forward));
    let at = server.first["forwards"][0]["at"].as_str().unwrap().parse().unwrap();
    (server, at)
}

/// What comes back of what was said, to its end.
fn exchange(at: SocketAddr, said: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(said)?;
    stream.shutdown(Shutdown::Write)?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back).map(|_| back)
}

#[test]
fn who_has_not_been_answered_is_opened_at_the_next_gateway() {
    let home = Home::new();
    let (address, asked) = gateway(&home, Last::Hears(0));
    let proxy = proxy(&home, address);
    let request = b"CONNECT far.example:80 HTTP/1.1\r\nHost: far.example:80\r\n\r\nhello";
    let back = String::from_utf8(exchange(proxy.address, request).unwrap()).unwrap();
    assert!(back.starts_with("HTTP/1.1 200") && back.ends_with("hello"), "{back:?}");
    assert_eq!(asked.iter().take(2).map(|(number, _)| number).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn what_was_sent_ahead_is_never_said_twice() {
    let home = Home::new();
    let (address, asked) = gateway(&home, Last::Hears(AHEAD_BYTES));
    let (_forward, at) = forward(&home, address);
    assert!(exchange(at, b"hello, world").is_err());
    assert_eq!(asked.recv_timeout(PATIENCE).unwrap(), (0, b"hello".to_vec()));
    assert!(asked.recv_timeout(std::time::Duration::from_secs(1)).is_err());
}

#[test]
fn whose_answer_has_begun_is_reset() {
    let home = Home::new();
    let (address, asked) = gateway(&home, Last::Begins);
    let (_forward, at) = forward(&home, address);
    assert!(exchange(at, b"hello").is_err());
    assert_eq!(asked.recv_timeout(PATIENCE).unwrap().0, 0);
    // The next one takes the connection that is there by then, and nothing of the first was said on it.
    assert_eq!(exchange(at, b"again").unwrap(), b"again");
    assert_eq!(asked.recv_timeout(PATIENCE).unwrap().0, 1);
    assert!(asked.try_recv().is_err());
}
