//! What a gateway of packets and its clients can do to each other, and to those around them.
//!
//! Peers that lie are tests of this program, that others start in a namespace.

use std::collections::HashMap;
use std::io::BufRead;
use std::process::{Command, Stdio};
use std::sync::Arc;

use etherparse::PacketBuilder;
use fulmar::crypto;
use fulmar::{ClientConfig, Connection, Endpoint};
use serde_json::{Value, json};

use crate::common::{Home, Running, Server, wait_until};
use crate::greedy::Anybody;
use crate::room::Room;
use crate::tun::{HERE, Stage, THERE};
use crate::tunnel_liar::{frame, gateway_at, hear};

/// Says hello over and over at a port of its address, and nothing else.
const SERVICE: &str = "import socket
s = socket.create_server(('0.0.0.0', 8088))
print('{\"address\": \"127.0.0.1:8088\"}', flush=True)
while True:
    c = s.accept()[0]
    c.sendall(b'hello')
    c.close()";

fn service(room: &Room) -> Server {
    let mut command = Command::new("python3");
    Server::start(room.inside(command.args(["-c", SERVICE])))
}

/// Whether that service can be reached from a room.
fn reaches(room: &Room, address: &str) -> bool {
    let mut command = Command::new("python3");
    let ask = "import socket, sys; s = socket.create_connection((sys.argv[1], 8088), 2); print(s.recv(9))";
    let output = room.inside(command.args(["-c", ask, address])).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("hello")
}

/// One of the tests below, which plays a part, in a room.
fn part(room: &Room, name: &str, home: &Home, words: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("tun_trust::{name}");
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", &name]);
    command.env("FULMAR_HOME", home.path()).envs(words.iter().copied());
    room.inside(&command)
}

fn word(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

#[test]
#[ignore = "a part that other tests give it"]
fn a_gateway_that_lies() {
    let grant: Value = serde_json::from_str(&word("GRANT")).unwrap();
    let serve = move |connection: Connection| {
        let grant = grant.clone();
        async move {
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            assert!(hear(&mut recv).await["tun"].is_object());
            send.write_all(&frame(&json!({ "tun": grant }))).await.unwrap();
            std::future::pending().await
        }
    };
    let home = word("FULMAR_HOME");
    let address = gateway_at(home.as_ref(), format!("{THERE}:0").parse().unwrap(), serve);
    println!("\nat {address}");
    std::thread::park();
}

#[test]
fn a_gateway_does_not_choose_what_its_client_takes() {
    let Some(stage) = Stage::new(&[]) else { return };
    let before = stage.routes();
    let honest = [
        ("mtu", json!(1380)),
        ("v4", json!("10.97.0.2")),
        ("gateway_v4", json!("10.97.0.1")),
        ("v6", json!("fdf1:6675:6c6d::2")),
        ("gateway_v6", json!("fdf1:6675:6c6d::1")),
    ];
    let pair = |v4: &str, gateway: &str| vec![("v4", json!(v4)), ("gateway_v4", json!(gateway))];
    let lies = [
        (pair("192.168.1.53", "192.168.1.54"), "outside of"),
        (pair("10.97.0.2", "192.168.1.1"), "no pair"),
        // With --addresses 0.0.0.0/0: its neighbours on the wire.
        (pair("10.11.0.6", "10.11.0.5"), "an interface"),
        (vec![("v6", json!("2001:db8::2")), ("gateway_v6", json!("2001:db8::1"))], "outside of"),
        (vec![("mtu", json!(65_535))], "MTU"),
    ];
    for (lie, words) in lies {
        let grant: HashMap<_, _> = honest.clone().into_iter().chain(lie).collect();
        let grant = json!(grant).to_string();
        let mut liar = part(&stage.far, "a_gateway_that_lies", &stage.home, &[("GRANT", &grant)]);
        let mut liar = liar.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(liar.stdout.take().unwrap()).lines().map_while(Result::ok);
        let at = lines.find_map(|line| line.strip_prefix("at ").map(str::to_owned)).expect("an address");
        let mut arguments = vec!["tun", "--accept-new", &at];
        if words == "an interface" {
            arguments.extend(["--addresses", "0.0.0.0/0"]);
        }
        let output = stage.near.inside(&stage.home.command(&arguments)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        liar.kill().unwrap();
        liar.wait().unwrap();
        assert!(output.status.code() == Some(1) && said.contains(words), "{grant}: {said}");
        assert_eq!(stage.routes(), before);
    }
}

/// Sends packets by a tunnel: one from each address of `SOURCES`, then one from its own.
#[tokio::test]
#[ignore = "a part that other tests give it"]
async fn a_client_that_lies() {
    let identity = fulmar::identity::Home::at(std::path::Path::new(&word("FULMAR_HOME"))).identity().unwrap();
    let crypto = crypto::ClientConfig::raw_key(Some(&identity), Arc::new(Anybody));
    let crypto = crypto.with_alpn(&[b"fulmar-tunnel/1"]);
    let endpoint = Endpoint::client(format!("{HERE}:0").parse().unwrap()).unwrap();
    let gateway = word("GATEWAY").parse().unwrap();
    let connecting = endpoint.connect_with(&ClientConfig::new(Arc::new(crypto)), gateway, "x").unwrap();
    let connection = connecting.await.unwrap();
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let wish = json!({"tun": {"delivery": "in-order", "mtu": 1380}});
    send.write_all(&frame(&wish)).await.unwrap();
    let grant = hear(&mut recv).await;
    let own = grant["tun"]["v4"].as_str().unwrap().to_owned();
    let sources = word("SOURCES");
    for source in sources.split(' ').chain([own.as_str()]) {
        let source: std::net::Ipv4Addr = source.parse().unwrap();
        let builder = PacketBuilder::ipv4(source.octets(), [203, 0, 113, 7], 64).udp(9999, 9999);
        let mut packet = Vec::new();
        builder.write(&mut packet, b"x").unwrap();
        send.write_all(&(packet.len() as u16).to_be_bytes()).await.unwrap();
        send.write_all(&packet).await.unwrap();
    }
    println!("\nsent from {own}");
    std::future::pending::<()>().await;
}

#[test]
fn a_client_sends_from_its_own_addresses_only() {
    let Some(stage) = Stage::new(&[]) else { return };
    // Nothing but the gateway itself looks at sources.
    let loose = "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done";
    assert!(stage.far.shell(loose).status().unwrap().success());
    let hear = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('203.0.113.7', 9999))
print('{\"address\": \"203.0.113.7:9999\"}', flush=True)
print('{\"from\": \"%s\"}' % s.recvfrom(9)[1][0], flush=True)";
    let mut command = Command::new("python3");
    let heard = Server::start(stage.far.inside(command.args(["-c", hear])));
    // Another client's addresses, the gateway's own, and those of somebody else.
    let other = stage.tunnel(&[]);
    let sources = format!("8.8.8.8 {} {} 127.0.0.1", other.v4, other.gateway_v4);
    let gateway = stage.gateway.address.to_string();
    let words = [("SOURCES", sources.as_str()), ("GATEWAY", gateway.as_str())];
    let mut liar = part(&stage.near, "a_client_that_lies", &stage.home, &words);
    let mut liar = liar.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(liar.stdout.take().unwrap()).lines().map_while(Result::ok);
    let own = lines.find_map(|line| line.strip_prefix("sent from ").map(str::to_owned)).expect("a lease");
    assert_ne!(own, other.v4);
    // They travel in order: whatever was let through before would have been heard first.
    assert_eq!(heard.event()["from"], own);
    liar.kill().unwrap();
    liar.wait().unwrap();
    let reports = stage.home.run(&["status", "--json"]).success().json();
    let report = reports.as_array().unwrap().iter().find(|report| report["command"] == "gateway").unwrap();
    assert!(report["dropped_packets"]["foreign"].as_u64().unwrap() >= 4, "{report}");
}

#[test]
fn nothing_begins_at_the_far_end_unless_it_is_asked_for() {
    let Some(stage) = Stage::new(&[]) else { return };
    let _service = service(&stage.near);
    assert!(reaches(&stage.near, "127.0.0.1"));
    let tables = || stage.near("nft list tables");
    let before = tables();
    let mut tunnel = stage.tunnel(&[]);
    stage.near(&format!("ping -c 1 -W 5 {}", tunnel.gateway_v4));
    assert!(!reaches(&stage.far, &tunnel.v4), "the gateway reaches a service of its client");
    tunnel.running.kill();
    wait_until("the rules are gone", || tables() == before);
    let open = stage.tunnel(&["--inbound"]);
    assert!(reaches(&stage.far, &open.v4));
}

/// A machine on the gateway's other side, that sends packets for tunnels and for the client's wire to it.
fn neighbour(stage: &Stage) -> Option<Room> {
    let wire = format!(
        "ip link add v0 type veth peer name v1 netns {}\nip addr add 10.13.0.2/24 dev v0\nip link set v0 up\n\
         nsenter --net=/proc/{}/ns/net sh -c 'ip addr add 10.13.0.1/24 dev v1; ip link set v1 up'\n\
         ip route add 10.97.0.0/16 via 10.13.0.1\nip route add 10.11.0.0/24 via 10.13.0.1",
        stage.far.pid(),
        stage.far.pid()
    );
    Room::new(&wire)
}

#[test]
fn a_gateway_forwards_for_its_tunnels_and_for_nobody_else() {
    let Some(mut stage) = Stage::new(&["--tun-nat"]) else { return };
    let Some(beyond) = neighbour(&stage) else { return };
    let (_near, _beyond) = (service(&stage.near), service(&beyond));
    stage.near("ip route add 10.13.0.9/32 via 10.11.0.2");
    assert!(beyond.shell("ip addr add 10.13.0.9/24 dev v0").status().unwrap().success());
    let tunnel = stage.tunnel(&["--route", "10.13.0.2/32", "--inbound"]);
    assert!(reaches(&stage.near, "10.13.0.2"), "through the tunnel, and the answer comes back");
    assert!(!reaches(&beyond, &tunnel.v4), "a neighbour of the gateway reaches its client");
    assert!(!reaches(&stage.near, "10.13.0.9"), "the gateway forwards from wire to wire");
    drop(tunnel);
    stage.gateway.interrupt();
    wait_until("forwarding is off", || forwarding(&stage) == "0 0");
    let more = ["--tun-nat", "--tun-inbound"];
    stage.gateway = Stage::gateway(&stage.far, &stage.home, &format!("{THERE}:0"), &more);
    let tunnel = stage.tunnel(&["--route", "10.13.0.2/32", "--inbound"]);
    assert!(reaches(&beyond, &tunnel.v4), "it was asked for");
    assert!(!reaches(&stage.near, "10.13.0.9"));
}

fn forwarding(stage: &Stage) -> String {
    let cat = "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding";
    let output = stage.far.shell(cat).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Processes that this one has started.
fn children(pid: u32) -> Vec<u32> {
    let of = |entry: std::fs::DirEntry| {
        let child: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        (parent.trim().parse() == Ok(pid)).then_some(child)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

fn kill_guardians(of: u32) {
    let guardians = children(of);
    assert!(!guardians.is_empty());
    for pid in guardians {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

#[test]
fn a_client_killed_with_its_guardian_is_put_right_by_the_next() {
    let Some(stage) = Stage::new(&[]) else { return };
    let all = || stage.near("ip route; ip -6 route; nft list tables");
    let before = all();
    let mut tunnel = stage.tunnel(&["--route", "default"]);
    kill_guardians(tunnel.running.pid());
    tunnel.running.kill();
    wait_until("the device is gone", || !stage.near("ip -br link").contains("fulmar0"));
    assert_ne!(all(), before, "nobody could undo it");
    let tunnel = stage.tunnel(&["--route", "default"]);
    stage.near(&format!("ping -c 1 -W 5 {}", tunnel.gateway_v4));
    assert_eq!(stage.near("nft list table inet fulmar_tun_fulmar0").matches("drop").count(), 2, "once each");
    // Another tunnel to the same gateway needs the route to it no less.
    let second = stage.tunnel(&["--route", "198.51.100.0/24", "--device", "second"]);
    second.running.interrupt();
    second.running.wait();
    assert!(stage.near("ip route show exact 10.11.0.2").contains("dev w0"));
    tunnel.running.interrupt();
    tunnel.running.wait();
    wait_until("all is as it was", || all() == before);
}

#[test]
fn what_was_killed_with_its_guardian_is_put_right_by_the_next() {
    let Some(mut stage) = Stage::new(&["--tun-nat"]) else { return };
    let tables = |stage: &Stage| {
        String::from_utf8(stage.far.shell("nft list tables").output().unwrap().stdout).unwrap()
    };
    assert_eq!(forwarding(&stage), "1 1");
    kill_guardians(stage.gateway.pid());
    stage.gateway.kill();
    assert!(forwarding(&stage) == "1 1" && tables(&stage).contains("fulmar_tun"), "nobody could undo it");
    // The next knows how it was; one that is killed alone as well.
    for _ in 0..2 {
        stage.gateway = Stage::gateway(&stage.far, &stage.home, &format!("{THERE}:0"), &["--tun-nat"]);
        assert_eq!(forwarding(&stage), "1 1");
        let rules = stage.far.shell("nft list table inet fulmar_tun").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&rules.stdout).matches("masquerade").count(), 2, "once each");
        stage.gateway.kill();
        wait_until("all is as it was", || forwarding(&stage) == "0 0" && tables(&stage).is_empty());
    }
    // What was forwarded before is so afterwards.
    assert!(stage.far.shell("echo 1 > /proc/sys/net/ipv4/ip_forward").status().unwrap().success());
    stage.gateway = Stage::gateway(&stage.far, &stage.home, &format!("{THERE}:0"), &["--tun-nat"]);
    stage.gateway.kill();
    wait_until("all is as it was", || forwarding(&stage) == "1 0" && tables(&stage).is_empty());
}

#[test]
fn a_key_has_the_same_addresses_again_and_another_key_has_others() {
    let Some(stage) = Stage::new(&[]) else { return };
    let friend = Home::new();
    let line = format!("permit=\"*\" {}\n", friend.public_key());
    std::fs::write(stage.home.path().join("authorized_keys"), line).unwrap();
    let gateway = stage.gateway.address.to_string();
    let start = |home: &Home, device: &str| {
        let arguments = ["tun", "--accept-new", "--json", &gateway, "--device", device];
        let mut running = Running::start(stage.near.inside(&home.command(&arguments)));
        let ready = running.line();
        (running, ready["addresses"].clone())
    };
    let (own, first) = start(&stage.home, "one");
    let (_friend, second) = start(&friend, "two");
    assert_ne!(first, second);
    own.interrupt();
    own.wait();
    let has_left = || {
        let reports = stage.home.run(&["status", "--json"]).success().json();
        let of = |report: &Value| report["connections"].as_array().map_or(0, Vec::len);
        reports
            .as_array()
            .unwrap()
            .iter()
            .filter(|report| report["command"] == "gateway")
            .map(of)
            .sum::<usize>()
            == 1
    };
    wait_until("the gateway knows that it has left", has_left);
    let (_more, third) = start(&friend, "three");
    assert!(third != first && third != second, "they are kept for their key");
    let (_own, again) = start(&stage.home, "one");
    assert_eq!(again, first);
}
