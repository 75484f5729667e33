//! The connections of a client, one after the other, as those see them who need one.

use std::time::Duration;

use fulmar::identity::Host;
use tokio::sync::watch;
use tokio::time::Instant;

use super::link::{ANSWER_MAX, Link};
use crate::session::Session;
use crate::tunnel::wire::error::OpenError;

/// How long a new flow waits for a tunnel that is down at the moment.
const LINK_WAIT: Duration = Duration::from_secs(10);

/// The connection there is, and those that will follow it.
#[derive(Debug, Clone)]
pub struct Links(watch::Receiver<Option<Link>>);

impl From<watch::Receiver<Option<Link>>> for Links {
    fn from(links: watch::Receiver<Option<Link>>) -> Self {
        Self(links)
    }
}

impl Links {
    /// The gateway at the other end now, if there is one.
    pub fn gateway(&self) -> Option<Host> {
        self.0.borrow().as_ref().map(|link| link.gateway.clone())
    }

    /// The connection now, if there is one.
    pub fn session(&self) -> Option<Session> {
        self.0.borrow().as_ref().map(|link| link.session.clone())
    }

    /// A connection, waited for if there is none; not that which is known to be lost. Who has waited since
    /// `begin` does not wait for ever.
    pub async fn other_than(&self, lost: Option<&Link>, begin: Instant) -> Result<Link, OpenError> {
        let is_other =
            |link: &Option<Link>| link.as_ref().is_some_and(|link| lost.is_none_or(|lost| !link.is(lost)));
        let mut links = self.0.clone();
        let wait_max = LINK_WAIT.min(ANSWER_MAX.saturating_sub(begin.elapsed()));
        match tokio::time::timeout(wait_max, links.wait_for(is_other)).await {
            Ok(Ok(link)) => link.clone().ok_or_else(|| OpenError::lost("no gateway")),
            _ => Err(OpenError::lost("no gateway answers")),
        }
    }

    /// Resolves when new flows take another connection.
    pub async fn replaced(&self, link: &Link) {
        let is_other = |now: &Option<Link>| now.as_ref().is_some_and(|now| !now.is(link));
        if self.0.clone().wait_for(is_other).await.is_err() {
            // No other will come.
            std::future::pending().await
        }
    }
}
