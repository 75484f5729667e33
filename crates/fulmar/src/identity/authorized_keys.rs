//! The keys of clients a server lets in.

use std::path::{Path, PathBuf};

use fulmar_proto::crypto::{PublicKey, Refusal, VerifyPeer};

use super::file::{self, StoreError};

/// The file `authorized_keys`: lines `[options] KEY comment`, with options as in SSH: `name` or `name="value"`, separated by
/// commas. What they mean is the business of the services that the keys are let into.
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

/// The options before a key, and what follows them. The first word that is not within quotes holds them, unless it is the
/// kind of the key.
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
