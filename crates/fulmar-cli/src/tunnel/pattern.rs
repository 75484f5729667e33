//! Patterns of targets and of places to listen at, as `permit` and `permit-listen` list them.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::address::plain;
use super::target::{Place, Target};

/// A pattern of targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// `*`
    Everything,
    /// `HOST:PORT`
    Place(HostPattern, PortPattern),
    /// `/path/of/a/socket`
    Socket(String),
}

/// A pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// `*`
    Any,
    /// `*.example.org`: every name below, kept as `.example.org`.
    Below(String),
    /// A name, in lower case.
    Name(String),
    /// An address, or a network as `10.0.0.0/8`: the length in bits.
    Network(IpAddr, u8),
}

/// A pattern of ports: `*`, `443` or `8000-8999`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPattern(RangeInclusive<u16>);

/// A pattern of places to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenPattern {
    /// `*`
    Everything,
    /// `PORT` (on loopback) or `HOST:PORT`
    Place(HostPattern, PortPattern),
    /// `/path/of/a/socket`
    Socket(String),
}

/// Names are the same in any case, and with or without the root's dot.
fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl Pattern {
    /// Whether a place at this address is among what is meant.
    pub fn matches(&self, place: &Place, ip: IpAddr) -> bool {
        match self {
            Self::Everything => true,
            Self::Place(host, ports) => host.matches(&place.host, ip) && ports.0.contains(&place.port),
            Self::Socket(_) => false,
        }
    }

    /// As [`matches`](Self::matches), and the host is meant in particular.
    pub fn names(&self, place: &Place, ip: IpAddr) -> bool {
        let is_particular = match self {
            Self::Everything => true,
            Self::Place(host, _) => matches!(host, HostPattern::Name(_) | HostPattern::Network(..)),
            Self::Socket(_) => false,
        };
        is_particular && self.matches(place, ip)
    }

    /// Whether this Unix socket is meant.
    pub fn allows_socket(&self, path: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Socket(allowed) => allowed == path,
            Self::Place(..) => false,
        }
    }
}

impl HostPattern {
    fn matches(&self, host: &str, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Below(suffix) => plain_name(host).ends_with(suffix.as_str()),
            Self::Name(name) => plain_name(host) == *name,
            Self::Network(network, length) => is_in(ip, *network, *length),
        }
    }
}

fn is_in(ip: IpAddr, network: IpAddr, length: u8) -> bool {
    match (ip, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (u32::from(a) ^ u32::from(b)).checked_shr(32 - u32::from(length)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (u128::from(a) ^ u128::from(b)).checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl ListenPattern {
    /// Whether this place is meant.
    pub fn matches(&self, at: &Target) -> bool {
        match (self, at) {
            (Self::Everything, _) => true,
            (Self::Socket(allowed), Target::Unix(path)) => allowed == path,
            (Self::Place(host, ports), Target::Tcp(place) | Target::Udp(place)) => {
                let matches = match (host, place.ip()) {
                    (HostPattern::Network(net, length), None) => {
                        place.host == "localhost" && net.is_loopback() && *length >= 8
                    }
                    (host, ip) => host.matches(&place.host, plain(ip.unwrap_or([0; 4].into()))),
                };
                matches && ports.0.contains(&place.port)
            }
            _ => false,
        }
    }
}

impl FromStr for PortPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a port"));
        match (text, text.split_once('-')) {
            ("*", _) => Ok(Self(0..=u16::MAX)),
            (_, Some((from, to))) => Ok(Self(port(from)?..=port(to)?)),
            (one, None) => port(one).map(|port| Self(port..=port)),
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let (network, length) = bare.split_once('/').map_or((bare, None), |(net, len)| (net, Some(len)));
        if let Ok(ip) = network.parse::<IpAddr>() {
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            let length = length.map_or(Ok(bits), str::parse);
            let wrong = || format!("`{bare}` is not a network, as 10.0.0.0/8");
            return match length {
                Ok(length) if length <= bits => Ok(Self::Network(plain(ip), length)),
                _ => Err(wrong()),
            };
        }
        match text {
            "*" => Ok(Self::Any),
            _ if text.starts_with("*.") && !text[2..].contains('*') && text.len() > 2 => {
                Ok(Self::Below(plain_name(&text[1..])))
            }
            _ if text.is_empty() || text.contains(['*', '/', '[', ']', ' ']) => {
                Err(format!("`{text}` is neither a host nor a pattern of hosts, as *.example.org"))
            }
            name => Ok(Self::Name(plain_name(name))),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "*" => Ok(Self::Everything),
            _ if text.starts_with('/') => Ok(Self::Socket(text.into())),
            _ => {
                let (host, port) =
                    text.rsplit_once(':').ok_or_else(|| format!("`{text}` is not HOST:PORT"))?;
                if host.contains(':') && !host.starts_with('[') {
                    return Err(format!("`{text}`: an IPv6 address stands in brackets, as [::1]:80"));
                }
                Ok(Self::Place(host.parse()?, port.parse()?))
            }
        }
    }
}

impl FromStr for ListenPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.parse::<PortPattern>().is_ok() && text != "*" {
            return Ok(Self::Place("127.0.0.0/8".parse()?, text.parse()?));
        }
        Ok(match text.parse()? {
            Pattern::Everything => Self::Everything,
            Pattern::Place(host, ports) => Self::Place(host, ports),
            Pattern::Socket(path) => Self::Socket(path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_are_none_are_refused() {
        for text in [
            "",
            "host",
            "host:",
            ":1",
            "host:x",
            "host:1-x",
            "a*b:1",
            "*.:1",
            "::1:80",
            "10.0.0.0/33:1",
            "[::1/129]:1",
            "**:1",
            "a b:1",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        let network = |text: &str| match text.parse().unwrap() {
            HostPattern::Network(ip, length) => (ip, length),
            other => panic!("{other:?}"),
        };
        for (net, ip, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("[fd00::/8]", "fd12::1", true),
            ("[::/0]", "1.2.3.4", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let (network, length) = network(net);
            assert_eq!(is_in(ip.parse().unwrap(), network, length), expected, "{net} {ip}");
        }
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        let pattern: ListenPattern = "8000-8080".parse().unwrap();
        assert!(pattern.matches(&Target::tcp("localhost", 8080)));
        assert!(pattern.matches(&Target::tcp("127.0.0.1", 8000)));
        assert!(!pattern.matches(&Target::tcp("0.0.0.0", 8080)));
        assert!(!pattern.matches(&Target::tcp("localhost", 8081)));
        assert!("*:9000".parse::<ListenPattern>().unwrap().matches(&Target::tcp("0.0.0.0", 9000)));
        assert!("/run/x".parse::<ListenPattern>().unwrap().matches(&Target::Unix("/run/x".into())));
    }
}
