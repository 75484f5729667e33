//! What one client, or strangers, can take of a gateway: names, places, descriptors.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::{Folder, Home, Server, wait_until};
use crate::room::{Room, has};
use crate::tunnel::{echo, forward, gateway, proxy};
use crate::tunnel_udp::echo_udp;

/// A gateway's user, who lets these in with what stands before their keys.
fn owner(friends: &[(&Home, &str)]) -> Home {
    let home = Home::new();
    let lines = friends.iter().map(|(friend, options)| format!("{options} {}\n", friend.public_key()));
    fs::write(home.path().join("authorized_keys"), lines.collect::<String>()).unwrap();
    home
}

/// A name server that never answers, and a server that says hello to everybody and goes.
const SILENT: &str = "import socket
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); dns.bind(('127.0.0.1', 53))
s = socket.create_server(('127.0.0.1', 0))
print('{\"address\": \"127.0.0.1:%d\"}' % s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept(); c.sendall(b'hello'); c.close()";

/// Asks a SOCKS proxy for as many names as it is told, and waits.
const ASK: &str = "import socket, sys, time
held = []
for i in range(int(sys.argv[2])):
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); held.append(s)
    name = b'n%d.example.org' % i
    s.sendall(b'\\x05\\x01\\x00\\x05\\x01\\x00\\x03' + bytes([len(name)]) + name + b'\\x00\\x50')
print('{\"event\": \"asked\"}', flush=True)
time.sleep(600)";

#[test]
fn names_that_get_no_answer_hold_few_threads_and_nobody_else_up() {
    let Some(room) = Room::new("") else { return };
    if !has("python3") {
        return;
    }
    let (greedy, honest) = (Home::new(), Home::new());
    let owner = owner(&[(&greedy, "permit=\"*\""), (&honest, "permit=\"*\"")]);
    let python = |script: &str, arguments: &[&str]| {
        let mut command = Command::new("python3");
        room.inside(command.args(["-c", script]).args(arguments))
    };
    let hello = Server::start(python(SILENT, &[]));
    let files = Folder::new();
    fs::write(files.join("resolv.conf"), "nameserver 127.0.0.1\noptions timeout:30 attempts:3\n").unwrap();
    let script = "mount --bind \"$0\" \"$(realpath /etc/resolv.conf)\" && exec \"$@\"";
    let gateway = owner.command(&["gateway", "--json", "--listen", "127.0.0.1:0"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, &files.arg("resolv.conf")]);
    command.arg(gateway.get_program()).args(gateway.get_args()).env("FULMAR_HOME", owner.path());
    let gateway = Server::start(room.inside(&command));
    let before = gateway.status("Threads");

    let host = gateway.address.to_string();
    let arguments = ["proxy", "--accept-new", "--json", "--listen", "127.0.0.1:0", &host];
    let proxy = Server::start(room.inside(&greedy.command(&arguments)));
    let asking = Server::start_any(python(ASK, &[&proxy.port(), "150"]));
    assert_eq!(asking.first["event"], "asked");
    wait_until("names are looked up", || gateway.status("Threads") >= before + 16);
    // Askers lose patience after ten seconds; their threads do not.
    thread::sleep(Duration::from_secs(12));
    let threads = gateway.status("Threads");
    assert!(threads <= before + 24, "{threads} threads, {before} before");

    // A name that this machine knows itself.
    let target = format!("localhost:{}", hello.address.port());
    let output = room.inside(&honest.command(&["connect", "--accept-new", &host, &target])).output().unwrap();
    assert_eq!(output.stdout, b"hello", "{}", String::from_utf8_lossy(&output.stderr));
}

/// A connection from this address, which says something and hears the answer.
fn exchange_from(source: [u8; 4], at: SocketAddr) -> Option<Vec<u8>> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&at.into()).ok()?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"question").ok()?;
    stream.shutdown(std::net::Shutdown::Write).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn strangers_at_a_port_leave_places_to_its_owner_and_to_each_other() {
    let client = Home::new();
    let owner = owner(&[(&client, "permit=\"*\",permit-listen=\"*\",streams=40")]);
    let gateway = gateway(&owner);
    let spec = format!("0:{}", echo());
    let (_forward, at) = forward(&client, &gateway, &["-L", &spec, "-R", &spec]);
    let at: Vec<SocketAddr> = at.iter().map(|at| at.parse().unwrap()).collect();
    let (local, remote) = (at[0], at[1]);
    assert_eq!(exchange_from([127, 0, 0, 1], remote).unwrap(), b"question");

    let mut held: Vec<_> = (0..60).map(|_| TcpStream::connect(remote).unwrap()).collect();
    // Those who found no place are cut off; the others wait for an answer.
    let is_cut = |stream: &mut TcpStream| -> bool {
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        !matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    wait_until("most are cut off", || held.iter_mut().map(is_cut).filter(|is_cut| *is_cut).count() >= 50);
    assert!(held.iter_mut().map(is_cut).any(|is_cut| !is_cut), "some have a place");
    assert_eq!(exchange_from([127, 0, 0, 9], remote).expect("another source has its share"), b"question");
    assert_eq!(exchange_from([127, 0, 0, 1], local).expect("the client's own flows go on"), b"question");
}

#[test]
fn strangers_packets_do_not_shut_a_port_to_others_and_are_counted() {
    let client = Home::new();
    let owner = owner(&[(&client, "permit=\"*\",permit-listen=\"*\"")]);
    let gateway = gateway(&owner);
    let (_forward, at) = forward(&client, &gateway, &["-R", &format!("0:{}/udp", echo_udp())]);
    let at: SocketAddr = at[0].trim_end_matches("/udp").parse().unwrap();
    let status = || owner.run(&["status", "--json"]).success().json();
    let dropped = || status()[0]["dropped_packets"]["too_many_flows"].as_u64().unwrap();
    // Peers of one source with one packet each: 1,500, and more where a busy machine loses some.
    wait_until("one source has too many", || {
        for _ in 0..1500 {
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", at).unwrap();
        }
        dropped() > 0
    });
    let other = UdpSocket::bind("127.0.0.9:0").unwrap();
    other.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    wait_until("another source is answered", || {
        other.send_to(b"question", at).unwrap();
        let mut answer = [0; 100];
        other.recv_from(&mut answer).is_ok_and(|(len, _)| &answer[..len] == b"question")
    });
    let status = status();
    let comment = status[0]["connections"][0]["comment"].as_str().unwrap();
    assert_eq!(comment, client.public_key().split(' ').nth(2).unwrap_or_default());
}

/// A SOCKS connection through a proxy to an address; whether it was opened.
fn socks(proxy: SocketAddr, target: SocketAddr) -> Option<TcpStream> {
    let IpAddr::V4(ip) = target.ip() else { return None };
    let mut stream = TcpStream::connect(proxy).ok()?;
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend(ip.octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).ok()?;
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).ok()?;
    (reply[3] == 0).then_some(stream)
}

#[test]
fn one_key_leaves_descriptors_to_others() {
    let (greedy, honest) = (Home::new(), Home::new());
    let owner = owner(&[(&greedy, "permit=\"*\""), (&honest, "permit=\"*\"")]);
    let plain = owner.command(&["gateway", "--json", "--listen", "127.0.0.1:0"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 160; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.env("FULMAR_HOME", owner.path());
    let gateway = Server::start(command);
    // Whoever comes is held.
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = target.local_addr().unwrap();
    thread::spawn(move || target.incoming().map(Result::unwrap).collect::<Vec<_>>());

    let first = proxy(&greedy, &gateway, &[]);
    let held: Vec<_> = (0..200).filter_map(|_| socks(first.address, address)).collect();
    assert!((10..100).contains(&held.len()), "{}", held.len());
    // A key that has not been here yet: the list of keys is read, and a flow opened.
    let second = proxy(&honest, &gateway, &[]);
    let honest: Vec<_> = (0..5).map(|_| socks(second.address, address)).collect();
    assert!(honest.iter().all(Option::is_some), "{honest:?}");
}
