//! A transfer that is cut never looks whole: whatever happens to a Fulmar, both programs see a reset unless
//! the other one has said its end. Every way to carry a connection, both directions, every cause.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use socket2::SockRef;

use crate::common::{Folder, Home, PATIENCE, Server};
use crate::tunnel::{gateway, through};

/// What each side says before it waits: the other has got at least that when a cause strikes.
const SAID_BYTES: usize = 50_000;

/// By what a program is connected with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Socks,
    /// CONNECT to the proxy.
    Connect,
    /// `http://` through the proxy, to an origin of HTTP/1.0, whose body ends with its connection.
    Http11,
    /// The same, the client an old one, too.
    Http10,
    Local,
    Remote,
    /// A proxy of `fulmar up`.
    UpProxy,
    /// A forward of `fulmar up`.
    UpForward,
}

use Way::{Connect, Http10, Http11, Local, Remote, Socks, UpForward, UpProxy};

const WAYS: [Way; 8] = [Socks, Connect, Http11, Http10, Local, Remote, UpProxy, UpForward];

/// Who has said its end, which is passed on, before the cause strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Nobody,
    Program,
    Target,
}

/// A connection in the middle of both its directions.
struct Flow {
    what: String,
    ended: Ended,
    program: TcpStream,
    target: TcpStream,
    carrier: Server,
    _folder: Folder,
}

/// Waits for one connection, to which it is a target that has begun to answer, and hears the question.
fn target(way: Way, ended: Ended) -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if matches!(way, Http10 | Http11) {
            head(&mut stream).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
        }
        stream.write_all(&[b't'; SAID_BYTES]).unwrap();
        if ended == Ended::Target {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        stream.read_exact(&mut [0; SAID_BYTES]).unwrap();
        let _ = tell.send(stream);
    });
    (address, told)
}

/// Reads the head of a message of HTTP, and nothing behind it.
fn head(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts what carries; where programs come in.
fn carrier(
    way: Way,
    home: &Home,
    gateway: &Server,
    target: SocketAddr,
    folder: &Folder,
) -> (Server, SocketAddr) {
    let up = |section: String| {
        let hosts = format!("[hosts.home]\ngateways = [\"{}\"]\n", gateway.address);
        let path = folder.join("config.toml");
        std::fs::write(&path, hosts + &section).unwrap();
        Server::start_any(home.command(&["up", "--json", "--config", path.to_str().unwrap()]))
    };
    let port = free_port();
    let here = SocketAddr::from(([127, 0, 0, 1], port));
    match way {
        Socks | Connect | Http11 | Http10 => {
            let proxy = Server::start(through(home, gateway, "proxy", &["--listen", "127.0.0.1:0"]));
            let at = proxy.address;
            (proxy, at)
        }
        Local | Remote => {
            let (flag, spec) = (if way == Local { "-L" } else { "-R" }, format!("127.0.0.1:0:{target}"));
            let forward = Server::start_any(through(home, gateway, "forward", &[flag, &spec]));
            let at = forward.first["forwards"][0]["at"].as_str().unwrap().parse().unwrap();
            (forward, at)
        }
        UpProxy => (up(format!("[[proxy]]\nhost = \"home\"\nlisten = \"{here}\"\n")), here),
        UpForward => (up(format!("[[forward]]\nhost = \"home\"\nlocal = [\"{here}:{target}\"]\n")), here),
    }
}

/// What a program says before its question.
fn ask(way: Way, stream: &mut TcpStream, target: SocketAddr) -> io::Result<()> {
    match way {
        Socks | UpProxy => {
            stream.write_all(&[5, 1, 0])?;
            stream.read_exact(&mut [0; 2])?;
            let request = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &target.port().to_be_bytes()].concat();
            stream.write_all(&request)?;
            let mut reply = [0; 10];
            stream.read_exact(&mut reply)?;
            assert_eq!(reply[1], 0, "{way:?}");
        }
        Connect => {
            write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")?;
            head(stream)?;
        }
        Http11 | Http10 => {
            let version = if way == Http11 { "1.1" } else { "1.0" };
            write!(stream, "POST http://{target}/ HTTP/{version}\r\nContent-Length: 9999999\r\n\r\n")?;
        }
        Local | Remote | UpForward => {}
    }
    Ok(())
}

impl Flow {
    fn begin(way: Way, ended: Ended, home: &Home, gateway: &Server) -> Self {
        let folder = Folder::new();
        let (address, told) = target(way, ended);
        let (carrier, at) = carrier(way, home, gateway, address, &folder);
        let mut program = TcpStream::connect(at).unwrap();
        program.set_read_timeout(Some(PATIENCE)).unwrap();
        ask(way, &mut program, address).unwrap();
        program.write_all(&[b'p'; SAID_BYTES]).unwrap();
        if ended == Ended::Program {
            program.shutdown(Shutdown::Write).unwrap();
        }
        let mut heard = Vec::new();
        let result = (&mut program).take(SAID_BYTES as u64).read_to_end(&mut heard);
        let begin = String::from_utf8_lossy(&heard[..heard.len().min(200)]).into_owned();
        assert_eq!(heard.len(), SAID_BYTES, "{way:?} {ended:?} {result:?}: {begin}");
        let mut target = told.recv_timeout(PATIENCE).expect("the target is asked");
        let what = format!("{way:?}, {ended:?} has ended");
        // Its end has been passed on.
        let mut other = [0];
        match ended {
            Ended::Nobody => {}
            Ended::Program => assert_eq!(target.read(&mut other).unwrap(), 0, "{what}"),
            Ended::Target => assert_eq!(program.read(&mut other).unwrap(), 0, "{what}"),
        }
        Self { what, ended, program, target, carrier, _folder: folder }
    }

    fn signal(&self, signal: Signal) {
        self.carrier.signal(signal);
    }

    /// Both have to see a reset, except of what the other has ended.
    fn check(mut self, cause: &str) {
        let mut target = self.target.try_clone().unwrap();
        let target = thread::spawn(move || rest(&mut target));
        // Neither is closed before both have seen what there is.
        let (program, target) = (rest(&mut self.program), target.join().unwrap());
        let what = self.what;
        assert!(program.is_err() || self.ended == Ended::Target, "{what}, {cause}: the program sees an end");
        assert!(target.is_err() || self.ended == Ended::Program, "{what}, {cause}: the target sees an end");
    }
}

/// How many bytes are left, if it comes to its end.
fn rest(stream: &mut TcpStream) -> io::Result<u64> {
    let end = io::copy(stream, &mut io::sink());
    if let Err(error) = &end {
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "nothing is heard at all");
    }
    end
}

/// A flow by each way, with each that may have ended before.
fn flows(home: &Home, gateway: &Server) -> Vec<Flow> {
    let mut flows = Vec::new();
    for way in WAYS {
        // The end of a request is its length, and its target's end is that of the connection.
        let may_end: &[Ended] = match way {
            Http11 | Http10 => &[Ended::Nobody],
            _ => &[Ended::Nobody, Ended::Program, Ended::Target],
        };
        flows.extend(may_end.iter().map(|ended| Flow::begin(way, *ended, home, gateway)));
    }
    flows
}

fn all_are_cut(flows: Vec<Flow>, cause: &'static str) {
    let checks: Vec<_> = flows.into_iter().map(|flow| thread::spawn(move || flow.check(cause))).collect();
    let failed: Vec<_> = checks.into_iter().filter_map(|check| check.join().err()).collect();
    assert!(failed.is_empty(), "{} flows looked whole", failed.len());
}

/// What happens to the carrier at the program's side.
fn near(signal: Signal, cause: &'static str) {
    let home = Home::new();
    let gateway = gateway(&home);
    let flows = flows(&home, &gateway);
    flows.iter().for_each(|flow| flow.signal(signal));
    all_are_cut(flows, cause);
}

#[test]
fn a_client_that_is_terminated_cuts_off() {
    near(Signal::TERM, "SIGTERM of the client");
}

#[test]
fn a_client_that_is_interrupted_cuts_off() {
    near(Signal::INT, "SIGINT of the client");
}

#[test]
fn a_client_that_is_killed_cuts_off() {
    near(Signal::KILL, "SIGKILL of the client");
}

/// Gateways of all three kinds.
fn gateways(home: &Home, folder: &Folder) -> [Server; 3] {
    let root = folder.arg("");
    let serve = ["serve", "--gateway", "--json", "--listen", "127.0.0.1:0", "--root", &root];
    let config = folder.join("gateway.toml");
    let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
    std::fs::write(&config, format!("[gateway]\nlisten = \"{at}\"\n")).unwrap();
    let mut up = Server::start_any(home.command(&["up", "--json", "--config", config.to_str().unwrap()]));
    up.address = at;
    [gateway(home), Server::start_any(home.command(&serve)), up]
}

/// What happens to the gateway.
fn far(signal: Signal, cause: &'static str) {
    let (home, folder) = (Home::new(), Folder::new());
    let [first, others @ ..] = gateways(&home, &folder);
    let mut all = flows(&home, &first);
    for other in &others {
        all.extend(
            [Ended::Nobody, Ended::Program, Ended::Target]
                .map(|ended| Flow::begin(Local, ended, &home, other)),
        );
    }
    first.signal(signal);
    others.iter().for_each(|other| other.signal(signal));
    all_are_cut(all, cause);
}

#[test]
fn a_gateway_that_is_terminated_cuts_off() {
    far(Signal::TERM, "SIGTERM of the gateway");
}

#[test]
fn a_gateway_that_is_interrupted_cuts_off() {
    far(Signal::INT, "SIGINT of the gateway");
}

#[test]
fn a_gateway_that_is_killed_cuts_off() {
    far(Signal::KILL, "SIGKILL of the gateway");
}

#[test]
fn a_gateway_that_falls_silent_cuts_off() {
    let home = Home::new();
    let gateway = gateway(&home);
    let flows = flows(&home, &gateway);
    gateway.signal(Signal::STOP);
    // What is at the other side of a process that stands still hears nothing until it goes on. An idle client
    // asks after 26 s, and gives up when it has had no answer for 30 s more.
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_secs(75));
        gateway.signal(Signal::CONT);
        gateway
    });
    all_are_cut(flows, "silence");
    drop(later.join());
}

#[test]
fn a_target_that_is_cut_off_cuts_off_the_program() {
    let home = Home::new();
    let gateway = gateway(&home);
    for flow in flows(&home, &gateway) {
        let Flow { what, ended, mut program, target, carrier: _carrier, .. } = flow;
        SockRef::from(&target).set_linger(Some(Duration::ZERO)).unwrap();
        drop(target);
        let seen = rest(&mut program);
        assert_eq!(seen.is_ok(), ended == Ended::Target, "{what}: {seen:?}");
    }
}

/// Standard output knows no reset; the code does.
#[test]
fn connect_says_with_its_code_that_something_is_missing() {
    let home = Home::new();
    let gateways = [gateway(&home), gateway(&home), gateway(&home)];
    let causes = [(Signal::TERM, false), (Signal::INT, false), (Signal::KILL, true), (Signal::TERM, true)];
    for (number, (signal, is_far)) in causes.into_iter().enumerate() {
        let gateway = &gateways[number.saturating_sub(1)];
        let (address, told) = target(Local, Ended::Nobody);
        let mut command = through(&home, gateway, "connect", &[&address.to_string()]);
        let mut running =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        input.write_all(&[b'p'; SAID_BYTES]).unwrap();
        running.stdout.as_mut().unwrap().read_exact(&mut [0; SAID_BYTES]).unwrap();
        let mut target = told.recv_timeout(PATIENCE).unwrap();
        if is_far {
            gateway.signal(signal);
        } else {
            rustix::process::kill_process(rustix::process::Pid::from_child(&running), signal).unwrap();
        }
        assert!(rest(&mut target).is_err(), "{signal:?}, far: {is_far}");
        let output = running.wait_with_output().unwrap();
        let code = if signal == Signal::INT { 130 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{signal:?}, far: {is_far}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let words = match (signal, is_far) {
            (Signal::INT, _) => "interrupted",
            (_, true) => "the connection was reset",
            _ => "before it was complete",
        };
        assert!(said.contains(words), "{said}");
        drop(input);
    }
}
