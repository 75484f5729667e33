//! The keys of clients a server lets in.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fulmar_proto::crypto::{PublicKey, Refusal, VerifyPeer};

use super::file::{self, Stamp, StoreError};

/// The file `authorized_keys`: lines `[options] KEY comment`, with options as in SSH: `name` or
/// `name="value"`, separated by commas. What they mean is the business of the services that the keys are let
/// into.
#[derive(Clone, Debug)]
pub struct AuthorizedKeys {
    path: PathBuf,
}

/// A line of `authorized_keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizedKey {
    /// Who is let in.
    pub key: PublicKey,
    /// What stands before the key.
    pub options: Vec<KeyOption>,
    /// What people call them.
    pub comment: String,
    /// The line, from 1.
    pub line: usize,
}

/// An option of a line of `authorized_keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOption {
    /// In lower case.
    pub name: String,
    /// Without its quotes.
    pub value: Option<String>,
}

impl AuthorizedKeys {
    /// The file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everybody who is let in.
    pub fn keys(&self) -> Result<Vec<AuthorizedKey>, StoreError> {
        self.entries(&file::read(&self.path)?).collect()
    }

    /// The line of `key`. A line before it that cannot be read is an error; one after it is not.
    pub fn find(&self, key: &PublicKey) -> Result<Option<AuthorizedKey>, StoreError> {
        let text = file::read(&self.path)?;
        self.entries(&text).find(|entry| entry.as_ref().map_or(true, |entry| entry.key == *key)).transpose()
    }

    /// Lets the holder of `key` in from now on.
    pub fn add(&self, key: &PublicKey, comment: &str) -> Result<(), StoreError> {
        file::update(&self.path, |text| {
            for entry in self.entries(text) {
                if entry?.key == *key {
                    return Ok(None);
                }
            }
            Ok(Some(file::with_line(text, &key.to_line(comment))))
        })
    }

    fn entries<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Result<AuthorizedKey, StoreError>> + 'a {
        file::meaningful(text).map(|(line, text)| {
            let wrong = |why: String| StoreError::Line { path: self.path.clone(), line, why };
            let (options, rest) = split_options(text).map_err(wrong)?;
            let (key, comment) = PublicKey::from_line(rest).map_err(|error| wrong(error.to_string()))?;
            Ok(AuthorizedKey { key, options, comment: comment.to_owned(), line })
        })
    }
}

/// The options before a key, and what follows them. The first word that is not within quotes holds them,
/// unless it is the kind of the key.
fn split_options(line: &str) -> Result<(Vec<KeyOption>, &str), String> {
    if PublicKey::from_line(line).is_ok() {
        return Ok((Vec::new(), line));
    }
    let mut is_quoted = false;
    let mut cuts = vec![0];
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cuts.push(at + 1),
            c if c.is_whitespace() && !is_quoted => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    if is_quoted {
        return Err("a quote is not closed".into());
    }
    let ends = cuts.iter().skip(1).map(|cut| cut - 1).chain([end]);
    let options = cuts.iter().zip(ends).map(|(&from, to)| parse_option(&line[from..to]));
    Ok((options.collect::<Result<_, _>>()?, line[end..].trim_start()))
}

fn parse_option(text: &str) -> Result<KeyOption, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("\"{text}\" is neither an option nor a key of Fulmar (fulmar-ed25519 ...)"));
    }
    let bare = |value: &str| value.trim_matches('"').to_owned();
    Ok(KeyOption { name: name.to_ascii_lowercase(), value: value.map(bare) })
}

/// A server's policy: whoever holds the server's own identity, and who is in `authorized_keys`.
///
/// A change of the file holds from the next client on. It is looked at for each, but read only when it has
/// changed; one that others may write to lets nobody in.
#[derive(Debug)]
pub struct AuthorizedClients {
    own: PublicKey,
    keys: AuthorizedKeys,
    last_read: Mutex<Option<Reading>>,
}

/// The file as it was.
#[derive(Debug)]
struct Reading {
    stamp: Stamp,
    /// Up to the first line that is wrong.
    keys: Vec<PublicKey>,
    error: Option<StoreError>,
}

impl AuthorizedClients {
    /// The policy of a server with the public key `own`.
    pub fn new(own: PublicKey, keys: AuthorizedKeys) -> Self {
        Self { own, keys, last_read: Mutex::default() }
    }

    /// Whether the file can be read and believed, to be asked before clients come.
    pub fn check(&self) -> Result<(), StoreError> {
        file::check_trusted(self.keys.path())?;
        self.keys.keys().map(drop)
    }

    fn read(&self, stamp: Stamp) -> Reading {
        let mut keys = Vec::new();
        let mut read = || {
            file::check_trusted(self.keys.path())?;
            let text = file::read(self.keys.path())?;
            self.keys.entries(&text).try_for_each(|entry| {
                keys.push(entry?.key);
                Ok(())
            })
        };
        let error = read().err();
        Reading { stamp, keys, error }
    }
}

impl VerifyPeer for AuthorizedClients {
    fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
        if *key == self.own {
            return Ok(());
        }
        let mut last = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(self.keys.path());
        let known = last.take().filter(|reading| reading.stamp == stamp);
        let reading = known.unwrap_or_else(|| self.read(stamp));
        let verdict = if reading.keys.contains(key) {
            Ok(())
        } else if let Some(error) = &reading.error {
            // The client is not to learn about this machine's files.
            tracing::error!(%error, "client refused");
            Err(Refusal::Other("the server cannot read its list of keys".into()))
        } else {
            tracing::debug!(%key, file = %self.keys.path().display(), "client refused: its key is not there");
            Err(Refusal::UnknownKey(key.fingerprint()))
        };
        *last = Some(reading).filter(|reading| reading.stamp.is_settled(self.keys.path()));
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_proto::crypto::Identity;

    fn key(seed: u8) -> PublicKey {
        Identity::from_seed(&[seed; 32]).public_key()
    }

    #[test]
    fn clients_are_let_in_by_the_file_as_it_is_now() {
        let folder = tempfile::tempdir().unwrap();
        let keys = AuthorizedKeys::at(folder.path().join("authorized_keys"));
        let policy = AuthorizedClients::new(key(1), keys.clone());
        assert_eq!(policy.verify(&key(1), ""), Ok(()));
        assert_eq!(policy.verify(&key(2), ""), Err(Refusal::UnknownKey(key(2).fingerprint())));
        keys.add(&key(2), "a friend").unwrap();
        keys.add(&key(2), "the same").unwrap();
        assert_eq!(policy.verify(&key(2), ""), Ok(()));
        let entry = AuthorizedKey { key: key(2), options: Vec::new(), comment: "a friend".into(), line: 1 };
        assert_eq!(keys.keys().unwrap(), [entry]);
    }

    #[test]
    fn a_line_that_cannot_be_read_lets_nobody_in_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized_keys");
        std::fs::write(&path, format!("{} first\nnonsense\n{} third\n", key(1), key(3))).unwrap();
        let keys = AuthorizedKeys::at(&path);
        assert_eq!(keys.find(&key(1)).unwrap().unwrap().line, 1);
        let error = keys.find(&key(3)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}:2: ", path.display())), "{error}");
        let policy = AuthorizedClients::new(key(9), keys);
        assert!(matches!(policy.verify(&key(3), ""), Err(Refusal::Other(_))));
        assert_eq!(policy.verify(&key(1), ""), Ok(()));
    }
    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_write_to_lets_nobody_in() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let keys = AuthorizedKeys::at(folder.path().join("authorized_keys"));
        keys.add(&key(2), "a friend").unwrap();
        let policy = AuthorizedClients::new(key(1), keys.clone());
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for (mode, is_fine) in [(0o600, true), (0o666, false), (0o644, true), (0o620, false), (0o644, true)] {
            set_mode(keys.path(), mode);
            assert_eq!(policy.verify(&key(2), "").is_ok(), is_fine, "{mode:o}");
            assert_eq!(policy.check().is_ok(), is_fine, "{mode:o}");
        }
        set_mode(folder.path(), 0o777);
        let error = policy.check().unwrap_err();
        assert!(matches!(error, StoreError::Writable { mode: 0o777, .. }), "{error}");
        assert!(policy.verify(&key(1), "").is_ok(), "the own key needs no file");
    }

    #[test]
    fn a_file_that_stays_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let keys = AuthorizedKeys::at(folder.path().join("authorized_keys"));
        keys.add(&key(2), "").unwrap();
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        std::fs::File::options().write(true).open(keys.path()).unwrap().set_modified(past).unwrap();
        let policy = AuthorizedClients::new(key(1), keys.clone());
        policy.verify(&key(2), "").unwrap();
        assert_eq!(policy.last_read.lock().unwrap().as_ref().unwrap().keys, [key(2)]);
        policy.last_read.lock().unwrap().as_mut().unwrap().keys.push(key(3));
        policy.verify(&key(3), "").expect("what was read is what counts");
        keys.add(&key(4), "").unwrap();
        assert_eq!(policy.verify(&key(3), ""), Err(Refusal::UnknownKey(key(3).fingerprint())));
        policy.verify(&key(4), "").unwrap();
    }

    #[test]
    fn options_stand_before_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized_keys");
        let line = format!("permit=\"a:1,b:2\",Deny-Private,streams=5 {} a friend", key(2));
        std::fs::write(&path, format!("{line}\n{} plain\n", key(3))).unwrap();
        let keys = AuthorizedKeys::at(&path);
        let entry = keys.find(&key(2)).unwrap().unwrap();
        let option = |name: &str, value: Option<&str>| KeyOption {
            name: name.into(),
            value: value.map(str::to_owned),
        };
        let expected =
            [option("permit", Some("a:1,b:2")), option("deny-private", None), option("streams", Some("5"))];
        assert_eq!((&entry.options[..], entry.comment.as_str()), (&expected[..], "a friend"));
        assert_eq!(keys.find(&key(3)).unwrap().unwrap().options, []);
        for bad in ["permit=\"a fulmar-ed25519", ",, x", "a,,b x", "=x y", "\" x", "ssh-ed25519 AAAA"] {
            std::fs::write(&path, format!("{bad} {}\n", key(4))).unwrap();
            assert!(keys.find(&key(4)).is_err(), "{bad}");
        }
    }
}
