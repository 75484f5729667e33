//! What `--memory` says is the process's: a real server is filled by each way known, and its resident memory
//! is compared with that.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fulmar::crypto::{self, PublicKey, Refusal, VerifyPeer};
use fulmar::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use serde_json::json;

use crate::common::{Folder, Home, PATIENCE, Server, assert_same};
use crate::tunnel::{echo, forward};
use crate::tunnel_liar::frame;

/// What the server may hold for its connections.
const MEMORY_MIB: u64 = 64;

/// What it takes beside that: the program, its threads' buffers, tables, and what the allocator keeps.
const BASE_MIB: u64 = 32;

/// And where hundreds of flows are full at every moment: their buffers (4 MiB in all), and what comes in 10
/// ms, before the budget is looked at again. 92 to 103 MiB were seen, 161 while buffers had no bound.
const FLOWS_MIB: u64 = 12;

/// Believes every server.
#[derive(Debug)]
struct Anybody;

impl VerifyPeer for Anybody {
    fn verify(&self, _: &PublicKey, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Settings of a client with this user's key.
fn settings(home: &Home) -> ClientConfig {
    let identity = fulmar::identity::Home::at(home.path()).identity().unwrap();
    let crypto = crypto::ClientConfig::raw_key(Some(&identity), Arc::new(Anybody));
    ClientConfig::new(Arc::new(crypto.with_alpn(&[b"fulmar-tunnel/1"])))
}

fn endpoint() -> Endpoint {
    Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap()
}

/// A connection, if the server lets it in within a second.
async fn connect(endpoint: &Endpoint, settings: &ClientConfig, server: SocketAddr) -> Option<Connection> {
    let connecting = endpoint.connect_with(settings, server, "x").unwrap();
    let connected = tokio::time::timeout(Duration::from_secs(1), connecting).await;
    connected.ok()?.ok()
}

/// Between clients and the server: lets first packets through, each once, and back only what asks for a proof
/// of the address. To the server those are handshakes that go no further.
struct Muffler {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    passed: Arc<AtomicUsize>,
}

impl Muffler {
    fn new(at: &str, server: SocketAddr, passes_retry: bool) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind((at, 0)).unwrap();
        let address = near.local_addr().unwrap();
        let (is_over, passed) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&passed));
        std::thread::spawn(move || {
            let pause = Some(Duration::from_millis(1));
            for socket in [&near, &far] {
                socket.set_read_timeout(pause).unwrap();
            }
            let (mut seen, mut client, mut datagram) = (HashSet::new(), None, [0; 2048]);
            while !over.load(Ordering::Relaxed) {
                while let Ok((len, from)) = near.recv_from(&mut datagram) {
                    client = Some(from);
                    // First byte, version, both connection ids.
                    if len >= 1200 && seen.insert(datagram[5..23].to_vec()) {
                        count.fetch_add(1, Ordering::Relaxed);
                        far.send_to(&datagram[..len], server).unwrap();
                    }
                }
                while let Ok((len, _)) = far.recv_from(&mut datagram) {
                    let is_retry = datagram[0] >> 4 == 0xf;
                    if let Some(client) = client.filter(|_| is_retry && passes_retry) {
                        let _ = near.send_to(&datagram[..len], client);
                    }
                }
            }
        });
        Self { address, is_over, passed }
    }
}

impl Drop for Muffler {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// `count` handshakes that stand still, from each of some networks.
async fn half_handshakes(home: &Home, server: SocketAddr, count: usize, passes_retry: bool) {
    let settings = settings(home);
    let mufflers: Vec<_> =
        (1..5).map(|net| Muffler::new(&format!("127.0.{net}.1"), server, passes_retry)).collect();
    let mut begun = 0;
    while begun < count {
        let calling = endpoint();
        let calls: Vec<_> = mufflers
            .iter()
            .flat_map(|muffler| std::iter::repeat_n(muffler.address, 25))
            .map(|muffler| calling.connect_with(&settings, muffler, "x").unwrap())
            .collect();
        tokio::time::sleep(Duration::from_millis(150)).await;
        begun += calls.len();
        drop(calls);
        calling.close(0, b"");
    }
    let passed: usize = mufflers.iter().map(|muffler| muffler.passed.load(Ordering::Relaxed)).sum();
    assert!(passed >= count, "{passed} first packets went through");
}

/// Streams that begin with this and then say nothing.
async fn silent_streams(
    connection: &Connection,
    count: usize,
    first: &[u8],
) -> Vec<(SendStream, RecvStream)> {
    let mut held = Vec::new();
    for _ in 0..count {
        let opening = tokio::time::timeout(Duration::from_millis(200), connection.open_bi());
        let Ok(Ok((mut send, recv))) = opening.await else { break };
        let _ = tokio::time::timeout(Duration::from_millis(200), send.write_all(first)).await;
        held.push((send, recv));
    }
    held
}

/// Bytes for a target that does not read them.
async fn unread(connection: &Connection, target: SocketAddr) -> Option<(SendStream, RecvStream)> {
    let (mut send, recv) = connection.open_bi().await.ok()?;
    let target = json!({"tcp": {"host": target.ip().to_string(), "port": target.port()}});
    send.write_all(&frame(&json!({"open": {"target": target}}))).await.ok()?;
    let _ = tokio::time::timeout(Duration::from_millis(300), send.write_all(&vec![7; 24 << 20])).await;
    Some((send, recv))
}

/// Fails if the server has more in memory than it may.
#[track_caller]
fn weigh(server: &Server, after: &str) {
    let mib = server.status("VmRSS") / 1024;
    println!("{after}: {mib} MiB");
    let most = MEMORY_MIB + MEMORY_MIB / 8 + BASE_MIB;
    assert!(mib <= most, "{mib} MiB of {most} after {after}");
}

/// 6,056 half handshakes took 195 MB, 79,200 greetings 953 MB, of a server with `--memory 64M`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bound_is_the_process_s() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("honest", 300_000, 1);
    let memory = format!("{MEMORY_MIB}M");
    let root = there.path().to_str().unwrap();
    let arguments =
        ["serve", "--json", "--listen", "127.0.0.1:0", "--root", root, "--gateway", "--memory", &memory];
    let mut command = home.command(&arguments);
    // Nobody reads what it says of thousands.
    command.env("RUST_LOG", "off");
    let server = Server::start(command);
    weigh(&server, "its start");

    half_handshakes(&home, server.address, 1000, false).await;
    weigh(&server, "whole hellos");
    half_handshakes(&home, server.address, 3000, true).await;
    weigh(&server, "half handshakes");

    let (client, settings) = (endpoint(), settings(&home));
    let mut held = Vec::new();
    for first in [frame(&json!({"hello": {"version": 1}})), vec![1]] {
        for _ in 0..4 {
            let Some(connection) = connect(&client, &settings, server.address).await else { continue };
            let streams = silent_streams(&connection, 5000, &first).await;
            println!("{} streams that say little", streams.len());
            held.push((connection, streams));
        }
        weigh(&server, "streams that say little");
    }
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for _ in 0..4 {
        let Some(connection) = connect(&client, &settings, server.address).await else { continue };
        let mut streams = Vec::new();
        for _ in 0..4 {
            streams.extend(unread(&connection, deaf.local_addr().unwrap()).await);
            for _ in 0..200 {
                let _ = connection.try_send_datagram(vec![0; 1000].into());
            }
        }
        held.push((connection, streams));
    }
    weigh(&server, "windows that nobody reads, and datagrams");
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.extend(connect(&client, &settings, server.address).await);
    }
    println!("{} of 100 are let in", idle.len());
    weigh(&server, "idle connections");
    half_handshakes(&home, server.address, 1000, true).await;
    weigh(&server, "half handshakes among all that");

    // Whoever comes when they have gone is served.
    drop((held, idle));
    client.close(0, b"");
    let (port, source) = (server.port(), here.arg("honest"));
    let copy = move || {
        home.run(&["cp", "-p", &port, &source, "127.0.0.1:"]).success();
    };
    tokio::task::spawn_blocking(copy).await.unwrap();
    assert_same(&here.join("honest"), &there.join("honest"));
}

/// Looks at a gateway's memory until it is told to end: the most that it has seen, in MiB.
fn weighing(pid: u32, is_over: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        let mut most = 0;
        while !is_over.load(Ordering::Relaxed) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
            let kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
            most = most.max(kib / 1024);
            std::thread::sleep(Duration::from_millis(50));
        }
        most
    })
}

/// A server that says as much as anybody takes, and one that hears nothing.
fn loud_and_deaf() -> (SocketAddr, SocketAddr) {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (loud, deaf) = (bind(), bind());
    let addresses = (loud.local_addr().unwrap(), deaf.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in loud.incoming().map(Result::unwrap) {
            std::thread::spawn(move || while stream.write_all(&[7; 65_536]).is_ok() {});
        }
    });
    std::thread::spawn(move || deaf.incoming().collect::<Vec<_>>());
    addresses
}

/// Programs that read nothing of what they ask for, and write as much as is taken, through a `fulmar forward`
/// of this key.
fn stopped(home: &Home, gateway: &Server, count: usize) -> (Server, Vec<TcpStream>) {
    let (loud, deaf) = loud_and_deaf();
    let specs = [format!("127.0.0.1:0:{loud}"), format!("127.0.0.1:0:{deaf}")];
    let (forward, at) = forward(home, gateway, &["-L", &specs[0], "-L", &specs[1]]);
    let mut held = Vec::new();
    for at in (0..count).flat_map(|_| &at) {
        let Ok(mut stream) = TcpStream::connect(at) else { break };
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[7; 65_536]).is_ok_and(|count| count > 0) {}
        held.push(stream);
    }
    (forward, held)
}

/// Programs as people run them, five keys with eighty stopped flows each and fifty connections that only
/// stay, at a gateway that may hold 64 MB; and one who wants little goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_holds_what_it_may_and_who_wants_little_goes_on() {
    let keys: Vec<_> = (0..6).map(|_| Home::new()).collect();
    let owner = Home::new();
    let lines = keys.iter().map(|key| format!("permit=\"*\" {}\n", key.public_key()));
    std::fs::write(owner.path().join("authorized_keys"), lines.collect::<String>()).unwrap();
    let memory = format!("{MEMORY_MIB}M");
    let mut command = owner.command(&["gateway", "--json", "--listen", "127.0.0.1:0", "--memory", &memory]);
    command.env("RUST_LOG", "off");
    let gateway = Server::start(command);
    weigh(&gateway, "its start");
    let is_over = Arc::<AtomicBool>::default();
    let weighing = weighing(gateway.pid(), &is_over);

    let (bystander, at) = forward(&keys[5], &gateway, &["-L", &format!("127.0.0.1:0:{}", echo())]);
    let mut flow = TcpStream::connect(&at[0]).unwrap();
    flow.set_read_timeout(Some(PATIENCE)).unwrap();
    let question: Vec<u8> = (0..200_000_u32).map(|at| (at >> 3) as u8).collect();
    flow.write_all(&question[..100_000]).unwrap();

    let stopped: Vec<_> = keys[..5].iter().map(|key| stopped(key, &gateway, 40)).collect();
    let flows: usize = stopped.iter().map(|(_, held)| held.len()).sum();
    let (client, settings) = (endpoint(), settings(&keys[0]));
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.extend(connect(&client, &settings, gateway.address).await);
    }
    println!("{flows} flows that stand still, {} idle connections", idle.len());
    tokio::time::sleep(Duration::from_secs(3)).await;

    flow.write_all(&question[100_000..]).unwrap();
    flow.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    flow.read_to_end(&mut answer).expect("who holds little is not cut off");
    assert!(answer == question, "{} bytes", answer.len());

    is_over.store(true, Ordering::Relaxed);
    let (mib, most) = (weighing.join().unwrap(), MEMORY_MIB + MEMORY_MIB / 8 + BASE_MIB + FLOWS_MIB);
    println!("{mib} MiB at most");
    assert!(mib <= most, "{mib} MiB of {most}");
    assert!(mib > MEMORY_MIB / 2, "{mib} MiB: nobody filled it");
    drop((bystander, stopped));
}
