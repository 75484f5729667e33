//! Patterns of targets and of places to listen at, as `permit` and `permit-listen` list them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::network::Network;
use crate::tunnel::wire::target::{Place, Target};

/// Longest name, without the root's dot, and longest part of one between dots (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

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
    /// An address, or a network as `10.0.0.0/8`.
    Network(Network),
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
            Self::Place(host, _) => matches!(host, HostPattern::Name(_) | HostPattern::Network(_)),
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
            Self::Network(network) => network.contains(ip),
        }
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
                    // The address of a name is not known yet, but for the one that means loopback.
                    (HostPattern::Network(network), None) => {
                        place.host == "localhost" && is_localhost(network)
                    }
                    (HostPattern::Network(network), Some(ip)) => network.contains(ip),
                    (HostPattern::Any, _) => true,
                    (HostPattern::Below(_) | HostPattern::Name(_), Some(_)) => false,
                    (host, None) => host.matches(&place.host, Ipv4Addr::UNSPECIFIED.into()),
                };
                matches && ports.0.contains(&place.port)
            }
            _ => false,
        }
    }
}

/// Whether a network has what `localhost` is looked up as: 127.0.0.1 or ::1 (RFC 6761, section 6.3).
fn is_localhost(network: &Network) -> bool {
    network.contains(Ipv4Addr::LOCALHOST.into()) || network.contains(Ipv6Addr::LOCALHOST.into())
}

/// A name that can exist, in its plain form. What looks like an address and is none would be read as one by
/// some resolvers (`127.1`, `0x7f000001`, `010.0.0.1`), so the last part of a name is no number (RFC 1123,
/// section 2.1).
fn possible_name(text: &str) -> Result<String, String> {
    let name = plain_name(text);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > NAME_BYTES_MAX
        || name.split('.').any(|label| label.is_empty() || label.len() > LABEL_BYTES_MAX)
        || !name.chars().all(|c| is_plain(c) || c == '.')
    {
        let hint = if name.is_ascii() { "" } else { " (names of other letters are written xn--..)" };
        return Err(format!("`{text}` is neither a host nor a pattern of hosts, as *.example.org{hint}"));
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_hex = last.strip_prefix("0x").is_some_and(|hex| hex.chars().all(|c| c.is_ascii_hexdigit()));
    if is_hex || last.chars().all(|c| c.is_ascii_digit()) {
        return Err(format!("`{text}` is neither a name nor an address: no name ends in a number"));
    }
    Ok(name)
}

impl PortPattern {
    /// For targets: port 0 is none.
    fn of_targets(text: &str) -> Result<Self, String> {
        let ports: Self = text.parse()?;
        if *ports.0.end() == 0 { Err("port 0 is no target".into()) } else { Ok(ports) }
    }
}

impl FromStr for PortPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number).ok_or_else(|| format!("`{text}` is not a port"))
        };
        match (text, text.split_once('-')) {
            ("*", _) => Ok(Self(0..=u16::MAX)),
            (_, Some((from, to))) => {
                let (from, to): (u16, u16) = (port(from)?, port(to)?);
                if from > to {
                    return Err(format!("`{text}` has no port in it: say {to}-{from}"));
                }
                Ok(Self(from..=to))
            }
            (one, None) => port(one).map(|port| Self(port..=port)),
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let inner = bare.unwrap_or(text);
        let written = inner.split_once('/').map_or(inner, |(address, _)| address);
        if bare.is_some() || inner.contains('/') || written.parse::<IpAddr>().is_ok() {
            return inner.parse().map(Self::Network);
        }
        match text {
            "*" => Ok(Self::Any),
            _ => match text.strip_prefix("*.") {
                Some(below) => possible_name(below).map(|name| Self::Below(format!(".{name}"))),
                None => possible_name(text).map(Self::Name),
            },
        }
    }
}

/// HOST and PORT.
fn split(text: &str) -> Result<(&str, &str), String> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("`{text}` is not HOST:PORT"))?;
    if host.contains(':') && !host.starts_with('[') {
        return Err(format!("`{text}`: an IPv6 address stands in brackets, as [::1]:80"));
    }
    Ok((host, port))
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "*" => Ok(Self::Everything),
            _ if text.starts_with('/') => {
                Target::Unix(text.into()).check().map(|()| Self::Socket(text.into()))
            }
            _ => {
                let (host, port) = split(text)?;
                Ok(Self::Place(host.parse()?, PortPattern::of_targets(port)?))
            }
        }
    }
}

impl FromStr for ListenPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        if text.starts_with('/') {
            return Target::Unix(text.into()).check().map(|()| Self::Socket(text.into()));
        }
        let is_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        // Port 0 means any that is free.
        let (host, ports) = if is_port { ("127.0.0.0/8", text) } else { split(text)? };
        Ok(Self::Place(host.parse()?, ports.parse()?))
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
            "host:+1",
            "a*b:1",
            "*.:1",
            "*.*.example:1",
            "::1:80",
            "10.0.0.0/33:1",
            "[::1/129]:1",
            "[::1]/128:1",
            "[example.org]:1",
            "**:1",
            "a b:1",
            "host/8:1",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
            assert!(text.parse::<ListenPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_that_match_nothing_or_not_what_they_show_are_refused() {
        let long_label = format!("{}.example:1", "a".repeat(64));
        let long_name = format!("{}example:1", "a.".repeat(130));
        let long_path = format!("/{}", "a".repeat(200));
        for text in [
            // No port, no host.
            "host:443-80",
            "host:65536",
            "a..b:1",
            ".a:1",
            "b\u{fc}cher.example:1",
            &long_label,
            &long_name,
            &long_path,
            // Resolvers read these as addresses, each in its way.
            "127.1:1",
            "2130706433:1",
            "0x7f000001:1",
            "010.0.0.1:1",
            "10.0.0.256:1",
            "*.0.0.1:1",
            // More than it shows.
            "10.0.0.1/8:1",
            "[fd00::1/8]:1",
            "[::ffff:10.0.0.1/8]:1",
            "[::ffff:10.0.0.0/95]:1",
            "[::ffff:10.0.0.1/104]:1",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
            assert!(text.parse::<ListenPattern>().is_err(), "{text}");
        }
        assert!("host:0".parse::<Pattern>().is_err() && "443-80".parse::<ListenPattern>().is_err());
        assert!("0".parse::<ListenPattern>().is_ok(), "any port that is free");
    }

    #[test]
    fn a_mapped_address_permits_that_address_only() {
        let permits = |pattern: &str, ip: &str| {
            let pattern: Pattern = pattern.parse().unwrap();
            pattern.names(&Place::new("x", 22), ip.parse().unwrap())
        };
        assert!(permits("[::ffff:10.0.0.1]:22", "10.0.0.1"));
        assert!(permits("[::ffff:10.0.0.1]:22", "::ffff:10.0.0.1"));
        assert!(permits("[::ffff:10.0.0.0/104]:22", "10.255.255.255"));
        for ip in ["10.0.0.2", "127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "::10.0.0.1"] {
            assert!(!permits("[::ffff:10.0.0.1]:22", ip), "{ip}");
        }
        assert!(!permits("[::ffff:10.0.0.0/104]:22", "11.0.0.0") && !permits("[::/0]:22", "10.0.0.1"));

        let listens = |pattern: &str, host: &str| {
            pattern.parse::<ListenPattern>().unwrap().matches(&Target::tcp(host, 9000))
        };
        assert!(listens("[::ffff:127.0.0.1]:9000", "127.0.0.1"));
        assert!(listens("[::ffff:127.0.0.1]:9000", "localhost"));
        for host in ["0.0.0.0", "127.0.0.2", "::", "::1", "192.0.2.1", "example.org"] {
            assert!(!listens("[::ffff:127.0.0.1]:9000", host), "{host}");
        }
        assert!(!listens("127.0.0.2:9000", "localhost"), "that is another address");
        assert!(!listens("[::ffff:127.0.0.2]:9000", "localhost"));
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
