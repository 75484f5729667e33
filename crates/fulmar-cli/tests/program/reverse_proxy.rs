//! Through a real reverse proxy (nginx) that ends TLS itself, and lets WebSockets and nothing else through.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::common::{Folder, Home, Server, wait_until};
use crate::room::has;
use crate::tcp::{Clock, Download, free_address, told, way};

/// nginx with WebSockets at `/secret/` and `/` that lead to one gateway, and at `/other` to another.
struct Nginx {
    child: Child,
    address: String,
    _folder: Folder,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Nothing, and said so, where it is not installed.
    fn new(gateway: &Server, other: &Server) -> Option<Self> {
        if !has("nginx") {
            return None;
        }
        let (folder, address) = (Folder::new(), free_address());
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["www.example.org".into()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("cert.pem"), pem("CERTIFICATE", certificate.der())).unwrap();
        std::fs::write(folder.join("key.pem"), pem("PRIVATE KEY", key.serialized_der())).unwrap();
        let place = |path: &str, to: &Server| {
            let gateway = to.address;
            format!(
                "location {path} {{ proxy_pass https://{gateway}; proxy_ssl_protocols TLSv1.3; \
                 proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
                 proxy_set_header Connection upgrade; }}"
            )
        };
        let here = folder.path().display();
        let kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let kept: String = kept.iter().map(|name| format!("{name}_temp_path {here}/{name};")).collect();
        let config = format!(
            "daemon off; master_process off; pid {here}/pid; error_log stderr; events {{}} \
             http {{ access_log off; {kept} server {{ listen {address} ssl; ssl_protocols TLSv1.3; \
             ssl_certificate {here}/cert.pem; ssl_certificate_key {here}/key.pem; {} {} {} }} }}",
            place("/secret/", gateway),
            place("/other", other),
            place("= /", gateway),
        );
        std::fs::write(folder.join("conf"), config).unwrap();
        let mut command = Command::new("nginx");
        command.args(["-c", &folder.arg("conf"), "-p", &folder.arg("")]).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        wait_until("nginx listens", || std::net::TcpStream::connect(&address).is_ok());
        Some(Self { child, address, _folder: folder })
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn gateway(home: &Home) -> Server {
    Server::start(home.command(&["gateway", "--json", "--listen", &free_address(), "--tcp"]))
}

#[test]
fn a_gateway_is_reached_through_a_reverse_proxy_that_ends_tls() {
    let (home, stranger, clock) = (Home::new(), Home::new(), Clock::new());
    stranger.authorize(&home);
    let (gateway, other) = (gateway(&home), gateway(&stranger));
    let Some(nginx) = Nginx::new(&gateway, &other) else { return };
    let url = format!("wss://{}/secret/way", nginx.address);
    // UDP is answered by nobody there.
    let host = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (download, program, first) = Download::begin(&home, host, &["--websocket", &url], None);
    let standstill = download.for_a_while(Duration::from_secs(1));
    told("WebSocket through a reverse proxy", first, standstill, &clock);
    assert_eq!(way(&home), "tcp");
    drop((download, program));
    // The key is pinned, whatever nginx shows, and whoever is behind it.
    let url = format!("wss://{}/other", nginx.address);
    let arguments = ["connect", &host.to_string(), "localhost:1", "--way", "tcp", "--websocket"];
    let failed = home.run(&[&arguments[..], &[&url]].concat());
    failed.fails_with(4).says("key");
    // No path of it leads there.
    let url = format!("wss://{}/elsewhere", nginx.address);
    home.run(&[&arguments[..], &[&url]].concat()).fails_with(3).says("404");
}

/// Datagrams are no HTTP, and are refused; so a WebSocket is asked for without anybody having said so.
#[test]
fn a_websocket_is_found_where_nothing_else_is_taken() {
    let (home, clock) = (Home::new(), Clock::new());
    let gateway = gateway(&home);
    let Some(nginx) = Nginx::new(&gateway, &gateway) else { return };
    let host = nginx.address.parse().unwrap();
    let (download, _program, first) = Download::begin(&home, host, &[], None);
    let standstill = download.for_a_while(Duration::from_secs(1));
    told("WebSocket found by itself", first, standstill, &clock);
    assert_eq!(way(&home), "tcp");
}
