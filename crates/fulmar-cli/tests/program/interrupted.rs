//! Copies that are cut off and go on. A relay of limited rate between the programs makes sure that there is a
//! middle.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Folder, Home, assert_same, wait_until};
use fulmar_cli::relay::{Relay, RelayConfig};
use fulmar_net::LinkConfig;
use fulmar_units::Rate;

const FILE_BYTES: usize = 12_000_000;

/// 80 Mbit/s: the file takes more than a second.
fn slow_path_to(server: SocketAddr) -> Relay {
    let link = LinkConfig::new(Rate::from_bits_per_second(80_000_000), Duration::from_millis(2));
    Relay::start(RelayConfig::new(server, link.clone(), link)).unwrap()
}

fn port(relay: &Relay) -> String {
    relay.local_addr().port().to_string()
}

fn wait_for_a_part(folder: &Path) {
    let part = folder.join(".f.fulmar-part");
    wait_until("some of it has arrived", || {
        fs::metadata(&part).is_ok_and(|m| m.len() > FILE_BYTES as u64 / 10)
    });
}

#[test]
fn a_client_that_is_killed_goes_on_where_it_stopped() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", FILE_BYTES, 1);
    let server = home.serve(there.path());
    let relay = slow_path_to(server.address);
    let (f, port) = (here.arg("f"), port(&relay));
    let copy = ["cp", "--json", "-p", &port, &f, "127.0.0.1:"];

    let mut first = home.start(&copy);
    wait_for_a_part(there.path());
    first.kill();
    assert!(!there.join("f").exists(), "no final name before it is complete");

    // At once: the server still waits for the one that was killed.
    let report = home.run(&copy).success().json();
    let resumed = report["files"][0]["resumed_bytes"].as_u64().unwrap();
    assert!(resumed > FILE_BYTES as u64 / 10, "{report}");
    assert_eq!(report["bytes_moved"].as_u64().unwrap() + resumed, FILE_BYTES as u64);
    assert_same(&here.join("f"), &there.join("f"));
    assert!(!there.join(".f.fulmar-part").exists());
}

#[test]
fn status_shows_a_copy_under_way() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", FILE_BYTES, 1);
    let server = home.serve(there.path());
    let relay = slow_path_to(server.address);
    let mut copy = home.start(&["cp", "-p", &port(&relay), &here.arg("f"), "127.0.0.1:"]);
    wait_for_a_part(there.path());
    home.run(&["status"]).success().says("cp with 127.0.0.1").says("serve at 127.0.0.1");
    let reports = home.run(&["status", "--json"]).success().json();
    let report = reports.as_array().unwrap().iter().find(|report| report["command"] == "cp").expect("a copy");
    assert!(report["up_bytes"].as_u64() > Some(0) && report["down_bytes"] == 0, "{report}");
    assert!(report["connections"][0]["sent_bytes"].as_u64() > Some(0), "{report}");
    copy.kill();
}

#[test]
fn a_download_that_is_interrupted_goes_on_unless_the_source_is_another() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    there.write("f", FILE_BYTES, 1);
    let server = home.serve(there.path());
    let relay = slow_path_to(server.address);
    let (port, target) = (port(&relay), here.arg("f"));
    let copy = ["cp", "--json", "-p", &port, "127.0.0.1:f", &target];

    let first = home.start(&copy);
    wait_for_a_part(here.path());
    first.interrupt();
    first.wait().fails_with(130);
    let report = home.run(&copy).success().json();
    assert!(report["files"][0]["resumed_bytes"].as_u64().unwrap() > 0, "{report}");
    assert_same(&here.join("f"), &there.join("f"));

    // A part of an older version is worth nothing.
    fs::rename(here.join("f"), here.join(".f.fulmar-part")).unwrap();
    fs::OpenOptions::new().write(true).open(here.join(".f.fulmar-part")).unwrap().set_len(5_000_000).unwrap();
    there.write("f", FILE_BYTES, 2);
    let report = home.run(&copy).success().json();
    assert_eq!(report["files"][0]["resumed_bytes"], 0);
    assert_same(&here.join("f"), &there.join("f"));
}

#[test]
fn a_server_that_is_restarted_is_found_again_without_being_asked() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", FILE_BYTES, 1);
    let mut server = home.serve(there.path());
    let address = server.address.to_string();
    let relay = slow_path_to(server.address);
    let (f, port) = (here.arg("f"), port(&relay));

    let copying = home.start(&["cp", "--json", "-p", &port, &f, "127.0.0.1:"]);
    wait_for_a_part(there.path());
    server.kill();
    let _again = home.serve_at(there.path(), &address, &[]);
    let report = copying.wait().success().json();
    assert!(report["files"][0]["resumed_bytes"].as_u64().unwrap() > 0, "{report}");
    assert_same(&here.join("f"), &there.join("f"));
}

#[test]
fn an_address_that_changes_in_the_middle_is_not_noticed() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", FILE_BYTES, 1);
    let server = home.serve(there.path());
    let relay = slow_path_to(server.address);
    let copying =
        home.start(&["cp", "--json", "--retries", "0", "-p", &port(&relay), &here.arg("f"), "127.0.0.1:"]);
    wait_for_a_part(there.path());
    relay.rebind();
    let report = copying.wait().success().json();
    assert_eq!(report["files"][0]["resumed_bytes"], 0, "one connection all the way: {report}");
    assert_same(&here.join("f"), &there.join("f"));
}

/// A firewall that forgets: what comes from ports that it knew is dropped, both ways, from some moment on;
/// new ones pass.
struct Forgetful {
    address: SocketAddr,
    forgets: Arc<AtomicBool>,
}

impl Forgetful {
    fn start(server: SocketAddr) -> Self {
        let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (address, forgets) = (inside.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let forgotten = Arc::clone(&forgets);
        std::thread::spawn(move || {
            let mut flows: HashMap<SocketAddr, (UdpSocket, Arc<AtomicBool>)> = HashMap::new();
            let mut buffer = [0; 65536];
            while let Ok((length, from)) = inside.recv_from(&mut buffer) {
                if forgotten.swap(false, Ordering::Relaxed) {
                    flows.values().for_each(|(_, is_dead)| is_dead.store(true, Ordering::Relaxed));
                }
                let (outside, is_dead) = flows.entry(from).or_insert_with(|| {
                    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
                    outside.connect(server).unwrap();
                    let is_dead = Arc::new(AtomicBool::new(false));
                    let (back, inside) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
                    let is_over = Arc::clone(&is_dead);
                    std::thread::spawn(move || {
                        let mut buffer = [0; 65536];
                        while let Ok(length) = back.recv(&mut buffer) {
                            if !is_over.load(Ordering::Relaxed) {
                                let _ = inside.send_to(&buffer[..length], from);
                            }
                        }
                    });
                    (outside, is_dead)
                });
                if !is_dead.load(Ordering::Relaxed) {
                    // A limited rate makes sure that there is a middle.
                    std::thread::sleep(Duration::from_micros(100));
                    let _ = outside.send(&buffer[..length]);
                }
            }
        });
        Self { address, forgets }
    }
}

/// It stood still until the connection's idle timeout, 30 seconds, although the server was there for
/// everybody else. Whether the transport finds another port by itself or the program makes another
/// connection, half of that is enough.
#[test]
fn a_connection_that_goes_silent_is_replaced_long_before_it_times_out() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", FILE_BYTES, 1);
    let server = home.serve(there.path());
    let firewall = Forgetful::start(server.address);
    let port = firewall.address.port().to_string();
    let copying = home.start(&["cp", "--json", "-p", &port, &here.arg("f"), "127.0.0.1:"]);
    wait_for_a_part(there.path());
    firewall.forgets.store(true, Ordering::Relaxed);
    let begin = std::time::Instant::now();
    copying.wait().success();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(27), "{took:?}");
    assert_same(&here.join("f"), &there.join("f"));
}
