//! A client whose address changes, and whose cable is pulled, in the middle of a download: in two namespaces.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Home, Server, wait_until};
use crate::room::Room;
use crate::tcp::{Clock, Download, PART_BYTES, say, told, way};

const THERE: &str = "10.12.1.2";

/// Longest standstill: what is asked for after the network changed.
const STANDSTILL_MAX: Duration = Duration::from_secs(3);

/// Two rooms with a wire between them.
fn rooms() -> Option<(Room, Room)> {
    let far = Room::new("")?;
    let near = Room::new(&format!(
        "ip link add w0 type veth peer name w1 netns {}\nip addr add 10.12.1.1/24 dev w0\nip link set w0 up",
        far.pid()
    ))?;
    let up = format!("set -e; ip addr add {THERE}/24 dev w1; ip link set w1 up");
    assert!(far.shell(&up).status().unwrap().success());
    Some((near, far))
}

/// Does something of this program in a room.
fn inside<T: Send + 'static>(room: &Room, work: impl FnOnce() -> T + Send + 'static) -> T {
    let namespace = File::open(format!("/proc/{}/ns/net", room.pid())).unwrap();
    let working = thread::spawn(move || {
        let kind = rustix::thread::LinkNameSpaceType::Network;
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
        work()
    });
    working.join().unwrap()
}

/// A download out of the far room into the near one.
fn download(home: &Home, (near, far): (&Room, &Room), way: &str) -> (Download, Server, Server) {
    let listen = format!("{THERE}:443");
    let gateway =
        Server::start(far.inside(&home.command(&["gateway", "--json", "--listen", &listen, "--tcp"])));
    let target = inside(far, || TcpListener::bind("127.0.0.1:0").unwrap());
    let spec = format!("127.0.0.1:0:{}", target.local_addr().unwrap());
    thread::spawn(move || say(target.accept().unwrap().0, PART_BYTES));
    let arguments = ["forward", "--json", "--accept-new", &listen, "-L", &spec, "--way", way];
    let program = Server::start_any(near.inside(&home.command(&arguments)));
    let at: SocketAddr = program.first["forwards"][0]["at"].as_str().unwrap().parse().unwrap();
    let stream = inside(near, move || TcpStream::connect(at).unwrap());
    (Download::hear(stream), program, gateway)
}

fn change(room: &Room, script: &str) {
    assert!(room.shell(&format!("set -e; {script}")).status().unwrap().success(), "{script}");
}

#[test]
fn a_download_goes_on_from_another_address_and_when_the_cable_is_there_again() {
    for by in ["udp", "tcp"] {
        let Some((near, far)) = rooms() else { return };
        let (home, clock) = (Home::new(), Clock::new());
        let (download, _program, _gateway) = download(&home, (&near, &far), by);
        download.for_a_while(Duration::from_secs(2));
        assert_eq!(way(&home), by);
        change(&near, "ip addr del 10.12.1.1/24 dev w0; ip addr add 10.12.1.9/24 dev w0");
        let standstill = download.for_a_while(Duration::from_secs(4));
        told(&format!("another address, {by}"), Duration::ZERO, standstill, &clock);
        assert!(standstill < STANDSTILL_MAX + clock.late(), "{by}: {standstill:?}");
        change(&near, "ip link set w0 down");
        thread::sleep(Duration::from_secs(5));
        change(&near, "ip link set w0 up");
        let (begin, before) = (Instant::now(), download.bytes());
        wait_until("it goes on", || download.bytes() > before);
        let took = begin.elapsed();
        told(&format!("the cable is there again, {by}"), Duration::ZERO, took, &clock);
        assert!(took < STANDSTILL_MAX + clock.late(), "{by}: {took:?}");
    }
}
