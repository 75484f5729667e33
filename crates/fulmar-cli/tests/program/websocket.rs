//! WebSocket through the HTTP proxy without CONNECT, as some programs ask for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::common::Home;
use crate::tunnel::{gateway, proxy};

const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: x\r\n\r\nhello";

/// Up to the empty line.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Agrees to WebSocket and greets in the same breath, then says everything back; refuses `/no`.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let asked = head(&mut stream).to_lowercase();
            assert!(asked.contains("\r\nupgrade: websocket\r\n"), "{asked}");
            assert!(asked.contains("\r\nconnection: upgrade\r\n"), "{asked}");
            assert!(asked.contains("\r\nsec-websocket-key: k\r\n"), "{asked}");
            if asked.starts_with("get /no ") {
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!").unwrap();
                continue;
            }
            assert!(asked.starts_with("get /chat http/1.1\r\n"), "{asked}");
            stream.write_all(AGREED.as_bytes()).unwrap();
            let mut all = [0; 1000];
            while let Ok(count @ 1..) = stream.read(&mut all) {
                stream.write_all(&all[..count]).unwrap();
            }
        }
    });
    address
}

#[test]
fn websocket_goes_through_the_http_proxy_without_connect() {
    let home = Home::new();
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &[]);
    let origin = origin();
    let ask = |url: String| {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        let request = format!(
            "GET {url} HTTP/1.1\r\nHost: {origin}\r\nUpgrade: websocket\r\n\
             Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: k\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let answer = head(&mut stream).to_lowercase();
        (stream, answer)
    };
    for scheme in ["ws", "http"] {
        let (mut stream, answer) = ask(format!("{scheme}://{origin}/chat"));
        assert!(answer.starts_with("http/1.1 101 "), "{answer}");
        assert!(answer.contains("upgrade: websocket") && answer.contains("connection: upgrade"), "{answer}");
        assert!(answer.contains("sec-websocket-accept: x"), "{answer}");
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"hello");
        for word in ["one", "other"] {
            stream.write_all(word.as_bytes()).unwrap();
            let mut echo = vec![0; word.len()];
            stream.read_exact(&mut echo).unwrap();
            assert_eq!(echo, word.as_bytes());
        }
    }
    let (mut stream, answer) = ask(format!("ws://{origin}/no"));
    assert!(answer.starts_with("http/1.1 403 "), "{answer}");
    let mut body = [0; 3];
    stream.read_exact(&mut body).unwrap();
    assert_eq!(&body, b"no!");
}
