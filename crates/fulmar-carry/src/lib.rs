//! What the preloaded library of `fulmar run` asks, and what the program answers.
//!
//! The library lives in programs that know nothing of it: it may be called in signal handlers and between
//! `vfork` and `exec`, it must keep no descriptor open, and what it remembers is lost with every `exec`. So
//! it remembers nothing. For each question it opens a Unix socket (`SOCK_SEQPACKET`), sends one [`Request`],
//! reads one [`Reply`], and closes. Both have a fixed head and a name behind it, and are coded without
//! allocating.
//!
//! A socket is known by its *cookie* (`SO_COOKIE`), which both ends can ask the kernel for and which outlives
//! `fork`, `exec` and `dup`.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

mod stand_in;

pub use stand_in::{STAND_INS, StandIn};

/// Environment variable that names the Unix socket where questions are answered.
pub const SOCKET_VARIABLE: &str = "FULMAR_RUN_SOCKET";

/// File name of the preloaded library.
pub const LIBRARY: &str = "libfulmar_preload.so";

/// Longest name of a host (RFC 1035 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;

/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = HEAD_BYTES + NAME_BYTES_MAX;

/// What is asked for, or the error number; the cookie; family, port and address; then the name.
const HEAD_BYTES: usize = 4 + 8 + ADDRESS_BYTES;
const ADDRESS_BYTES: usize = 1 + 2 + 16;

/// What the library can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Question {
    /// Carry the socket that comes with the message to this address. Answer: the address to connect it to
    /// instead.
    Connect = 1,
    /// The connection with this cookie has failed: with which error number?
    Verdict = 2,
    /// Whom is the socket with this cookie connected to?
    Peer = 3,
    /// Which address stands in for this name?
    StandIn = 4,
    /// Which name does this address stand in for?
    Name = 5,
}

impl Question {
    const ALL: [Self; 5] = [Self::Connect, Self::Verdict, Self::Peer, Self::StandIn, Self::Name];
}

/// A question. Parts that it does not need stay empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is asked.
    pub question: Question,
    /// Which socket it is about; 0 for none.
    pub cookie: u64,
    /// Which address it is about.
    pub address: Option<SocketAddr>,
    /// Which name it is about.
    pub name: &'a str,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reply<'a> {
    /// The error number that the program is to see; 0 for none.
    pub errno: i32,
    /// The address asked for.
    pub address: Option<SocketAddr>,
    /// The name asked for.
    pub name: &'a str,
}

impl<'a> Request<'a> {
    /// A question about nothing yet.
    pub fn new(question: Question) -> Self {
        Self { question, cookie: 0, address: None, name: "" }
    }

    /// Writes it to the front of `out`; tells how many bytes it takes. `None` if the name is too long.
    pub fn encode(&self, out: &mut [u8; MESSAGE_BYTES_MAX]) -> Option<usize> {
        encode(self.question as i32, self.cookie, self.address, self.name, out)
    }

    /// Reads what [`encode`](Self::encode) has written; `None` if it is anything else.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (number, cookie, address, name) = decode(bytes)?;
        let question = Question::ALL.into_iter().find(|q| *q as i32 == number)?;
        Some(Self { question, cookie, address, name })
    }
}

impl<'a> Reply<'a> {
    /// A refusal.
    pub fn error(errno: i32) -> Self {
        Self { errno, ..Self::default() }
    }

    /// An address.
    pub fn address(address: SocketAddr) -> Self {
        Self { address: Some(address), ..Self::default() }
    }

    /// Writes it to the front of `out`; tells how many bytes it takes. `None` if the name is too long.
    pub fn encode(&self, out: &mut [u8; MESSAGE_BYTES_MAX]) -> Option<usize> {
        encode(self.errno, 0, self.address, self.name, out)
    }

    /// Reads what [`encode`](Self::encode) has written; `None` if it is anything else.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (errno, _, address, name) = decode(bytes)?;
        Some(Self { errno, address, name })
    }
}

fn encode(
    number: i32,
    cookie: u64,
    address: Option<SocketAddr>,
    name: &str,
    out: &mut [u8; MESSAGE_BYTES_MAX],
) -> Option<usize> {
    let length = HEAD_BYTES + name.len();
    out[..4].copy_from_slice(&number.to_le_bytes());
    out[4..12].copy_from_slice(&cookie.to_le_bytes());
    let (family, port, ip) = match address {
        None => (0, 0, [0; 16]),
        Some(SocketAddr::V4(v4)) => (4, v4.port(), v4.ip().to_ipv6_mapped().octets()),
        Some(SocketAddr::V6(v6)) => (6, v6.port(), v6.ip().octets()),
    };
    out[12] = family;
    out[13..15].copy_from_slice(&port.to_le_bytes());
    out[15..HEAD_BYTES].copy_from_slice(&ip);
    out.get_mut(HEAD_BYTES..length)?.copy_from_slice(name.as_bytes());
    Some(length)
}

fn decode(bytes: &[u8]) -> Option<(i32, u64, Option<SocketAddr>, &str)> {
    let (head, name) = bytes.split_at_checked(HEAD_BYTES)?;
    let number = i32::from_le_bytes(head[..4].try_into().ok()?);
    let cookie = u64::from_le_bytes(head[4..12].try_into().ok()?);
    let port = u16::from_le_bytes(head[13..15].try_into().ok()?);
    let ip: [u8; 16] = head[15..].try_into().ok()?;
    let address = match head[12] {
        0 => None,
        4 => Some(IpAddr::V4(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(ip))),
        _ => return None,
    };
    let name = str::from_utf8(name).ok().filter(|name| name.len() <= NAME_BYTES_MAX)?;
    Some((number, cookie, address.map(|ip| SocketAddr::new(ip, port)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let mut out = [0; MESSAGE_BYTES_MAX];
        for question in Question::ALL {
            for address in [None, Some("192.0.2.1:80"), Some("[2001:db8::1]:443")] {
                let address = address.map(|a| a.parse().unwrap());
                let request = Request { question, cookie: u64::MAX - 7, address, name: "example.org" };
                let length = request.encode(&mut out).unwrap();
                assert_eq!(Request::decode(&out[..length]), Some(request));
                let reply = Reply { errno: 111, address, name: "" };
                let length = reply.encode(&mut out).unwrap();
                assert_eq!(Reply::decode(&out[..length]), Some(reply));
            }
        }
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        let mut out = [0; MESSAGE_BYTES_MAX];
        let length = Request::new(Question::Peer).encode(&mut out).unwrap();
        assert_eq!(Request::decode(&out[..length - 1]), None, "cut short");
        let with = |at: usize, byte: u8| {
            let mut changed = out;
            changed[at] = byte;
            Request::decode(&changed[..length]).is_some()
        };
        assert!(with(0, 1));
        assert!(!with(0, 99), "no such question");
        assert!(!with(12, 5), "no such family");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(Request { name: &long, ..Request::new(Question::StandIn) }.encode(&mut out), None);
        out[HEAD_BYTES] = 0xff;
        assert_eq!(Request::decode(&out[..=HEAD_BYTES]), None, "not UTF-8");
    }
}
