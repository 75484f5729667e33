//! Tunnels over time: gateways that go and come, several of them, what those see who look after it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::{Folder, Home, Server, wait_until};
use crate::tunnel::{Nginx, curl, echo, gateway, proxy, through};

/// Whether something answers through the proxy.
fn works(proxy: SocketAddr, target: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(proxy).unwrap();
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nhello").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).is_ok() && answer.ends_with("hello")
}

#[test]
fn a_gateway_that_comes_back_is_found_again() {
    let home = Home::new();
    let mut first = gateway(&home);
    let address = first.address.to_string();
    let (proxy, target) = (proxy(&home, &first, &[]), echo());
    assert!(works(proxy.address, target));
    let mut held = TcpStream::connect(proxy.address).unwrap();
    write!(held, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    let mut head = [0; 16];
    held.read_exact(&mut head).unwrap();

    first.kill();
    let _second = Server::start(home.command(&["gateway", "--json", "--listen", &address]));
    // What was open is reset, not ended: nobody takes half an answer for a whole one.
    let mut rest = Vec::new();
    assert!(held.read_to_end(&mut rest).is_err(), "{rest:?}");
    wait_until("the new gateway is found", || works(proxy.address, target));
}

#[test]
fn the_next_gateway_takes_over() {
    let home = Home::new();
    let gateways = [gateway(&home), gateway(&home)];
    let hosts = format!("{},{}", gateways[0].address, gateways[1].address);
    let command = home.command(&["proxy", &hosts, "--json", "--listen", "127.0.0.1:0"]);
    let (proxy, target) = (Server::start(command), echo());
    assert!(works(proxy.address, target));
    // On a busy machine the second may have answered first.
    let [first, second] = gateways;
    let (used, _other) =
        if proxy.first["gateway"] == first.address.to_string() { (first, second) } else { (second, first) };
    // It says goodbye, as one that is updated does; one that dies is noticed by its silence.
    used.interrupt();
    wait_until("the other takes over", || works(proxy.address, target));
}

#[test]
fn a_gateway_that_does_not_answer_is_said_to_be_silent() {
    let home = Home::new();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let command = ["proxy", &address, "--listen", "127.0.0.1:0", "--connect-timeout", "6"];
    home.run(&command).fails_with(3).says("firewalls").says("does not answer");
}

#[test]
fn metrics_and_status_tell_what_is_done() {
    let (home, www) = (Home::new(), Folder::new());
    www.write("file", 100_000, 1);
    let nginx = Nginx::start(&www);
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &["--metrics", "127.0.0.1:0"]);
    let url = format!("http://{}/file", nginx.address);
    let socks = format!("socks5h://{}", proxy.address);
    assert_eq!(curl(&["-x", &socks, "-o", "/dev/null", &url]).0, 0);
    let metrics = format!("http://{}/metrics", proxy.first["metrics"].as_str().unwrap());
    let (code, text) = curl(&["--fail", &metrics]);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(code, 0);
    for name in [
        "fulmar_flows_opened_total",
        "fulmar_connection_rtt_seconds",
        "fulmar_connection_goodput_sent_bytes_total",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let down = text.lines().find(|l| l.starts_with("fulmar_down_bytes_total")).map(value);
    assert!(down.is_some_and(|bytes| bytes >= 100_000.0), "{down:?}");

    let reports = home.run(&["status", "--json"]).success().json();
    let commands: Vec<_> =
        reports.as_array().unwrap().iter().map(|r| r["command"].as_str().unwrap()).collect();
    assert!(commands.contains(&"proxy") && commands.contains(&"gateway"), "{commands:?}");
    home.run(&["status"]).success().says("UNREPAIRED").says(&proxy.address.to_string());
}

#[test]
fn everything_of_a_file_in_one_process_and_changed_on_the_way() {
    let home = Home::new();
    let (gateway, target) = (gateway(&home), echo());
    let write = |text: &str| {
        let hosts = format!("[hosts.home]\ngateways = [\"{}\"]\n", gateway.address);
        std::fs::write(home.path().join("config.toml"), hosts + text).unwrap();
    };
    let proxy = "[[proxy]]\nhost = \"home\"\nlisten = \"127.0.0.1:0\"\n";
    let forward = format!("[[forward]]\nhost = \"home\"\nlocal = [\"127.0.0.1:0:{target}\"]\n");
    write(proxy);
    let up = Server::start_any(home.command(&["up", "--json"]));
    let running = || {
        let reports = home.run(&["status", "--json"]).success().json();
        let up = reports.as_array().unwrap().iter().find(|r| r["command"] == "up").cloned();
        up.unwrap()["at"].as_str().unwrap().to_owned()
    };
    let before = running();
    let address: SocketAddr = before.strip_prefix("proxy at ").unwrap().parse().unwrap();
    assert_eq!(up.first["running"][0].as_str().unwrap(), before);
    wait_until("it is connected", || works(address, target));

    write(&format!("{proxy}{forward}"));
    home.run(&["reload"]).success();
    wait_until("the forward is there", || running().contains("forward at "));
    assert!(running().contains(&before), "what is the same goes on");
    assert!(works(address, target));

    write("[[proxy]]\nhost = 5\n");
    home.run(&["reload"]).fails_with(1).says("line");
    assert!(works(address, target), "a mistake changes nothing");

    write(&forward);
    home.run(&["reload"]).success();
    wait_until("the proxy is gone", || TcpStream::connect(address).is_err());
    // And its connection with it: nothing of what is gone is kept.
    let connections = || {
        let reports = home.run(&["status", "--json"]).success().json();
        let gateway = reports.as_array().unwrap().iter().find(|r| r["command"] == "gateway").cloned();
        gateway.unwrap()["connections"].as_array().unwrap().len()
    };
    wait_until("its connection is gone", || connections() == 1);

    // A gateway whose connections hold its port stays as it is when its section changes, and says so.
    let own = |profile: &str| format!("[gateway]\nlisten = \"127.0.0.1:0\"\nprofile = \"{profile}\"\n");
    write(&format!("{forward}{}", own("auto")));
    home.run(&["reload"]).success();
    wait_until("the gateway is there", || running().contains("gateway at "));
    let gateway_before = running();
    write(&format!("{forward}{}", own("cubic")));
    home.run(&["reload"]).success().says("until a restart");
    assert_eq!(running(), gateway_before);

    // A name of the file stands for its gateways on the command line as well.
    let output = home.command(&["connect", "home", &target.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_gateway_that_lies_is_not_believed() {
    // Another service behind the right key, and somebody else's key.
    let (home, there) = (Home::new(), Folder::new());
    let files = home.serve(there.path());
    let output = through(&home, &files, "proxy", &["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let mallory = Home::new();
    mallory.authorize(&home);
    let gateway = gateway(&mallory);
    let host = gateway.address.to_string();
    home.run(&["proxy", &host, "--listen", "127.0.0.1:0"]).fails_with(4).says("--accept-new");
}
