//! What an honest end may be made to do by one datagram, and to hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_fec::WORK_MAX;
use fulmar_proto::Connection;
use fulmar_systems::codes::NAMES;

/// Bytes that a peer can make a connection hold beyond flow control, at these settings.
pub(super) const RECEIVE_MEMORY_BYTES: usize = 16 << 20;
/// And besides, for packets sent whose fate it does not tell.
const SENT_MEMORY_BYTES: usize = 8 << 20;
/// RFC 9000 8.1.
const AMPLIFICATION_MAX: u64 = 3;
/// The full record of a connection is looked at after so many datagrams.
const LOOK_EVERY: u64 = 16;

/// Tells how long this thread has worked.
pub type Clock = fn() -> Duration;

/// What cost most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Time for one datagram, by the code that the hostile end named, and the seed: to be told, never to be
    /// judged by.
    pub time_by_code: BTreeMap<&'static str, (Duration, u64)>,
    /// Work of a decoder for one datagram, in the units of `fulmar_fec::WORK_MAX`.
    pub work: u64,
    /// Packets and symbols whose fate one datagram told ([`Connection::settled`]).
    pub settled: u64,
    /// Bytes that a connection held.
    pub memory_bytes: usize,
    /// Datagrams that honest ends received.
    pub datagrams: u64,
}

impl Worst {
    /// The worse of both.
    pub fn merge(&mut self, other: &Self) {
        for (code, time) in &other.time_by_code {
            let worst = self.time_by_code.entry(code).or_default();
            *worst = (*worst).max(*time);
        }
        self.work = self.work.max(other.work);
        self.settled = self.settled.max(other.settled);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.datagrams += other.datagrams;
    }
}

/// The books of the honest ends.
#[derive(Debug)]
pub(super) struct Budget {
    seed: u64,
    clock: Clock,
    window_bytes: u64,
    pub(super) worst: Worst,
    /// Bytes from and to addresses at which nobody lives.
    strangers: BTreeMap<SocketAddr, (u64, u64)>,
}

impl Budget {
    pub(super) fn new(seed: u64, clock: Clock, window_bytes: u64) -> Self {
        Self { seed, clock, window_bytes, worst: Worst::default(), strangers: BTreeMap::new() }
    }

    /// A connection of an honest end does something because of a datagram of somebody who named `code`.
    pub(super) fn watch<T>(
        &mut self,
        code: u8,
        connection: &mut Connection,
        act: impl FnOnce(&mut Connection) -> T,
    ) -> T {
        let (work, settled, began) = (connection.decoder_work(), connection.settled(), (self.clock)());
        let result = act(connection);
        let took = (self.clock)() - began;
        let worst = self.worst.time_by_code.entry(NAMES[usize::from(code)]).or_default();
        *worst = (*worst).max((took, self.seed));
        // Agreeing on a code makes a decoder anew.
        let work = connection.decoder_work().saturating_sub(work);
        assert!(work <= WORK_MAX, "{work} units of work for one datagram, code {code}");
        self.worst.work = self.worst.work.max(work);
        let settled = connection.settled() - settled;
        assert!(settled <= Connection::SETTLED_AT_ONCE_MAX, "{settled} packets and symbols settled at once");
        self.worst.settled = self.worst.settled.max(settled);
        let held = connection.receive_memory_bytes();
        let is_right = held <= RECEIVE_MEMORY_BYTES + SENT_MEMORY_BYTES;
        assert!(is_right, "{held} bytes held, code {code}: {:?}", connection.stats());
        self.worst.memory_bytes = self.worst.memory_bytes.max(held);
        self.worst.datagrams += 1;
        if self.worst.datagrams.is_multiple_of(LOOK_EVERY) {
            let unread = connection.stats().streams.unread_bytes;
            assert!(
                unread <= self.window_bytes,
                "{unread} bytes are not read, more than flow control allows"
            );
        }
        result
    }

    /// Something comes from an address at which nobody lives.
    pub(super) fn on_received(&mut self, from: SocketAddr, bytes: usize) {
        self.strangers.entry(from).or_default().0 += bytes as u64;
    }

    /// Something is sent there.
    pub(super) fn on_sent(&mut self, to: SocketAddr, bytes: usize) {
        let (received, sent) = self.strangers.entry(to).or_default();
        *sent += bytes as u64;
        assert!(*sent <= *received * AMPLIFICATION_MAX, "{sent} bytes to {to}, from where {received} came");
    }
}
