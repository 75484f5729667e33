//! Programs through a tunnel: the real binary at both ends, real programs at theirs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::common::{Folder, Home, Server, assert_same};

/// A gateway on loopback, of this user.
pub(crate) fn gateway(home: &Home) -> Server {
    Server::start(home.command(&["gateway", "--json", "--listen", "127.0.0.1:0"]))
}

/// A client's command with this gateway.
pub(crate) fn through(home: &Home, gateway: &Server, command: &str, more: &[&str]) -> Command {
    let host = gateway.address.to_string();
    home.command(&[&[command, &host, "--json", "--accept-new"], more].concat())
}

/// A proxy through this gateway.
pub(crate) fn proxy(home: &Home, gateway: &Server, more: &[&str]) -> Server {
    Server::start(through(home, gateway, "proxy", &[&["--listen", "127.0.0.1:0"], more].concat()))
}

/// `forward`, and where its forwards listen.
pub(crate) fn forward(home: &Home, gateway: &Server, more: &[&str]) -> (Server, Vec<String>) {
    let server = Server::start_any(through(home, gateway, "forward", more));
    let forwards = server.first["forwards"].as_array().unwrap().iter();
    let at = forwards.map(|f: &Value| f["at"].as_str().unwrap().to_owned()).collect();
    (server, at)
}

/// Sends everybody back what they send, to its end.
pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut all = Vec::new();
                // The whole question, then the whole answer: works only if a half-close arrives.
                let _ = stream.read_to_end(&mut all).and_then(|_| stream.write_all(&all));
            });
        }
    });
    address
}

/// curl with these arguments: its exit code and what it got.
pub(crate) fn curl(arguments: &[&str]) -> (i32, Vec<u8>) {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "60"]).args(arguments);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let output = command.output().expect("curl is installed (scripts/test-programs)");
    (output.status.code().unwrap(), output.stdout)
}

/// nginx that serves a folder.
pub(crate) struct Nginx {
    child: std::process::Child,
    pub(crate) address: SocketAddr,
}

impl Nginx {
    pub(crate) fn start(root: &Folder) -> Self {
        // Freed at once, and hopefully still free a moment later.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let at = root.path().display();
        let config = format!(
            "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/nginx.log;
             events {{ worker_connections 4096; }}
             http {{ access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
               fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
               server {{ listen {address}; root {at};
                 location /inside {{ return 302 http://127.0.0.1:1/secret; }} }} }}"
        );
        let path = root.join("nginx.conf");
        std::fs::write(&path, config).unwrap();
        // Not everybody's path has the folder that it is in.
        let path_variable = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let child = Command::new("nginx")
            .env("PATH", path_variable)
            .arg("-c")
            .arg(&path)
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed (scripts/test-programs)");
        crate::common::wait_until("nginx listens", || TcpStream::connect(address).is_ok());
        Self { child, address }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn curl_gets_files_from_nginx_by_socks_and_http() {
    let (home, www) = (Home::new(), Folder::new());
    let file = www.write("file", 5_000_000, 1);
    let (gateway, nginx) = (gateway(&home), Nginx::start(&www));
    let proxy = proxy(&home, &gateway, &[]);
    let url = format!("http://localhost:{}/file", nginx.address.port());
    for (scheme, tunnel) in
        [("socks5h", "--no-proxytunnel"), ("http", "--proxytunnel"), ("http", "--no-proxytunnel")]
    {
        let got = www.join("got");
        let address = format!("{scheme}://{}", proxy.address);
        let (code, _) = curl(&["-x", &address, tunnel, &url, "-o", got.to_str().unwrap()]);
        assert_eq!(code, 0, "{scheme} {tunnel}");
        assert_same(&file, &got);
    }
    // Several requests on one connection.
    let address = format!("http://{}", proxy.address);
    let (code, got) =
        curl(&["-x", &address, "-w", "%{http_code} ", "-o", "/dev/null", &url, "-o", "/dev/null", &url]);
    assert_eq!((code, &got[..]), (0, &b"200 200 "[..]));
}

#[test]
fn what_went_wrong_is_told_in_the_terms_of_the_protocol() {
    let home = Home::new();
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &[]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let http = format!("http://{}", proxy.address);
    let status = |url: &str| {
        let (_, out) = curl(&["-x", &http, "-o", "/dev/null", "-w", "%{http_code}", url]);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(status(&format!("http://{closed}/")), "502");
    assert_eq!(status("http://no-such-name.invalid/"), "502");
    let reply = |host: &[u8], port: u16| socks_reply(proxy.address, host, port);
    assert_eq!(reply(b"127.0.0.1", closed.port()), 5, "refused");
    assert_eq!(reply(b"no-such-name.invalid", 80), 4, "no such host");
}

/// The reply to a SOCKS request for a name.
fn socks_reply(proxy: SocketAddr, host: &[u8], port: u16) -> u8 {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    let request = [&[5, 1, 0, 3, host.len() as u8][..], host, &port.to_be_bytes()].concat();
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    reply[1]
}

#[test]
fn a_proxy_may_demand_a_password() {
    let (home, www) = (Home::new(), Folder::new());
    www.write("file", 10, 1);
    let (gateway, nginx) = (gateway(&home), Nginx::start(&www));
    let proxy = proxy(&home, &gateway, &["--user", "me:secret"]);
    let url = format!("http://{}/file", nginx.address);
    let get = |proxy: String| curl(&["-x", &proxy, "-o", "/dev/null", "-w", "%{http_code}", &url]);
    for scheme in ["socks5h", "http"] {
        let right = get(format!("{scheme}://me:secret@{}", proxy.address));
        assert_eq!((right.0, &right.1[..]), (0, &b"200"[..]), "{scheme}");
        assert_ne!(get(format!("{scheme}://me:wrong@{}", proxy.address)).1, b"200", "{scheme}");
        assert_ne!(get(format!("{scheme}://{}", proxy.address)).1, b"200", "{scheme}");
    }
}

#[test]
fn connect_is_a_pipe_with_both_its_ends() {
    let home = Home::new();
    let gateway = gateway(&home);
    let target = echo().to_string();
    let mut command = through(&home, &gateway, "connect", &[&target]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let question = vec![42; 3_000_000];
    child.stdin.take().unwrap().write_all(&question).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout == question, "{} bytes", output.stdout.len());

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = through(&home, &gateway, "connect", &[&closed]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

fn exchange(address: &str, question: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(question).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn ports_and_sockets_are_forwarded_both_ways() {
    let (home, folder) = (Home::new(), Folder::new());
    let gateway = gateway(&home);
    let port = echo().port();
    let (socket, far) = (folder.arg("here.sock"), folder.arg("there.sock"));
    let specs = [
        format!("0:localhost:{port}"),
        format!("{socket}:localhost:{port}"),
        format!("127.0.0.1:0:127.0.0.1:{port}"),
        format!("{far}:localhost:{port}"),
    ];
    let arguments = ["-L", &specs[0], "-L", &specs[1], "-R", &specs[2], "-R", &specs[3], "-D", "0"];
    let (_forward, at) = forward(&home, &gateway, &arguments);
    for at in [&at[0], &at[3]] {
        assert_eq!(exchange(at, b"hello"), b"hello");
    }
    for path in [&socket, &far] {
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "hello", "{path}");
    }
    assert_eq!(socks_reply(at[2].parse().unwrap(), b"127.0.0.1", port), 0);
}

/// Sends every packet back.
fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut packet = vec![0; 65_535];
        while let Ok((len, from)) = socket.recv_from(&mut packet) {
            let _ = socket.send_to(&packet[..len], from);
        }
    });
    address
}

#[test]
fn packets_are_forwarded_both_ways_also_long_ones() {
    let home = Home::new();
    let gateway = gateway(&home);
    let port = udp_echo().port();
    let specs = [format!("0:127.0.0.1:{port}/udp"), format!("127.0.0.1:0:127.0.0.1:{port}/udp")];
    let (_forward, at) = forward(&home, &gateway, &["-L", &specs[0], "-R", &specs[1]]);
    for at in at {
        let at = at.trim_end_matches("/udp").to_owned();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
        // Packets may get lost: each is sent until it has come back.
        for len in [0, 1, 1000, 9000, 60_000] {
            let (packet, mut back) = (vec![len as u8; len], vec![0; 65_535]);
            crate::common::wait_until("the packet comes back", || {
                socket.send_to(&packet, &at).unwrap();
                socket.recv(&mut back).is_ok_and(|got| got == len && back[..got] == packet[..])
            });
        }
    }
}

#[test]
fn socks_carries_packets_too() {
    let home = Home::new();
    let gateway = gateway(&home);
    let proxy = proxy(&home, &gateway, &[]);
    let target = udp_echo();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], [5, 0, 5, 0]);
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[10], reply[11]])));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let header = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &target.port().to_be_bytes()].concat();
    for payload in [&b"ping"[..], &[9; 5000]] {
        let packet = [&header[..], payload].concat();
        let mut back = vec![0; 65_535];
        crate::common::wait_until("the packet comes back", || {
            socket.send_to(&packet, relay).unwrap();
            socket.recv(&mut back).is_ok_and(|got| back[..got] == packet[..])
        });
    }
}

/// sshd with keys of its own, for the user who runs the tests.
struct Sshd {
    child: std::process::Child,
    port: u16,
}

impl Sshd {
    fn start(at: &Folder) -> Self {
        let path = at.path().display();
        for name in ["host", "user"] {
            let file = at.arg(name);
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file]).status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(at.join("user.pub"), at.join("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {path}/host\nAuthorizedKeysFile {path}/authorized\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPidFile none\n"
        );
        std::fs::write(at.join("sshd_config"), config).unwrap();
        // Where it locks itself up as root; it insists on the folder.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut command = Command::new("/usr/sbin/sshd");
        let child =
            command.args(["-D", "-e", "-f"]).arg(at.join("sshd_config")).stderr(Stdio::null()).spawn();
        let child = child.expect("sshd is installed (scripts/test-programs)");
        crate::common::wait_until("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ssh_goes_by_connect() {
    let (home, folder) = (Home::new(), Folder::new());
    let (gateway, sshd) = (gateway(&home), Sshd::start(&folder));
    let command = format!("{} connect {} %h:%p", env!("CARGO_BIN_EXE_fulmar"), gateway.address);
    let output = Command::new("ssh")
        .args([
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ])
        .args(["-o", &format!("ProxyCommand={command}"), "-i", &folder.arg("user")])
        .args(["-p", &sshd.port.to_string(), "127.0.0.1", "head -c 300000 /dev/zero | wc -c; echo well"])
        .env("FULMAR_HOME", home.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told, "300000\nwell\n", "{}", String::from_utf8_lossy(&output.stderr));
}
