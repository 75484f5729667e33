//! The relay over loopback. What is asserted does not depend on how fast the machine is: links without rate,
//! patterns instead of chance, generous waits.

use std::net::Ipv4Addr;

use super::*;
use fulmar_net::{Ecn, Intervals, Loss, LossPattern, Order, Probability};
use std::net::UdpSocket;
use std::time::Duration;

/// Long enough for any machine; never reached when all is well.
const PATIENCE: Duration = Duration::from_secs(20);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

fn relay_to(server: &UdpSocket, link: LinkConfig) -> Relay {
    let config = RelayConfig::new(server.local_addr().expect("bound"), link.clone(), link);
    Relay::start(config).expect("a relay")
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2000];
    let (length, from) = socket.recv_from(&mut buffer).expect("a datagram");
    (buffer[..length].to_vec(), from)
}

/// Waits for statistics that satisfy a condition.
fn stats_when(relay: &Relay, condition: impl Fn(&RelayStats) -> bool) -> RelayStats {
    let started = std::time::Instant::now();
    loop {
        let stats = relay.stats();
        if condition(&stats) {
            return stats;
        }
        assert!(started.elapsed() < PATIENCE, "{stats:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn clients_are_kept_apart() {
    let server = socket();
    let relay = relay_to(&server, LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() });
    let clients = [socket(), socket(), socket()];
    for (index, client) in clients.iter().enumerate() {
        client.send_to(&[index as u8; 100], relay.local_addr()).expect("sent");
    }
    let mut ports = Vec::new();
    for _ in &clients {
        let (contents, from) = receive(&server);
        ports.push(from);
        server.send_to(&[contents[0] + 10], from).expect("sent");
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
    for (index, client) in clients.iter().enumerate() {
        assert_eq!(receive(client), (vec![index as u8 + 10], relay.local_addr()));
    }
    let stats = relay.stop().expect("a clean end");
    assert_eq!((stats.clients, stats.forward.delivered.packets, stats.backward.delivered.packets), (3, 3, 3));
    assert_eq!(stats.forward.delivered.bytes, 3 * 128);
    assert_eq!((stats.refused_packets, stats.unsent_packets), (0, 0));
    assert_eq!(stats.lateness.samples(), 6);
    assert!(stats.receive_buffer_bytes > 0);
}

#[test]
fn the_links_do_to_packets_what_they_say() {
    let server = socket();
    let lossy = LinkConfig::default().with_loss(Loss::Pattern(LossPattern::new(vec![true, false, false])));
    let relay = relay_to(&server, lossy);
    let client = socket();
    for serial in 0..30 {
        client.send_to(&[serial], relay.local_addr()).expect("sent");
        stats_when(&relay, |stats| stats.forward.offered.packets > u64::from(serial));
    }
    let arrived: Vec<u8> = (0..20).map(|_| receive(&server).0[0]).collect();
    let expected: Vec<u8> = (0..30).filter(|serial| serial % 3 != 0).collect();
    assert_eq!(arrived, expected);

    // Changed while running: nothing passes any more, and then everything.
    let all = Intervals::new([(fulmar_units::Instant::ZERO, fulmar_units::Instant::from_nanos(u64::MAX))]);
    relay.reconfigure(Direction::Forward, LinkConfig { blackouts: all, ..LinkConfig::default() });
    client.send_to(&[100], relay.local_addr()).expect("sent");
    stats_when(&relay, |stats| stats.forward.blacked_out.packets == 1);
    relay.reconfigure(Direction::Forward, LinkConfig { order: Order::Free, ..LinkConfig::default() });
    client.send_to(&[101], relay.local_addr()).expect("sent");
    assert_eq!(receive(&server).0, [101]);
}

#[test]
fn rebinding_changes_the_port_the_server_sees() {
    let server = socket();
    let relay = relay_to(&server, LinkConfig::default());
    let client = socket();
    let mut ports = Vec::new();
    for serial in 0..3 {
        client.send_to(&[serial], relay.local_addr()).expect("sent");
        let (contents, from) = receive(&server);
        assert_eq!(contents, [serial]);
        server.send_to(&contents, from).expect("sent");
        assert_eq!(receive(&client).0, [serial]);
        ports.push(from);
        relay.rebind();
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
}

#[test]
fn clients_and_bytes_are_bounded() {
    let server = socket();
    let slow = LinkConfig { delay: Duration::from_secs(3600), ..LinkConfig::default() };
    let config = RelayConfig {
        clients_max: 2,
        held_bytes_max: 10_000,
        ..RelayConfig::new(server.local_addr().expect("bound"), slow.clone(), slow)
    };
    let relay = Relay::start(config).expect("a relay");
    let clients = [socket(), socket(), socket(), socket()];
    for serial in 0..20u64 {
        clients[serial as usize % 4].send_to(&[0; 972], relay.local_addr()).expect("sent");
        stats_when(&relay, |stats| stats.forward.offered.packets + stats.refused_packets > serial);
    }
    let stats = relay.stop().expect("a clean end");
    assert_eq!(stats.clients, 2);
    // 1000 bytes each: ten reach the bound, one goes above it.
    assert_eq!((stats.forward.offered.packets, stats.refused_packets), (11, 9));
}

#[test]
fn strangers_do_not_reach_clients() {
    let server = socket();
    let relay = relay_to(&server, LinkConfig::default());
    let (client, stranger) = (socket(), socket());
    client.send_to(b"hello", relay.local_addr()).expect("sent");
    let (_, upstream) = receive(&server);
    let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream.port()));
    stranger.send_to(b"evil", upstream).expect("sent");
    server.send_to(b"good", upstream).expect("sent");
    assert_eq!(receive(&client).0, b"good");
    assert_eq!(relay.stop().expect("a clean end").backward.offered.packets, 1);
}

/// Marks set by the link reach the far end, and only where the sender is capable of them.
#[test]
fn ecn_passes_and_is_set() {
    let far = Port::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let near = Port::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let server = far.socket.local_addr().expect("bound");
    let marking = LinkConfig { mark: Probability::ONE, ..LinkConfig::default() };
    for (link, expected) in [
        (LinkConfig::default(), [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce]),
        (marking, [Ecn::NotEct, Ecn::Ce, Ecn::Ce, Ecn::Ce]),
    ] {
        let relay = Relay::start(RelayConfig::new(server, link.clone(), link)).expect("a relay");
        let mut found = Vec::new();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let datagram = fulmar_net::Datagram { contents: vec![7; 10], ecn, flow: 0 };
            near.send(relay.local_addr(), None, &datagram).expect("sent");
            let started = std::time::Instant::now();
            let mut buffers = port::Buffers::new();
            let before = found.len();
            while found.len() == before && started.elapsed() < PATIENCE {
                let _ = far.receive(&mut buffers, |datagram| found.push(datagram.ecn));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn what_has_ecn_bits_is_eaten_both_ways_and_the_rest_passes() {
    let far = port::Port::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let near = port::Port::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let server = far.socket.local_addr().expect("bound");
    let relay = Relay::start(RelayConfig::new(server, LinkConfig::default(), LinkConfig::default()));
    let relay = relay.expect("a relay");
    relay.meddle(Meddling { eats_ecn: true, ..Meddling::default() });
    let next = |port: &port::Port| {
        let (started, mut found) = (std::time::Instant::now(), None);
        let mut buffers = port::Buffers::new();
        while found.is_none() && started.elapsed() < PATIENCE {
            let _ = port.receive(&mut buffers, |got| found = found.or(Some((got.ecn, got.from))));
            std::thread::sleep(Duration::from_millis(1));
        }
        found.expect("a datagram")
    };
    let send = |port: &port::Port, to| {
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
            let datagram = fulmar_net::Datagram { contents: vec![7; 10], ecn, flow: 0 };
            port.send(to, None, &datagram).expect("sent");
        }
    };
    send(&near, relay.local_addr());
    let (ecn, from) = next(&far);
    assert_eq!(ecn, Ecn::NotEct);
    send(&far, from);
    assert_eq!(next(&near).0, Ecn::NotEct);
    assert_eq!(stats_when(&relay, |stats| stats.meddled_packets == 6).unsent_packets, 0);
}

#[test]
fn a_port_that_has_lived_is_closed_and_another_is_open() {
    let server = socket();
    let relay = relay_to(&server, LinkConfig::default());
    let old = socket();
    old.send_to(&[1], relay.local_addr()).expect("sent");
    let (_, from) = receive(&server);
    std::thread::sleep(Duration::from_millis(20));
    relay.meddle(Meddling { port_life: Some(Duration::from_millis(10)), ..Meddling::default() });
    old.send_to(&[2], relay.local_addr()).expect("sent");
    server.send_to(&[3], from).expect("sent");
    stats_when(&relay, |stats| stats.meddled_packets == 2);
    relay.meddle(Meddling { port_life: Some(PATIENCE), ..Meddling::default() });
    socket().send_to(&[4], relay.local_addr()).expect("sent");
    assert_eq!(receive(&server).0, [4], "and what the closed port sent has not come");
}

#[test]
fn copies_come_from_another_address_and_before_their_packets() {
    let server = socket();
    let link = LinkConfig { delay: Duration::from_millis(50), ..LinkConfig::default() };
    let relay = relay_to(&server, link);
    let from = std::net::IpAddr::from([127, 0, 0, 9]);
    relay.meddle(Meddling { copying: Some(Copying { every: 2, from }), ..Meddling::default() });
    let client = socket();
    for serial in 0..4 {
        client.send_to(&[serial], relay.local_addr()).expect("sent");
    }
    let mut all: Vec<_> = (0..6).map(|_| receive(&server)).collect();
    let copies = all.iter().filter(|(_, at)| at.ip() == from).map(|(contents, _)| contents[0]);
    assert_eq!(copies.collect::<Vec<_>>(), [1, 3]);
    let place =
        |serial, is_copy| all.iter().position(|(c, at)| c[0] == serial && (at.ip() == from) == is_copy);
    assert!(place(1, true) < place(1, false) && place(3, true) < place(3, false), "{all:?}");
    all.retain(|(_, at)| at.ip() != from);
    assert_eq!(all.iter().map(|(contents, _)| contents[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn a_taken_address_is_an_error() {
    let server = socket();
    let taken = server.local_addr().expect("bound");
    let config = RelayConfig::new(taken, LinkConfig::default(), LinkConfig::default());
    let error = Relay::start(RelayConfig { listen: taken, ..config }).expect_err("taken");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

/// Not a test but a measurement, for a quiet machine:
/// `cargo test --release -p fulmar-lab relay_speed -- --ignored --nocapture`. `RELAY_MBIT` sets the rate each
/// way.
#[test]
#[ignore = "measures instead of testing"]
fn relay_speed() {
    const SECONDS: u64 = 5;
    let mbit: u64 = std::env::var("RELAY_MBIT").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let rate = fulmar_units::Rate::from_bits_per_second(mbit * 1_200_000);
    let server = Arc::new(socket());
    let relay = relay_to(&server, LinkConfig::new(rate, Duration::from_millis(10)));
    let client = Arc::new(socket());
    client.send_to(&[0], relay.local_addr()).expect("sent");
    let (_, upstream) = receive(&server);

    // 1372 + 28 bytes each; as many per millisecond as the rate wants. Then a second without, to end the
    // receivers.
    let blast = |socket: &Arc<UdpSocket>, to| {
        let socket = Arc::clone(socket);
        std::thread::spawn(move || {
            let (started, mut sent) = (std::time::Instant::now(), 0);
            while started.elapsed() < Duration::from_secs(SECONDS) {
                let due = started.elapsed().as_micros() as u64 * mbit / (8 * 1400);
                while sent < due {
                    sent += u64::from(socket.send_to(&[7; 1372], to).is_ok());
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            sent
        })
    };
    let count = |socket: &Arc<UdpSocket>| {
        let socket = Arc::clone(socket);
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        std::thread::spawn(move || std::iter::from_fn(|| socket.recv(&mut [0; 2000]).ok()).count())
    };
    let receivers = [count(&server), count(&client)];
    let senders = [blast(&client, relay.local_addr()), blast(&server, upstream)];
    let sent = senders.map(|thread| thread.join().expect("a sender"));
    let received = receivers.map(|thread| thread.join().expect("a receiver"));
    let cpu = relay_thread_cpu();
    let stats = relay.stop().expect("a clean end");
    println!("sent {sent:?}, taken in {:?}", [stats.forward.offered.packets, stats.backward.offered.packets]);
    println!(
        "came out {:?}, received {received:?}",
        [stats.forward.delivered.packets, stats.backward.delivered.packets]
    );
    println!("{:.0} Mbit/s forward", stats.forward.delivered.bytes as f64 * 8e-6 / SECONDS as f64);
    println!("{:.0} Mbit/s backward", stats.backward.delivered.bytes as f64 * 8e-6 / SECONDS as f64);
    let late = [500, 900, 990, 999].map(|per_mille| stats.lateness.quantile(per_mille));
    println!("late p50 p90 p99 p99.9: {late:?}, max {:?}", stats.lateness.max());
    println!("relay thread: {:.0} % of a core", cpu.as_secs_f64() * 100.0 / SECONDS as f64);
}

/// Processor time of the thread named "relay", from the kernel's accounts (in ticks of 10 ms).
fn relay_thread_cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let relay = stats.into_iter().find(|stat| stat.contains("(relay)")).unwrap_or_default();
    let fields: Vec<i64> =
        relay.rsplit(") ").next().unwrap_or("").split(' ').filter_map(|f| f.parse().ok()).collect();
    // utime and stime are fields 14 and 15; behind the name the first is the state, which is no number.
    let ticks: i64 = fields.get(10..12).map_or(0, |times| times.iter().sum());
    Duration::from_millis(10 * ticks.unsigned_abs())
}
