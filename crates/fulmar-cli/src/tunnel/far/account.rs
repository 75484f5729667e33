//! What one client uses at this moment, over all its connections, and what it may.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fulmar::crypto::PublicKey;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::holders::Holders;
use crate::descriptors::{Descriptors, Held};
use crate::tunnel::flow::lookups::Lookups;
use crate::tunnel::flow::peers::Source;
use crate::tunnel::flow::traffic::Traffic;
use crate::tunnel::policy::grants::Limits;
use crate::tunnel::wire::error::{Code, OpenError};

/// Targets dialled at the same time for one client.
const DIALS_MAX: usize = 64;

/// Account of one key.
#[derive(Debug)]
pub struct Account {
    /// What is carried, and how fast it may be.
    pub traffic: Arc<Traffic>,
    limits: Mutex<Limits>,
    streams: AtomicUsize,
    /// Those of them that are visitors of its listeners.
    visitors: Mutex<Visitors>,
    /// What its streams may hold open.
    descriptors: Arc<Descriptors>,
    /// What it may look up.
    pub lookups: Lookups,
    /// Streams asked for and refused since the beginning.
    pub refused: AtomicU64,
    /// Streams opened since the beginning.
    pub opened: AtomicU64,
    dials: Semaphore,
    /// Where its connections listen.
    pub holders: Holders,
    /// What each of its connections holds, in bytes.
    held: Mutex<HashMap<usize, u64>>,
}

/// Visitors by where they come from.
#[derive(Debug, Default)]
struct Visitors {
    all: usize,
    by_source: HashMap<Source, usize>,
}

impl Visitors {
    /// One more from there, if it leaves as many as it has to others.
    fn take(&mut self, source: Source, most: usize) -> bool {
        let own = self.by_source.get(&source).copied().unwrap_or_default();
        let is_taken = own < most.saturating_sub(self.all);
        if is_taken {
            self.all += 1;
            *self.by_source.entry(source).or_default() += 1;
        }
        is_taken
    }

    fn give_back(&mut self, source: Source) {
        self.all -= 1;
        if let Some(count) = self.by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

/// A stream that counts until this is dropped.
#[derive(Debug)]
pub struct Seat {
    account: Arc<Account>,
    visitor: Option<Source>,
    _descriptor: Held,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.account.streams.fetch_sub(1, Ordering::Relaxed);
        if let Some(source) = self.visitor {
            lock(&self.account.visitors).give_back(source);
        }
    }
}

impl Default for Account {
    fn default() -> Self {
        Self::with(Descriptors::of_process())
    }
}

impl Account {
    /// An account that takes its share of these descriptors.
    pub fn with(descriptors: Arc<Descriptors>) -> Self {
        Self {
            traffic: Arc::default(),
            limits: Mutex::default(),
            streams: AtomicUsize::new(0),
            visitors: Mutex::default(),
            descriptors,
            lookups: Lookups::default(),
            refused: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            dials: Semaphore::new(DIALS_MAX),
            holders: Holders::default(),
            held: Mutex::default(),
        }
    }

    /// What may be used from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.traffic.set_rate(limits.rate_bytes);
        *lock(&self.limits) = limits;
        self.weigh();
    }

    /// Takes a place for one more stream.
    pub fn seat(self: &Arc<Self>) -> Result<Seat, OpenError> {
        let limits = *lock(&self.limits);
        let limit = |what: String| Err(OpenError::new(Code::Limit, what));
        if self.is_over() {
            return limit(format!("more than {} bytes are under way already", limits.memory_bytes));
        }
        if self.streams.fetch_add(1, Ordering::Relaxed) >= limits.streams {
            self.streams.fetch_sub(1, Ordering::Relaxed);
            return limit(format!("{} streams are open already", limits.streams));
        }
        let Some(_descriptor) = self.descriptors.share(self.streams() - 1) else {
            self.streams.fetch_sub(1, Ordering::Relaxed);
            return limit("no more descriptors are left to one client".into());
        };
        Ok(Seat { account: Arc::clone(self), visitor: None, _descriptor })
    }

    /// Takes a place for a visitor of a listener. All of them have half of the places, so that strangers
    /// leave the other half to the client itself; those of one source have as many as they leave free.
    pub fn visitor(self: &Arc<Self>, source: Source) -> Result<Seat, OpenError> {
        let most = (lock(&self.limits).streams / 2).max(1);
        if !lock(&self.visitors).take(source, most) {
            return Err(OpenError::new(Code::Limit, "there are too many visitors already"));
        }
        match self.seat() {
            Ok(mut seat) => {
                seat.visitor = Some(source);
                Ok(seat)
            }
            Err(error) => {
                lock(&self.visitors).give_back(source);
                Err(error)
            }
        }
    }

    /// Waits for the turn to dial.
    pub async fn dial(&self) -> SemaphorePermit<'_> {
        self.dials.acquire().await.expect("never closed")
    }

    /// Streams open now.
    pub fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Bytes held for it now.
    pub fn held_bytes(&self) -> u64 {
        lock(&self.held).values().sum()
    }

    /// One of its connections holds so much now; zero when it is gone.
    pub fn hold(&self, connection: usize, bytes: u64) {
        match bytes {
            0 => lock(&self.held).remove(&connection),
            bytes => lock(&self.held).insert(connection, bytes),
        };
        self.weigh();
    }

    /// Whether it holds more than it may.
    pub fn is_over(&self) -> bool {
        self.held_bytes() > lock(&self.limits).memory_bytes
    }

    /// Above its memory a client gets no more bytes until it has taken some.
    fn weigh(&self) {
        self.traffic.pause(self.is_over());
    }
}

/// The accounts of all clients that have been here. A key that has gone keeps its counters; only known keys
/// get one.
#[derive(Debug, Default)]
pub struct Accounts(Mutex<HashMap<PublicKey, Arc<Account>>>);

impl Accounts {
    /// The account of a key.
    pub fn of(&self, key: &PublicKey) -> Arc<Account> {
        Arc::clone(lock(&self.0).entry(*key).or_default())
    }

    /// All of them.
    pub fn all(&self) -> Vec<(PublicKey, Arc<Account>)> {
        let mut all: Vec<_> =
            lock(&self.0).iter().map(|(key, account)| (*key, Arc::clone(account))).collect();
        all.sort_by_key(|(key, _)| key.to_string());
        all
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_places_come_back() {
        let account = Arc::new(Account::default());
        account.set_limits(Limits { streams: 2, memory_bytes: 1000, ..Limits::default() });
        let seats = (account.seat().unwrap(), account.seat().unwrap());
        assert_eq!(account.seat().unwrap_err().code, Code::Limit);
        drop(seats);
        assert_eq!(account.streams(), 0);
        account.hold(1, 600);
        account.hold(2, 600);
        assert_eq!(account.seat().unwrap_err().code, Code::Limit);
        account.hold(2, 0);
        account.seat().unwrap();
    }

    fn seats(account: &Arc<Account>) -> Vec<Seat> {
        std::iter::from_fn(|| account.seat().ok()).collect()
    }

    #[test]
    fn strangers_leave_half_of_the_places_to_the_client_and_some_to_each_other() {
        let account = Arc::new(Account::with(Arc::new(Descriptors::new(u64::MAX))));
        account.set_limits(Limits { streams: 4096, ..Limits::default() });
        let source = |host: u8| Source::from(std::net::IpAddr::from([192, 0, 2, host]));
        let all = |host| std::iter::from_fn(|| account.visitor(source(host)).ok()).collect::<Vec<_>>();
        let mut held = all(1);
        assert_eq!(held.len(), 1024, "half of half");
        assert_eq!(account.visitor(source(1)).unwrap_err().code, Code::Limit);
        assert!(account.visitor(source(2)).is_ok());
        (2..=200).for_each(|host| held.extend(all(host)));
        assert!(held.len() <= 2048);
        let own = seats(&account);
        assert_eq!(own.len(), 4096 - held.len());
        drop((held, own));
        assert_eq!((account.streams(), lock(&account.visitors).by_source.len()), (0, 0));
        // Of one place, one.
        account.set_limits(Limits { streams: 2, ..Limits::default() });
        assert_eq!(all(1).len(), 1);
    }

    #[test]
    fn few_descriptors_are_shared_between_keys() {
        let descriptors = Arc::new(Descriptors::new(900));
        let (greedy, honest) = (
            Arc::new(Account::with(Arc::clone(&descriptors))),
            Arc::new(Account::with(Arc::clone(&descriptors))),
        );
        let held = seats(&greedy);
        assert_eq!(held.len(), 450);
        assert_eq!(greedy.seat().unwrap_err().code, Code::Limit);
        assert!(seats(&honest).len() >= 200);
        assert_eq!(greedy.streams(), 450);
        drop(held);
        assert_eq!(descriptors.free(), 900);
    }
}
