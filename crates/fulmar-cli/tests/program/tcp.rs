//! A way through where UDP is shut: the rows of a firewall matrix, each with a download that runs, over roads
//! of this machine. Real programs at both ends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fulmar_cli::relay::{Meddling, Relay, RelayConfig};
use fulmar_net::LinkConfig;

use crate::common::{Home, PATIENCE, Server, wait_until};
use crate::tunnel_port::{LATE, lateness};

/// What the download says, and how often.
pub(crate) const PART_BYTES: usize = 1000;
const PAUSE: Duration = Duration::from_millis(20);

/// Longest standstill of the download when UDP is shut in its midst: 0.1 s until it is missed, 1.8 s in which
/// the stream is made, and what the move takes. [`LATE`] times what this machine was late is to be added.
const STANDSTILL_MAX: Duration = Duration::from_secs(3);

/// What has come for so long is in the middle: it is missed sooner than what has hardly begun.
const RUNS: Duration = Duration::from_secs(1);

/// A standstill that nobody calls one: nothing was wrong, and a way was changed for a better one.
pub(crate) const UNNOTICED: Duration = Duration::from_millis(1500);

/// First byte where UDP is shut: 300 ms of head start, and a few round trips.
const FIRST_BYTE_MAX: Duration = Duration::from_millis(2500);

/// A port that is free for both, freed at once, and hopefully still free a moment later.
pub(crate) fn free_address() -> String {
    let is_free = |address: &SocketAddr| UdpSocket::bind(address).is_ok();
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::iter::repeat_with(bind).find(is_free).unwrap().to_string()
}

/// A gateway that takes clients by TCP at the port where it takes them by UDP.
fn gateway(home: &Home, more: &[&str]) -> Server {
    let address = free_address();
    Server::start(home.command(&[&["gateway", "--json", "--listen", &address, "--tcp"], more].concat()))
}

/// A road for TCP: everybody at this port is led to the server.
struct TcpRoad {
    is_shut: Arc<AtomicBool>,
    /// Who came.
    count: Arc<AtomicUsize>,
}

impl TcpRoad {
    fn new(listener: TcpListener, server: SocketAddr) -> Self {
        let (is_shut, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (shut, counted) = (Arc::clone(&is_shut), Arc::clone(&count));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::Relaxed);
                if let Ok(far) = TcpStream::connect(server) {
                    lead(near, far, &shut);
                }
            }
        });
        Self { is_shut, count }
    }
}

/// Carries bytes both ways until the road is shut, which resets nobody: it only goes silent.
fn lead(near: TcpStream, far: TcpStream, is_shut: &Arc<AtomicBool>) {
    for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
        let is_shut = Arc::clone(is_shut);
        thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                while is_shut.load(Ordering::Relaxed) {
                    thread::sleep(PAUSE);
                }
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// Both roads to a gateway, at one port.
struct Roads {
    udp: Relay,
    tcp: TcpRoad,
    address: SocketAddr,
}

impl Roads {
    fn new(gateway: &Server) -> Self {
        let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
        loop {
            let udp = Relay::start(RelayConfig::new(gateway.address, link.clone(), link.clone())).unwrap();
            let address = udp.local_addr();
            if let Ok(listener) = TcpListener::bind(address) {
                return Self { udp, tcp: TcpRoad::new(listener, gateway.address), address };
            }
        }
    }

    fn shut_udp(&self, is_shut: bool) {
        let port_life = is_shut.then_some(Duration::ZERO);
        self.udp.meddle(Meddling { port_life, ..Meddling::default() });
    }
}

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8
}

/// A download that goes on until it is told to end.
pub(crate) struct Download {
    stream: TcpStream,
    heard: Arc<Mutex<Heard>>,
}

/// What has come.
struct Heard {
    bytes: usize,
    /// The last part came then.
    at: Instant,
    /// Longest standstill since somebody asked.
    longest: Duration,
    /// It has ended, as it should not.
    is_over: bool,
}

impl Download {
    /// Begins one through `forward` to `host`. The time to its first byte is that of the command's start.
    pub(crate) fn begin(
        home: &Home,
        host: SocketAddr,
        more: &[&str],
        proxy: Option<SocketAddr>,
    ) -> (Self, Server, Duration) {
        Self::begin_of(PART_BYTES, home, host, more, proxy)
    }

    /// The same with parts of this length.
    pub(crate) fn begin_of(
        part_bytes: usize,
        home: &Home,
        host: SocketAddr,
        more: &[&str],
        proxy: Option<SocketAddr>,
    ) -> (Self, Server, Duration) {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let spec = format!("127.0.0.1:0:{}", target.local_addr().unwrap());
        thread::spawn(move || say(target.accept().unwrap().0, part_bytes));
        let host = host.to_string();
        let arguments = [&["forward", "--json", "--accept-new", &host, "-L", &spec], more].concat();
        let mut command = home.command(&arguments);
        if let Some(proxy) = proxy {
            command.env("HTTPS_PROXY", format!("http://me:secret@{proxy}"));
        }
        let begin = Instant::now();
        let program = Server::start_any(command);
        let stream = TcpStream::connect(program.first["forwards"][0]["at"].as_str().unwrap()).unwrap();
        let download = Self::hear(stream);
        (download, program, begin.elapsed())
    }

    /// Hears what comes, from the first byte on.
    pub(crate) fn hear(mut stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let heard = Heard { bytes: 1, at: Instant::now(), longest: Duration::ZERO, is_over: false };
        let heard = Arc::new(Mutex::new(heard));
        let (reading, noting) = (stream.try_clone().unwrap(), Arc::clone(&heard));
        thread::spawn(move || hear(reading, &noting));
        Self { stream, heard }
    }

    /// Bytes that have come.
    pub(crate) fn bytes(&self) -> usize {
        self.heard.lock().unwrap().bytes
    }

    /// Waits until something is so: the longest standstill meanwhile, with that which goes on.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl FnMut() -> bool) -> Duration {
        self.heard.lock().unwrap().longest = Duration::ZERO;
        wait_until(what, is_so);
        let heard = self.heard.lock().unwrap();
        assert!(!heard.is_over, "nobody is reset");
        heard.longest.max(heard.at.elapsed())
    }

    /// Waits for a while, and until something comes.
    #[track_caller]
    pub(crate) fn for_a_while(&self, time: Duration) -> Duration {
        let (begin, before) = (Instant::now(), self.heard.lock().unwrap().bytes);
        self.until("it goes on", || begin.elapsed() > time && self.heard.lock().unwrap().bytes > before)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn hear(mut stream: TcpStream, heard: &Mutex<Heard>) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let mut heard = heard.lock().unwrap();
        assert!(buffer[..count].iter().zip(heard.bytes..).all(|(&got, at)| got == byte(at)), "in order");
        heard.longest = heard.longest.max(heard.at.elapsed());
        (heard.bytes, heard.at) = (heard.bytes + count, Instant::now());
    }
    heard.lock().unwrap().is_over = true;
}

/// Says part after part, as long as anybody listens.
pub(crate) fn say(mut stream: TcpStream, part_bytes: usize) {
    for part in 0.. {
        let bytes: Vec<_> = (part * part_bytes..(part + 1) * part_bytes).map(byte).collect();
        if stream.write_all(&bytes).is_err() {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// By which way the programs of this user go, as both ends see it: `udp`, `tcp`, or nothing if they differ.
pub(crate) fn way(home: &Home) -> String {
    let reports = home.run(&["status", "--json"]).success().json();
    let connections = reports.as_array().unwrap().iter().flat_map(|report| {
        report["connections"].as_array().unwrap().iter().map(|c| c["way"].as_str().unwrap().to_owned())
    });
    let ways: Vec<String> = connections.collect();
    match ways.split_first() {
        Some((first, rest)) if !rest.is_empty() && rest.iter().all(|way| way == first) => first.clone(),
        _ => String::new(),
    }
}

/// What there is of time besides what is measured: how late this machine was.
pub(crate) struct Clock {
    is_over: Arc<AtomicBool>,
    late_us: Arc<AtomicU64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        Self { late_us: lateness(&is_over), is_over }
    }

    pub(crate) fn late(&self) -> Duration {
        LATE * Duration::from_micros(self.late_us.load(Ordering::Relaxed))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn told(row: &str, first: Duration, standstill: Duration, clock: &Clock) {
    println!(
        "{row}: first byte after {first:.2?}, standstill {standstill:.2?}, {:.2?} late",
        clock.late() / LATE
    );
}

#[test]
fn udp_is_open() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home, &[]);
    assert_eq!(gateway.first["tcp"], gateway.first["address"], "the same port");
    let roads = Roads::new(&gateway);
    let (download, _program, first) = Download::begin(&home, roads.address, &[], None);
    let standstill = download.for_a_while(Duration::from_secs(2));
    told("UDP open", first, standstill, &clock);
    assert_eq!(way(&home), "udp");
    assert!(first < FIRST_BYTE_MAX + clock.late() && standstill < UNNOTICED + clock.late());
}

/// The client comes by TCP, and knows it the next time; it looks for UDP meanwhile, and goes there.
#[test]
fn udp_is_shut_and_then_open() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home, &[]);
    let roads = Roads::new(&gateway);
    roads.shut_udp(true);
    let (download, program, first) = Download::begin(&home, roads.address, &[], None);
    let standstill = download.for_a_while(Duration::from_secs(1));
    told("UDP shut", first, standstill, &clock);
    assert_eq!(way(&home), "tcp");
    assert!(first < FIRST_BYTE_MAX + clock.late() && standstill < UNNOTICED + clock.late());
    drop((download, program));
    // By its first way this time.
    let (download, _program, first) = Download::begin(&home, roads.address, &[], None);
    download.until("both ends see it", || way(&home) == "tcp");
    roads.shut_udp(false);
    let standstill = download.until("UDP is found", || way(&home) == "udp");
    let after = download.for_a_while(Duration::from_secs(1));
    told("UDP opened in the middle", first, standstill.max(after), &clock);
    assert!(standstill.max(after) < UNNOTICED + clock.late());
}

/// And TCP dies in the middle, too, when UDP is there again.
#[test]
fn udp_is_shut_in_the_middle() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home, &[]);
    let roads = Roads::new(&gateway);
    let (download, _program, first) = Download::begin(&home, roads.address, &[], None);
    download.until("both ends see it", || way(&home) == "udp");
    download.for_a_while(RUNS);
    roads.shut_udp(true);
    let standstill = download.until("it goes by TCP", || way(&home) == "tcp");
    told("UDP shut in the middle", first, standstill, &clock);
    assert!(standstill < STANDSTILL_MAX + clock.late(), "{standstill:?}");
    download.for_a_while(RUNS);
    roads.shut_udp(false);
    roads.tcp.is_shut.store(true, Ordering::Relaxed);
    let standstill = download.until("it goes by UDP", || way(&home) == "udp");
    told("TCP silent in the middle", first, standstill, &clock);
    assert!(standstill < STANDSTILL_MAX + clock.late(), "{standstill:?}");
}

/// Another port is found before another way.
#[test]
fn each_port_is_killed() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home, &[]);
    let roads = Roads::new(&gateway);
    let port_life = Some(Duration::from_secs(3));
    roads.udp.meddle(Meddling { port_life, ..Meddling::default() });
    let (download, _program, first) = Download::begin(&home, roads.address, &[], None);
    let standstill = download.for_a_while(Duration::from_secs(12));
    told("5-tuple killed each 3 s", first, standstill, &clock);
    assert!(standstill < STANDSTILL_MAX + clock.late(), "{standstill:?}");
    assert!(roads.udp.stop().unwrap().clients >= 3);
}

/// Nobody listens at the port by UDP, as behind a firewall that rejects it.
#[test]
fn only_tcp() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home, &[]);
    for more in [&["--way", "tcp"][..], &[]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap();
        let road = TcpRoad::new(listener, gateway.address);
        let (download, _program, first) = Download::begin(&home, host, more, None);
        let standstill = download.for_a_while(Duration::from_secs(1));
        told("only TCP", first, standstill, &clock);
        assert_eq!((way(&home).as_str(), road.count.load(Ordering::Relaxed)), ("tcp", 1));
        assert!(first < FIRST_BYTE_MAX + clock.late());
    }
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let failed = home.run(&["connect", &unused, "localhost:1", "--way", "tcp"]);
    failed.fails_with(3).says("TCP");
}

/// An HTTP proxy that leads CONNECT to the gateway, whatever is asked for, and what it was asked for.
fn http_proxy(gateway: SocketAddr) -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, (asked, asked_for)) = (listener.local_addr().unwrap(), std::sync::mpsc::channel());
    thread::spawn(move || {
        for mut near in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                near.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            asked.send(String::from_utf8(head).unwrap()).unwrap();
            near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            lead(near, TcpStream::connect(gateway).unwrap(), &Arc::default());
        }
    });
    (address, asked_for)
}

#[test]
fn only_an_http_proxy() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home, &[]);
    let (proxy, asked_for) = http_proxy(gateway.address);
    // Nobody is there, but for the proxy.
    let host = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (download, _program, first) = Download::begin(&home, host, &[], Some(proxy));
    let standstill = download.for_a_while(Duration::from_secs(1));
    told("HTTP proxy only", first, standstill, &clock);
    assert!(first < FIRST_BYTE_MAX + clock.late());
    let asked = asked_for.recv().unwrap();
    assert!(asked.starts_with(&format!("CONNECT {host} HTTP/1.1\r\n")), "{asked}");
    assert!(asked.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0"), "{asked}");
    assert_eq!(way(&home), "tcp");
}

/// One who speaks to the port learns nothing that names us, and takes no more than a place for some seconds.
#[test]
fn strangers_find_an_ordinary_web_server() {
    let home = Home::new();
    let gateway = gateway(&home, &[]);
    let url = format!("https://{}/", gateway.address);
    let output = std::process::Command::new("curl")
        .args(["-skv", "--noproxy", "*", "--tlsv1.3", "--max-time", "30", &url])
        .output()
        .expect("curl is installed (scripts/test-programs)");
    let seen = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(seen.contains("404") && seen.contains("TLSv1.3"), "{seen}");
    assert!(!seen.to_lowercase().contains("fulmar"), "{seen}");
    // Who asks for a WebSocket gets one, at which nobody speaks, and not for long.
    let begin = Instant::now();
    let output = std::process::Command::new("curl")
        .args(["-skiN", "--noproxy", "*", "--http1.1", "--max-time", "60", "-H", "Connection: Upgrade"])
        .args(["-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13"])
        .args(["-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", &url])
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(seen.starts_with("HTTP/1.1 101 ") && seen.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{seen}");
    assert!(!seen.to_lowercase().contains("fulmar"), "{seen}");
    assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
    // Who speaks no TLS hears what any TLS server says: an alert, or nothing.
    let mut plain = TcpStream::connect(gateway.address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 20, "{answer:?}");
    // Who says nothing has a place, if there is one, and not for long.
    let before = gateway.status("VmRSS");
    let begin = Instant::now();
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    let ended = silent.into_iter().map(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read(&mut [0]);
        begin.elapsed()
    });
    let ended: Vec<Duration> = ended.collect();
    assert!(ended.iter().all(|at| *at < Duration::from_secs(60)), "{ended:?}");
    assert!(gateway.status("VmRSS") < before + (16 << 10), "kB");
    // Nothing of that keeps a client out.
    let (download, _program, _) = Download::begin(&home, gateway.address, &["--way", "tcp"], None);
    download.for_a_while(Duration::from_millis(300));
    assert_eq!(way(&home), "tcp");
}

/// Files go by the same way; a gateway's metrics say by which it is.
#[test]
fn files_and_metrics_know_the_way() {
    let home = Home::new();
    let gateway = gateway(&home, &["--metrics", "127.0.0.1:0"]);
    let (download, _program, _) = Download::begin(&home, gateway.address, &["--way", "tcp"], None);
    download.for_a_while(Duration::from_millis(300));
    let metrics = format!("http://{}/metrics", gateway.first["metrics"].as_str().unwrap());
    wait_until("the metrics say so", || {
        let (code, text) = crate::tunnel::curl(&[&metrics]);
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.starts_with("fulmar_connection_in_tcp{"));
        code == 0 && line.is_some_and(|line| line.ends_with(" 1.0"))
    });
}
