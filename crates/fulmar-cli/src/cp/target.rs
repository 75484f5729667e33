//! Where a copy comes from or goes to: a path here, or `HOST:PATH`.

use std::path::PathBuf;
use std::str::FromStr;

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Here(PathBuf),
    /// Below the root of a server.
    There {
        /// A name or an address, without brackets.
        host: String,
        /// Relative to the server's root.
        path: String,
    },
}

impl FromStr for Location {
    type Err = String;

    /// As `scp` does: the part before the first colon is a host, unless a slash comes earlier. `./a:b` is a
    /// file here.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty name".into());
        }
        let (host, path) = if let Some(rest) = text.strip_prefix('[') {
            rest.split_once("]:").ok_or("expected [ADDRESS]:PATH")?
        } else {
            match text.split_once(':') {
                Some((host, path)) if !host.contains('/') => (host, path),
                _ => return Ok(Self::Here(text.into())),
            }
        };
        if host.is_empty() {
            return Err("a host is missing before the colon".into());
        }
        if let Some(port) = as_port(path) {
            return Err(format!(
                "`{text}`: a port is given with -p {port}, and {host}: stands for the folder that is served there \
                 (a path that begins like that: {host}:./{path})"
            ));
        }
        Ok(Self::There { host: host.to_owned(), path: path.to_owned() })
    }
}

/// The port that somebody wrote between the host and the path, as in a URL.
fn as_port(path: &str) -> Option<u16> {
    let (port, _) = path.split_once(':')?;
    port.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(host: &str, path: &str) -> Result<Location, String> {
        Ok(Location::There { host: host.into(), path: path.into() })
    }

    #[test]
    fn as_scp_reads_them() {
        assert_eq!("file".parse(), Ok(Location::Here("file".into())));
        assert_eq!("./a:b".parse(), Ok(Location::Here("./a:b".into())));
        assert_eq!("/a:b".parse(), Ok(Location::Here("/a:b".into())));
        assert_eq!("host:".parse(), there("host", ""));
        assert_eq!("host:a/b:c".parse(), there("host", "a/b:c"));
        assert_eq!("[::1]:a".parse(), there("::1", "a"));
        assert!(":a".parse::<Location>().is_err());
        assert!("[::1]".parse::<Location>().is_err());
        assert!("host:4800:".parse::<Location>().unwrap_err().contains("-p 4800"));
        assert!("[::1]:4800:a".parse::<Location>().unwrap_err().contains("-p 4800"));
        assert_eq!("host:./4800:".parse(), there("host", "./4800:"));
        assert_eq!("host:70000:a".parse(), there("host", "70000:a"));
        assert_eq!("host:4800".parse(), there("host", "4800"));
        assert!("".parse::<Location>().is_err());
    }
}
