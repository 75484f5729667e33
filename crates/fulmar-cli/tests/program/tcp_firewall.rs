//! The same with the kernel's own firewall between two namespaces, and files.

use rustix::process::Signal;

use crate::common::{Folder, Home, Running, Server, assert_same, wait_until};
use crate::room::{Room, has};

const HERE: &str = "10.11.1.1";
const THERE: &str = "10.11.1.2";

/// Lets TCP to port 443 in, and nothing else.
const ONLY_443: &str = "nft 'add table inet wall; \
    add chain inet wall in { type filter hook input priority 0; policy drop; }; \
    add rule inet wall in tcp dport 443 accept'";

/// Two rooms with a wire between them; nothing where that may not be.
fn rooms() -> Option<(Room, Room)> {
    if !has("nft") {
        return None;
    }
    let far = Room::new("")?;
    let near = Room::new(&format!(
        "ip link add w0 type veth peer name w1 netns {}\nip addr add {HERE}/24 dev w0\nip link set w0 up",
        far.pid()
    ))?;
    let up = format!("set -e; ip addr add {THERE}/24 dev w1; ip link set w1 up");
    assert!(far.shell(&up).status().unwrap().success());
    Some((near, far))
}

#[test]
fn files_get_through_a_firewall_that_lets_in_tcp_443_only() {
    let Some((near, far)) = rooms() else { return };
    let (home, root, here) = (Home::new(), Folder::new(), Folder::new());
    let file = root.write("file", 6_000_000, 1);
    let folder = root.path().to_str().unwrap();
    let listen = format!("{THERE}:443");
    let serve = home.command(&["serve", "--json", "--listen", &listen, "--tcp", "--root", folder]);
    let server = Server::start(far.inside(&serve));
    assert_eq!(server.first["tcp"], listen);
    let get = |name: &str| {
        let (from, to) = (format!("{THERE}:file"), here.arg(name));
        let arguments = ["cp", "-p", "443", "--accept-new", "--json", "--limit", "8M", &from, &to];
        Running::start(near.inside(&home.command(&arguments)))
    };
    // By both ends' word.
    let goes_by = |way: &str| {
        let reports = home.run(&["status", "--json"]).success().json();
        let connections = reports.as_array().unwrap().iter().map(|report| &report["connections"][0]["way"]);
        connections.filter(|is| **is == way).count() == 2
    };
    // In the middle.
    let copy = get("first");
    wait_until("it goes by UDP", || goes_by("udp"));
    assert!(far.shell(ONLY_443).status().unwrap().success());
    wait_until("it goes by TCP", || goes_by("tcp"));
    copy.wait().success();
    assert_same(&file, &here.join("first"));
    // From the beginning.
    let copy = get("second");
    wait_until("it goes by TCP", || goes_by("tcp"));
    copy.wait().success();
    assert_same(&file, &here.join("second"));
    server.signal(Signal::TERM);
    server.wait().success();
}
