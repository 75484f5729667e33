//! The keys of clients a server lets in.

use std::path::{Path, PathBuf};

use fulmar_proto::crypto::{PublicKey, Refusal, VerifyPeer};

use super::file::{self, StoreError};

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
/// The file is read for every client, so that a change holds from the next one on.
#[derive(Clone, Debug)]
pub struct AuthorizedClients {
    own: PublicKey,
    keys: AuthorizedKeys,
}

impl AuthorizedClients {
    /// The policy of a server with the public key `own`.
    pub fn new(own: PublicKey, keys: AuthorizedKeys) -> Self {
        Self { own, keys }
    }
}

impl VerifyPeer for AuthorizedClients {
    fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
        if *key == self.own {
            return Ok(());
        }
        match self.keys.find(key) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                tracing::info!(%key, file = %self.keys.path().display(), "client refused: its key is not there");
                Err(Refusal::UnknownKey(key.fingerprint()))
            }
            Err(error) => {
                // The client is not to learn about this machine's files.
                tracing::error!(%error, "client refused");
                Err(Refusal::Other("the server cannot read its list of keys".into()))
            }
        }
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
}
