//! A gateway at several ports, and a network that closes one or slows it down: a download that runs goes on
//! through another, on the same connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use fulmar::Rate;
use fulmar_cli::relay::{Meddling, Relay, RelayConfig};
use fulmar_net::{Direction, LinkConfig, Policer};

use crate::common::{Home, Server};
use crate::tcp::{Clock, Download, UNNOTICED, told};

const PORTS: u16 = 4;

/// The gateway is here, ..
const INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// .. and clients see the same ports there: all of 127.0.0.0/8 is this machine.
const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Longest standstill when a port is shut: a second until it is missed, and a round trip or two.
const STANDSTILL_MAX: Duration = Duration::from_secs(3);

fn link() -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() }
}

/// A gateway with [`PORTS`] ports, and a road to each.
struct Roads {
    gateway: Server,
    roads: Vec<Relay>,
}

impl Roads {
    fn new(home: &Home) -> Self {
        let first =
            std::iter::repeat_with(|| UdpSocket::bind((INSIDE, 0)).unwrap().local_addr().unwrap().port())
                .find(|first| *first < u16::MAX - PORTS && (0..PORTS).all(|n| is_free(first + n)))
                .unwrap();
        let listen = format!("{INSIDE}:{first},{}-{}", first + 1, first + PORTS - 1);
        let gateway = Server::start(home.command(&["gateway", "--json", "--listen", &listen]));
        let last = first + PORTS - 1;
        assert_eq!(gateway.first["ports"], format!("{first}-{last}"));
        let road = |port| {
            let listen = SocketAddr::new(OUTSIDE, port);
            let config = RelayConfig::new(SocketAddr::new(INSIDE, port), link(), link());
            Relay::start(RelayConfig { listen, ..config }).unwrap()
        };
        Self { gateway, roads: (first..=last).map(road).collect() }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(OUTSIDE, self.gateway.address.port())
    }

    /// Datagrams that clients have sent by each.
    fn used(&self) -> Vec<u64> {
        self.roads.iter().map(|road| road.stats().forward.offered.packets).collect()
    }
}

fn is_free(port: u16) -> bool {
    [INSIDE, OUTSIDE].iter().all(|ip| UdpSocket::bind((*ip, port)).is_ok())
}

/// Whatever port the client has itself.
#[test]
fn another_port_takes_the_place_of_one_that_is_shut() {
    let (home, clock) = (Home::new(), Clock::new());
    let roads = Roads::new(&home);
    let (download, _program, first) = Download::begin(&home, roads.address(), &[], None);
    download.for_a_while(Duration::from_secs(1));
    assert!(roads.used()[1..].iter().all(|packets| *packets == 0), "nothing is wrong yet");
    roads.roads[0].meddle(Meddling { port_life: Some(Duration::ZERO), ..Meddling::default() });
    let standstill = download.for_a_while(Duration::from_secs(4));
    told("port shut in the middle", first, standstill, &clock);
    assert!(standstill < STANDSTILL_MAX + clock.late(), "{standstill:?}");
    assert!(roads.used()[1..].iter().any(|packets| *packets > 0), "{:?}", roads.used());
}

/// A port that is known from the last time, or was said, takes the place of the first one.
#[test]
fn another_port_is_tried_where_the_first_is_shut_from_the_beginning() {
    let (home, clock) = (Home::new(), Clock::new());
    let roads = Roads::new(&home);
    let (download, program, _) = Download::begin(&home, roads.address(), &[], None);
    download.for_a_while(Duration::from_millis(300));
    drop((download, program));
    roads.roads[0].meddle(Meddling { port_life: Some(Duration::ZERO), ..Meddling::default() });
    let ports = roads.gateway.first["ports"].as_str().unwrap();
    let known = home.path().join("ports");
    assert!(std::fs::read_to_string(&known).unwrap().ends_with(&format!(" {ports}\n")));
    for more in [&[][..], &["--other-ports", ports]] {
        let (download, program, first) = Download::begin(&home, roads.address(), more, None);
        let standstill = download.for_a_while(Duration::from_secs(1));
        told("port shut from the beginning", first, standstill, &clock);
        assert!(first < STANDSTILL_MAX + clock.late(), "{first:?}");
        drop((download, program));
        std::fs::remove_file(&known).unwrap();
    }
    let failed = home.run(&["connect", "127.0.0.1:1", "a:1", "--other-ports", "9-1"]);
    failed.fails_with(2).says("range of ports");
}

/// 2 Mbit/s, of which a port lets 160 kbit/s through from then on.
#[test]
fn another_port_takes_the_place_of_one_that_is_slow() {
    let (home, clock) = (Home::new(), Clock::new());
    let roads = Roads::new(&home);
    let (download, _program, first) = Download::begin_of(5000, &home, roads.address(), &[], None);
    download.for_a_while(Duration::from_secs(5));
    let policer = Some(Policer { rate: Rate::from_bits_per_second(160_000), burst_bytes: 20_000 });
    roads.roads[0].reconfigure(Direction::Backward, LinkConfig { policer, ..link() });
    let before = download.bytes();
    download.until("another port is taken", || roads.used()[1..].iter().any(|packets| *packets > 0));
    let slow = download.bytes() - before;
    let standstill = download.for_a_while(Duration::from_secs(5));
    told("port slow in the middle", first, standstill, &clock);
    let fast = download.bytes() - before - slow;
    assert!(fast > 500_000, "{fast} bytes in 5 s, after {slow} while it was slow");
}

#[test]
fn ports_are_changed_as_often_as_is_wanted() {
    let (home, clock) = (Home::new(), Clock::new());
    let roads = Roads::new(&home);
    let more = ["--hop", "1s", "--way", "udp"];
    let (download, _program, first) = Download::begin(&home, roads.address(), &more, None);
    let standstill = download.for_a_while(Duration::from_secs(12));
    told("another port each second", first, standstill, &clock);
    assert!(standstill < UNNOTICED + clock.late(), "{standstill:?}");
    assert!(roads.used().iter().filter(|packets| **packets > 0).count() >= 3, "{:?}", roads.used());
}

#[test]
fn ports_that_are_taken_or_too_many_are_named() {
    let home = Home::new();
    let taken = UdpSocket::bind((INSIDE, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let failed = home.run(&["gateway", "--listen", &format!("127.0.0.1:0,{port}")]);
    failed.fails_with(3).says(&format!("127.0.0.1:{port}"));
    home.run(&["gateway", "--listen", "127.0.0.1:0,1-9999"]).fails_with(2).says("1024");
    home.run(&["serve", "--listen", "127.0.0.1:0,9-1"]).fails_with(2).says("range of ports");
}
