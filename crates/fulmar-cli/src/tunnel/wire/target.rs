//! Where a flow goes: a TCP or UDP port of a host, or a Unix socket, as people write it and as it travels.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest name of a host that is looked up (RFC 1035 2.3.4), and what SOCKS can carry.
const HOST_BYTES_MAX: usize = 255;

/// Longest path of a Unix socket (`sun_path` of Linux, without its end).
const PATH_BYTES_MAX: usize = 107;

/// A port of a host. The host is a name or an address without brackets; it is resolved where the flow leaves
/// the tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// What a flow is to be connected with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A TCP port.
    Tcp(Place),
    /// A UDP port.
    Udp(Place),
    /// A stream socket with a name in the file system.
    Unix(String),
}

impl Place {
    /// A port of a host.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The address, if the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl Target {
    /// A TCP port of a host.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp(Place::new(host, port))
    }

    /// A UDP port of a host.
    pub fn udp(host: impl Into<String>, port: u16) -> Self {
        Self::Udp(Place::new(host, port))
    }

    /// Whether it is one that can be asked for: what comes from elsewhere is checked by this.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Tcp(place) | Self::Udp(place) => {
                let is_fine = |c: char| !c.is_control() && !c.is_whitespace();
                if place.host.is_empty() || !place.host.chars().all(is_fine) {
                    Err("a target needs the name or address of a host".into())
                } else if place.host.len() > HOST_BYTES_MAX {
                    Err(format!("a name of {} bytes is too long", place.host.len()))
                } else if place.port == 0 {
                    Err("port 0 is no target".into())
                } else {
                    Ok(())
                }
            }
            Self::Unix(path) if !path.starts_with('/') => {
                Err("the path of a socket begins with a slash".into())
            }
            // Such a path would reach terminals and logs as it is.
            Self::Unix(path) if path.chars().any(char::is_control) => {
                Err("the path of a socket has no control characters".into())
            }
            Self::Unix(path) if path.len() > PATH_BYTES_MAX => {
                Err(format!("a path of {} bytes is too long for a socket", path.len()))
            }
            Self::Unix(_) => Ok(()),
        }
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

/// `HOST:PORT`, with brackets around an IPv6 address.
impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not HOST:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(format!("`{text}`: an IPv6 address stands in brackets, as [::1]:80"));
        }
        let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
        let place = Self::new(bare.unwrap_or(host), port);
        Target::Tcp(place.clone()).check()?;
        Ok(place)
    }
}

/// `HOST:PORT`, `HOST:PORT/udp` or `/path/of/a/socket`.
impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            let target = Self::Unix(text.to_owned());
            return target.check().map(|()| target);
        }
        match text.rsplit_once('/') {
            Some((place, "udp")) => Ok(Self::Udp(place.parse()?)),
            Some((place, "tcp")) => Ok(Self::Tcp(place.parse()?)),
            Some((_, other)) => Err(format!("`{other}` is neither tcp nor udp")),
            None => Ok(Self::Tcp(text.parse()?)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => write!(f, "{place}"),
            Self::Udp(place) => write!(f, "{place}/udp"),
            Self::Unix(path) => write!(f, "{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_as_people_write_them() {
        for (text, target) in [
            ("example.org:80", Target::tcp("example.org", 80)),
            ("192.0.2.1:1/udp", Target::udp("192.0.2.1", 1)),
            ("[2001:db8::1]:443", Target::tcp("2001:db8::1", 443)),
            ("/run/x.sock", Target::Unix("/run/x.sock".into())),
        ] {
            assert_eq!(text.parse(), Ok(target.clone()));
            assert_eq!(target.to_string(), text);
        }
        let long = format!("{}:1", "a".repeat(256));
        for text in ["", "host", "host:", "host:0", ":1", "h:65536", "::1:80", "h:1/sctp", "a b:1", &long] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        assert!(Target::Unix("/".repeat(200)).check().is_err());
        assert!(Target::Unix("relative".into()).check().is_err());
        // An escape in a path would act on the terminal that it is shown on.
        assert!(Target::Unix("/run/\u{1b}[2J".into()).check().is_err());
        assert!(Target::Unix("/run/two\nlines".into()).check().is_err());
    }
}
