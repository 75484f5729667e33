//! What one client uses at this moment, over all its connections, and what it may.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fulmar::crypto::PublicKey;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::{Code, OpenError};
use super::grants::Limits;
use super::holders::Holders;
use super::traffic::Traffic;

/// Names resolved and targets dialled at the same time for one client: each lookup holds a thread.
const DIALS_MAX: usize = 64;

/// Account of one key.
#[derive(Debug)]
pub struct Account {
    /// What is carried, and how fast it may be.
    pub traffic: Arc<Traffic>,
    limits: Mutex<Limits>,
    streams: AtomicUsize,
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

/// A stream that counts until this is dropped.
#[derive(Debug)]
pub struct Seat(Arc<Account>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Account {
    fn default() -> Self {
        Self {
            traffic: Arc::default(),
            limits: Mutex::default(),
            streams: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            dials: Semaphore::new(DIALS_MAX),
            holders: Holders::default(),
            held: Mutex::default(),
        }
    }
}

impl Account {
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
        Ok(Seat(Arc::clone(self)))
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
}
