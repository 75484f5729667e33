//! Settings of both layers: one struct in C, the library's settings here.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity, PublicKey, TrustKeys, VerifyPeer};
use fulmar::identity::Home;
use fulmar::{ClientConfig, ConfigError, Profile, ServerConfig, TransportConfig};

use crate::code::{FUL_ERR_ARGUMENT, FUL_ERR_CONFIG};
use crate::failure::Failure;
use crate::keys::ful_identity;
use crate::memory::{self, SizedStruct};
use crate::trust;

/// Takes connections, beside opening some.
pub const FUL_SERVE: u32 = 1;
/// A server lets in whoever knocks, also without a key.
pub const FUL_LET_ANYBODY_IN: u32 = 2;
/// A client with `home` believes a server that it has never met, and writes its key down.
pub const FUL_TRUST_NEW: u32 = 4;

/// Settings. Zero or NULL stands for the default everywhere, so begin with `= { .size = sizeof(ful_config) }`.
///
/// Who is trusted: either `home`, or `identity` with `trusted_keys`.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ful_config {
    /// sizeof(ful_config).
    pub size: usize,
    /// FUL_SERVE, FUL_LET_ANYBODY_IN, FUL_TRUST_NEW, added up.
    pub flags: u32,
    /// The driver's address, "127.0.0.1:4747" or "[::]:0"; NULL: any port of any address.
    pub bind: *const c_char,
    /// A folder with identity, known_hosts and authorized_keys; "": the user's own. Driver only.
    pub home: *const c_char,
    /// This end's key. It is copied.
    pub identity: *const ful_identity,
    /// The keys of peers that are trusted, 32 bytes each. They are copied.
    pub trusted_keys: *const u8,
    /// How many keys.
    pub trusted_count: usize,
    /// The application protocol (ALPN), which both ends must name alike; NULL: "fulmar/1".
    pub alpn: *const c_char,
    /// A line such as "auto" or "auto:cc=bbr" (docs/profiles); NULL: "auto".
    pub profile: *const c_char,
    /// Silence after which a connection is given up, ms. Default: 30,000.
    pub idle_timeout_ms: u64,
    /// Silence after which something is sent to keep the connection, ms. Default: never.
    pub keep_alive_ms: u64,
    /// How long a handshake may take, ms. Default: 60,000 for a client, 10,000 for a server.
    pub handshake_timeout_ms: u64,
    /// Bytes written and not sent yet, at most, of a connection. Default: 4 MiB.
    pub send_buffer_bytes: u64,
    /// Bytes the peer may send that were not read, at most, of a connection. Default: 64 MiB.
    pub receive_window_bytes: u64,
    /// What all connections of a driver may hold together, bytes. Default: half of the machine's memory.
    pub memory_bytes: u64,
    /// Datagrams of a million that the driver throws away where they were received, to try a bad network.
    pub lose_received_ppm: u32,
}

// SAFETY: numbers and pointers only, for which zero is a value.
unsafe impl SizedStruct for ful_config {}

/// Whom the settings trust.
#[derive(Debug)]
pub(crate) enum Trust {
    Home(Home),
    Keys { identity: Option<Identity>, trusted: Vec<PublicKey> },
}

/// The settings, checked and copied.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) flags: u32,
    pub(crate) bind: Option<String>,
    pub(crate) trust: Trust,
    pub(crate) transport: TransportConfig,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) lose_received_ppm: u32,
    alpn: Option<Vec<u8>>,
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(FUL_ERR_CONFIG, error)
    }
}

fn wrong(text: &str) -> Failure {
    Failure::new(FUL_ERR_CONFIG, text)
}

/// What a field with a default says.
fn set<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn transport(config: &ful_config, profile: Option<&str>) -> Result<TransportConfig, Failure> {
    let mut transport = TransportConfig::default();
    if let Some(profile) = profile {
        transport.profile(Profile::parse(profile).map_err(|error| Failure::new(FUL_ERR_CONFIG, error))?);
    }
    if let Some(ms) = set(config.idle_timeout_ms) {
        transport.idle_timeout(Some(Duration::from_millis(ms)))?;
    }
    if let Some(ms) = set(config.keep_alive_ms) {
        transport.keep_alive(Some(Duration::from_millis(ms)))?;
    }
    if let Some(ms) = set(config.handshake_timeout_ms) {
        transport.handshake_timeout(Duration::from_millis(ms))?;
    }
    if let Some(bytes) = set(config.send_buffer_bytes) {
        transport.send_buffer_bytes(bytes)?;
    }
    if let Some(bytes) = set(config.receive_window_bytes) {
        transport.receive_window_bytes(bytes)?;
    }
    Ok(transport)
}

impl Settings {
    /// Reads what C hands over.
    pub(crate) unsafe fn read(config: *const ful_config) -> Result<Self, Failure> {
        // SAFETY: as the header asks.
        let config = unsafe { memory::read_sized(config) }?;
        if config.flags & !(FUL_SERVE | FUL_LET_ANYBODY_IN | FUL_TRUST_NEW) != 0 {
            return Err(wrong("there is no such flag"));
        }
        // SAFETY: as the header asks.
        let (bind, home, alpn, profile) = unsafe {
            (
                memory::text(config.bind)?,
                memory::text(config.home)?,
                memory::text(config.alpn)?,
                memory::text(config.profile)?,
            )
        };
        let keys_bytes = config.trusted_count.checked_mul(32).ok_or(FUL_ERR_ARGUMENT)?;
        // SAFETY: as the header asks, there are that many keys.
        let keys = unsafe { memory::bytes(config.trusted_keys, keys_bytes) }?;
        let trusted: Vec<_> =
            keys.as_chunks::<32>().0.iter().map(|key| PublicKey::from_bytes(*key)).collect();
        let identity = match config.identity.is_null() {
            true => None,
            // SAFETY: a handle of this library that lives as long as the call.
            false => Some(unsafe { memory::borrow(config.identity) }?.0.clone()),
        };
        let trust = match home {
            Some(_) if identity.is_some() || !trusted.is_empty() => {
                return Err(wrong("either home, or identity with trusted_keys"));
            }
            Some(path) => Trust::Home(trust::home(Some(path))?),
            None => Trust::Keys { identity, trusted },
        };
        Ok(Self {
            flags: config.flags,
            bind: bind.map(str::to_owned),
            trust,
            transport: transport(&config, profile)?,
            memory_bytes: set(config.memory_bytes).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            lose_received_ppm: config.lose_received_ppm,
            alpn: alpn.map(|alpn| alpn.as_bytes().to_vec()),
        })
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// How this end takes connections; `None` if it takes none.
    pub(crate) fn server(&self) -> Result<Option<ServerConfig>, Failure> {
        if !self.has(FUL_SERVE) {
            return Ok(None);
        }
        let transport = self.transport.clone();
        match &self.trust {
            Trust::Home(_) if self.alpn.is_some() || self.has(FUL_LET_ANYBODY_IN) => {
                Err(wrong("a server with a home speaks \"fulmar/1\" with those in authorized_keys"))
            }
            Trust::Home(home) => home.server_config(transport).map(Some).map_err(trust::failure),
            Trust::Keys { identity: None, .. } => Err(wrong("a server needs an identity")),
            Trust::Keys { identity: Some(identity), trusted } => {
                let verify: Option<Arc<dyn VerifyPeer>> =
                    match (self.has(FUL_LET_ANYBODY_IN), trusted.is_empty()) {
                        (true, _) => None,
                        (false, false) => Some(Arc::new(TrustKeys::new(trusted.iter().copied()))),
                        (false, true) => {
                            return Err(wrong("a server has trusted_keys, or FUL_LET_ANYBODY_IN"));
                        }
                    };
                let mut crypto = crypto::ServerConfig::raw_key(identity, verify);
                if let Some(alpn) = &self.alpn {
                    crypto = crypto.with_alpn(&[alpn]);
                }
                let base = ServerConfig::new(Arc::new(crypto));
                Ok(Some(ServerConfig { transport: Arc::new(transport), ..base }))
            }
        }
    }

    /// How this end opens connections, if it trusts keys that it knows.
    pub(crate) fn client(&self) -> Option<ClientConfig> {
        let Trust::Keys { identity, trusted } = &self.trust else { return None };
        let verify = Arc::new(TrustKeys::new(trusted.iter().copied()));
        let mut crypto = crypto::ClientConfig::raw_key(identity.as_ref(), verify);
        if let Some(alpn) = &self.alpn {
            crypto = crypto.with_alpn(&[alpn]);
        }
        Some(ClientConfig { crypto: Arc::new(crypto), transport: Arc::new(self.transport.clone()) })
    }
}
