//! What people call a server: a name or an address, and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The port servers listen on unless told otherwise.
pub const PORT_DEFAULT: u16 = 4747;

/// A server as people name it: `example.org`, `example.org:4747`, `192.0.2.1:4747`, `[2001:db8::1]:4747`,
/// `2001:db8::1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    name: String,
    port: u16,
}

/// Why text names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostParseError {
    /// There is no name, or characters in it that no name has.
    #[error("\"{0}\" is not the name of a host")]
    Name(String),
    /// What stands after the colon is no port.
    #[error("\"{0}\" is not a port")]
    Port(String),
}

impl Host {
    /// A host by its name, or by an address as people write it.
    pub fn new(name: &str, port: u16) -> Result<Self, HostParseError> {
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_fine = bare.parse::<IpAddr>().is_ok() || (!bare.is_empty() && bare.chars().all(is_name));
        // Names are the same in any case (RFC 4343).
        let name = bare.to_ascii_lowercase();
        if is_fine { Ok(Self { name, port }) } else { Err(HostParseError::Name(name)) }
    }

    /// Its name or address, without brackets: what [`Endpoint::connect`](crate::Endpoint::connect) wants.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks the system for its addresses, in the order in which they should be tried.
    pub async fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((self.name.as_str(), self.port)).await?.collect())
    }

    fn split(text: &str) -> Result<(&str, Option<u16>), HostParseError> {
        let port = |text: &str| text.parse().map(Some).map_err(|_| HostParseError::Port(text.to_owned()));
        if text.parse::<IpAddr>().is_ok() {
            return Ok((text, None));
        }
        if let Some((name, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            return match rest.strip_prefix(':') {
                Some(text) => Ok((name, port(text)?)),
                None if rest.is_empty() => Ok((name, None)),
                None => Err(HostParseError::Name(text.to_owned())),
            };
        }
        match text.rsplit_once(':') {
            Some((name, text)) => Ok((name, port(text)?)),
            None => Ok((text, None)),
        }
    }
}

impl FromStr for Host {
    type Err = HostParseError;
    fn from_str(text: &str) -> Result<Self, HostParseError> {
        let (name, port) = Self::split(text)?;
        Self::new(name, port.unwrap_or(PORT_DEFAULT))
    }
}

impl From<SocketAddr> for Host {
    fn from(address: SocketAddr) -> Self {
        Self { name: address.ip().to_string(), port: address.port() }
    }
}

/// `NAME:PORT`, with brackets around an IPv6 address.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// A host as a line of `known_hosts` names it: with a port, or for any port.
pub(super) fn parse_pattern(text: &str) -> Result<(Host, bool), HostParseError> {
    let (name, port) = Host::split(text)?;
    Ok((Host::new(name, port.unwrap_or(PORT_DEFAULT))?, port.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_as_people_write_them() {
        for (text, name, port) in [
            ("Example.org", "example.org", 4747),
            ("example.org:1", "example.org", 1),
            ("192.0.2.1", "192.0.2.1", 4747),
            ("192.0.2.1:65535", "192.0.2.1", 65535),
            ("2001:db8::1", "2001:db8::1", 4747),
            ("[2001:db8::1]", "2001:db8::1", 4747),
            ("[2001:db8::1]:80", "2001:db8::1", 80),
        ] {
            let host: Host = text.parse().unwrap();
            assert_eq!((host.name(), host.port()), (name, port), "{text}");
            assert_eq!(host.to_string().parse(), Ok(host));
        }
        for text in ["", ":1", "a b", "host:", "host:x", "host:65536", "[::1", "[::1]x", "a,b", "*"] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }
}
