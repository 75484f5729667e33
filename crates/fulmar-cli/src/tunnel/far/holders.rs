//! What the connections of one key listen at: a new connection takes over from one that is dead.
//!
//! A client that was killed leaves a connection behind that nothing ends but its idle timeout. Its place
//! would be taken until then, for the same client as well.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::session::Session;
use crate::tunnel::wire::target::Target;

/// How long a connection may take to show that it lives, if three round trips are not longer.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// As often it is asked for in that time: a path may lose some of the questions.
const QUESTIONS: u32 = 5;

/// How long a listener may take to go.
const LEAVING: Duration = Duration::from_millis(500);
const LEAVING_STEP: Duration = Duration::from_millis(5);

/// All listeners of one key.
#[derive(Debug, Default)]
pub struct Holders(Mutex<Vec<Arc<Holder>>>);

#[derive(Debug)]
struct Holder {
    at: Target,
    session: Session,
    taken: Notify,
}

/// One listener, which counts until this is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    holders: &'a Holders,
    holder: Arc<Holder>,
}

impl Holders {
    /// Notes that there is a listener for a connection.
    pub fn hold(&self, at: &Target, session: &Session) -> Held<'_> {
        let holder = Holder { at: at.clone(), session: session.clone(), taken: Notify::new() };
        let holder = Arc::new(holder);
        self.lock().push(Arc::clone(&holder));
        Held { holders: self, holder }
    }

    /// Ends the listener at this place if its connection shows no sign of life. True if the place may be free
    /// now.
    pub async fn take_over(&self, at: &Target) -> bool {
        let Some(holder) = self.lock().iter().find(|holder| holder.at == *at).cloned() else { return false };
        if lives(&holder.session).await {
            return false;
        }
        tracing::info!("{} is silent: another connection of its key listens at {at}", holder.session.peer());
        holder.taken.notify_one();
        let is_there = || self.lock().iter().any(|other| Arc::ptr_eq(other, &holder));
        for _ in 0..LEAVING.as_millis() / LEAVING_STEP.as_millis() {
            if !is_there() {
                return true;
            }
            tokio::time::sleep(LEAVING_STEP).await;
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Holder>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether anything comes from a peer that is asked for a sign of life.
async fn lives(session: &Session) -> bool {
    let connection = session.connection();
    let received = || connection.stats().wire.received_datagrams;
    let (before, patience) = (received(), SIGN_OF_LIFE.max(3 * connection.rtt()));
    for _ in 0..QUESTIONS {
        if !session.is_open() {
            return false;
        }
        connection.ping();
        tokio::time::sleep(patience / QUESTIONS).await;
        if received() > before {
            return true;
        }
    }
    false
}

impl Held<'_> {
    /// Resolves when the place is taken over.
    pub async fn taken(&self) {
        self.holder.taken.notified().await;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.holders.lock().retain(|other| !Arc::ptr_eq(other, &self.holder));
    }
}
