//! The keys of clients a server lets in.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fulmar_proto::crypto::{PublicKey, Refusal, VerifyPeer};

use super::file::{self, Stamp, StoreError};

/// The file `authorized_keys`: lines `KEY comment`.
#[derive(Clone, Debug)]
pub struct AuthorizedKeys {
    path: PathBuf,
}

/// A line of `authorized_keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizedKey {
    /// Who is let in.
    pub key: PublicKey,
    /// What people call them.
    pub comment: String,
    /// The line, from 1.
    pub line: usize,
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
        file::meaningful(text).map(|(line, text)| match PublicKey::from_line(text) {
            Ok((key, comment)) => Ok(AuthorizedKey { key, comment: comment.to_owned(), line }),
            Err(error) => Err(StoreError::Line { path: self.path.clone(), line, why: error.to_string() }),
        })
    }
}

/// A server's policy: whoever holds the server's own identity, and who is in `authorized_keys`.
///
/// A change of the file holds from the next client on. It is looked at for each, but read only when it has changed; one that
/// others may write to lets nobody in.
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
            tracing::info!(%key, file = %self.keys.path().display(), "client refused: its key is not there");
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
        let entry = AuthorizedKey { key: key(2), comment: "a friend".into(), line: 1 };
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
}
