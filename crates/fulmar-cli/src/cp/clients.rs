//! What one client may take of a server at once, so that others find something left: requests, files open for
//! them, threads at work for them. Clients are told apart by their keys, whatever their number of
//! connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::descriptors::{Descriptors, Held};

/// Requests of one connection at once; others wait unread. `fulmar cp --streams` goes as far.
pub const REQUESTS_PER_CONNECTION: usize = 256;

/// Requests of one client at once, over all its connections.
const REQUESTS_PER_CLIENT_MAX: usize = 1024;

/// Threads at work for one client at once, of the runtime's 512.
const THREADS_PER_CLIENT: usize = 32;

/// Descriptors that a request may hold: a folder, the part, the file that is there.
const DESCRIPTORS_PER_REQUEST: u32 = 4;

/// Everybody who is connected.
#[derive(Debug)]
pub struct Clients {
    descriptors: Arc<Descriptors>,
    requests_per_client: usize,
    by_key: Mutex<HashMap<String, Weak<Client>>>,
}

/// One of them.
#[derive(Debug)]
pub struct Client {
    requests: Arc<Semaphore>,
    descriptors: Arc<Descriptors>,
    /// Threads at work for it; for [`super::work::SHARE`].
    pub work: Arc<Semaphore>,
}

/// The right to one request. It ends with the value.
#[derive(Debug)]
pub struct Admission(#[expect(dead_code, reason = "held, not read")] (OwnedSemaphorePermit, Held));

impl Clients {
    /// As many requests as this process may have files open.
    pub fn new() -> Self {
        Self::with(Descriptors::of_process())
    }

    fn with(descriptors: Arc<Descriptors>) -> Self {
        let requests = descriptors.free() / DESCRIPTORS_PER_REQUEST as usize;
        Self {
            descriptors,
            requests_per_client: (requests / 2).clamp(1, REQUESTS_PER_CLIENT_MAX),
            by_key: Mutex::default(),
        }
    }

    /// The client with this key, however often it is connected.
    pub fn client(&self, key: &str) -> Arc<Client> {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_key.get(key).and_then(Weak::upgrade) {
            return known;
        }
        by_key.retain(|_, client| client.strong_count() > 0);
        let client = Arc::new(Client {
            requests: Arc::new(Semaphore::new(self.requests_per_client)),
            descriptors: Arc::clone(&self.descriptors),
            work: Arc::new(Semaphore::new(THREADS_PER_CLIENT)),
        });
        by_key.insert(key.to_owned(), Arc::downgrade(&client));
        client
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Waits until there is room for one more request.
    pub async fn admit(&self) -> Option<Admission> {
        let own = Arc::clone(&self.requests).acquire_owned().await.ok()?;
        let descriptors = self.descriptors.take(DESCRIPTORS_PER_REQUEST).await?;
        Some(Admission((own, descriptors)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The admission, if there is no wait.
    fn admitted(client: &Client) -> Option<Admission> {
        use std::task::{Context, Poll, Waker};
        let mut admitting = std::pin::pin!(client.admit());
        match admitting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(admission) => admission,
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_client_leaves_room_for_others_however_often_it_connects() {
        let clients = Clients::with(Arc::new(Descriptors::new(10_000)));
        let (greedy, again) = (clients.client("greedy"), clients.client("greedy"));
        let mut held: Vec<_> = std::iter::from_fn(|| admitted(&greedy)).collect();
        assert_eq!(held.len(), REQUESTS_PER_CLIENT_MAX);
        assert!(admitted(&again).is_none());
        let guest = admitted(&clients.client("honest"));
        assert!(guest.is_some());
        held.truncate(1);
        assert!(admitted(&again).is_some());
        drop((held, greedy, again));
        clients.client("another");
        assert!(!clients.by_key.lock().unwrap().contains_key("greedy"), "who has left is forgotten");
    }

    #[test]
    fn few_descriptors_are_shared_as_well() {
        for count in [16, 32, 64, 1024, u64::MAX] {
            let clients = Clients::with(Arc::new(Descriptors::new(count)));
            let greedy = clients.client("greedy");
            let held: Vec<_> = std::iter::from_fn(|| admitted(&greedy)).collect();
            assert!(!held.is_empty());
            assert!(admitted(&clients.client("honest")).is_some(), "{count}");
        }
    }
}
