//! `fulmar tun`: packets between two namespaces joined by a wire, and beyond the far one.

use std::process::Command;

use crate::common::{Home, Running, Server, wait_until};
use crate::room::{Room, has};

pub(crate) const HERE: &str = "10.11.0.1";
pub(crate) const THERE: &str = "10.11.0.2";

/// Two rooms with a wire between them, and a gateway in the far one, which alone has 203.0.113.7.
pub(crate) struct Stage {
    pub(crate) near: Room,
    pub(crate) far: Room,
    pub(crate) home: Home,
    pub(crate) gateway: Server,
}

/// A tunnel that stands.
pub(crate) struct Tunnel {
    pub(crate) running: Running,
    /// The client's.
    pub(crate) v4: String,
    pub(crate) gateway_v4: String,
    gateway_v6: String,
}

impl Stage {
    pub(crate) fn new(more: &[&str]) -> Option<Self> {
        let far = Room::new("ip addr add 203.0.113.7/32 dev lo\nip tuntap add dev probe mode tun")?;
        let wire = format!(
            "ip link add w0 type veth peer name w1 netns {}\nip addr add {HERE}/24 dev w0\nip link set w0 up",
            far.pid()
        );
        let near = Room::new(&wire)?;
        let up = format!("set -e; ip addr add {THERE}/24 dev w1; ip link set w1 up");
        assert!(far.shell(&up).status().unwrap().success());
        if !["ping", "python3", "curl", "nft"].iter().all(|program| has(program)) {
            return None;
        }
        let home = Home::new();
        let gateway = Self::gateway(&far, &home, &format!("{THERE}:0"), more);
        Some(Self { near, far, home, gateway })
    }

    pub(crate) fn gateway(far: &Room, home: &Home, listen: &str, more: &[&str]) -> Server {
        let arguments = ["gateway", "--json", "--listen", listen, "--tun", "10.97.0.0/16"];
        Server::start(far.inside(&home.command(&[&arguments[..], more].concat())))
    }

    pub(crate) fn tunnel(&self, more: &[&str]) -> Tunnel {
        let gateway = self.gateway.address.to_string();
        let arguments = [&["tun", "--accept-new", "--json", &gateway], more].concat();
        let mut running = Running::start(self.near.inside(&self.home.command(&arguments)));
        let ready = running.line();
        assert_eq!(ready["event"], "ready", "{ready}");
        let address = |of: &str, at: usize| ready[of][at].as_str().unwrap().to_owned();
        let [v4, gateway_v4, gateway_v6] =
            [("addresses", 0), ("gateway_addresses", 0), ("gateway_addresses", 1)]
                .map(|(of, at)| address(of, at));
        Tunnel { running, v4, gateway_v4, gateway_v6 }
    }

    #[track_caller]
    pub(crate) fn near(&self, script: &str) -> String {
        let output = self.near.shell(script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {}\n{said}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn routes(&self) -> String {
        self.near("ip route; ip -6 route; ip -br link")
    }
}

#[test]
fn packets_of_any_protocol_arrive_however_they_travel() {
    let Some(stage) = Stage::new(&[]) else { return };
    let before = stage.routes();
    for delivery in ["any-order", "in-order", "unreliable"] {
        let mut tunnel = stage.tunnel(&["--delivery", delivery, "--route", "203.0.113.0/24"]);
        // ICMP, of both families, at the largest size that fits (1380 with headers); then longer ones, in
        // fragments.
        stage.near(&format!("ping -c 3 -i 0.1 -W 5 -M do -s 1352 {}", tunnel.gateway_v4));
        stage.near(&format!("ping -c 2 -i 0.1 -W 5 -s 8000 {}", tunnel.gateway_v4));
        stage.near(&format!("ping -c 2 -i 0.1 -W 5 -s 500 {}", tunnel.gateway_v6));
        assert!(
            !stage
                .near
                .shell(&format!("ping -c 1 -W 1 -M do -s 1400 {}", tunnel.gateway_v4))
                .status()
                .unwrap()
                .success()
        );
        // TCP, whole.
        let got = stage.download("203.0.113.7", 2_000_000);
        assert_eq!(got, 2_000_000, "{delivery}");
        tunnel.running.kill();
        wait_until("device and routes are gone", || stage.routes() == before);
    }
}

impl Stage {
    /// Bytes that arrive of so many.
    fn download(&self, address: &str, bytes: usize) -> usize {
        let server = format!(
            "import socket\ns = socket.create_server(('{address}', 0))\nprint('{{\"address\": \"{address}:%d\"}}' % s.getsockname()[1], \
             flush=True)\nc = s.accept()[0]\nc.sendall(b'x' * {bytes})"
        );
        let mut command = Command::new("python3");
        let server = Server::start(self.far.inside(command.args(["-c", &server])));
        let client = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
total = 0
while data := s.recv(1 << 16): total += len(data)
print(total)";
        let mut command = Command::new("python3");
        command.args(["-c", client, address, &server.port()]);
        let output = self.near.inside(&command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0)
    }
}

#[test]
fn everything_can_go_through_and_back_again() {
    let Some(stage) = Stage::new(&["--tun-nat"]) else { return };
    // A machine beyond the gateway that knows nothing of tunnels.
    let wire = format!(
        "ip link add v0 type veth peer name v1 netns {}\nip addr add 10.13.0.2/24 dev v0\nip link set v0 up",
        stage.far.pid()
    );
    let Some(beyond) = Room::new(&wire) else { return };
    let up = "ip addr add 10.13.0.1/24 dev v1; ip link set v1 up";
    assert!(stage.far.shell(up).status().unwrap().success());
    let before = stage.routes();
    let tunnel = stage.tunnel(&["--route", "default", "--device", "every"]);
    assert_eq!((tunnel.gateway_v4.as_str(), tunnel.v4.as_str()), ("10.97.0.1", "10.97.0.2"));
    stage.near("ping -c 1 -W 5 10.13.0.2");
    assert!(stage.near("ip route get 10.13.0.2").contains("dev every"));
    // The tunnel itself takes the wire.
    assert!(stage.near(&format!("ip route get {THERE}")).contains("dev w0"));
    drop(beyond);
    tunnel.running.interrupt();
    tunnel.running.wait();
    wait_until("device and routes are gone", || stage.routes() == before);
}

#[test]
fn a_gateway_that_comes_back_is_found_again() {
    let Some(mut stage) = Stage::new(&[]) else { return };
    let tunnel = stage.tunnel(&[]);
    let ping = format!("ping -c 1 -W 1 {}", tunnel.gateway_v4);
    stage.near(&ping);
    let listen = stage.gateway.address.to_string();
    stage.gateway.kill();
    stage.gateway = Stage::gateway(&stage.far, &stage.home, &listen, &[]);
    wait_until("packets arrive again", || stage.near.shell(&ping).output().unwrap().status.success());
}

#[test]
fn who_may_not_hears_why() {
    let Some(stage) = Stage::new(&[]) else { return };
    let stranger = Home::new();
    stage.home.authorize(&stranger);
    let gateway = stage.gateway.address.to_string();
    let run = |home: &Home, arguments: &[&str]| {
        let output =
            stage.near.inside(&home.command(&[&["tun", "--accept-new"], arguments].concat())).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&stranger, &[&gateway]);
    assert!(code == Some(1) && said.contains("not permitted"), "{said}");
    let without = ["gateway", "--json", "--listen", &format!("{THERE}:0")];
    let without = Server::start(stage.far.inside(&stage.home.command(&without)));
    let (code, said) = run(&stage.home, &[&without.address.to_string()]);
    assert!(code == Some(1) && said.contains("--tun"), "{said}");
    for wrong in [["--mtu", "1279"], ["--device", "../x"], ["--route", "10/8"]] {
        assert_eq!(run(&stage.home, &[&[gateway.as_str()], &wrong[..]].concat()).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn tunnels_of_a_file_come_and_go() {
    let Some(stage) = Stage::new(&[]) else { return };
    let before = stage.routes();
    let write = |tunnels: &str| {
        let text = format!("[hosts.far]\ngateways = [\"{}\"]\n{tunnels}", stage.gateway.address);
        std::fs::write(stage.home.path().join("config.toml"), text).unwrap();
    };
    let tunnel = |device: &str, network: &str| {
        format!("[[tun]]\nhost = \"far\"\ndevice = \"{device}\"\nroutes = [\"{network}\"]\n")
    };
    let (one, two) = (tunnel("one", "203.0.113.0/24"), tunnel("two", "203.0.114.0/24"));
    write(&format!("{one}{two}"));
    let up = Server::start_any(stage.near.inside(&stage.home.command(&["up", "--json"])));
    assert_eq!(up.first["running"], serde_json::json!(["tun one", "tun two"]));
    let has = |line: &str| stage.routes().contains(line);
    wait_until("both stand", || has("203.0.113.0/24 dev one") && has("203.0.114.0/24 dev two"));
    let ping = || stage.near.shell("ping -c 1 -W 2 203.0.113.7").output().unwrap().status.success();
    wait_until("packets arrive", ping);

    // Another tunnel with the routes of the one that goes: its device and its routes are gone by then.
    write(&format!("{one}{}", tunnel("three", "203.0.114.0/24")));
    stage.home.run(&["reload"]).success();
    wait_until("the third stands", || has("203.0.114.0/24 dev three") && !has("dev two"));
    assert!(ping(), "what is the same goes on");
    write(&format!("{one}{one}"));
    stage.home.run(&["reload"]).fails_with(1).says("`device`");
    assert!(ping(), "a mistake changes nothing");

    let reports = stage.home.run(&["status", "--json"]).success().json();
    let up_report = reports.as_array().unwrap().iter().find(|report| report["command"] == "up").unwrap();
    assert_eq!(up_report["at"], "tun one, tun three");
    assert_eq!(up_report["connections"].as_array().unwrap().len(), 2);
    up.interrupt();
    up.wait();
    wait_until("devices and routes are gone", || stage.routes() == before);
}
