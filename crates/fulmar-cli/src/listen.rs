//! Where to listen, as people say it.

use std::net::{Ipv4Addr, SocketAddr};

use crate::reach::{DEFAULT_PORT, any_address};

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
