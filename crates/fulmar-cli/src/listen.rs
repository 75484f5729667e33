//! Where to listen, as people say it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::reach::{DEFAULT_PORT, any_address};

/// Most ports that a server has: each is a socket.
const PORTS_MAX: usize = 1024;

/// What clients are told has room for so many ranges.
const RANGES_MAX: usize = 16;

/// Ports of one address, as ranges in order and apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports(Vec<RangeInclusive<u16>>);

impl Ports {
    /// These, in any order.
    pub fn new(mut all: Vec<RangeInclusive<u16>>) -> Self {
        all.sort_by_key(|range| *range.start());
        let mut apart: Vec<RangeInclusive<u16>> = Vec::new();
        for range in all {
            match apart.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => apart.push(range),
            }
        }
        Self(apart)
    }

    /// The ranges.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.0
    }

    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = u16> + Clone + '_ {
        self.0.iter().cloned().flatten()
    }

    fn check(&self, text: &str) -> Result<(), String> {
        if self.each().count() > PORTS_MAX || self.0.len() > RANGES_MAX {
            return Err(format!("`{text}` are too many ports: at most {PORTS_MAX}, in {RANGES_MAX} ranges"));
        }
        Ok(())
    }
}

impl FromStr for Ports {
    type Err = String;

    /// Ports and ranges of them, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let ports = Self::new(text.split(',').map(parse_ports).collect::<Result<_, _>>()?);
        ports.check(text).map(|()| ports)
    }
}

/// As people write them.
impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match range.len() {
                1 => write!(f, "{comma}{}", range.start())?,
                _ => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// What it is called.
    pub address: SocketAddr,
    /// And at these ports of that address.
    more: Vec<RangeInclusive<u16>>,
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self { address, more: Vec::new() }
    }
}

impl Listen {
    /// All its ports, in order and apart, `first` among them; none if that is the only one.
    pub fn ports(&self, first: u16) -> Vec<RangeInclusive<u16>> {
        if self.more.is_empty() {
            return Vec::new();
        }
        Ports::new(self.more.iter().cloned().chain([first..=first]).collect()).0
    }
}

/// What [`parse_listen`] takes, and after it more ports and ranges of them, each behind a comma.
pub fn parse_listen_all(text: &str) -> Result<Listen, String> {
    let (first, rest) = text.split_once(',').map_or((text, None), |(first, rest)| (first, Some(rest)));
    let address = parse_listen(first)?;
    let more = rest.map_or(Ok(Vec::new()), |rest| rest.split(',').map(parse_ports).collect())?;
    let listen = Listen { address, more };
    Ports(listen.ports(address.port())).check(text).map(|()| listen)
}

/// A port, or the first and the last of several.
fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
    match port(first).zip(port(last)) {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err(format!("`{text}` is neither a port nor a range of ports, such as 20000-20100")),
    }
}

/// An address with a port, a port alone (on every address), or an address alone (with the usual port).
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let bare = text
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .map(|ip| SocketAddr::new(ip, DEFAULT_PORT));
    let port = text.strip_prefix(':').unwrap_or(text).parse().map(any_address);
    let found = text.parse().or(bare).ok().or(port.ok());
    found.ok_or_else(|| format!("`{text}` is neither an address nor a port"))
}

/// Where programs of this machine find something: an address with a port, or a port, which is on loopback;
/// `:PORT` is on every address.
pub fn parse_listen_here(text: &str) -> Result<SocketAddr, String> {
    let here = text.strip_prefix("localhost:").unwrap_or(text);
    let here = here.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let everywhere = || text.strip_prefix(':').and_then(|port| port.parse().ok()).map(any_address);
    let found = here.or_else(|| text.parse().ok()).or_else(everywhere);
    found.ok_or_else(|| format!("`{text}` is neither a port nor an address with one, as 127.0.0.1:1080"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen() {
        assert_eq!(parse_listen("127.0.0.1:5"), Ok("127.0.0.1:5".parse().unwrap()));
        assert_eq!(parse_listen("127.0.0.1"), Ok("127.0.0.1:4747".parse().unwrap()));
        assert_eq!(parse_listen("[::1]:5"), Ok("[::1]:5".parse().unwrap()));
        assert_eq!(parse_listen("::1"), Ok("[::1]:4747".parse().unwrap()));
        assert_eq!(parse_listen("5").map(|a| a.port()), Ok(5));
        assert_eq!(parse_listen(":5").map(|a| a.port()), Ok(5));
        assert!(parse_listen("example").is_err());
    }

    #[test]
    fn several_ports() {
        let ports = |text: &str| parse_listen_all(text).map(|listen| listen.ports(listen.address.port()));
        assert_eq!(ports(":4747"), Ok(vec![]));
        assert_eq!(ports(":4747,20000-20100"), Ok(vec![4747..=4747, 20_000..=20_100]));
        assert_eq!(
            ports("127.0.0.1:443,80, 8000-8010,8005-8020,444"),
            Ok(vec![80..=80, 443..=444, 8000..=8020])
        );
        assert_eq!(ports("[::1]:4747,4000-5000"), Ok(vec![4000..=5000]));
        assert_eq!(ports(":65534,65535"), Ok(vec![65_534..=65_535]));
        assert!(ports(":4747,1-1023").is_ok(), "1,024 ports");
        for text in [":4747,", ":4747,0-5", ":4747,9-5", "4747-5000", ":4747,1-2-3", ":1,5000-6024", "x,5"] {
            assert!(ports(text).is_err(), "{text}");
        }
        assert_eq!("9,3-5,6".parse::<Ports>().unwrap().to_string(), "3-6,9");
        assert!("".parse::<Ports>().is_err() && "5-".parse::<Ports>().is_err());
        let many: Vec<String> = (1..18).map(|n| (n * 10).to_string()).collect();
        assert!(ports(&many.join(",")).is_err() && many.join(",").parse::<Ports>().is_err());
    }

    #[test]
    fn a_port_alone_is_here() {
        for text in ["1080", "localhost:1080", "127.0.0.1:1080"] {
            assert_eq!(parse_listen_here(text), Ok("127.0.0.1:1080".parse().unwrap()), "{text}");
        }
        assert!(parse_listen_here(":1080").is_ok_and(|address| address.ip().is_unspecified()));
        for text in ["", "127.0.0.1", "example:80", "localhost", "99999", "127.0.0.1:99999", ":"] {
            assert!(parse_listen_here(text).is_err(), "{text}");
        }
    }
}
