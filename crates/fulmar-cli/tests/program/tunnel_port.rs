//! A NAT or a firewall that closes the port of a running tunnel, again and again: what goes through it goes
//! on, on the same connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fulmar_cli::relay::{Meddling, Relay, RelayConfig};
use fulmar_net::LinkConfig;

use crate::common::{Home, PATIENCE, Server};
use crate::tunnel::gateway;

/// So long a port works.
const PORT_LIFE: Duration = Duration::from_secs(2);

/// What goes through: a part each tenth of a second.
const PARTS: usize = 90;
const PART_BYTES: usize = 1000;
const PAUSE: Duration = Duration::from_millis(100);

/// Longest standstill: 3 s are promised (`a_connection_outlives_its_port_both_ways` has a fast path),
/// downwards it was 5 and upwards 31. To be added is [`LATE`] times what this machine was late.
const STANDSTILL_MAX: Duration = Duration::from_millis(4500);
pub(crate) const LATE: u32 = 4;

/// How late this machine wakes up whoever sleeps, in microseconds in all.
pub(crate) fn lateness(is_over: &Arc<AtomicBool>) -> Arc<AtomicU64> {
    let (late, is_over) = (Arc::<AtomicU64>::default(), Arc::clone(is_over));
    let noted = Arc::clone(&late);
    thread::spawn(move || {
        let nap = Duration::from_millis(20);
        while !is_over.load(Ordering::Relaxed) {
            let begin = Instant::now();
            thread::sleep(nap);
            noted.fetch_add(begin.elapsed().saturating_sub(nap).as_micros() as u64, Ordering::Relaxed);
        }
    });
    late
}

/// Which end speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8
}

/// Says everything, part after part, and its end.
fn say(mut stream: TcpStream) {
    for part in 0..PARTS {
        let bytes: Vec<_> = (part * PART_BYTES..(part + 1) * PART_BYTES).map(byte).collect();
        stream.write_all(&bytes).unwrap();
        thread::sleep(PAUSE);
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Hears everything to its end, in order. The longest silence.
fn hear(mut stream: TcpStream) -> Duration {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut heard, mut longest, mut at) = (0, Duration::ZERO, Instant::now());
    let mut buffer = [0; 65_536];
    loop {
        let count = stream.read(&mut buffer).expect("nobody is reset");
        longest = longest.max(at.elapsed());
        at = Instant::now();
        if count == 0 {
            break;
        }
        assert!(buffer[..count].iter().zip(heard..).all(|(&got, at)| got == byte(at)), "after {heard} bytes");
        heard += count;
    }
    assert_eq!(heard, PARTS * PART_BYTES);
    longest
}

/// A flow through a tunnel that leads to this listener. The longest silence at its end.
fn flow(target: TcpListener, way: Way, connect: impl FnOnce() -> TcpStream) -> Duration {
    let far = thread::spawn(move || {
        let (stream, _) = target.accept().unwrap();
        match way {
            Way::Down => {
                say(stream);
                Duration::ZERO
            }
            Way::Up => hear(stream),
        }
    });
    let near = connect();
    let silence = match way {
        Way::Down => hear(near),
        Way::Up => {
            say(near);
            Duration::ZERO
        }
    };
    silence.max(far.join().unwrap())
}

/// A relay before a gateway on which ports die.
fn relay(gateway: SocketAddr) -> Relay {
    let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let relay = Relay::start(RelayConfig::new(gateway, link.clone(), link)).unwrap();
    relay.meddle(Meddling { port_life: Some(PORT_LIFE), ..Meddling::default() });
    relay
}

/// A program that carries, over a relay of its own.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    Forward,
    Proxy,
}

/// A flow that is carried while ports die.
fn carried(home: &Home, gateway: SocketAddr, carrier: Carrier, way: Way) {
    let (relay, is_over) = (relay(gateway), Arc::<AtomicBool>::default());
    let late = lateness(&is_over);
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = target.local_addr().unwrap();
    let (host, spec) = (relay.local_addr().to_string(), format!("127.0.0.1:0:{to}"));
    let tail: &[&str] = match carrier {
        Carrier::Forward => &["forward", "-L", &spec],
        Carrier::Proxy => &["proxy", "--listen", "127.0.0.1:0"],
    };
    let arguments = [&[tail[0], &host, "--json", "--accept-new"], &tail[1..]].concat();
    let program = Server::start_any(home.command(&arguments));
    let silence = flow(target, way, || match carrier {
        Carrier::Forward => TcpStream::connect(program.first["forwards"][0]["at"].as_str().unwrap()).unwrap(),
        Carrier::Proxy => {
            let mut stream = TcpStream::connect(program.address).unwrap();
            write!(stream, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                answer.push(byte[0]);
            }
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
            stream
        }
    });
    is_over.store(true, Ordering::Relaxed);
    let late = Duration::from_micros(late.load(Ordering::Relaxed));
    let stats = relay.stop().unwrap();
    println!("{carrier:?} {way:?}: {silence:?} of silence, {} ports, {late:?} late", stats.clients);
    assert!(stats.clients >= 3 && stats.meddled_packets > 0, "ports died: {stats:?}");
    assert!(silence < STANDSTILL_MAX + LATE * late, "{carrier:?} {way:?}: {silence:?}, {late:?} late");
}

#[test]
fn a_tunnel_goes_on_when_its_port_dies() {
    let home = Home::new();
    let gateway = gateway(&home);
    thread::scope(|scope| {
        for (carrier, way) in
            [(Carrier::Forward, Way::Down), (Carrier::Forward, Way::Up), (Carrier::Proxy, Way::Down)]
        {
            let (home, gateway) = (&home, gateway.address);
            scope.spawn(move || carried(home, gateway, carrier, way));
        }
    });
}
