//! `fulmar transparent`: programs that know nothing, in a namespace joined to another by a wire.

use std::process::Command;

use rustix::process::Signal;

use crate::common::{Folder, Home, Running, Server, wait_until};
use crate::room::{GETS, HALF, Room, has};

const HERE: &str = "10.11.0.1";
const THERE: &str = "10.11.0.2";

/// Serves one file over HTTP at an address that only the far room has; tells who asks.
const WEB: &str = "import http.server as h
class H(h.SimpleHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(self.client_address[0].encode())
s = h.ThreadingHTTPServer((sys.argv[1], 8080), H)
print('{\"address\": \"127.0.0.1:8080\"}', flush=True); s.serve_forever()";

/// Two rooms with a wire between them, and a gateway in the far one, which alone can reach 203.0.113.7.
struct Stage {
    near: Room,
    far: Room,
    home: Home,
    gateway: Server,
    _web: [Server; 2],
}

impl Stage {
    fn new() -> Option<Self> {
        let far = Room::new("ip addr add 203.0.113.7/32 dev lo\nip addr add 2001:db8:7::7/128 dev lo")?;
        let wire = format!(
            "ip link add w0 type veth peer name w1 netns {}\nip addr add {HERE}/24 dev w0\nip link set w0 up
ip route add default via {THERE}\nip -6 addr add fd11::1/64 dev w0 nodad\nip -6 route add default via fd11::2",
            far.pid()
        );
        let near = Room::new(&wire)?;
        let up = format!(
            "set -e; ip addr add {THERE}/24 dev w1; ip -6 addr add fd11::2/64 dev w1 nodad; ip link set w1 up"
        );
        assert!(far.shell(&up).status().unwrap().success());
        if !["nft", "curl", "python3"].iter().all(|program| has(program)) {
            return None;
        }
        let web = ["203.0.113.7", "2001:db8:7::7"].map(|address| {
            let family = if address.contains(':') { "socket.AF_INET6" } else { "socket.AF_INET" };
            let script = format!("import sys, socket\n{WEB}")
                .replace("class H(", &format!("h.ThreadingHTTPServer.address_family = {family}\nclass H("));
            let mut command = Command::new("python3");
            Server::start(far.inside(command.args(["-c", &script, address])))
        });
        let home = Home::new();
        let command = home.command(&["gateway", "--json", "--listen", &format!("{THERE}:4747")]);
        let gateway = Server::start(far.inside(&command));
        Some(Self { near, far, home, gateway, _web: web })
    }

    fn transparent(&self, more: &[&str]) -> Running {
        let gateway = self.gateway.address.to_string();
        let arguments = [&["transparent", "--accept-new", "--json", &gateway], more].concat();
        let running = Running::start(self.near.inside(&self.home.command(&arguments)));
        wait_until("the rules are in force", || self.rules().contains("fulmar_1081"));
        running
    }

    /// The same by `fulmar up`, which can be told to read its file again.
    fn up(&self) -> Running {
        self.write("[[transparent]]\nhost = \"home\"\n");
        let running = Running::start(self.near.inside(&self.home.command(&["up", "--json"])));
        wait_until("the rules are in force", || self.rules().contains("fulmar_1081"));
        running
    }

    fn write(&self, sections: &str) {
        let host = format!("[hosts.home]\ngateways = [\"{}\"]\naccept_new = true\n", self.gateway.address);
        std::fs::write(self.home.path().join("config.toml"), host + sections).unwrap();
    }

    fn rules(&self) -> String {
        let all =
            "nft list ruleset; ip rule; ip -6 rule; ip route show table all | grep 'local default' || true";
        let output = self.near.shell(all).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Who the far web server says has asked for this.
    fn ask(&self, url: &str) -> Option<String> {
        let output = self.near.shell(&format!("curl -gsS --max-time 20 '{url}'")).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn connections_are_carried_and_the_rules_go_again() {
    let Some(stage) = Stage::new() else { return };
    for mode in ["redirect", "tproxy"] {
        let before = stage.rules();
        let mut running = stage.transparent(&["--mode", mode]);
        // They leave in the far room, so that is where they seem to come from.
        assert_eq!(stage.ask("http://203.0.113.7:8080/").as_deref(), Some("203.0.113.7"), "{mode}");
        assert_eq!(stage.ask("http://[2001:db8:7::7]:8080/").as_deref(), Some("2001:db8:7::7"), "{mode}");
        assert_eq!(stage.ask("http://203.0.113.7:1/"), None, "{mode}");
        // As hard as it gets.
        running.kill();
        wait_until("the rules are gone", || stage.rules() == before);
        assert_eq!(stage.ask("http://203.0.113.7:8080/").as_deref(), Some(HERE), "{mode}");
    }
}

/// Counts what comes to the target from the near room itself, past the tunnel.
const WATCH: &str = "nft -f - <<END
table inet watch { chain input { type filter hook input priority 0; ip saddr 10.11.0.1 tcp dport 9000 counter; }; }
END";

/// Other rules of the machine, with which the kernel keeps its table of connections when ours are gone.
const OTHERS: &str = "nft -f - <<END
table inet others {
  chain nat { type nat hook output priority 0; }
  chain filter { type filter hook output priority 0; ct state established counter; }
}
END";

#[test]
fn flows_are_reset_before_the_rules_go() {
    for others in ["true", OTHERS] {
        let Some(stage) = Stage::new() else { return };
        assert!(stage.far.shell(WATCH).status().unwrap().success());
        assert!(stage.near.shell(others).status().unwrap().success());
        let mut half = Command::new("python3");
        let _half = Server::start(stage.far.inside(half.args(["-c", HALF])));
        for mode in ["redirect", "tproxy"] {
            for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
                let running = stage.transparent(&["--mode", mode]);
                let mut gets = Command::new("python3");
                let program = Server::start_any(stage.near.inside(gets.args(["-c", GETS])));
                assert_eq!(program.first["event"], "begun");
                running.signal(signal);
                assert_eq!(program.event()["event"], "reset", "{mode}, {signal:?}");
                drop(running);
                wait_until("the rules are gone", || !stage.rules().contains("fulmar_1081"));
            }
        }
        for signal in [Signal::TERM, Signal::HUP] {
            let running = stage.up();
            let mut gets = Command::new("python3");
            let program = Server::start_any(stage.near.inside(gets.args(["-c", GETS])));
            assert_eq!(program.first["event"], "begun");
            // Another file: its rules go without it.
            stage.write("[[proxy]]\nhost = \"home\"\nlisten = \"127.0.0.1:0\"\n");
            running.signal(signal);
            assert_eq!(program.event()["event"], "reset", "up, {signal:?}");
            wait_until("the rules are gone", || !stage.rules().contains("fulmar_1081"));
        }
        let counted = stage.far.shell("nft list table inet watch").output().unwrap();
        let counted = String::from_utf8(counted.stdout).unwrap();
        assert!(counted.contains("packets 0 "), "past the tunnel: {counted}");
    }
}

#[test]
fn what_is_excepted_goes_its_own_way() {
    let Some(stage) = Stage::new() else { return };
    let running = stage.transparent(&["--except", "203.0.113.0/24"]);
    assert_eq!(stage.ask("http://203.0.113.7:8080/").as_deref(), Some(HERE));
    assert_eq!(stage.ask("http://[2001:db8:7::7]:8080/").as_deref(), Some("2001:db8:7::7"));
    running.interrupt();
    running.wait();
    wait_until("the rules are gone", || !stage.rules().contains("fulmar_1081"));
}

#[test]
fn tproxy_carries_what_is_forwarded() {
    let Some(stage) = Stage::new() else { return };
    // A machine behind the near room.
    let wire = format!(
        "ip link add v0 type veth peer name v1 netns {}\nip addr add 10.12.0.2/24 dev v0\nip link set v0 up
ip route add default via 10.12.0.1",
        stage.near.pid()
    );
    let Some(behind) = Room::new(&wire) else { return };
    let up = "ip addr add 10.12.0.1/24 dev v1; ip link set v1 up; echo 1 > /proc/sys/net/ipv4/ip_forward";
    assert!(stage.near.shell(up).status().unwrap().success());
    let _running = stage.transparent(&["--mode", "tproxy"]);
    let mut asked = behind.shell("curl -sS --max-time 20 http://203.0.113.7:8080/");
    let output = asked.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "203.0.113.7", "{output:?}");
    drop(stage.far);
}

#[test]
fn the_rules_can_be_had_on_paper() {
    let home = Home::new();
    let folder = Folder::new();
    let printed =
        home.run(&["transparent", "gateway.example", "--rules", "print", "--mode", "tproxy"]).success();
    for line in ["nft -f - <<'END'", "# nft delete table inet fulmar_1081", "ip -4 rule add fwmark"] {
        assert!(printed.stdout().contains(line), "{line} is missing in {}", printed.stdout());
    }
    // What is printed is what works.
    let Some(room) = Room::new("") else { return };
    if has("nft") {
        std::fs::write(folder.join("script"), printed.stdout()).unwrap();
        assert!(room.shell(&format!("sh -e {}", folder.arg("script"))).status().unwrap().success());
    }
}
