//! When a server takes a code: for one guess, within ten minutes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar::crypto::{PublicKey, Refusal, VerifyPeer};
use fulmar::identity::AuthorizedClients;

use super::code::Code;
use crate::turned_away;

/// How long a code is good.
pub const LIFETIME: Duration = Duration::from_secs(600);

/// A server's readiness to pair. Closed at first; open from the drawing of a code to its first use.
#[derive(Debug, Default)]
pub struct Invitation(Mutex<Option<(Code, Instant)>>);

impl Invitation {
    /// Opens it with a new code; one that was open before is void.
    pub fn open(&self) -> std::io::Result<Code> {
        let code = Code::draw()?;
        *self.lock() = Some((code.clone(), Instant::now() + LIFETIME));
        Ok(code)
    }

    /// Whether a code is waited for.
    pub fn is_open(&self) -> bool {
        self.is_open_at(Instant::now())
    }

    fn is_open_at(&self, now: Instant) -> bool {
        self.lock().as_ref().is_some_and(|(_, until)| now < *until)
    }

    /// The code, for its one use: closed from then on.
    pub fn take(&self) -> Option<Code> {
        let now = Instant::now();
        self.lock().take().filter(|(_, until)| now < *until).map(|(code, _)| code)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Code, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which clients finish the handshake: those of `authorized_keys`, and while an invitation is open anybody,
/// who may pair and nothing else ([`is_known`](Self::is_known)).
#[derive(Debug)]
pub struct Clients {
    authorized: AuthorizedClients,
    invitation: Arc<Invitation>,
}

impl Clients {
    /// The policy of a server.
    pub fn new(authorized: AuthorizedClients, invitation: Arc<Invitation>) -> Self {
        Self { authorized, invitation }
    }

    /// The invitation of this server.
    pub fn invitation(&self) -> &Arc<Invitation> {
        &self.invitation
    }

    /// Whether the holder of a key is let in for more than pairing.
    pub fn is_known(&self, key: &PublicKey) -> bool {
        self.authorized.verify(key, "").is_ok()
    }
}

impl VerifyPeer for Clients {
    fn verify(&self, key: &PublicKey, name: &str) -> Result<(), Refusal> {
        match self.authorized.verify(key, name) {
            Err(Refusal::UnknownKey(_)) if self.invitation.is_open() => Ok(()),
            Err(refusal @ Refusal::UnknownKey(_)) => {
                turned_away::remember(*key);
                Err(refusal)
            }
            verdict => verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_ten_minutes() {
        let invitation = Invitation::default();
        assert!(!invitation.is_open() && invitation.take().is_none());
        let code = invitation.open().unwrap();
        assert!(invitation.is_open());
        assert_eq!(invitation.take(), Some(code));
        assert!(!invitation.is_open() && invitation.take().is_none());

        let first = invitation.open().unwrap();
        let second = invitation.open().unwrap();
        assert_ne!(first, second);
        assert!(!invitation.is_open_at(Instant::now() + LIFETIME));
        assert_eq!(invitation.take(), Some(second));
    }

    #[test]
    fn strangers_finish_the_handshake_only_while_an_invitation_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let key = |seed: u8| fulmar::crypto::Identity::from_seed(&[seed; 32]).public_key();
        let keys = fulmar::identity::AuthorizedKeys::at(folder.path().join("authorized_keys"));
        let clients = Clients::new(AuthorizedClients::new(key(1), keys), Arc::default());
        assert!(clients.verify(&key(2), "").is_err());
        clients.invitation().open().unwrap();
        assert_eq!(clients.verify(&key(2), ""), Ok(()));
        assert!(!clients.is_known(&key(2)) && clients.is_known(&key(1)));
        clients.invitation().take();
        assert!(clients.verify(&key(2), "").is_err());
    }
}
