//! What the keys of stateless resets are made from.

use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use ring::hmac;

use super::file::{self, StoreError};

/// A random value of this machine's own, kept beside the identity, from which every service at every address
/// gets a key of its own for stateless resets.
///
/// A reset ends a connection and needs no more than the connection's id, which anybody on the way can read.
/// So nobody but the one server may answer such a packet with a token that its clients believe: no other
/// service of the same identity, no other address, no second machine that holds the same identity (or a copy
/// of the whole folder: the system's `machine-id` is part of the key where there is one).
#[derive(Clone)]
pub struct ResetSecret {
    secret: [u8; 32],
    machine: Vec<u8>,
}

/// Not its value.
impl fmt::Debug for ResetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetSecret")
    }
}

impl ResetSecret {
    /// The one in this file; made if there is none.
    pub(super) fn at(path: &Path) -> Result<Self, StoreError> {
        let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
        loop {
            if let Some(secret) = read(path)? {
                return Ok(Self { secret, machine });
            }
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).map_err(std::io::Error::from).map_err(StoreError::io(path))?;
            match file::create_private(path, &secret) {
                // Somebody else was faster, and theirs counts.
                Ok(()) | Err(StoreError::IdentityExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The key of one service at one address.
    pub fn key(&self, service: &str, address: SocketAddr) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret));
        context.update(b"fulmar stateless reset key");
        let address = address.to_string();
        for part in [service.as_bytes(), address.as_bytes(), &self.machine] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }
}

/// Nothing if there is no file, or one that was cut off: a power cut may leave it empty, and another is as
/// good.
fn read(path: &Path) -> Result<Option<[u8; 32]>, StoreError> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StoreError::io(path))?,
    };
    let mut content = Vec::new();
    file.take(33).read_to_end(&mut content).map_err(StoreError::io(path))?;
    if let Ok(secret) = content.try_into() {
        return Ok(Some(secret));
    }
    std::fs::remove_file(path).map_err(StoreError::io(path))?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_address_and_folder_has_a_key_of_its_own_that_stays() {
        let (folder, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |folder: &tempfile::TempDir| ResetSecret::at(&folder.path().join("reset_secret")).unwrap();
        let (here, there) = ("[::]:1".parse().unwrap(), "[::]:2".parse().unwrap());
        let key = at(&folder).key("copy", here);
        assert_eq!(key, at(&folder).key("copy", here));
        let others =
            [at(&folder).key("perf", here), at(&folder).key("copy", there), at(&another).key("copy", here)];
        assert!(others.iter().all(|other| *other != key));
        let copied = ResetSecret { machine: b"another".to_vec(), ..at(&folder) };
        assert_ne!(copied.key("copy", here), key);
    }

    #[test]
    fn a_file_that_was_cut_off_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reset_secret");
        std::fs::write(&path, b"short").unwrap();
        let first = ResetSecret::at(&path).unwrap();
        assert_eq!(first.secret, ResetSecret::at(&path).unwrap().secret);
    }
}
