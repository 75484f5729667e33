//! The keys of servers this end has met.

use std::path::{Path, PathBuf};

use fulmar_proto::crypto::PublicKey;

use super::file::{self, StoreError};
use super::host::{self, Host};

/// The file `known_hosts`: lines `HOST:PORT KEY comment`, or `HOST KEY comment` for any port.
///
/// A host may have several lines, and is believed if any of them has its key. Lines with the port go before
/// those without: these count only if there are none of those.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    path: PathBuf,
}

/// What `known_hosts` says about a server that holds a certain key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Known, and this is its key.
    Trusted,
    /// Nothing is known about this host.
    Unknown,
    /// Known under another key.
    Changed {
        /// The line, from 1, that says so.
        line: usize,
        /// The key it names.
        known: PublicKey,
    },
}

/// A line of the file.
struct Entry {
    line: usize,
    host: Host,
    has_port: bool,
    key: PublicKey,
}

impl KnownHosts {
    /// The file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known about `host` if it holds `key`. A file that others may write to is an error: they would
    /// decide whom this end believes.
    pub fn verdict(&self, host: &Host, key: &PublicKey) -> Result<Verdict, StoreError> {
        file::check_trusted(&self.path)?;
        let entries = self.entries(&file::read(&self.path)?)?;
        let named: Vec<&Entry> = entries.iter().filter(|entry| entry.host.name() == host.name()).collect();
        let exact = |entry: &&&Entry| entry.has_port && entry.host.port() == host.port();
        let has_exact = named.iter().any(|entry| exact(&entry));
        let relevant = named.iter().filter(|entry| if has_exact { exact(entry) } else { !entry.has_port });
        let mut verdict = Verdict::Unknown;
        for entry in relevant {
            if entry.key == *key {
                return Ok(Verdict::Trusted);
            }
            if verdict == Verdict::Unknown {
                verdict = Verdict::Changed { line: entry.line, known: entry.key };
            }
        }
        Ok(verdict)
    }

    /// Remembers that `host` holds `key`. Lines that are there stay.
    pub fn add(&self, host: &Host, key: &PublicKey, comment: &str) -> Result<(), StoreError> {
        file::update(&self.path, |text| {
            let is_there = self
                .entries(text)?
                .iter()
                .any(|entry| entry.has_port && entry.host == *host && entry.key == *key);
            Ok((!is_there).then(|| file::with_line(text, &format!("{host} {}", key.to_line(comment)))))
        })
    }

    /// Forgets all keys of `host`, with its port. Gives how many lines went.
    pub fn remove(&self, host: &Host) -> Result<usize, StoreError> {
        let mut removed = 0;
        file::update(&self.path, |text| {
            let entries = self.entries(text)?;
            let gone: Vec<usize> = entries
                .iter()
                .filter(|entry| entry.has_port && entry.host == *host)
                .map(|entry| entry.line)
                .collect();
            removed = gone.len();
            let kept = text.lines().enumerate().filter(|(index, _)| !gone.contains(&(index + 1)));
            Ok((removed > 0).then(|| kept.map(|(_, line)| format!("{line}\n")).collect()))
        })?;
        Ok(removed)
    }

    fn entries(&self, text: &str) -> Result<Vec<Entry>, StoreError> {
        file::meaningful(text).map(|(line, text)| self.entry(line, text)).collect()
    }

    fn entry(&self, line: usize, text: &str) -> Result<Entry, StoreError> {
        let wrong = |why: String| StoreError::Line { path: self.path.clone(), line, why };
        let (host, key) = text
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong("a host and a key are expected".into()))?;
        let (host, has_port) = host::parse_pattern(host).map_err(|error| wrong(error.to_string()))?;
        let (key, _) = PublicKey::from_line(key).map_err(|error| wrong(error.to_string()))?;
        Ok(Entry { line, host, has_port, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_proto::crypto::Identity;

    fn key(seed: u8) -> PublicKey {
        Identity::from_seed(&[seed; 32]).public_key()
    }

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_are_remembered_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownHosts::at(folder.path().join("known_hosts"));
        let here = host("example.org:1");
        assert_eq!(known.verdict(&here, &key(1)).unwrap(), Verdict::Unknown);
        known.add(&here, &key(1), "a comment").unwrap();
        known.add(&here, &key(1), "once is enough").unwrap();
        assert_eq!(std::fs::read_to_string(known.path()).unwrap().lines().count(), 1);
        assert_eq!(known.verdict(&here, &key(1)).unwrap(), Verdict::Trusted);
        assert_eq!(known.verdict(&here, &key(2)).unwrap(), Verdict::Changed { line: 1, known: key(1) });
        assert_eq!(known.verdict(&host("example.org:2"), &key(1)).unwrap(), Verdict::Unknown);
        known.add(&here, &key(2), "").unwrap();
        assert_eq!(known.verdict(&here, &key(2)).unwrap(), Verdict::Trusted);
        assert_eq!(known.remove(&here).unwrap(), 2);
        assert_eq!(known.verdict(&here, &key(1)).unwrap(), Verdict::Unknown);
    }

    #[test]
    fn a_line_with_the_port_goes_before_one_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_hosts");
        let text = format!("# people's own\n\n[2001:db8::1]:5 {}\n2001:db8::1 {} any port\n", key(1), key(2));
        std::fs::write(&path, text).unwrap();
        let known = KnownHosts::at(&path);
        assert_eq!(known.verdict(&host("[2001:db8::1]:5"), &key(1)).unwrap(), Verdict::Trusted);
        let changed = Verdict::Changed { line: 3, known: key(1) };
        assert_eq!(known.verdict(&host("[2001:db8::1]:5"), &key(2)).unwrap(), changed);
        assert_eq!(known.verdict(&host("[2001:db8::1]:6"), &key(2)).unwrap(), Verdict::Trusted);
        let changed = Verdict::Changed { line: 4, known: key(2) };
        assert_eq!(known.verdict(&host("[2001:db8::1]:6"), &key(1)).unwrap(), changed);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_write_to_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let known = KnownHosts::at(folder.path().join("known_hosts"));
        let here = host("example.org:1");
        known.add(&here, &key(1), "").unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for (mode, is_fine) in [(0o600, true), (0o666, false), (0o644, true), (0o620, false), (0o600, true)] {
            set_mode(known.path(), mode);
            let verdict = known.verdict(&here, &key(1));
            assert_eq!(verdict.is_ok(), is_fine, "{mode:o}");
            if let Err(error) = verdict {
                let expected = format!("{}: others may write here (mode {mode:03o})", known.path().display());
                assert!(error.to_string().starts_with(&expected), "{error}");
            }
        }
        set_mode(folder.path(), 0o777);
        let error = known.verdict(&here, &key(1)).unwrap_err();
        assert!(matches!(error, StoreError::Writable { mode: 0o777, .. }), "{error}");
    }

    #[test]
    fn errors_name_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known_hosts");
        std::fs::write(&path, format!("example.org {}\nexample.com nonsense\n", key(1))).unwrap();
        let error = KnownHosts::at(&path).verdict(&host("x"), &key(1)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}:2: ", path.display())), "{error}");
    }
}
