//! Ports that are forwarded, in ssh's manner: `-L`, `-R`, `-D`.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use super::client::Client;
use super::proxy;
use super::reverses::Reverse;
use crate::tunnel::flow::halves::BoxedHalves;
use crate::tunnel::flow::local::{self, Listener};
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::shared_socket::{PeerPackets, serve_peers};
use crate::tunnel::flow::tcp;
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::flow::udp;
use crate::tunnel::wire::error::OpenError;
use crate::tunnel::wire::target::{Place, Target};

/// Where ports are opened unless another address is given.
const HOST_DEFAULT: &str = "localhost";

/// From where to where: `[BIND:]PORT:HOST:HOSTPORT[/udp]`, with the path of a socket in the place of either
/// end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Where connections come.
    pub at: Target,
    /// Where they go.
    pub to: Target,
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}`: {why}; it is [BIND:]PORT:HOST:HOSTPORT[/udp]");
        let (body, is_udp) = match text.rsplit_once('/') {
            Some((body, "udp")) => (body, true),
            Some((body, "tcp")) => (body, false),
            _ => (text, false),
        };
        let words = words(body).ok_or_else(|| wrong("a bracket is not closed"))?;
        let port = |text: &str| text.parse().map_err(|_| wrong(&format!("`{text}` is not a port")));
        let place = |host: &str, port| Place::new(bind_host(host), port);
        let make = if is_udp { Target::Udp } else { Target::Tcp };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (at, to) = match words[..] {
            [at, to] if is_path(at) && is_path(to) => (Target::Unix(at.into()), Target::Unix(to.into())),
            [at, host, to] if is_path(at) => (Target::Unix(at.into()), make(Place::new(host, port(to)?))),
            [at, to] if is_path(to) => (make(place(HOST_DEFAULT, port(at)?)), Target::Unix(to.into())),
            [bind, at, to] if is_path(to) => (make(place(bind, port(at)?)), Target::Unix(to.into())),
            [at, host, to] => (make(place(HOST_DEFAULT, port(at)?)), make(Place::new(host, port(to)?))),
            [bind, at, host, to] => (make(place(bind, port(at)?)), make(Place::new(host, port(to)?))),
            _ => return Err(wrong("there are too few parts, or too many")),
        };
        let mixes = |target: &Target| matches!(target, Target::Unix(_)) && is_udp;
        if mixes(&at) || mixes(&to) {
            return Err(wrong("a socket in the file system carries no UDP"));
        }
        to.check().map_err(|why| wrong(&why))?;
        Ok(Self { at, to })
    }
}

impl From<Spec> for Reverse {
    fn from(spec: Spec) -> Self {
        Self { at: spec.at, to: spec.to }
    }
}

/// `[BIND:]PORT`, for `-D`.
pub fn parse_port(text: &str) -> Result<Place, String> {
    let words = words(text).unwrap_or_default();
    let (host, port) = match &words[..] {
        [port] => (HOST_DEFAULT, port),
        [host, port] => (host.as_str(), port),
        _ => return Err(format!("`{text}` is not [BIND:]PORT")),
    };
    let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
    Ok(Place::new(bind_host(host), port))
}

fn is_path(word: &str) -> bool {
    word.starts_with('/')
}

/// Everywhere is `*`, or nothing.
fn bind_host(host: &str) -> &str {
    if matches!(host, "*" | "") { "::" } else { host }
}

/// What stands between colons that are not in brackets.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut is_inside = false;
    for c in text.chars() {
        match c {
            '[' if !is_inside => is_inside = true,
            ']' if is_inside => is_inside = false,
            ':' if !is_inside => words.push(String::new()),
            c => words.last_mut()?.push(c),
        }
    }
    (!is_inside).then_some(words)
}

/// Something that is listened at here, and connected with something beyond the gateway.
#[derive(Debug)]
pub enum Entrance {
    /// Streams.
    Streams(Listener, Target),
    /// Packets.
    Packets(Arc<UdpSocket>, Target),
    /// A proxy.
    Proxy(TcpListener),
}

impl Entrance {
    /// Listens for `-L`.
    pub async fn bind(spec: &Spec) -> Result<Self, OpenError> {
        match &spec.at {
            Target::Udp(place) => {
                let failed = |error: std::io::Error| {
                    OpenError::of_connect(&error, format!("cannot listen at {}", spec.at))
                };
                let address = local::address(place).await.map_err(failed)?;
                let socket = UdpSocket::bind(address).await.map_err(failed)?;
                Ok(Self::Packets(Arc::new(socket), spec.to.clone()))
            }
            at => Ok(Self::Streams(Listener::bind(at).await?, spec.to.clone())),
        }
    }

    /// Listens for `-D`.
    pub async fn bind_proxy(place: &Place) -> Result<Self, OpenError> {
        let failed =
            |error: std::io::Error| OpenError::of_connect(&error, format!("cannot listen at {place}"));
        let address = local::address(place).await.map_err(failed)?;
        Ok(Self::Proxy(tcp::listen(address).await.map_err(failed)?))
    }

    /// Where; a Unix socket has no address.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Streams(listener, _) => listener.address(),
            Self::Packets(socket, _) => socket.local_addr().ok(),
            Self::Proxy(listener) => listener.local_addr().ok(),
        }
    }

    /// Serves who comes, until this is dropped; those who are there stay.
    pub async fn serve(self, client: Client) {
        match self {
            Self::Streams(listener, to) => serve_streams(listener, to, client).await,
            Self::Packets(socket, to) => {
                let drops = Arc::clone(&client.traffic().drops);
                let open = move |_, packets| carry_packets(client.clone(), to.clone(), packets);
                serve_peers(socket, drops, open).await;
            }
            Self::Proxy(listener) => proxy::serve(listener, client, None).await,
        }
    }
}

async fn serve_streams(listener: Listener, to: Target, client: Client) {
    loop {
        let (halves, _) = listener.accept().await;
        let (client, to) = (client.clone(), to.clone());
        tokio::spawn(async move {
            if let Err(error) = carry_stream(&client, &to, halves).await {
                error.log(&to);
            }
        });
    }
}

/// The first data follow the request at once: nobody here waits for an answer that only the target's side can
/// give.
async fn carry_stream(client: &Client, to: &Target, local: BoxedHalves) -> Result<(), OpenError> {
    use crate::tunnel::flow::halves::{RecvHalf, SendHalf};
    let (mut read, mut write) = local;
    let (recv, send) = match client.open_ahead(to).await {
        Ok(halves) => halves,
        Err(error) => {
            read.cut_off();
            write.cut_off();
            return Err(error);
        }
    };
    let refusal = recv.refusal();
    pump((read, write), (recv, send), Way::Up, client.traffic()).await;
    refusal.get().map_or(Ok(()), |error| Err(error.clone()))
}

async fn carry_packets(client: Client, to: Target, mut local: PeerPackets) {
    use udp::Packets;
    let Some(first) = local.recv().await else { return };
    match client.open_packets(&to, None, &first).await {
        Ok((flow, inbox)) => {
            let _ = udp::carry(local, inbox, flow.into_halves(), Way::Up, client.traffic()).await;
        }
        Err(error) => error.log(&to),
    }
}

/// Runs entrances until all of them are gone, which is never.
pub async fn serve_all(entrances: Vec<Entrance>, client: &Client) {
    let mut serving: JoinSet<()> = entrances.into_iter().map(|e| e.serve(client.clone())).collect();
    while serving.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_as_ssh_takes_them() {
        let unix = |path: &str| Target::Unix(path.into());
        for (text, at, to) in [
            ("8080:web:80", Target::tcp("localhost", 8080), Target::tcp("web", 80)),
            ("0.0.0.0:8080:web:80", Target::tcp("0.0.0.0", 8080), Target::tcp("web", 80)),
            ("*:8080:web:80", Target::tcp("::", 8080), Target::tcp("web", 80)),
            ("[::1]:1:[2001:db8::1]:80", Target::tcp("::1", 1), Target::tcp("2001:db8::1", 80)),
            ("53:dns:53/udp", Target::udp("localhost", 53), Target::udp("dns", 53)),
            ("0:h:1", Target::tcp("localhost", 0), Target::tcp("h", 1)),
            ("/a.sock:h:1", unix("/a.sock"), Target::tcp("h", 1)),
            ("8080:/b.sock", Target::tcp("localhost", 8080), unix("/b.sock")),
            ("/a.sock:/b.sock", unix("/a.sock"), unix("/b.sock")),
        ] {
            assert_eq!(text.parse(), Ok(Spec { at, to }), "{text}");
        }
        for text in
            ["", "80", "80:h", "x:h:80", "80:h:x", "80:h:0", "1:2:3:4:5", "[::1:80:h:80", "/a:/b/udp", "1::2"]
        {
            assert!(text.parse::<Spec>().is_err(), "{text}");
        }
    }

    #[test]
    fn ports_of_proxies() {
        assert_eq!(parse_port("1080"), Ok(Place::new("localhost", 1080)));
        assert_eq!(parse_port("[::1]:1080"), Ok(Place::new("::1", 1080)));
        assert!(parse_port("a:b:c").is_err() && parse_port("x").is_err());
    }
}
