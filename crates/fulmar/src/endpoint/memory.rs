//! What the connections of an endpoint hold together, and what happens when that is too much.
//!
//! Each has bounds of its own, but a thousand times what one may hold is more than a machine has. Beyond half
//! of what all may hold the windows of flow control grow no more: whoever is fast stays as fast as he is. At
//! all of it nobody new is let in, and of those who are there one ends that holds most. Who holds most may be
//! asleep: beyond an eighth more, whoever takes more ends. What counts is memory of the process: a connection
//! that holds nothing for anybody has its price too, and what a program keeps for each of its streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fulmar_proto::ServerConfig;

/// What a connection takes beside what it holds for others, as long as its handshake goes on and afterwards:
/// TLS, keys, its structures, its task, what the allocator adds. Measured as resident memory: 28 to 30 KiB
/// each of 14,078 and of 6,056 handshakes that stood still; 23.0 KiB each of 10,000 idle connections
/// (docs/internals/performance.md). The program's test `the_bound_is_the_process_s` fills a server with both.
pub(crate) const HANDSHAKE_BYTES: usize = 32 << 10;
pub(crate) const CONNECTION_BYTES: usize = 24 << 10;

/// Who holds no more than that is none of those who go: their number has its bound, since nobody new is let
/// in.
const LITTLE_BYTES: usize = 2 * CONNECTION_BYTES;

/// Handshakes may have so much of it together: a quarter.
const HANDSHAKES_SHARE: usize = 4;

/// Classes of holders, by the power of two of what they hold.
const CLASSES: usize = usize::BITS as usize + 1;

/// What connections hold, in bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes_max: usize,
    held: AtomicUsize,
    holders: [AtomicUsize; CLASSES],
}

/// How much there is left.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    /// Less than half: nobody is to want more than he has.
    Little,
    /// Nothing.
    None,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        let holders = std::array::from_fn(|_| AtomicUsize::new(0));
        Arc::new(Self { bytes_max, held: AtomicUsize::new(0), holders })
    }

    pub(crate) fn room(&self) -> Room {
        match self.held_bytes() {
            held if held > self.bytes_max => Room::None,
            held if held > self.bytes_max / 2 => Room::Little,
            _ => Room::Enough,
        }
    }

    /// A program takes `bytes` for a connection, if anything is left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let is_left = self.room() != Room::None;
        if is_left {
            self.held.fetch_add(bytes, Ordering::Relaxed);
        }
        is_left
    }

    /// And gives it back.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A server's settings, with no more handshakes than there is memory for.
    pub(crate) fn bounding(&self, mut server: ServerConfig) -> ServerConfig {
        let most = (self.bytes_max / HANDSHAKES_SHARE / HANDSHAKE_BYTES).max(16);
        server.handshakes_max = server.handshakes_max.min(most);
        server.handshakes_per_network_max = server.handshakes_per_network_max.min(most / 2);
        // Whoever may displace others has proved where he is.
        server.retry_above_handshakes = server.retry_above_handshakes.min(most / 4);
        server
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Nobody holds twice as much as this.
    fn is_among_the_largest(&self, bytes: usize) -> bool {
        self.holders[class(bytes) + 1..].iter().all(|holders| holders.load(Ordering::Relaxed) == 0)
    }
}

fn class(bytes: usize) -> usize {
    (usize::BITS - bytes.leading_zeros()) as usize
}

/// What one connection holds of it. Gives it back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: usize,
    /// What the program has taken for it, which is counted already.
    taken: usize,
    has_grown: bool,
    /// The connection has ended: what is left of it counts, and is none of the holders.
    is_over: bool,
}

impl Share {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        memory.holders[0].fetch_add(1, Ordering::Relaxed);
        Self { memory, bytes: 0, taken: 0, has_grown: false, is_over: false }
    }

    /// The connection has ended. What it still holds counts, but it is none of those who could go.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.memory.holders[class(self.bytes + self.taken)].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The connection holds so much now, beside what the program has taken for it.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.set_with(bytes, self.taken);
    }

    /// The same, and the program has taken so much for it.
    pub(crate) fn set_with(&mut self, bytes: usize, taken: usize) {
        // Wraps if it is less, and comes out right.
        self.memory.held.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        let before = self.bytes + self.taken;
        (self.bytes, self.taken) = (bytes, taken);
        let bytes = bytes + taken;
        self.has_grown = bytes > before;
        if !self.is_over && class(before) != class(bytes) {
            self.memory.holders[class(before)].fetch_sub(1, Ordering::Relaxed);
            self.memory.holders[class(bytes)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nothing is left, and this is one of those who hold most; or far too much is held, and this has taken
    /// more.
    pub(crate) fn has_to_go(&self) -> bool {
        let far_too_much = self.memory.bytes_max.saturating_add(self.memory.bytes_max / 8);
        let is_taking = self.has_grown && self.memory.held_bytes() > far_too_much;
        let bytes = self.bytes + self.taken;
        !self.is_over
            && self.memory.room() == Room::None
            && (is_taking || (bytes > LITTLE_BYTES && self.memory.is_among_the_largest(bytes)))
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_most_goes_when_nothing_is_left() {
        let memory = Memory::new(1_000_000);
        let mut shares: Vec<Share> = (0..3).map(|_| Share::new(memory.clone())).collect();
        shares[0].set(200_000);
        assert_eq!(memory.room(), Room::Enough);
        shares[1].set(400_000);
        assert_eq!(memory.room(), Room::Little);
        shares[2].set(100_000);
        assert!(!shares.iter().any(Share::has_to_go));
        shares[0].set(600_000);
        assert_eq!((memory.room(), memory.held_bytes()), (Room::None, 1_100_000));
        assert_eq!(shares.iter().map(Share::has_to_go).collect::<Vec<_>>(), [true, false, false]);
        drop(shares.remove(0));
        assert_eq!((memory.room(), memory.held_bytes()), (Room::Enough, 500_000));
        // Nobody holds much, but they are too many: any of them may have to go, and one is enough.
        let many: Vec<Share> = (0..60)
            .map(|_| {
                let mut share = Share::new(memory.clone());
                share.set(10_000);
                share
            })
            .collect();
        assert!(shares[0].has_to_go() && !shares[1].has_to_go() && !many[0].has_to_go());
        // The largest is asleep, others go on.
        let mut another = Share::new(memory.clone());
        another.set(20_000);
        assert!(!another.has_to_go());
        another.set(40_000);
        assert!(another.has_to_go());
        another.set(40_000);
        assert!(!another.has_to_go());
        // What is left of the largest, once it has ended, counts; but others have to go for it.
        another.set(1_000_000);
        another.end();
        another.set(1_100_000);
        assert!(!another.has_to_go() && shares[0].has_to_go());
        drop((shares, many, another));
        assert_eq!(memory.held_bytes(), 0);
        assert!(memory.holders.iter().all(|holders| holders.load(Ordering::Relaxed) == 0));
    }
}
