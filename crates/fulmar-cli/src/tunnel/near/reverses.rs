//! What the gateway listens at for a client: remembered, because it is asked for again on each connection.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use crate::tunnel::flow::halves::TunnelSend;
use crate::tunnel::wire::target::Target;

/// What the gateway listens at for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reverse {
    /// Where it listens.
    pub at: Target,
    /// What its visitors are connected with here.
    pub to: Target,
}

/// All that the gateway listens at for us, by our numbers.
#[derive(Debug, Default)]
pub struct Reverses {
    wanted: Mutex<BTreeMap<u64, Reverse>>,
    /// Their streams, and who hears what the gateway says there: it listens as long as these are open.
    streams: Mutex<Vec<(TunnelSend, JoinSet<()>)>>,
}

impl Reverses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Reverse>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; gives its number.
    pub fn add(&self, reverse: Reverse) -> u64 {
        let mut wanted = self.lock();
        let listener = wanted.last_key_value().map_or(0, |(last, _)| last + 1);
        wanted.insert(listener, reverse);
        listener
    }

    /// The gateway does not listen there.
    pub fn remove(&self, listener: u64) {
        self.lock().remove(&listener);
    }

    /// Keeps the stream of one open.
    pub fn keep(&self, stream: TunnelSend, hearing: JoinSet<()>) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push((stream, hearing));
    }

    /// Lets go of those on an earlier connection: what they hold there is wanted again on the next one.
    pub fn let_go(&self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The one with this number.
    pub fn get(&self, listener: u64) -> Option<Reverse> {
        self.lock().get(&listener).cloned()
    }

    /// All, with their numbers.
    pub fn all(&self) -> Vec<(u64, Reverse)> {
        self.lock().iter().map(|(number, reverse)| (*number, reverse.clone())).collect()
    }
}
