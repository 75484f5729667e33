//! Looking up names without letting those who do not get an answer hold up others.
//!
//! The system's resolver (getaddrinfo) is asked, because only it knows what the machine is told to do:
//! nsswitch.conf, /etc/hosts, mDNS, systemd-resolved. It blocks a thread until it gives up, which takes 30
//! seconds and more where name servers are silent, and cannot be told to stop. So the right to ask goes with
//! the thread, and comes back with its end, not when whoever asked has lost patience.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::descriptors::Descriptors;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::target::Place;

/// How long a name may take to be resolved.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(10);

/// Names looked up at the same time for one client.
const LOOKUPS_PER_CLIENT: usize = 16;

/// Names looked up at the same time in all: half of the threads that the runtime has for what blocks (512).
/// The others are for files.
const LOOKUPS_MAX: usize = 256;

/// Descriptors that a lookup may take: a file, and a socket for each of two families.
const DESCRIPTORS_PER_LOOKUP: u32 = 3;

/// Addresses of one name that are used.
const ADDRESSES_MAX: usize = 8;

/// Right now looked up, over all clients.
static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

/// What one client may look up at once.
#[derive(Debug, Clone)]
pub struct Lookups {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Default for Lookups {
    fn default() -> Self {
        Self { own: Arc::new(Semaphore::new(LOOKUPS_PER_CLIENT)), all: Arc::clone(&ALL) }
    }
}

impl Lookups {
    /// The addresses of a place. An address in words needs no lookup, and so waits for none.
    pub async fn addresses(&self, place: &Place) -> Result<Vec<SocketAddr>, OpenError> {
        if let Ok(address) = place.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, place.port)]);
        }
        let unknown = |why: String| OpenError::new(Code::NameUnknown, format!("{place}: {why}"));
        let Some(held) = Descriptors::of_process().try_take(DESCRIPTORS_PER_LOOKUP) else {
            return Err(OpenError::new(Code::Limit, "no descriptors are left to look up a name"));
        };
        let (host, port) = (place.host.clone(), place.port);
        let found = self.run(move || {
            let found =
                (host.as_str(), port).to_socket_addrs().map(|found| found.take(ADDRESSES_MAX).collect());
            drop(held);
            found
        });
        match tokio::time::timeout(RESOLVE_TIME_MAX, found).await {
            Ok(found) => found.map_err(|error| unknown(error.to_string())),
            Err(_) => Err(unknown("the name servers do not answer".into())),
        }
    }

    /// Runs `work`, which blocks, when it is this client's turn.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        // The own one first: who has too many waits in no queue that others are in.
        let own = Arc::clone(&self.own).acquire_owned().await;
        let all = Arc::clone(&self.all).acquire_owned().await;
        let working = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((own, all));
            result
        });
        working.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Work that does not end before it is told to.
    #[derive(Default)]
    struct Gate(Mutex<bool>, Condvar);

    impl Gate {
        fn wait(&self) {
            drop(self.1.wait_while(self.0.lock().unwrap(), |is_open| !*is_open).unwrap());
        }
        fn open(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_all();
        }
    }

    #[tokio::test]
    async fn lookups_that_hang_hold_their_clients_turns_and_nobody_elses() {
        let all = Arc::new(Semaphore::new(4));
        let client = || Lookups { own: Arc::new(Semaphore::new(2)), all: Arc::clone(&all) };
        let (greedy, honest) = (client(), client());
        let gate = Arc::new(Gate::default());
        // Twenty names without an answer, whose askers lose patience.
        for _ in 0..20 {
            let gate = Arc::clone(&gate);
            let asked = greedy.run(move || {
                gate.wait();
                Ok(())
            });
            let patience = Duration::from_millis(1);
            assert!(tokio::time::timeout(patience, asked).await.is_err());
        }
        // Their threads are there all the same, and count.
        assert_eq!((greedy.own.available_permits(), all.available_permits()), (0, 2));
        assert_eq!(honest.run(|| Ok(7)).await.unwrap(), 7);
        gate.open();
        assert_eq!(greedy.run(|| Ok(8)).await.unwrap(), 8);
        let _ = all.acquire_many(4).await.unwrap();
    }

    #[tokio::test]
    async fn an_address_waits_for_no_lookup() {
        let lookups = Lookups { own: Arc::new(Semaphore::new(0)), all: Arc::new(Semaphore::new(0)) };
        let found = lookups.addresses(&Place::new("192.0.2.1", 80)).await.unwrap();
        assert_eq!(found, ["192.0.2.1:80".parse().unwrap()]);
    }
}
