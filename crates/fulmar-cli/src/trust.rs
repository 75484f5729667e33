//! Whom to believe: this machine's identity, the servers it knows, and what to ask people about those it does
//! not.
//!
//! The files and their rules are the library's ([`fulmar::identity`]); here they meet application protocols,
//! terminals and exit codes.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use fulmar::crypto::{Identity, PublicKey, Refusal, VerifyPeer};
use fulmar::identity::{AuthorizedClients, Home, Host, KnownHosts, StoreError, Verdict};

use crate::exit::Failure;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::File(error.to_string())
    }
}

/// The folder of keys.
pub fn home() -> Result<Home, Failure> {
    Ok(Home::locate()?)
}

/// This machine's identity; made, and said so, if there is none.
pub fn identity() -> Result<Identity, Failure> {
    let home = home()?;
    match home.identity() {
        Err(StoreError::NoIdentity { path }) => {
            let identity = home.identity_or_create()?;
            eprintln!(
                "A key was made for this machine: {} ({})",
                path.display(),
                identity.public_key().fingerprint()
            );
            Ok(identity)
        }
        found => Ok(found?),
    }
}

/// Lets in who is in `authorized_keys`, and this identity itself.
pub fn authorized_clients(identity: &Identity) -> Result<AuthorizedClients, Failure> {
    let clients = AuthorizedClients::new(identity.public_key(), home()?.authorized_keys());
    match clients.check() {
        // Clients before that line are let in, the others refused.
        Err(error @ StoreError::Line { .. }) => tracing::warn!("{error}"),
        checked => checked?,
    }
    Ok(clients)
}

/// How a server is looked at by those who come to pair: any key will do, but for one that takes the place of
/// another.
#[derive(Debug)]
pub struct Meeting {
    known: KnownHosts,
    host: Host,
    finding: Mutex<Option<Failure>>,
}

impl Meeting {
    /// A meeting with this server.
    pub fn new(host: &Host) -> Result<Self, Failure> {
        Ok(Self { known: home()?.known_hosts(), host: host.clone(), finding: Mutex::default() })
    }

    /// Why it did not take place, if this end did not want it.
    pub fn take_finding(&self) -> Option<Failure> {
        self.finding.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl VerifyPeer for Meeting {
    fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
        let (failure, refusal) = match self.known.verdict(&self.host, key) {
            Ok(Verdict::Trusted | Verdict::Unknown) => return Ok(()),
            Ok(Verdict::Changed { line, known }) => changed(&self.known, &self.host, key, line, &known),
            Err(error) => (error.into(), Refusal::Other("known_hosts is not readable".into())),
        };
        *self.finding.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        Err(refusal)
    }
}

/// A server that is known under another key.
fn changed(
    file: &KnownHosts,
    host: &Host,
    key: &PublicKey,
    line: usize,
    known: &PublicKey,
) -> (Failure, Refusal) {
    let presented = key.fingerprint();
    let text = format!(
        "THE KEY OF {host} HAS CHANGED: it is now {presented}, but line {line} of {} says {}.\n\
         Either the server has a new identity, or somebody is in between and listens. Ask its owner; if the new \
         key is right, remove that line.",
        file.path().display(),
        known.fingerprint()
    );
    (Failure::Untrusted(text), Refusal::KeyChanged { name: host.to_string(), presented })
}

/// Trusts the server that `known_hosts` names, and this identity itself; remembers why it did not trust
/// another.
#[derive(Debug)]
pub struct Judge {
    own: PublicKey,
    known: KnownHosts,
    host: Host,
    finding: Mutex<Option<Finding>>,
}

/// Why a server was not trusted.
#[derive(Debug)]
pub enum Finding {
    /// Nothing is known about it.
    Unknown(PublicKey),
    /// It is known under another key, or nothing can be known.
    Bad(Failure),
}

impl Judge {
    /// A judge about this server.
    pub fn new(identity: &Identity, host: &Host) -> Result<Self, Failure> {
        let known = home()?.known_hosts();
        Ok(Self { own: identity.public_key(), known, host: host.clone(), finding: Mutex::default() })
    }

    /// What it found, if it did not trust.
    pub fn take_finding(&self) -> Option<Finding> {
        self.finding.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refuse(&self, finding: Finding, refusal: Refusal) -> Result<(), Refusal> {
        *self.finding.lock().unwrap_or_else(PoisonError::into_inner) = Some(finding);
        Err(refusal)
    }
}

impl VerifyPeer for Judge {
    fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
        let presented = key.fingerprint();
        match self.known.verdict(&self.host, key) {
            Ok(Verdict::Trusted) => Ok(()),
            // Where another key was written down, even the own one is a change.
            Ok(Verdict::Unknown) if *key == self.own => Ok(()),
            Ok(Verdict::Unknown) => self.refuse(Finding::Unknown(*key), Refusal::UnknownKey(presented)),
            Ok(Verdict::Changed { line, known }) => {
                let (failure, refusal) = changed(&self.known, &self.host, key, line, &known);
                self.refuse(Finding::Bad(failure), refusal)
            }
            Err(error) => {
                self.refuse(Finding::Bad(error.into()), Refusal::Other("known_hosts is not readable".into()))
            }
        }
    }
}

/// Asks whether a server is to be trusted that nothing is known about, and remembers a yes.
pub async fn ask(host: &Host, key: &PublicKey, is_new_accepted: bool) -> Result<(), Failure> {
    let fingerprint = key.fingerprint();
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_new_accepted && !can_ask {
        return Err(Failure::Untrusted(format!(
            "{host} is not known, and there is nobody to ask. Its key is {fingerprint}; if that is what its owner sees, \
             use --accept-new once."
        )));
    }
    if !is_new_accepted {
        let question =
            format!("{host} is not known yet. Its key is {fingerprint}.\nTrust it from now on? [yes/no] ");
        let answer = tokio::task::spawn_blocking(move || prompt(&question)).await;
        let is_yes = answer.map_err(|e| Failure::Other(e.to_string()))?;
        if !is_yes {
            return Err(Failure::Untrusted(format!("{host} was not trusted")));
        }
    }
    home()?.known_hosts().add(host, key, "")?;
    eprintln!("{host} is known from now on ({fingerprint}).");
    Ok(())
}

fn prompt(question: &str) -> bool {
    eprint!("{question}");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "yes" | "Yes" | "YES")
}
