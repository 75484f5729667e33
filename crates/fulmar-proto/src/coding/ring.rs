//! The sender's ring of source symbols.

use std::collections::VecDeque;

use bytes::Bytes;
use fulmar_fec::{SymbolId, Symbols};

use super::sets::SetNumber;
use super::source::Source;
use super::stored::Stored;
use crate::Instant;
use crate::wire::frame;

/// What the sender knows of one symbol.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SymbolState {
    /// So many packets that carry it are under way, and none was lost before.
    InFlight(u16),
    /// Every packet that carried it was lost, and so many copies are under way.
    Copied(u16, CopyCover),
    /// Every packet that carried it was lost: since then it is missing.
    Missing(Instant),
    /// The same of its copies, and a timeout is yet to tell of that: nobody knows that it is missing.
    Unheard,
    /// Lost, but a combination in flight or arrived will restore it (see `sets`).
    Covered,
    /// The sender's count of equations says that the receiver has decoded it. Kept until the receiver says
    /// so.
    Inferred,
    /// The receiver has it.
    Delivered,
}

/// What is to restore a symbol if the copies of it that are under way are lost too.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyCover {
    /// Nothing, or the set that it is in.
    Settled,
    /// The next combination over copied symbols, which is yet to be sent.
    Awaited,
    /// Another copy: it is too old for the receiver to combine.
    OutOfReach,
}

impl SymbolState {
    /// Packets that carry it and are under way, if it is waited for them.
    pub(super) fn in_flight(self) -> Option<u16> {
        match self {
            Self::InFlight(packets) | Self::Copied(packets, _) => Some(packets),
            _ => None,
        }
    }

    /// No packet under way carries it, and nothing else is known to restore it.
    pub(super) fn is_missing(self) -> bool {
        matches!(self, Self::Missing(_) | Self::Unheard)
    }

    /// The same with another number of packets under way.
    fn with_packets(self, packets: u16) -> Self {
        match self {
            Self::Copied(_, cover) => Self::Copied(packets, cover),
            _ => Self::InFlight(packets),
        }
    }

    /// Whether the receiver has it, as far as the sender can tell.
    pub(super) fn is_delivered(self) -> bool {
        matches!(self, Self::Inferred | Self::Delivered)
    }
}

/// One symbol in the ring.
#[derive(Debug)]
pub(super) struct Held {
    /// Its bytes; empty once they can no longer be needed.
    bytes: Stored,
    /// Of its bytes, those that may still be in memory though they are no longer needed.
    pinned_bytes: u32,
    state: SymbolState,
    /// When it was taken in, to leave at once.
    pub(super) sent_at: Instant,
    /// How often all packets that carried it were lost.
    pub(super) losses: u8,
    /// Repair had to be asked for it.
    pub(super) is_unrepairable: bool,
    /// The set of symbols that one combination covers, if it is in one.
    pub(super) set: Option<SetNumber>,
}

impl Held {
    /// What is known of it.
    pub(super) fn state(&self) -> SymbolState {
        self.state
    }

    /// All packets that carried it were lost, once at least.
    pub(super) fn was_lost(&self) -> bool {
        self.losses > 0
    }

    /// What it is once another packet with it has left. `cover`: of the first copy after a loss.
    pub(super) fn sent_again(&self, cover: CopyCover) -> SymbolState {
        match self.state.in_flight() {
            Some(packets) => self.state.with_packets(packets.saturating_add(1)),
            None if self.was_lost() => SymbolState::Copied(1, cover),
            None => SymbolState::InFlight(1),
        }
    }
}

/// Symbols from the oldest one not delivered to the newest, with the bytes of all that may still be asked
/// for.
#[derive(Debug, Default)]
pub(super) struct Ring {
    symbols: VecDeque<Held>,
    base: u64,
    /// Buffers to use again.
    pool: Vec<Vec<u8>>,
    spare_bytes: u64,
    /// Symbols whose bytes are held.
    in_use: usize,
    demand: Demand,
    /// What is kept for speed is to go once nothing is held.
    is_idle: bool,
    held_bytes: u64,
    /// Of symbols that the receiver has, bytes in chunks that symbols before them may share.
    pinned_bytes: u64,
    /// Chunks that no symbol needs any more, until the source takes them back.
    spent: Vec<Bytes>,
}

/// How many symbols were held at once lately. A window that is acknowledged at once is sent anew at once.
#[derive(Debug, Default)]
struct Demand {
    /// The most, less one for each [`FORGOTTEN_PER`] symbols since.
    max: usize,
    pushed: u32,
}

impl Demand {
    /// A symbol more, of `held` now.
    fn on_pushed(&mut self, held: usize) {
        self.pushed += 1;
        if self.pushed == FORGOTTEN_PER {
            self.pushed = 0;
            self.max = self.max.saturating_sub(1);
        }
        self.max = self.max.max(held);
    }
}

/// Symbols after which a buffer less is kept for reuse.
const FORGOTTEN_PER: u32 = 256;
/// Buffers kept for reuse, in use or not, beyond as many as were in use at once.
const POOL_MIN: usize = 64;
/// Chunks that wait for the source to take them back; more are let go.
const SPENT_MAX: usize = 32;
/// Buffers given back in one pass.
const RELEASED_AT_ONCE: usize = 1024;

impl Ring {
    /// Id of the next symbol.
    pub(super) fn next_id(&self) -> SymbolId {
        SymbolId(self.base + self.symbols.len() as u64)
    }

    /// The oldest symbol held.
    pub(super) fn base(&self) -> SymbolId {
        SymbolId(self.base)
    }

    /// Bytes of symbols held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Bytes of delivered symbols whose memory symbols before them may keep: chunks are let go of as a whole.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Bytes of buffers that hold nothing now.
    pub(super) fn spare_bytes(&self) -> u64 {
        self.spare_bytes
    }

    /// An empty buffer.
    fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.pool.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity() as u64;
        buffer
    }

    /// Gives back a buffer.
    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.pool.len() + self.in_use < POOL_MIN + self.demand.max {
            buffer.clear();
            self.spare_bytes += buffer.capacity() as u64;
            self.pool.push(buffer);
        }
    }

    /// Takes in the next symbol, of at most `bytes_max`; `None` if `source` has nothing to send.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        bytes_max: usize,
        source: &mut dyn Source,
    ) -> Option<SymbolId> {
        let mut symbol = self.buffer();
        self.spent.drain(..).for_each(|chunk| source.give_back(chunk));
        let data = source.fill(&mut symbol, bytes_max);
        if symbol.is_empty() {
            self.recycle(symbol);
            return None;
        }
        let (bytes, left_over) = Stored::new(symbol, data);
        left_over.into_iter().for_each(|buffer| self.recycle(buffer));
        Some(self.push(now, bytes))
    }

    /// Appends symbol `id` to a packet, as a SOURCE frame.
    pub(super) fn put_source(&self, id: SymbolId, packet: &mut Vec<u8>) -> Option<()> {
        let bytes = self.bytes(id)?;
        frame::put_source_header(packet, id);
        bytes.parts().into_iter().for_each(|part| packet.extend_from_slice(part));
        Some(())
    }

    /// Length of a symbol whose bytes are held.
    pub(super) fn symbol_bytes(&self, id: SymbolId) -> Option<usize> {
        self.bytes(id).map(Stored::len)
    }

    fn bytes(&self, id: SymbolId) -> Option<&Stored> {
        self.held(id).map(|held| &held.bytes).filter(|bytes| !bytes.is_empty())
    }

    /// Brings the bytes of a symbol together, for [`Symbols::get`]. How many they are, if they are held.
    pub(super) fn join(&mut self, id: SymbolId) -> Option<usize> {
        let bytes = self.bytes(id)?;
        let len = bytes.len();
        if bytes.whole().is_some() {
            return Some(len);
        }
        let mut whole = self.buffer();
        let held = self.held_mut(id)?;
        held.bytes.parts().into_iter().for_each(|part| whole.extend_from_slice(part));
        if let Stored::Linked { data, .. } = std::mem::replace(&mut held.bytes, Stored::Whole(whole)) {
            self.give_back(data);
        }
        Some(len)
    }

    /// A symbol needs `data` no more.
    fn give_back(&mut self, data: Bytes) {
        if self.spent.len() < SPENT_MAX && data.is_unique() {
            self.spent.push(data);
        }
    }

    /// Adds the next symbol, which is about to leave.
    fn push(&mut self, now: Instant, bytes: Stored) -> SymbolId {
        let id = self.next_id();
        self.held_bytes += bytes.len() as u64;
        self.symbols.push_back(Held {
            bytes,
            pinned_bytes: 0,
            state: SymbolState::InFlight(0),
            sent_at: now,
            losses: 0,
            is_unrepairable: false,
            set: None,
        });
        self.in_use += 1;
        self.demand.on_pushed(self.in_use);
        self.is_idle = false;
        id
    }

    pub(super) fn held(&self, id: SymbolId) -> Option<&Held> {
        self.symbols.get(usize::try_from(id.0.checked_sub(self.base)?).ok()?)
    }

    /// Symbol `id` is in another state. Returns that in which it was.
    pub(super) fn set_state(&mut self, id: SymbolId, state: SymbolState) -> Option<SymbolState> {
        self.held_mut(id).map(|held| std::mem::replace(&mut held.state, state))
    }

    /// A packet that carried `id` brings it no more. True if that was the last under way: the state that
    /// follows is the caller's to set.
    pub(super) fn lose_packet(&mut self, id: SymbolId) -> bool {
        let Some(held) = self.held_mut(id) else { return false };
        let Some(packets) = held.state.in_flight() else { return false };
        if packets > 1 {
            held.state = held.state.with_packets(packets - 1);
        }
        packets <= 1
    }

    pub(super) fn held_mut(&mut self, id: SymbolId) -> Option<&mut Held> {
        self.symbols.get_mut(usize::try_from(id.0.checked_sub(self.base)?).ok()?)
    }

    /// Lets go of the bytes of one symbol.
    pub(super) fn release_bytes(&mut self, id: SymbolId) {
        let Some(held) = self.held_mut(id) else { return };
        let bytes = std::mem::take(&mut held.bytes);
        if let Stored::Linked { data, .. } = &bytes {
            held.pinned_bytes = data.len() as u32;
            self.pinned_bytes += data.len() as u64;
        }
        self.held_bytes -= bytes.len() as u64;
        self.in_use -= usize::from(!bytes.is_empty());
        match bytes {
            Stored::Whole(bytes) => self.recycle(bytes),
            Stored::Linked { data, .. } => self.give_back(data),
        }
    }

    /// Drops delivered symbols at the front.
    pub(super) fn pop_delivered(&mut self) {
        while self.symbols.front().is_some_and(|held| held.state == SymbolState::Delivered) {
            self.release_bytes(SymbolId(self.base));
            let pinned_bytes = self.symbols.pop_front().map_or(0, |held| held.pinned_bytes);
            self.pinned_bytes -= u64::from(pinned_bytes);
            self.base += 1;
        }
    }

    /// Nothing was sent for a while: what is kept for speed may go, with what [`Self::release_buffers`] does.
    pub(super) fn on_idle(&mut self) {
        self.is_idle = true;
    }

    /// Nothing is left, and there is memory for which there is no more use.
    pub(super) fn has_idle_buffers(&self) -> bool {
        self.is_idle && self.symbols.is_empty() && self.symbols.capacity() > 0
    }

    /// Gives some of it back: to give back all that was under way takes long.
    pub(super) fn release_buffers(&mut self) {
        if !self.has_idle_buffers() {
            return;
        }
        let released = self.pool.drain(self.pool.len().saturating_sub(RELEASED_AT_ONCE)..);
        self.spare_bytes -= released.map(|buffer| buffer.capacity() as u64).sum::<u64>();
        if self.pool.is_empty() {
            (self.pool, self.symbols, self.demand) = (Vec::new(), VecDeque::new(), Demand::default());
            self.spent = Vec::new();
        }
    }
}

/// Those whose bytes are together.
impl Symbols for Ring {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        self.bytes(id).and_then(Stored::whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::tests::Made;

    const WINDOW: u64 = 3000;

    fn send_a_window(ring: &mut Ring) {
        let mut source = Made(|symbol: &mut Vec<u8>, _| symbol.resize(100, 1));
        for _ in 0..WINDOW {
            ring.take_in(Instant::ZERO, 100, &mut source).expect("new data");
        }
    }

    fn deliver_all(ring: &mut Ring) {
        while ring.base() < ring.next_id() {
            ring.set_state(ring.base(), SymbolState::Delivered).expect("it is held");
            ring.pop_delivered();
        }
    }

    #[test]
    fn buffers_of_a_whole_window_are_used_again_and_go_when_nothing_is_sent() {
        let mut ring = Ring::default();
        send_a_window(&mut ring);
        deliver_all(&mut ring);
        assert!(ring.pool.len() as u64 > WINDOW * 9 / 10, "{}", ring.pool.len());
        assert!(ring.spare_bytes() >= 100 * ring.pool.len() as u64);
        send_a_window(&mut ring);
        assert!((ring.pool.len() as u64) < WINDOW / 10, "{}", ring.pool.len());
        // As long as anything is held nothing goes.
        ring.on_idle();
        assert!(!ring.has_idle_buffers());
        deliver_all(&mut ring);
        let mut parts = 0;
        while ring.has_idle_buffers() {
            ring.release_buffers();
            parts += 1;
        }
        assert_eq!((parts, ring.spare_bytes(), ring.symbols.capacity(), ring.pool.capacity()), (3, 0, 0, 0));
    }

    /// A chunk of ten symbols, each with a byte before its data.
    struct Chunk {
        left: Bytes,
        is_back: bool,
    }

    impl Source for Chunk {
        fn has_pending(&self) -> bool {
            true
        }

        fn fill(&mut self, symbol: &mut Vec<u8>, _bytes_max: usize) -> Bytes {
            symbol.push(1);
            self.left.split_to(100.min(self.left.len()))
        }

        fn give_back(&mut self, data: Bytes) {
            self.is_back = data.is_unique();
        }
    }

    #[test]
    fn data_stay_in_their_chunk_which_counts_until_nothing_before_it_is_held() {
        let (mut ring, mut source) = (Ring::default(), Chunk { left: vec![2; 1000].into(), is_back: false });
        for _ in 0..10 {
            ring.take_in(Instant::ZERO, 101, &mut source).expect("new data");
        }
        assert_eq!((ring.held_bytes(), ring.pinned_bytes()), (1010, 0));
        let mut packet = Vec::new();
        ring.put_source(SymbolId(3), &mut packet).expect("it is held");
        assert!(packet.ends_with(&[2; 100]) && packet[packet.len() - 101] == 1);
        assert_eq!(ring.get(SymbolId(3)), None);
        ring.join(SymbolId(3));
        assert_eq!(ring.get(SymbolId(3)), Some(&packet[packet.len() - 101..]));
        // All but the first arrive. The one that was joined is of no chunk any more.
        for id in (1..10).map(SymbolId) {
            ring.set_state(id, SymbolState::Delivered).expect("it is held");
            ring.release_bytes(id);
        }
        assert_eq!((ring.held_bytes(), ring.pinned_bytes()), (101, 800));
        ring.take_in(Instant::ZERO, 101, &mut source).expect("a byte");
        assert!(!source.is_back, "the first symbol still needs it");
        deliver_all(&mut ring);
        assert_eq!((ring.held_bytes(), ring.pinned_bytes()), (0, 0));
        ring.take_in(Instant::ZERO, 101, &mut source).expect("a byte");
        assert!(source.is_back);
    }
}
