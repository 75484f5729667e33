//! A gateway with the right key that lies: it answers what was not asked, and asks for what nobody offered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;

use fulmar::crypto;
use fulmar::identity::AuthorizedClients;
use fulmar::{Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use serde_json::{Value, json};

use crate::common::{Home, Server};

/// A message of the tunnel protocol as a frame.
pub(crate) fn frame(message: &Value) -> Vec<u8> {
    let body = message.to_string().into_bytes();
    [&[1][..], &(body.len() as u32).to_be_bytes(), &body].concat()
}

/// The first message of a stream.
pub(crate) async fn hear(recv: &mut RecvStream) -> Value {
    let mut header = [0; 5];
    recv.read_exact(&mut header).await.unwrap();
    let len = u32::from_be_bytes(header[1..].try_into().unwrap());
    let mut body = vec![0; len as usize];
    recv.read_exact(&mut body).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// What the liar says to the n-th stream that asks for a target.
fn lie(n: usize) -> Vec<u8> {
    match n {
        0 => frame(&json!({"listening": {}})),
        1 => frame(&json!({"welcome": {"version": 1}})),
        2 => frame(&json!({"refused": {"code": "\u{7}", "text": "\u{1b}[31mred".repeat(100)}})),
        3 => frame(&json!({"opened": {"address": "nowhere"}})),
        4 => vec![1, 0xff, 0xff, 0xff, 0xff, b'{'],
        5 => vec![9; 100],
        6 => frame(&json!([[[[1]]]])),
        _ => Vec::new(),
    }
}

/// Welcomes a client; the streams of its greeting are to be kept.
pub(crate) async fn welcome(connection: &Connection) -> (SendStream, RecvStream) {
    let (mut send, mut recv) = connection.accept_bi().await.unwrap();
    assert_eq!(hear(&mut recv).await, json!({"hello": {"version": 1}}));
    send.write_all(&frame(&json!({"welcome": {"version": 1}}))).await.unwrap();
    (send, recv)
}

async fn serve(connection: Connection, heard: mpsc::Sender<Value>) {
    let _greeting = welcome(&connection).await;
    visit(&connection, &heard).await;
    let mut asked = 0;
    while let Ok((mut to, mut from)) = connection.accept_bi().await {
        hear(&mut from).await;
        let _ = to.write_all(&lie(asked)).await;
        let _ = to.finish();
        asked += 1;
    }
}

/// Datagrams for flows that there are not, and visitors of listeners that nobody asked for.
async fn visit(connection: &Connection, heard: &mpsc::Sender<Value>) {
    for len in [0, 3, 4, 1000] {
        connection.send_datagram(vec![0xff; len].into()).await.unwrap();
    }
    let incoming = json!({"incoming": {"listener": 0, "peer": "\u{1b}[2J"}});
    for said in [frame(&incoming), frame(&json!({"open": {"target": {"unix": "/etc/passwd"}}})), vec![7; 64]]
    {
        let (mut send, mut recv): (SendStream, RecvStream) = connection.open_bi().await.unwrap();
        send.write_all(&said).await.unwrap();
        heard.send(hear(&mut recv).await).unwrap();
    }
}

/// A gateway with this user's identity that treats each connection as `serve` does.
pub(crate) fn gateway_that<F>(home: &Home, serve: impl Fn(Connection) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    gateway_at(home.path(), "127.0.0.1:0".parse().unwrap(), serve)
}

/// The same, at another address.
pub(crate) fn gateway_at<F>(
    home: &std::path::Path,
    listen: SocketAddr,
    serve: impl Fn(Connection) -> F + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let home = fulmar::identity::Home::at(home);
    let (say_address, address) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let identity = home.identity().unwrap();
            let clients = AuthorizedClients::new(identity.public_key(), home.authorized_keys());
            let crypto = crypto::ServerConfig::raw_key(&identity, Some(Arc::new(clients)));
            let config = ServerConfig::new(Arc::new(crypto.with_alpn(&[b"fulmar-tunnel/1"])));
            let endpoint = Endpoint::server(config, listen).unwrap();
            say_address.send(endpoint.local_addr().unwrap()).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                let Ok(connection) = incoming.await else { continue };
                tokio::spawn(serve(connection));
            }
        });
    });
    address.recv().unwrap()
}

#[test]
fn lies_are_errors_and_open_nothing() {
    let home = Home::new();
    let (tell, heard) = mpsc::channel();
    let address = gateway_that(&home, move |connection| serve(connection, tell.clone()));
    let proxy =
        Server::start(home.command(&["proxy", &address.to_string(), "--json", "--listen", "127.0.0.1:0"]));
    for code in ["forbidden", "malformed", "malformed"] {
        let answer = heard.recv_timeout(crate::common::PATIENCE).unwrap();
        assert_eq!(answer["refused"]["code"], code, "{answer}");
    }
    for n in 0..9 {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        write!(stream, "CONNECT example.org:80 HTTP/1.1\r\nHost: example.org\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 50"), "lie {n}: {answer:?}");
        assert!(!answer.contains('\u{1b}'), "lie {n}: {answer:?}");
    }
}
