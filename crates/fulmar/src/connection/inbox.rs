//! Where datagrams wait for a connection whose handshake is under way.
//!
//! A handshake costs a thousand times as much as a packet, and asks the application whom to trust. So the
//! endpoint's receiving task leaves it to the connection's own: many handshakes spread over the cores, and
//! none holds up anybody's packets. Afterwards datagrams are decrypted where they were received, which is
//! faster.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use fulmar_proto::DatagramMeta;

/// Bytes that wait at most; what comes beyond is lost, as it might be on the way. A handshake is a few
/// datagrams.
const BYTES_MAX: usize = 16 << 10;

/// A datagram that waits.
pub(crate) type Held = (DatagramMeta, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The handshake is over and nothing waits: datagrams go straight to the connection.
    is_bypassed: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    held: VecDeque<Held>,
    bytes: usize,
    driver: Option<Waker>,
}

impl Inbox {
    /// Whether datagrams go straight to the connection.
    pub(crate) fn is_bypassed(&self) -> bool {
        self.is_bypassed.load(Ordering::Acquire)
    }

    /// Keeps a copy for the connection's task; false if it is to be handled at once after all.
    pub(crate) fn hold(&self, meta: DatagramMeta, datagram: &[u8]) -> bool {
        let mut waiting = self.waiting();
        if self.is_bypassed() {
            return false;
        }
        if waiting.bytes + datagram.len() <= BYTES_MAX {
            waiting.bytes += datagram.len();
            waiting.held.push_back((meta, datagram.to_vec()));
        }
        true
    }

    /// Who is to be woken after something was held.
    pub(crate) fn take_driver(&self) -> Option<Waker> {
        self.waiting().driver.take()
    }

    /// Everything that waits; the task is woken when more comes.
    pub(crate) fn take(&self, cx: &Context<'_>) -> VecDeque<Held> {
        if self.is_bypassed() {
            return VecDeque::new();
        }
        let mut waiting = self.waiting();
        waiting.driver = Some(cx.waker().clone());
        waiting.bytes = 0;
        std::mem::take(&mut waiting.held)
    }

    /// The handshake is over: what comes from now on goes past here, unless something has come meanwhile.
    pub(crate) fn bypass(&self) {
        let waiting = self.waiting();
        if waiting.held.is_empty() {
            self.is_bypassed.store(true, Ordering::Release);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_nothing_is_overtaken() {
        let meta = DatagramMeta { remote: "127.0.0.1:1".parse().unwrap(), local_ip: None, ecn: None };
        let cx = Context::from_waker(Waker::noop());
        let inbox = Inbox::default();
        for index in 0..100_u8 {
            assert!(inbox.hold(meta, &[index; 1200]));
        }
        inbox.bypass();
        assert!(!inbox.is_bypassed(), "something waits");
        let held = inbox.take(&cx);
        assert_eq!(held.len(), BYTES_MAX / 1200);
        assert!(held.iter().enumerate().all(|(index, (_, datagram))| usize::from(datagram[0]) == index));
        inbox.bypass();
        assert!(inbox.is_bypassed() && !inbox.hold(meta, &[0]));
    }
}
