//! The gateway's half in memory: a client that writes bytes, and real sockets as targets.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::net::TcpListener;

use super::*;
use crate::tunnel::policy::grants::Limits;

impl RecvHalf for ReadHalf<DuplexStream> {
    fn cut_off(&mut self) {}
}

impl SendHalf for WriteHalf<DuplexStream> {
    fn cut_off(&mut self) {}
}

/// A guest that serves one stream, and the client's end of it.
fn start(guest: &Arc<Guest>) -> (DuplexStream, tokio::task::JoinHandle<Result<(), OpenError>>) {
    let (near, far) = duplex(64 << 10);
    let (recv, send) = split(far);
    let guest = Arc::clone(guest);
    (near, tokio::spawn(async move { guest.serve(guest.admit()?, recv, send).await }))
}

fn own() -> Arc<Guest> {
    Arc::new(Guest::new(Rules::everything(), Arc::default()))
}

async fn ask(stream: &mut DuplexStream, request: &Request, first: &[u8]) {
    stream.write_all(&message::with_first(request, first)).await.unwrap();
}

fn open(target: Target) -> Request {
    Request::Open { target, flow: None, association: None }
}

#[tokio::test]
async fn the_first_data_come_with_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut stream, serving) = start(&own());
    ask(&mut stream, &open(Target::Tcp(address.into())), b"first").await;
    let (mut target, _) = listener.accept().await.unwrap();
    let mut first = [0; 5];
    target.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first");
    target.write_all(b"answer").await.unwrap();
    drop(target);
    assert_eq!(message::hear_answer(&mut stream).await, Ok(Answer::Opened { address: Some(address) }));
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"answer");
    drop(stream);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_may_not_be_reached_is_refused_and_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let guest = Arc::new(Guest::new(Rules::default(), Arc::default()));
    let (mut stream, serving) = start(&guest);
    ask(&mut stream, &open(Target::Tcp(listener.local_addr().unwrap().into())), b"GET /secret").await;
    assert_eq!(message::hear_answer(&mut stream).await.unwrap_err().code, Code::Forbidden);
    assert_eq!(serving.await.unwrap().unwrap_err().code, Code::Forbidden);
    assert_eq!(guest.account.refused.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_says_nothing_is_not_waited_for_for_ever() {
    let (mut stream, serving) = start(&own());
    stream.write_all(&[1, 0, 0]).await.unwrap();
    assert_eq!(message::hear_answer(&mut stream).await.unwrap_err().code, Code::Malformed);
    assert!(serving.await.unwrap().is_err());
}

#[tokio::test]
async fn nonsense_is_refused() {
    let garbage = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let unknown = message::with_first(&serde_json::json!({"sudo": {}}), &[]);
    let nobody = message::with_first(&open(Target::tcp("", 1)), &[]);
    let relative = message::with_first(&open(Target::Unix("etc/passwd".into())), &[]);
    let later = message::with_first(&Request::Hello { version: 99, deadline_ms: None }, &[]);
    let visitor = Request::Incoming { listener: 0, peer: String::new(), flow: None };
    let turned = message::with_first(&visitor, &[]);
    let unnumbered = message::with_first(&open(Target::udp("127.0.0.1", 53)), &[]);
    for wire in [garbage, unknown, nobody, relative, later, turned, unnumbered] {
        let (mut stream, _serving) = start(&own());
        stream.write_all(&wire).await.unwrap();
        let error = message::hear_answer(&mut stream).await.unwrap_err();
        assert_eq!(error.code, Code::Malformed, "{}", String::from_utf8_lossy(&wire));
    }
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Tcp(listener.local_addr().unwrap().into());
    let account = Arc::<Account>::default();
    account.set_limits(Limits { streams: 2, ..Limits::default() });
    let guest = Arc::new(Guest::new(Rules::everything(), account));
    let mut held = Vec::new();
    for _ in 0..2 {
        let (mut stream, serving) = start(&guest);
        ask(&mut stream, &open(target.clone()), b"").await;
        message::hear_answer(&mut stream).await.unwrap();
        held.push((stream, serving));
    }
    // Whoever has no seat is not even asked what it wants.
    assert_eq!(guest.admit().unwrap_err().code, Code::Limit);
    held[0].1.abort();
    while guest.account.streams() > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Silence takes a seat, and so does what makes no sense, until it has been said.
    let silent = guest.admit().unwrap();
    assert_eq!(guest.admit().unwrap_err().code, Code::Limit);
    drop(silent);
    guest.admit().unwrap();
}

/// 9,900 greetings on one connection took 120 MB and no seat.
#[tokio::test]
async fn a_second_greeting_is_malformed_and_the_first_takes_no_seat() {
    let account = Arc::<Account>::default();
    account.set_limits(Limits { streams: 1, ..Limits::default() });
    let guest = Arc::new(Guest::new(Rules::everything(), account));
    let hello = Request::Hello { version: VERSION, deadline_ms: None };
    let (mut greeting, _serving) = start(&guest);
    ask(&mut greeting, &hello, b"").await;
    assert_eq!(message::hear_answer(&mut greeting).await, Ok(Answer::Welcome { version: VERSION }));
    assert_eq!(guest.account.streams(), 0);
    let (mut second, serving) = start(&guest);
    ask(&mut second, &hello, b"").await;
    assert_eq!(message::hear_answer(&mut second).await.unwrap_err().code, Code::Malformed);
    assert!(serving.await.unwrap().is_err());
}

#[tokio::test]
async fn packets_go_by_the_stream_where_there_are_no_datagrams() {
    let target = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = target.local_addr().unwrap();
    let (mut stream, _serving) = start(&own());
    let mut first = Vec::new();
    message::append_packet(&mut first, b"ping");
    let to = Target::Udp(address.into());
    ask(&mut stream, &Request::Open { target: to, flow: Some(0), association: None }, &first).await;
    let mut packet = [0; 100];
    let (len, from) = target.recv_from(&mut packet).await.unwrap();
    assert_eq!(&packet[..len], b"ping");
    target.send_to(&[7; 9000], from).await.unwrap();
    message::hear_answer(&mut stream).await.unwrap();
    assert_eq!(message::hear_packet(&mut stream).await.unwrap().unwrap(), vec![7; 9000]);
}
