//! Who waits for a gateway, or for a place at one: how long, and what is said of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Home, PATIENCE, wait_until};
use crate::tunnel::{echo, forward, gateway, proxy, through};

/// What may pass until a flow that was asked for on a silent gateway has failed: 15 s, and what a busy
/// machine takes. (Before it were up to 40.)
const TOLD_MAX: Duration = Duration::from_secs(20);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What comes back of a question, to its end.
fn exchange(at: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(question)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map(|_| answer)
}

#[test]
fn who_waits_on_a_silent_gateway_is_told_in_time() {
    let home = Home::new();
    let (gateway, target) = (gateway(&home), echo());
    let proxy = proxy(&home, &gateway, &[]);
    let (_forward, at) = forward(&home, &gateway, &["-L", &format!("127.0.0.1:0:{target}")]);
    let forward: SocketAddr = at[0].parse().unwrap();
    let at = proxy.address;
    gateway.signal(Signal::STOP);
    // On a busy machine a thread may go on for a moment, and answer.
    thread::sleep(Duration::from_secs(1));
    let begin = Instant::now();
    let told = |what: &'static str, ask: Box<dyn FnOnce() -> Result<(), String> + Send>| {
        thread::spawn(move || {
            let asked = ask();
            assert_eq!(asked, Ok(()), "{what}, after {:?}", begin.elapsed());
            assert!(begin.elapsed() < TOLD_MAX, "{what}: told after {:?}", begin.elapsed());
        })
    };
    let mut waiting = vec![told(
        "a forward is reset",
        Box::new(move || exchange(forward, b"hello").map_or(Ok(()), |answer| Err(format!("{answer:?}")))),
    )];
    let begins_with = |answer: io::Result<Vec<u8>>, begin: &[u8]| match answer {
        Ok(answer) if answer.starts_with(begin) => Ok(()),
        other => Err(format!("{:?}", other.map(|answer| String::from_utf8_lossy(&answer).into_owned()))),
    };
    for _ in 0..3 {
        let socks = move || {
            let port = target.port().to_be_bytes();
            let question = [&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1][..], &port].concat();
            // No route to the network: the tunnel is down (RFC 1928, section 6).
            begins_with(exchange(at, &question), &[5, 0, 5, 3])
        };
        waiting.push(told("SOCKS says so", Box::new(socks)));
        let http = move || {
            let question = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            begins_with(exchange(at, question.as_bytes()), b"HTTP/1.1 503")
        };
        waiting.push(told("HTTP says so", Box::new(http)));
    }
    for waiting in waiting {
        waiting.join().unwrap();
    }
    // It looks for another connection by now, for long enough to say what may be wrong with a first one.
    thread::sleep(Duration::from_secs(19).saturating_sub(begin.elapsed()));
    proxy.interrupt();
    let log = proxy.wait().stderr();
    assert!(log.contains("it is silent") && !log.contains("No answer from"), "{log}");
    assert_eq!(log.matches("new connections wait").count(), 1, "one line for all flows:\n{log}");
    assert!(!log.contains(&target.to_string()), "none for each:\n{log}");
    gateway.signal(Signal::CONT);
}

#[test]
fn a_listener_of_a_client_that_was_killed_is_taken_over_by_its_key() {
    let (home, friend) = (Home::new(), Home::new());
    let line = format!("permit-listen=\"*\" {}\n", friend.public_key());
    std::fs::write(home.path().join("authorized_keys"), line).unwrap();
    let (gateway, target) = (gateway(&home), echo());
    let at = format!("127.0.0.1:{}", free_port());
    let spec = format!("{at}:{target}");
    let works = || exchange(at.parse().unwrap(), b"hello").is_ok_and(|answer| answer == b"hello");
    let (first, _) = forward(&home, &gateway, &["-R", &spec]);
    assert!(works());

    // As long as it lives nobody else gets the place, of the same key or of another; and it is said where.
    for other in [&home, &friend] {
        let output = through(other, &gateway, "forward", &["-R", &spec]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("at the gateway") && said.contains("in use"), "{said}");
        assert!(works());
    }

    // One that only stands still for a while hears of it when it goes on.
    first.signal(Signal::STOP);
    let (mut second, _) = forward(&home, &gateway, &["-R", &spec]);
    assert!(works());
    first.signal(Signal::CONT);
    // What the gateway has said waits in its socket.
    thread::sleep(Duration::from_secs(1));
    first.interrupt();
    let log = first.wait().stderr();
    assert!(log.contains("no longer: another connection"), "{log}");
    assert!(works());

    second.kill();
    // Another key does not get it, dead or not.
    let output = through(&friend, &gateway, "forward", &["-R", &spec]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let (third, _) = forward(&home, &gateway, &["-R", &spec]);
    assert!(works(), "taken over at once: the dead one would hold it for 30 s");
    third.interrupt();
    wait_until("it is free again", || TcpStream::connect(&at).is_err());
}

#[test]
fn the_log_names_a_target_once_and_says_what_is_not_spoken() {
    let home = Home::new();
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &[]);
    let closed = format!("127.0.0.1:{}", free_port());
    let question = format!("CONNECT {closed} HTTP/1.1\r\nHost: {closed}\r\n\r\n");
    assert!(exchange(proxy.address, question.as_bytes()).unwrap().starts_with(b"HTTP/1.1 502"));
    let socks_4a = b"\x04\x01\x00\x50\x00\x00\x00\x01me\x00example.org\x00";
    assert_eq!(exchange(proxy.address, socks_4a).unwrap(), [0, 91, 0, 0, 0, 0, 0, 0]);
    proxy.interrupt();
    let log = proxy.wait().stderr();
    assert_eq!(log.matches(&closed).count(), 1, "{log}");
    assert!(log.contains("SOCKS 5 only"), "{log}");
}
