//! UDP through a tunnel: whose an association is, and what becomes of packets that the path loses.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fulmar_cli::relay::{Relay, RelayConfig};
use fulmar_net::{LinkConfig, Loss, Probability};
use fulmar_units::Rate;

use crate::common::{Home, PATIENCE, Server, wait_until};
use crate::tunnel::{gateway, proxy};
use crate::tunnel_port::{LATE, lateness};

const LOGIN: &str = "someone:secret";

/// Sends everybody back what they send.
pub(crate) fn echo_udp() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    address
}

/// A SOCKS client with the right password that has asked for UDP and named `port` as its own: the connection,
/// and where packets are to go, or the reply that is no yes.
fn associate(proxy: &Server, port: u16) -> Result<(TcpStream, SocketAddr), u8> {
    let (user, password) = LOGIN.split_once(':').unwrap();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    let mut answer = [0; 2];
    stream.write_all(&[5, 1, 2]).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 2]);
    let mut login = vec![1, user.len() as u8];
    login.extend(user.bytes());
    login.push(password.len() as u8);
    login.extend(password.bytes());
    stream.write_all(&login).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [1, 0]);
    let mut request = vec![5, 3, 0, 1, 0, 0, 0, 0];
    request.extend(port.to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    if reply[1] != 0 {
        return Err(reply[1]);
    }
    let at = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[8], reply[9]])));
    Ok((stream, at))
}

/// A packet to `target` with the header of SOCKS.
fn packet(target: SocketAddr, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 0, 0, 1, 127, 0, 0, 1];
    packet.extend(target.port().to_be_bytes());
    packet.extend(content);
    packet
}

/// Sends until an answer comes; packets may get lost.
#[track_caller]
fn is_answered(socket: &UdpSocket, at: SocketAddr, packet: &[u8]) {
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = [0; 2048];
    wait_until("a packet is answered", || {
        socket.send_to(packet, at).unwrap();
        socket.recv_from(&mut buffer).is_ok_and(|(len, _)| buffer[..len] == *packet)
    });
}

/// Another user, who sends this packet ten times there, waits, and says what came back.
fn thief(at: SocketAddr, packet: &[u8]) -> Child {
    let script = "import os, socket, sys
os.setuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(10): s.sendto(bytes.fromhex(sys.argv[2]), ('127.0.0.1', int(sys.argv[1])))
print('sent', flush=True)
sys.stdin.read()
s.settimeout(0.1)
try: print('stole', s.recv(2048))
except TimeoutError: print('nothing')";
    let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new("python3");
    command.args(["-c", script, &at.port().to_string(), &hex]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn who_sends_first_does_not_own_an_association() {
    let home = Home::new();
    let (gateway, target) = (gateway(&home), echo_udp());
    let proxy = proxy(&home, &gateway, &["--user", LOGIN]);
    let owner = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = owner.local_addr().unwrap().port();
    // One that names its port: any other socket is somebody else's, even one of the same user.
    let (_stream, at) = associate(&proxy, port).unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    (0..10).for_each(|_| assert!(stranger.send_to(&packet(target, b"mine?"), at).is_ok()));
    is_answered(&owner, at, &packet(target, b"the owner's"));
    stranger.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(stranger.recv_from(&mut [0; 100]).is_err(), "the stranger gets nothing");

    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    // One that does not know its port yet: the user tells them apart.
    let (_stream, at) = associate(&proxy, 0).unwrap();
    let mut thief = thief(at, &packet(target, b"mine!"));
    let mut said = BufReader::new(thief.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "sent");
    is_answered(&owner, at, &packet(target, b"the owner's"));
    drop(thief.stdin.take());
    assert_eq!(said.next().unwrap().unwrap(), "nothing");
    thief.wait().unwrap();
}

/// Sends a game's packets through a forward and has them sent back, over a path that loses a tenth each way:
/// how many percent come back, and what `status` says of the forward's connection.
fn play(favor: &str) -> (usize, serde_json::Value) {
    let home = Home::new();
    let gateway = gateway(&home);
    let link = LinkConfig::new(Rate::from_bits_per_second(20_000_000), Duration::from_millis(10))
        .with_loss(Loss::bernoulli(Probability::from_percent(10)));
    let relay = Relay::start(RelayConfig::new(gateway.address, link.clone(), link)).unwrap();
    let spec = format!("0:{}/udp", echo_udp());
    let host = relay.local_addr().to_string();
    let arguments = ["forward", &host, "--json", "--accept-new", "--favor", favor, "-L", &spec];
    let forward = Server::start_any(home.command(&arguments));
    let at = forward.first["forwards"][0]["at"].as_str().unwrap().trim_end_matches("/udp").to_owned();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    is_answered(&socket, at.parse().unwrap(), b"hello");
    let (sender, packets) = (socket.try_clone().unwrap(), 400_u32);
    let sending = thread::spawn(move || {
        for number in 0..packets {
            let mut packet = number.to_be_bytes().to_vec();
            packet.resize(120, 7);
            sender.send_to(&packet, &at).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    });
    let mut back = std::collections::BTreeSet::new();
    let mut buffer = [0; 2048];
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while let Ok((len, _)) = socket.recv_from(&mut buffer) {
        if len == 120 {
            assert!(back.insert(buffer[..4].to_vec()), "a packet came back twice");
        }
    }
    sending.join().unwrap();
    let reports = home.run(&["status", "--json"]).success().json();
    let mut reports = reports.as_array().unwrap().iter();
    let report = reports.find(|r| r["command"] == "forward").unwrap()["connections"][0].clone();
    (back.len() * 100 / packets as usize, report)
}

#[test]
fn packets_that_the_path_loses_are_repaired() {
    let (percent, report) = play("balanced");
    assert!(percent >= 95, "{percent} % came back: {report}");
    assert!(report["repaired"].as_u64().unwrap() > 10, "{report}");
    assert!(report["repaired_repairs_sent"].as_u64().unwrap() > 100, "{report}");
    // Nine tenths of nine tenths.
    let (percent, report) = play("throughput");
    assert!(percent <= 90, "{percent} % came back: {report}");
    assert_eq!(report["repaired_sent"], 0, "{report}");
}

/// As a game's browser asks all servers that there are. They see one port, and a peer that was not asked does
/// not get through it.
#[test]
fn a_thousand_servers_are_asked_from_one_port() {
    const SERVERS: usize = 1000;
    const TIME_MAX: Duration = Duration::from_secs(5);
    const ASK_AGAIN: Duration = Duration::from_millis(500);
    fulmar_cli::platform::raise_descriptor_limit();
    let (home, is_over) = (Home::new(), Arc::default());
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &["--user", LOGIN]);
    let servers: Vec<_> = (0..SERVERS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    servers.iter().for_each(|server| server.set_nonblocking(true).unwrap());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_nonblocking(true).unwrap();
    let (stream, at) = associate(&proxy, client.local_addr().unwrap().port()).unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count();
    let (before, late) = (descriptors(), lateness(&is_over));
    let (begin, mut buffer) = (Instant::now(), [0; 100]);
    let mut asked_at = begin;
    let (mut asked, mut answered, mut seen) = (0, BTreeSet::new(), BTreeSet::new());
    let took = loop {
        // In pieces that the kernel's queue holds.
        let piece = asked..(asked + 20).min(SERVERS);
        asked = piece.end;
        for server in &servers[piece] {
            let server = server.local_addr().unwrap();
            if !answered.contains(&server.port().to_be_bytes()[..]) {
                client.send_to(&packet(server, b"who plays?"), at).unwrap();
            }
        }
        // A late machine's queues overflow: who has not answered is asked again.
        if asked == SERVERS && asked_at.elapsed() > ASK_AGAIN {
            (asked, asked_at) = (0, Instant::now());
        }
        for server in &servers {
            // A thousand ports: some were another test's, and a late datagram of its peer may still come.
            if let Ok((len, from)) = server.recv_from(&mut buffer)
                && buffer[..len] == *b"who plays?"
            {
                seen.insert(from);
                server.send_to(&buffer[..len], from).unwrap();
            }
        }
        while let Ok((len, _)) = client.recv_from(&mut buffer) {
            assert_eq!(&buffer[10..len], b"who plays?");
            answered.insert(buffer[8..10].to_vec());
        }
        if answered.len() == SERVERS || begin.elapsed() > PATIENCE {
            break begin.elapsed();
        }
        thread::sleep(Duration::from_millis(1));
    };
    let late = LATE * Duration::from_micros(late.load(Ordering::Relaxed));
    is_over.store(true, Ordering::Relaxed);
    println!("{} servers asked in {took:.2?}", answered.len());
    assert!(took < TIME_MAX + late, "{took:?}, {late:?} late");
    assert_eq!(seen.len(), 1, "one port: {seen:?}");
    assert!(descriptors() <= before + 2, "{before}, then {}", descriptors());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"a stranger", *seen.first().unwrap()).unwrap();
    thread::sleep(Duration::from_millis(200));
    while let Ok((len, _)) = client.recv_from(&mut buffer) {
        assert_ne!(&buffer[10..len], b"a stranger");
    }
    drop(stream);
    wait_until("the port is given back", || descriptors() <= before);
}
