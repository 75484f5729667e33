//! The folder in which one user's keys are.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulmar_proto::crypto::{self, Identity};
use fulmar_proto::{ServerConfig, TransportConfig};

use super::authorized_keys::{AuthorizedClients, AuthorizedKeys};
use super::file::{self, StoreError};
use super::known_hosts::KnownHosts;
use super::reset_secret::ResetSecret;
use crate::{Endpoint, EndpointConfig, socket};

/// Names the folder in the environment.
const VARIABLE: &str = "FULMAR_HOME";

/// A folder with an identity, `known_hosts` and `authorized_keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// The folder that `$FULMAR_HOME` names, or `fulmar` in the user's folder for configurations (`~/.config`
    /// on Linux).
    pub fn locate() -> Result<Self, StoreError> {
        Self::choose(std::env::var_os(VARIABLE), || {
            Some(directories::BaseDirs::new()?.config_dir().join("fulmar"))
        })
    }

    fn choose(
        variable: Option<OsString>,
        default: impl FnOnce() -> Option<PathBuf>,
    ) -> Result<Self, StoreError> {
        let set = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
        set.or_else(default).map(Self::at).ok_or(StoreError::NoHome)
    }

    /// The folder at `path`. It is created when something is put into it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the private key is.
    pub fn identity_path(&self) -> PathBuf {
        self.path.join("identity")
    }

    /// The keys of servers.
    pub fn known_hosts(&self) -> KnownHosts {
        KnownHosts::at(self.path.join("known_hosts"))
    }

    /// The keys of clients.
    pub fn authorized_keys(&self) -> AuthorizedKeys {
        AuthorizedKeys::at(self.path.join("authorized_keys"))
    }

    /// The identity. One that others can read is refused, as SSH does.
    pub fn identity(&self) -> Result<Identity, StoreError> {
        let path = self.identity_path();
        let metadata = std::fs::metadata(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoIdentity { path: path.clone() },
            _ => StoreError::io(&path)(error),
        })?;
        check_mode(&path, &metadata)?;
        let pem = std::fs::read_to_string(&path).map_err(StoreError::io(&path))?;
        Identity::from_pem(&pem).map_err(|why| StoreError::Identity { path, why })
    }

    /// Creates the identity. One that is there is left alone, and an error.
    pub fn create_identity(&self) -> Result<Identity, StoreError> {
        let identity = Identity::generate();
        file::create_private(&self.identity_path(), identity.to_pem().as_bytes())?;
        Ok(identity)
    }

    /// The identity, created if there is none.
    pub fn identity_or_create(&self) -> Result<Identity, StoreError> {
        match self.identity() {
            Err(StoreError::NoIdentity { .. }) => match self.create_identity() {
                // Somebody else was faster.
                Err(StoreError::IdentityExists { .. }) => self.identity(),
                other => other,
            },
            other => other,
        }
    }

    /// What the keys of this machine's servers for stateless resets are made from; made if there is nothing
    /// yet. A server that is restarted with [`ResetSecret::key`] tells its former clients at once that their
    /// connections are gone.
    pub fn reset_secret(&self) -> Result<ResetSecret, StoreError> {
        ResetSecret::at(&self.path.join("reset_secret"))
    }

    /// Settings of a server with this identity, which lets in who is in `authorized_keys`.
    pub fn server_config(&self, transport: TransportConfig) -> Result<ServerConfig, StoreError> {
        let identity = self.identity()?;
        let clients = AuthorizedClients::new(identity.public_key(), self.authorized_keys());
        let crypto = crypto::ServerConfig::raw_key(&identity, Some(Arc::new(clients)));
        let transport = Arc::new(transport);
        Ok(ServerConfig { transport, ..ServerConfig::new(Arc::new(crypto)) })
    }

    /// A server with this identity, which lets in who is in `authorized_keys`. Restarted, it tells its former
    /// clients at once that their connections are gone.
    pub fn server(&self, address: SocketAddr, transport: TransportConfig) -> Result<Endpoint, StoreError> {
        let server = self.server_config(transport)?;
        let secret = self.reset_secret()?;
        let open = || {
            let socket = socket::bind(address)?;
            let mut config = EndpointConfig::default();
            config.reset_key(secret.key("", socket.local_addr()?));
            Endpoint::new(&config, Some(server), socket)
        };
        open().map_err(|error| StoreError::Bind { address, error })
    }
}

#[cfg(unix)]
fn check_mode(path: &Path, metadata: &std::fs::Metadata) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(StoreError::TooOpen { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &std::fs::Metadata) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_goes_before_the_default() {
        let default = || Some(PathBuf::from("/default"));
        assert_eq!(Home::choose(Some("/set".into()), default).unwrap().path(), Path::new("/set"));
        assert_eq!(Home::choose(Some("".into()), default).unwrap().path(), Path::new("/default"));
        assert_eq!(Home::choose(None, default).unwrap().path(), Path::new("/default"));
        assert!(matches!(Home::choose(None, || None), Err(StoreError::NoHome)));
    }

    #[test]
    fn an_identity_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("new/folder"));
        assert!(matches!(home.identity(), Err(StoreError::NoIdentity { .. })));
        let identity = home.identity_or_create().unwrap();
        assert_eq!(home.identity().unwrap().public_key(), identity.public_key());
        assert_eq!(home.identity_or_create().unwrap().public_key(), identity.public_key());
        assert!(matches!(home.create_identity(), Err(StoreError::IdentityExists { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_private_key_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create_identity().unwrap();
        let path = home.identity_path();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(home.identity(), Err(StoreError::TooOpen { mode: 0o644, .. })));
    }

    #[test]
    fn a_damaged_identity_is_no_reason_to_make_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        file::create_private(&home.identity_path(), b"-----BEGIN").unwrap();
        let error = home.identity_or_create().unwrap_err();
        assert!(error.to_string().starts_with(&home.identity_path().display().to_string()), "{error}");
    }
}
