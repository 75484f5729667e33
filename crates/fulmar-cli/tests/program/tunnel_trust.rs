//! Who may what through a gateway, and what attackers get.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::common::{Folder, Home, Server};
use crate::tunnel::{Nginx, curl, echo, forward, gateway, proxy, through};

/// A gateway's user and a client that it lets in with these options.
fn friends(options: &str) -> (Home, Home) {
    let (server, client) = (Home::new(), Home::new());
    grant(&server, &client, options);
    (server, client)
}

fn grant(server: &Home, client: &Home, options: &str) {
    let line = format!("{options} {}\n", client.public_key());
    fs::write(server.path().join("authorized_keys"), line).unwrap();
}

/// The HTTP status that a proxy gives for a request.
fn status(proxy: &Server, url: &str) -> String {
    let address = format!("http://{}", proxy.address);
    let (_, out) = curl(&["-x", &address, "-L", "-o", "/dev/null", "-w", "%{http_code}", url]);
    String::from_utf8(out).unwrap()
}

#[test]
fn nobody_gets_in_by_default() {
    let (server, stranger) = (Home::new(), Home::new());
    let gateway = gateway(&server);
    let output = through(&stranger, &gateway, "proxy", &["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("authorized_keys") && told.contains(&stranger.public_key()[..40]), "{told}");
}

#[test]
fn a_friend_reaches_nothing_inside_by_any_spelling() {
    let (server, client) = friends("");
    let www = Folder::new();
    www.write("secret", 10, 1);
    let nginx = Nginx::start(&www);
    let gateway = gateway(&server);
    let proxy = proxy(&client, &gateway, &[]);
    let port = nginx.address.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.0.1",
        "[fd00:ec2::254]",
        "100.100.100.200",
    ] {
        assert_eq!(status(&proxy, &format!("http://{host}:{port}/secret")), "403", "{host}");
    }
}

#[test]
fn a_redirect_leads_no_further_than_a_request() {
    let www = Folder::new();
    www.write("file", 10, 1);
    let nginx = Nginx::start(&www);
    let (server, client) = friends(&format!("permit=\"127.0.0.1:{}\"", nginx.address.port()));
    let gateway = gateway(&server);
    let proxy = proxy(&client, &gateway, &[]);
    assert_eq!(status(&proxy, &format!("http://{}/file", nginx.address)), "200");
    // nginx sends to http://127.0.0.1:1/secret.
    assert_eq!(status(&proxy, &format!("http://{}/inside", nginx.address)), "403");
}

#[test]
fn rules_are_read_again_without_cutting_anybody_off() {
    let target = echo();
    let (server, client) = friends("permit=\"127.0.0.1:1\"");
    let gateway = gateway(&server);
    let spec = format!("0:{target}");
    let (_forward, at) = forward(&client, &gateway, &["-L", &spec]);
    // A reset is told once, to whichever call comes next: none of them may pass over it.
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&at[0])?;
        stream.write_all(b"hello")?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    assert!(ask().is_err(), "the stream is reset: this target is not permitted");
    grant(&server, &client, &format!("permit=\"{target}\""));
    server.run(&["reload"]).success().says("read again");
    assert_eq!(ask().unwrap(), "hello");

    let mut open = TcpStream::connect(&at[0]).unwrap();
    open.write_all(b"still ").unwrap();
    grant(&server, &client, "permit=\"\"");
    server.run(&["reload"]).success();
    open.write_all(b"here").unwrap();
    open.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "still here");
    assert!(ask().is_err());
}

#[test]
fn listening_needs_a_permit() {
    let target = echo();
    let spec = format!("127.0.0.1:0:{target}");
    let (server, client) = friends("");
    let gateway = gateway(&server);
    let refused = through(&client, &gateway, "forward", &["-R", &spec]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
    grant(&server, &client, "permit-listen=\"0-65535\"");
    server.run(&["reload"]).success();
    let (_forward, at) = forward(&client, &gateway, &["-R", &spec]);
    TcpStream::connect(&at[0]).unwrap();
}

#[test]
fn keys_for_files_and_keys_for_tunnels() {
    let (server, client) = friends("no-tunnel");
    let (here, there) = (Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let both = server.serve_at(there.path(), "127.0.0.1:0", &["--gateway"]);
    let copy = || client.run(&["cp", "--accept-new", "-p", &both.port(), &here.arg("f"), "127.0.0.1:"]);
    let target = echo().to_string();
    let pipe = || through(&client, &both, "connect", &[&target]).output().unwrap().status.code();
    copy().success();
    assert_ne!(pipe(), Some(0));
    grant(&server, &client, "no-files,permit=\"*\"");
    copy().fails_with(5).says("this key may not copy files here");
    assert_eq!(pipe(), Some(0));
    let files = server.serve(there.path());
    let arguments = ["cp", "--accept-new", "-p", &files.port(), &here.arg("f"), "127.0.0.1:"];
    client.run(&arguments).fails_with(5).says("this key may not copy files here");
}

/// A few bytes to a proxy, and how it ends: it must end, with little said.
fn poke(proxy: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("{bytes:?} is waited with"),
        _ => answer,
    }
}

#[test]
fn nonsense_at_the_proxy_is_answered_or_cut_off() {
    let home = Home::new();
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &[]);
    let long_name = [&[5, 1, 0, 5, 1, 0, 3, 255][..], &[b'a'; 255], &[0, 80]].concat();
    let bad_name = [&[5, 1, 0, 5, 1, 0, 3, 4][..], &[0xff, 0, b'\n', b' '], &[0, 80]].concat();
    for bytes in [
        &b""[..],
        &[5],
        &[5, 0],
        &[5, 1],
        &[5, 255, 1],
        &[5, 1, 0, 5, 1, 0, 9, 0, 0],
        &[5, 1, 0, 5, 9, 0, 1, 1, 1, 1, 1, 0, 80],
        &[5, 1, 0, 4],
        &[4, 1, 0, 80, 127, 0, 0, 1, 0],
        &long_name,
        &bad_name,
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT  HTTP/1.1\r\n\r\n",
        b"CONNECT example.org HTTP/1.1\r\n\r\n",
        b"CONNECT :0 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"GET http://a b/ HTTP/1.1\r\n\r\n",
        b"POST http://127.0.0.1:1/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    ] {
        let answer = poke(proxy.address, bytes);
        assert!(answer.len() < 2000, "{bytes:?}: {} bytes", answer.len());
    }
    let huge = [&b"GET http://x/ HTTP/1.1\r\nX: "[..], &vec![b'a'; 2_000_000]].concat();
    poke(proxy.address, &huge);
    // It is alive and well.
    let target = echo();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nearly").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nearly"), "{answer}");
}

#[test]
fn clients_that_say_nothing_or_never_read_hold_up_nobody() {
    let home = Home::new();
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &[]);
    // Slow ones, some in the middle of what they say.
    let slow: Vec<_> = (0..100)
        .map(|i| {
            let mut stream = TcpStream::connect(proxy.address).unwrap();
            let _ = stream.write_all([&b""[..], &[5, 1], b"CONNECT exam"][i % 3]);
            stream
        })
        .collect();
    // A target that sends as long as somebody takes it, to clients that never read.
    let flood = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = flood.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in flood.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                while stream.write_all(&[0; 65_536]).is_ok() {}
            });
        }
    });
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(proxy.address).unwrap();
            write!(stream, "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let target = echo();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    stream.write_all(&vec![b'x'; 1_000_000]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 1_000_000, "{}", answer.len());
    drop((slow, deaf));
}

#[test]
fn streams_have_a_limit() {
    let target = echo();
    let (server, client) = friends("permit=\"*\",streams=3");
    let gateway = gateway(&server);
    let proxy = proxy(&client, &gateway, &[]);
    let open = || {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, String::from_utf8_lossy(&head[9..]).into_owned())
    };
    let held: Vec<_> = (0..3).map(|_| open()).collect();
    assert!(held.iter().all(|(_, status)| status == "200"));
    assert_eq!(open().1, "429");
    drop(held);
    crate::common::wait_until("there is room again", || open().1 == "200");
}
