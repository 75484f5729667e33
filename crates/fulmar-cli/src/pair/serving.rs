//! The server's half of pairing, on a connection: asks the invitation, writes the key down, and says so.

use std::time::Duration;

use fulmar::crypto::PublicKey;
use fulmar::identity::{AuthorizedKeys, Host};

use super::exchange::{self, Channel, PairError};
use super::invitation::Invitation;
use crate::exit::Failure;
use crate::session::Session;
use crate::{trust, turned_away, units};

/// How long a client may take for all of it.
const CONVERSATION_MAX: Duration = Duration::from_secs(20);

/// How long it may take to leave after it.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The secret of a connection that the proofs are bound to.
const LABEL: &[u8] = b"EXPORTER-fulmar-pair/1";

/// What this end knows of the connection.
pub fn channel_of(session: &Session) -> Result<Channel, Failure> {
    let connection = session.connection();
    let own = trust::identity()?.public_key();
    let peer =
        session.peer_public_key().ok_or_else(|| Failure::Other("the other side shows no key".into()))?;
    let mut secret = [0; 32];
    let exported = connection.export_keying_material(&mut secret, LABEL, b"");
    exported.map_err(|error| Failure::Other(error.to_string()))?;
    let (joining, inviting) = if connection.side().is_client() { (own, peer) } else { (peer, own) };
    Ok(Channel { joining, inviting, secret })
}

/// Serves one client that came to pair, and closes its connection.
pub async fn serve(session: Session, invitation: &Invitation) {
    let result = tokio::time::timeout(CONVERSATION_MAX, pair(&session, invitation)).await;
    let peer = session.peer();
    match result.unwrap_or_else(|_| Err(PairError::Lost(std::io::ErrorKind::TimedOut.into()))) {
        Ok(()) => {}
        Err(PairError::WrongCode) => tracing::warn!(
            "{peer} tried to pair with a wrong code: the code is void; for a new one start with --invite again"
        ),
        Err(error) => turned_away::log(&Failure::Untrusted(format!("{peer} did not pair: {error}"))),
    }
    session.wait_until_closed(FAREWELL_MAX).await;
}

async fn pair(session: &Session, invitation: &Invitation) -> Result<(), PairError> {
    let lost = |error: &dyn std::fmt::Display| PairError::Lost(std::io::Error::other(error.to_string()));
    let channel = channel_of(session).map_err(|error| lost(&error))?;
    let keys = trust::home().map_err(|error| lost(&error))?.authorized_keys();
    let (mut send, mut receive) = session.accept().await.map_err(|error| lost(&error))?;
    let accept = |key: &PublicKey, name: &str| write_down(&keys, key, name, &session.peer());
    exchange::invite(&mut receive, &mut send, &channel, || invitation.take(), accept).await
}

fn write_down(keys: &AuthorizedKeys, key: &PublicKey, name: &str, peer: &str) -> bool {
    let name = units::printable(name);
    match keys.add(key, &name) {
        Ok(()) => {
            tracing::info!(
                "paired with {peer}: {} ({name}) is in {}",
                key.fingerprint(),
                keys.path().display()
            );
            true
        }
        Err(error) => {
            tracing::error!("{peer} knows the code, but its key cannot be written down: {error}");
            false
        }
    }
}

/// What a person has to do with a code.
pub fn told(code: &str, port: u16) -> String {
    let at = if port == fulmar::identity::PORT_DEFAULT { String::new() } else { format!(":{port}") };
    format!("To let one machine in, run there within ten minutes: fulmar pair THIS-HOST{at} {code}")
}

/// What to do where no code is waited for.
pub fn no_invitation(host: &Host) -> String {
    format!(
        "{host} waits for no code: run `fulmar serve --invite` or `fulmar gateway --invite` there. A code is good for ten \
         minutes and one attempt"
    )
}
