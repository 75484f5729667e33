//! Where a copy comes from or goes to: a path here, or `HOST:PATH`.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::name;
use crate::platform;

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Here(PathBuf),
    /// Below the root of a server.
    There {
        /// A name or an address, without brackets.
        host: String,
        /// Relative to the server's root, in whatever bytes its names are.
        path: Vec<u8>,
    },
}

impl Location {
    /// As `scp` does: the part before the first colon is a host, unless a slash comes earlier. `./a:b` is a
    /// file here. Paths may be any bytes, names of hosts are text.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let bytes = platform::name_bytes(text);
        let here = || Ok(Self::Here(text.into()));
        if bytes.is_empty() {
            return Err("an empty name".into());
        }
        if platform::is_here(bytes) {
            return here();
        }
        let (host, path) = if let Some(rest) = bytes.strip_prefix(b"[") {
            let end = rest.windows(2).position(|two| two == b"]:").ok_or("expected [ADDRESS]:PATH")?;
            (&rest[..end], &rest[end + 2..])
        } else {
            match bytes.iter().position(|byte| *byte == b':') {
                Some(colon) if !bytes[..colon].contains(&b'/') => (&bytes[..colon], &bytes[colon + 1..]),
                _ => return here(),
            }
        };
        if host.is_empty() {
            return Err("a host is missing before the colon".into());
        }
        let shown = name::shown(bytes);
        let host = std::str::from_utf8(host)
            .map_err(|_| format!("`{shown}`: a host has no such name (a file here is written ./{shown})"))?;
        if let Some(port) = as_port(path) {
            let path = name::shown(path);
            return Err(format!(
                "`{shown}`: a port is given with -p {port}, and {host}: stands for the folder that is served there \
                 (a path that begins like that: {host}:./{path})"
            ));
        }
        Ok(Self::There { host: host.to_owned(), path: path.to_owned() })
    }
}

/// The port that somebody wrote between the host and the path, as in a URL.
fn as_port(path: &[u8]) -> Option<u16> {
    let colon = path.iter().position(|byte| *byte == b':')?;
    std::str::from_utf8(&path[..colon]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn parse(text: &str) -> Result<Location, String> {
        Location::parse(text.as_ref())
    }

    fn there(host: &str, path: &str) -> Result<Location, String> {
        Ok(Location::There { host: host.into(), path: path.into() })
    }

    #[test]
    fn as_scp_reads_them() {
        assert_eq!(parse("file"), Ok(Location::Here("file".into())));
        assert_eq!(parse("./a:b"), Ok(Location::Here("./a:b".into())));
        assert_eq!(parse("/a:b"), Ok(Location::Here("/a:b".into())));
        assert_eq!(parse("host:"), there("host", ""));
        assert_eq!(parse("host:a/b:c"), there("host", "a/b:c"));
        assert_eq!(parse("[::1]:a"), there("::1", "a"));
        assert!(parse(":a").is_err());
        assert!(parse("[::1]").is_err());
        assert!(parse("host:4800:").unwrap_err().contains("-p 4800"));
        assert!(parse("[::1]:4800:a").unwrap_err().contains("-p 4800"));
        assert_eq!(parse("host:./4800:"), there("host", "./4800:"));
        assert_eq!(parse("host:70000:a"), there("host", "70000:a"));
        assert_eq!(parse("host:4800"), there("host", "4800"));
        assert!(parse("").is_err());
    }

    #[test]
    fn names_may_be_any_bytes() {
        let raw = |bytes: &[u8]| Location::parse(OsStr::from_bytes(bytes));
        assert_eq!(raw(b"\xff\xfe"), Ok(Location::Here(OsStr::from_bytes(b"\xff\xfe").into())));
        assert_eq!(raw(b"h:\xff"), Ok(Location::There { host: "h".into(), path: vec![0xff] }));
        let error = raw(b"\xff\x1b:x").unwrap_err();
        assert!(error.contains("./") && !error.contains('\x1b'), "{error}");
    }
}
