//! A gateway that goes on at another address of its name.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Folder, Home, PATIENCE, Server, wait_until};

/// What it takes on an idle machine is two seconds; a gateway that is only silent is waited for 12 s.
const FOUND_WITHIN: Duration = Duration::from_secs(9);

/// Says everybody one byte.
fn target() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut streams = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"!");
            streams.push(stream);
        }
    });
    address
}

fn hears(at: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    matches!(stream.read(&mut [0]), Ok(1))
}

/// A command that reads names from this file, in a namespace of its own; nothing where that may not be.
fn with_hosts(hosts: &str, command: &Command) -> Option<Command> {
    let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
    let within = |words: &[&std::ffi::OsStr]| {
        let mut within = Command::new("unshare");
        let is_root = rustix::process::geteuid().is_root();
        within
            .args(if is_root { &["-m"][..] } else { &["-rm"] })
            .args(["sh", "-c", script, "sh", hosts])
            .args(words);
        within
    };
    if !within(&["true".as_ref()]).status().is_ok_and(|status| status.success()) {
        eprintln!("not tested: no namespace for a file of names");
        return None;
    }
    let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
    let mut all = within(&words);
    command.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(all.env(name, value)),
        None => drop(all.env_remove(name)),
    });
    Some(all)
}

#[test]
fn a_gateway_is_found_at_the_other_address_of_its_name() {
    let (home, folder) = (Home::new(), Folder::new());
    let start = |at: &str| Server::start(home.command(&["gateway", "--json", "--listen", at]));
    let first = start("127.0.0.2:0");
    let second = start(&format!("127.0.0.3:{}", first.port()));
    let hosts = folder.join("hosts");
    fs::write(&hosts, "127.0.0.2 gateway.test\n").unwrap();
    let spec = format!("127.0.0.1:0:{}", target());
    let name = format!("gateway.test:{}", first.port());
    let command = home.command(&["forward", &name, "--json", "--accept-new", "-L", &spec]);
    let Some(command) = with_hosts(hosts.to_str().unwrap(), &command) else { return };
    let forward = Server::start_any(command);
    let at: SocketAddr = forward.first["forwards"][0]["at"].as_str().unwrap().parse().unwrap();
    assert!(hears(at));
    let mut held = TcpStream::connect(at).unwrap();
    held.set_read_timeout(Some(PATIENCE)).unwrap();
    held.read_exact(&mut [0]).unwrap();
    // In place, so that it stays the file that was bound.
    fs::write(&hosts, "127.0.0.3 gateway.test\n").unwrap();
    first.signal(Signal::STOP);
    let status = format!("/proc/{}/status", first.pid());
    wait_until("it stands still", || fs::read_to_string(&status).unwrap().contains("State:\tT"));
    let begin = Instant::now();
    assert!(hears(at), "a new flow is carried");
    let took = begin.elapsed();
    assert!(took < FOUND_WITHIN, "{took:?}");
    // And one that was there hears that it is over: it hung for half a minute.
    assert!(held.read(&mut [0]).is_err());
    let took = begin.elapsed();
    assert!(took < FOUND_WITHIN, "{took:?}");
    first.signal(Signal::CONT);
    drop(second);
}
