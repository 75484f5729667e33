//! Entry points of the program that take any bytes: the fuzz targets of `fuzz/` and an ordinary test call
//! them. None may panic, and each checks what must hold of whatever was accepted.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fast_socks5::parse_udp_request;
use fulmar::crypto::{self, Identity};
use fulmar::{Endpoint, ServerConfig};
use fulmar_cli::pair::code::Code;
use fulmar_cli::pair::exchange::{self, Channel};
use fulmar_cli::perf::protocol as perf;
use fulmar_cli::tunnel::config::Config;
use fulmar_cli::tunnel::near::forward::Spec;
use fulmar_cli::tunnel::near::login::Login;
use fulmar_cli::tunnel::near::{http, socks, socks_udp};
use fulmar_cli::tunnel::policy::address;
use fulmar_cli::tunnel::policy::pattern::{ListenPattern, Pattern};
use fulmar_cli::tunnel::wire::message::{self, Answer, Request};
use fulmar_cli::tunnel::{Place, Target};
use fulmar_cli::{frames, units};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::{Builder, Runtime};

/// What a future gives that never has to wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for something though everything is there"),
    }
}

/// Somebody who says these bytes, ends, and hears everything.
struct Said<'a>(&'a [u8]);

impl AsyncRead for Said<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Said<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(data.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What is said to pair, by either side: nobody does who does not know the code.
pub fn pair(data: &[u8]) {
    let key = |seed: u8| exchange::PublicKey::from_line(KEYS[usize::from(seed)]).unwrap().0;
    let channel = Channel { joining: key(0), inviting: key(1), secret: [7; 32] };
    let code: Code = "0000-0000".parse().unwrap();
    let accept = |_: &_, _: &str| panic!("nobody knows the code");
    let (mut said, mut heard) = (Said(data), Said(&[]));
    let invited = exchange::invite(&mut said, &mut heard, &channel, || Some(code.clone()), accept);
    assert!(now(invited).is_err());
    assert!(now(exchange::join(&mut Said(data), &mut Said(&[]), &channel, &code, "x")).is_err());
}

/// Two public keys.
const KEYS: [&str; 2] = [
    "fulmar-ed25519 q7SKflEbYeouDT8B/hMDttx6FwSSKWUFSfRpPrm4uzo=",
    "fulmar-ed25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
];

/// What is said on the streams of a tunnel, by either side.
pub fn messages(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(request)) = now(message::hear::<_, Request>(&mut rest)) {
        // What was understood can be said again, and means the same.
        let wire = message::with_first(&request, b"first");
        let mut again = &wire[..];
        assert_eq!(now(message::hear::<_, Request>(&mut again)).expect("well formed"), Some(request.clone()));
        assert_eq!(again, b"first");
        if let Request::Open { target, .. } | Request::Listen { at: target, .. } = &request {
            let _ = target.check();
            assert!(!target.to_string().chars().any(char::is_control) || target.check().is_err());
        }
    }
    match now(message::hear_answer(&mut &data[..])) {
        Ok(answer) => assert!(!matches!(answer, Answer::Refused { .. })),
        Err(error) => assert!(!error.text.chars().any(char::is_control), "{error:?}"),
    }
    if let Err(failure) = now(perf::hear(&mut &data[..])) {
        assert!(!failure.to_string().chars().any(char::is_control), "{failure}");
    }
    let mut rest = data;
    while let Ok(Some(packet)) = now(message::hear_packet(&mut rest)) {
        assert!(packet.len() <= message::PACKET_BYTES_MAX);
    }
    let mut rest = data;
    while let Ok(Some(frame)) = now(frames::read(&mut rest)) {
        assert!(frame.body.len() <= frames::BODY_BYTES_MAX);
    }
}

/// Patterns, targets, numbers: what stands in lists of keys and on command lines. The text before the first
/// line feed is parsed, the text behind it is what is asked for.
pub fn permits(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (pattern, asked) = text.split_once('\n').unwrap_or((&text, ""));
    let _ = (units::parse_size(pattern), units::parse_rate(pattern), units::parse_seconds(pattern));
    if !pattern.starts_with('@') {
        let _ = Login::parse(pattern);
    }
    if let Ok(Spec { at, to }) = pattern.parse::<Spec>() {
        let _ = (at.check(), to.check());
    }
    let place = asked.parse::<Target>().ok();
    let Some(Target::Tcp(place)) = place else { return };
    let ip = place.ip().unwrap_or_else(|| first_address(asked.as_bytes()));
    let plain = address::plain(ip);
    if let Ok(pattern) = pattern.parse::<Pattern>() {
        judged(&pattern, &place, plain);
    }
    if let Ok(pattern) = pattern.parse::<ListenPattern>() {
        let (tcp, udp) = (Target::Tcp(place.clone()), Target::Udp(place));
        assert_eq!(pattern.matches(&tcp), pattern.matches(&udp));
    }
    let _ = address::private(plain);
}

/// An address that follows from some bytes.
fn first_address(bytes: &[u8]) -> IpAddr {
    let mut octets = [0; 16];
    octets.iter_mut().zip(bytes).for_each(|(octet, byte)| *octet = *byte);
    Ipv6Addr::from(octets).into()
}

/// A pattern that lists a host in particular opens another's address only if it says so.
fn judged(pattern: &Pattern, place: &Place, ip: IpAddr) {
    if pattern.names(place, ip) {
        assert!(pattern.matches(place, ip));
    }
    if let Pattern::Place(fulmar_cli::tunnel::policy::pattern::HostPattern::Network(network), _) = pattern {
        // A reference that is slow and plain: bit by bit.
        let bits = |ip: IpAddr| -> Vec<bool> {
            let bytes = match ip {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
        };
        let (network_bits, bits) = (bits(network.first()), bits(ip));
        let length = usize::from(network.length());
        let is_in = network_bits.len() == bits.len() && network_bits[..length] == bits[..length];
        assert!(is_in || !pattern.matches(place, ip), "{pattern:?} does not hold {ip}");
    }
}

/// SOCKS, as streams and as packets.
pub fn socks_shapes(data: &[u8]) {
    let login = Login::parse("me:secret").expect("a login");
    for login in [None, Some(&login)] {
        let _ = now(socks::hear(Said(data), login));
    }
    if let Ok((_, target, packet)) = now(parse_udp_request(data)) {
        assert!(packet.len() < data.len());
        let _ = socks_udp::place(target).to_string();
    }
}

/// A server, and what runs it, one for each thread.
struct Carrier {
    runtime: Runtime,
    endpoint: Endpoint,
}

impl Carrier {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let crypto = crypto::ServerConfig::raw_key(&Identity::from_seed(&[1; 32]), None);
        let _context = runtime.enter();
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let endpoint = Endpoint::server(ServerConfig::new(Arc::new(crypto)), at).expect("a socket");
        Self { runtime, endpoint }
    }
}

/// Whether a stream can be cut into datagrams to its end, or where it ends: lengths of two bytes, each of a
/// datagram of 1 to 16,383 bytes.
fn is_cut(mut stream: &[u8]) -> bool {
    while let Some((length, rest)) = stream.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        if !(1..1 << 14).contains(&length) {
            return false;
        }
        stream = rest.get(length..).unwrap_or(&[]);
    }
    true
}

/// A stream of datagrams, as a client's comes by TCP: it ends with an error if it is none, and nothing of it
/// is left at the server but what its datagrams began.
pub fn stream(data: &[u8]) {
    thread_local!(static CARRIER: Carrier = Carrier::new());
    CARRIER.with(|Carrier { runtime, endpoint }| {
        let (before, connections) = (endpoint.held_bytes(), endpoint.open_connections());
        let ended = runtime.block_on(async {
            let (mut near, far) = tokio::io::duplex(data.len().max(1) + (1 << 16));
            near.write_all(data).await.expect("room for all of it");
            near.shutdown().await.expect("open");
            endpoint.carry(far, SocketAddr::from(([192, 0, 2, 1], 5))).expect("memory").await
        });
        assert_eq!(ended.is_ok(), is_cut(data), "{ended:?}");
        if endpoint.open_connections() == connections {
            assert_eq!(endpoint.held_bytes(), before);
        }
    });
}

/// HTTP to a proxy: what a target is, and which headers go on.
pub fn http_shapes(data: &[u8]) {
    let service = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| async move {
        let (mut head, _) = request.into_parts();
        if let Ok(place) = http::place(&head.uri, Some(80)) {
            assert!(!place.host.starts_with('[') || !place.host.ends_with(']'));
            let _ = Target::Tcp(place).check();
        }
        http::strip(&mut head.headers);
        for name in ["connection", "proxy-authorization", "transfer-encoding", "te"] {
            assert!(!head.headers.contains_key(name), "{name} goes on");
        }
        Ok::<_, Infallible>(hyper::Response::new(String::new()))
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(Said(data)), service);
    // It may end anywhere, but not wait: there is nothing to wait for.
    let mut connection = std::pin::pin!(connection);
    let mut cx = Context::from_waker(Waker::noop());
    let _ = (0..100).find(|_| connection.as_mut().poll(&mut cx).is_ready());
}

/// IP packets of a tunnel. The first two bytes are the MTU.
#[cfg(target_os = "linux")]
pub fn ip_packets(data: &[u8]) {
    use fulmar_cli::packets::clamp::clamp;
    let Some(([high, low], packet)) = data.split_first_chunk::<2>().map(|(head, rest)| (*head, rest)) else {
        return;
    };
    let mtu = u16::from_be_bytes([high, low]);
    let mut clamped = packet.to_vec();
    clamp(&mut clamped, mtu);
    let changed = packet.iter().zip(&clamped).filter(|(before, after)| before != after).count();
    assert!(packet.len() == clamped.len() && changed <= 4, "a number and a checksum, and nothing else");
    let mut again = clamped.clone();
    clamp(&mut again, mtu);
    assert_eq!(again, clamped, "twice is as once");
}

/// Packets at the fences of a gateway and of a client: the first byte says which and which way.
#[cfg(target_os = "linux")]
pub fn fence(data: &[u8]) {
    use fulmar_cli::packets::fence::Fence;
    let Some((&which, packet)) = data.split_first() else { return };
    let ips =
        |texts: &[&str]| texts.iter().map(|ip| ip.parse::<IpAddr>().expect("an address")).collect::<Vec<_>>();
    let own = ips(&["10.97.0.2", "fdf1::2"]);
    let is_own = |ip: IpAddr| own.contains(&ip);
    let plain = addresses(packet);
    let (gate, expected) = match which % 4 {
        0 => (Fence::of_gateway(&own).inward, plain.map(|(from, to)| is_own(from) && !is_mapped(to))),
        1 => (Fence::of_gateway(&own).outward, plain.map(|(from, to)| is_own(to) && !is_mapped(from))),
        way => {
            let net = |text: &str| text.parse().expect("a network");
            let fence = Fence::of_client(&own, vec![net("0.0.0.0/0")], vec![net("192.168.1.0/24")]);
            // Of IPv4 everything but the neighbours, of IPv6 nothing; and nobody sends in this end's name.
            let is_routed =
                |ip: IpAddr| matches!(ip, IpAddr::V4(v4) if v4.octets()[..3] != [192, 168, 1]) && !is_own(ip);
            match way {
                2 => (fence.inward, plain.map(|(from, to)| is_routed(from) && is_own(to))),
                _ => (fence.outward, plain.map(|(from, to)| is_own(from) && !is_mapped(to))),
            }
        }
    };
    assert!(!gate.lets(packet) || expected == Some(true), "{plain:?} goes through {gate:?}");
    assert_eq!(gate.lets(packet), expected == Some(true), "{plain:?} is held up by {gate:?}");
}

/// An IPv4 address in IPv6's clothes.
fn is_mapped(ip: IpAddr) -> bool {
    ip != ip.to_canonical()
}

/// Source and destination of an IP packet, byte by byte (RFC 791, section 3.1; RFC 8200, section 3).
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let first = *packet.first()?;
    match first >> 4 {
        4 => {
            let header_bytes = usize::from(first & 15) * 4;
            let v4 = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
            (header_bytes >= 20 && packet.len() >= header_bytes).then_some((v4(12)?, v4(16)?))
        }
        6 => {
            let v6 = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
            Some((v6(8)?, v6(24)?))
        }
        _ => None,
    }
}

/// config.toml. A login may be a file's name: none is opened for this.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if text.contains(['@', '\\']) {
        return;
    }
    match Config::parse(&text) {
        Ok(config) => {
            for host in config.proxy.iter().map(|proxy| &proxy.host).chain(config.hosts.keys()) {
                let found = config.host(host).expect("it was looked for when the file was read");
                assert!(!found.gateways.is_empty());
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
}
