//! The gateway: who is there, what each may do, and how that changes without anybody being cut off.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fulmar::SendStream;
use fulmar::crypto::PublicKey;
use fulmar::identity::AuthorizedKeys;

use super::account::{Account, Accounts};
use super::guest::Guest;
use crate::cp::clients::REQUESTS_PER_CONNECTION;
use crate::session::Session;
use crate::tunnel::flow::halves::{RecvHalf, TunnelSend};
use crate::tunnel::flow::traffic::PRESSED_BYTES;
use crate::tunnel::policy::grants::{Grants, Limits};

/// How often it is looked at what connections hold.
const WEIGH_INTERVAL: Duration = Duration::from_secs(1);

/// How long it may take to tell a client that it has too many streams; others of its own wait.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);

/// Connections of one key at the same time. Those of programs that were killed stay for half a minute.
const CONNECTIONS_MAX: usize = 128;

/// What all clients of a gateway share.
#[derive(Debug)]
pub struct Gateway {
    own: PublicKey,
    keys: AuthorizedKeys,
    accounts: Accounts,
    guests: Mutex<Vec<Present>>,
    /// Clients turned away since the beginning, though their key is known.
    turned_away: AtomicU64,
    /// Addresses of tunnels for packets, if they are offered.
    #[cfg(machine)]
    tun: std::sync::OnceLock<crate::packets::pool::Pool>,
}

/// A client that is there.
#[derive(Debug, Clone)]
struct Present {
    key: PublicKey,
    session: Session,
    guest: Weak<Guest>,
    /// It was let in for tunnels as well.
    had_tunnels: bool,
    /// What people call it.
    comment: String,
}

impl Gateway {
    /// A gateway with this identity that lets in who is in the file.
    pub fn new(own: PublicKey, keys: AuthorizedKeys) -> Arc<Self> {
        Arc::new(Self {
            own,
            keys,
            accounts: Accounts::default(),
            guests: Mutex::default(),
            turned_away: AtomicU64::new(0),
            #[cfg(machine)]
            tun: std::sync::OnceLock::new(),
        })
    }

    /// Offers tunnels for packets from now on, with addresses of this pool.
    #[cfg(machine)]
    pub fn offer_tun(&self, pool: crate::packets::pool::Pool) {
        // A second pool would be a second gateway's.
        let _ = self.tun.set(pool);
    }

    /// Lets a client in, if it may be; as long as what is returned exists it counts as being there.
    pub fn enter(self: &Arc<Self>, session: &Session) -> Option<Presence> {
        let presence = self.let_in(session);
        match &presence {
            Some(_) => tracing::debug!("{} is here ({})", session.peer(), session.peer_key()),
            None => {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                session.connection().close(1, b"not allowed");
            }
        }
        presence
    }

    /// Serves a client until its connection ends.
    pub async fn serve(self: &Arc<Self>, session: Session) {
        let Some(presence) = self.enter(&session).filter(|presence| presence.has_tunnels) else {
            return session.connection().close(1, b"not allowed");
        };
        while let Ok((send, recv)) = session.accept().await {
            presence.serve(recv, send).await;
        }
    }

    /// Whether a client may give and take files.
    pub fn grants_files(&self, session: &Session) -> bool {
        session.peer_public_key().and_then(|key| self.grants(&key)).is_some_and(|grants| grants.has_files)
    }

    fn let_in(self: &Arc<Self>, session: &Session) -> Option<Presence> {
        let key = session.peer_public_key()?;
        let grants = self.grants(&key)?;
        let account = self.accounts.of(&key);
        account.set_limits(grants.limits);
        limit_streams(session, &grants.limits);
        let mut guests = self.lock();
        if guests.iter().filter(|present| present.key == key).count() >= CONNECTIONS_MAX {
            tracing::warn!("{} has {CONNECTIONS_MAX} connections already", session.peer());
            return None;
        }
        let guest = Guest::on(session, grants.rules, Arc::clone(&account));
        #[cfg(machine)]
        let guest = guest.with_tun(self.tun.get().cloned());
        let guest = Arc::new(guest);
        let comment = grants.comment;
        let had_tunnels = grants.has_tunnels;
        guests.push(Present {
            key,
            session: session.clone(),
            guest: Arc::downgrade(&guest),
            had_tunnels,
            comment,
        });
        let weighing = tokio::spawn(weigh(session.clone(), Arc::clone(&account))).abort_handle();
        let (gateway, connection) = (Arc::clone(self), session.connection().stable_id());
        let (has_files, has_tunnels) = (grants.has_files, grants.has_tunnels);
        Some(Presence { gateway, guest, account, connection, weighing, has_files, has_tunnels })
    }

    /// What a key is granted, if anything is.
    fn grants(&self, key: &PublicKey) -> Option<Grants> {
        match Grants::of(key, &self.own, &self.keys) {
            Ok(grants) => grants.filter(|grants| grants.has_tunnels || grants.has_files),
            Err(error) => {
                tracing::error!("refused a client: {error}");
                None
            }
        }
    }

    /// Whether every line of `authorized_keys` can be read: otherwise which one cannot, and why.
    pub fn check(&self) -> Result<(), String> {
        Grants::check(&self.keys)
    }

    /// Reads `authorized_keys` again: what is granted now holds for new streams of clients that are there,
    /// and who is granted nothing any more has to leave.
    pub fn reload(&self) {
        let guests = self.lock().clone();
        for Present { key, session, guest, had_tunnels, .. } in guests {
            match (self.grants(&key), guest.upgrade()) {
                // One that came for files only goes on, too.
                (Some(grants), Some(guest)) if grants.has_tunnels || !had_tunnels => {
                    self.accounts.of(&key).set_limits(grants.limits);
                    limit_streams(&session, &grants.limits);
                    guest.set_rules(grants.rules);
                }
                (Some(_), Some(_)) | (None, _) => session.connection().close(1, b"no longer allowed"),
                (Some(_), None) => {}
            }
        }
    }

    /// Everybody who is there, and what `authorized_keys` calls them.
    pub fn sessions(&self) -> Vec<(Session, String)> {
        self.lock().iter().map(|present| (present.session.clone(), present.comment.clone())).collect()
    }

    /// Accounts of all who have been there.
    pub fn accounts(&self) -> Vec<(PublicKey, Arc<Account>)> {
        self.accounts.all()
    }

    /// Clients turned away though their key is known.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Present>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that is there, until this is dropped.
#[derive(Debug)]
pub struct Presence {
    gateway: Arc<Gateway>,
    guest: Arc<Guest>,
    account: Arc<Account>,
    connection: usize,
    weighing: tokio::task::AbortHandle,
    /// It may give and take files.
    pub has_files: bool,
    /// It may use tunnels.
    pub has_tunnels: bool,
}

impl Presence {
    /// Serves a stream that the client has opened, or tells it why not: whoever has no place waits for
    /// nobody.
    pub async fn serve<R: RecvHalf + 'static>(&self, recv: R, send: SendStream) {
        let guest = Arc::clone(&self.guest);
        let mut send = TunnelSend::from(send);
        let admission = match guest.admit() {
            Ok(admission) => admission,
            Err(error) => {
                tracing::debug!("refused: {error}");
                let _ = tokio::time::timeout(REFUSAL_TIME_MAX, guest.refuse(&mut send, error)).await;
                return;
            }
        };
        tokio::spawn(async move {
            if let Err(error) = guest.serve(admission, recv, send).await {
                tracing::debug!("refused: {error}");
            }
        });
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.weighing.abort();
        self.account.hold(self.connection, 0);
        self.gateway.lock().retain(|present| present.session.connection().stable_id() != self.connection);
    }
}

/// The transport allows no more streams than the key's limit, with those that need no seat: the greeting, and
/// requests of files.
fn limit_streams(session: &Session, limits: &Limits) {
    let most = limits.streams.saturating_add(REQUESTS_PER_CONNECTION);
    session.connection().limit_bi_streams(u64::try_from(most).unwrap_or(u64::MAX));
}

/// Tells the account what a connection holds.
async fn weigh(session: Session, account: Arc<Account>) {
    let connection = session.connection();
    loop {
        let stats = connection.stats();
        let unread_bytes = session.unread_bytes();
        account.traffic.press(unread_bytes > PRESSED_BYTES || account.is_over());
        let held_bytes =
            stats.symbols_held_bytes + stats.decoder_bytes as u64 + stats.streams.queued_bytes + unread_bytes;
        account.hold(connection.stable_id(), held_bytes.max(1));
        tokio::time::sleep(WEIGH_INTERVAL).await;
    }
}
