//! Which streams there are, were and may be (RFC 9000 2.1, 3, 4.6).
//!
//! Streams of a kind are opened in order. One on which nothing has happened yet is a number in a range: a
//! peer that opens ten thousand with one frame costs one range, in time and in memory.

use super::config::{STREAMS_MAX, StreamConfig};
use super::flow::RecvWindow;
use super::recv::RecvHalf;
use super::send::SendHalf;
use crate::{Dir, Side, StreamId, TransportError};
use std::collections::BTreeMap;

/// The two halves; `None` is a half the stream never had, or that has come to its end.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) send: Option<SendHalf>,
    pub(super) recv: Option<RecvHalf>,
}

/// The half that a frame is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Send,
    Recv,
}

/// Streams of one direction that this end opens.
#[derive(Debug, Default)]
struct Local {
    opened: u64,
    /// The peer's MAX_STREAMS.
    max: u64,
    /// An attempt to open one failed since the last time the peer allowed more.
    is_refused: bool,
}

/// Streams of one direction that the peer opens.
#[derive(Debug, Default)]
struct Remote {
    opened: u64,
    accepted: u64,
    closed: u64,
    /// MAX_STREAMS as announced.
    max: u64,
    concurrent_max: u64,
}

/// Streams that are open and on which nothing has happened yet.
#[derive(Debug, Default)]
struct Untouched {
    /// Ranges of their places by the first of each: whatever a peer picks out of ten thousand costs a
    /// look-up.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

/// Where a stream stands: streams of a kind are neighbours.
fn place(id: StreamId) -> u64 {
    id.0.rotate_right(2)
}

impl Untouched {
    /// The range that holds a place.
    fn range_of(&self, place: u64) -> Option<(u64, u64)> {
        let (&start, &end) = self.ranges.range(..=place).next_back()?;
        (place < end).then_some((start, end))
    }

    fn contains(&self, id: StreamId) -> bool {
        self.range_of(place(id)).is_some()
    }

    /// Streams are open from `first` to `last`.
    fn open(&mut self, first: StreamId, last: StreamId) {
        let (from, end) = (place(first), place(last) + 1);
        self.count += end - from;
        match self.ranges.range_mut(..from).next_back() {
            Some((_, before)) if *before == from => *before = end,
            _ => drop(self.ranges.insert(from, end)),
        }
    }

    /// Something happens on a stream. Whether it was untouched.
    fn touch(&mut self, id: StreamId) -> bool {
        let place = place(id);
        let Some((start, end)) = self.range_of(place) else { return false };
        self.ranges.remove(&start);
        let parts = [(start, place), (place + 1, end)];
        self.ranges.extend(parts.into_iter().filter(|(start, end)| start < end));
        self.count -= 1;
        true
    }
}

#[derive(Debug)]
pub(super) struct Table {
    side: Side,
    untouched: Untouched,
    live: BTreeMap<StreamId, Box<Stream>>,
    local: [Local; 2],
    remote: [Remote; 2],
    window: RecvWindow,
    /// The peer's initial MAX_STREAM_DATA.
    peer_stream_max: u64,
}

impl Table {
    pub(super) fn new(side: Side, config: &StreamConfig) -> Self {
        let limits = config.limits();
        let remote = |max| Remote { max, concurrent_max: max, ..Remote::default() };
        Self {
            side,
            untouched: Untouched::default(),
            live: BTreeMap::new(),
            local: [Local::default(), Local::default()],
            remote: [remote(limits.max_streams_bi), remote(limits.max_streams_uni)],
            window: RecvWindow::new(config.stream_window_bytes, config.stream_window_bytes_max),
            peer_stream_max: 0,
        }
    }

    /// The peer's initial MAX_STREAM_DATA. Streams that are open get it too: that happens once, in the
    /// handshake, when there can hardly be one. Returns them.
    pub(super) fn set_peer_stream_max(&mut self, max: u64) -> Vec<StreamId> {
        self.peer_stream_max = max;
        let halves = self.live.iter_mut().filter_map(|(&id, stream)| Some((id, stream.send.as_mut()?)));
        halves.map(|(id, send)| (send.on_max(max), id).1).collect()
    }

    /// The peer allows `max` streams. Whether someone waits for that.
    pub(super) fn raise_max(&mut self, dir: Dir, max: u64) -> bool {
        let local = &mut self.local[dir as usize];
        let is_more = max > local.max;
        local.max = local.max.max(max);
        is_more && std::mem::take(&mut local.is_refused)
    }

    pub(super) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let local = &mut self.local[dir as usize];
        if local.opened >= local.max.min(STREAMS_MAX) {
            local.is_refused = true;
            return None;
        }
        let id = StreamId::new(self.side, dir, local.opened);
        local.opened += 1;
        self.untouched.open(id, id);
        Some(id)
    }

    pub(super) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let remote = &mut self.remote[dir as usize];
        if remote.accepted == remote.opened {
            return None;
        }
        let id = StreamId::new(!self.side, dir, remote.accepted);
        remote.accepted += 1;
        Some(id)
    }

    /// Checks that there may be a frame for this `half` of a stream, and opens the stream if it is the peer's
    /// and new. Whether it was new.
    pub(super) fn touch(&mut self, id: StreamId, half: Half) -> Result<bool, TransportError> {
        let (dir, is_local) = (id.dir(), id.initiator() == self.side);
        if dir == Dir::Uni && is_local != (half == Half::Send) {
            return Err(TransportError::stream_state("a frame for a half that the stream does not have"));
        }
        if is_local {
            if id.index() >= self.local[dir as usize].opened {
                return Err(TransportError::stream_state("a frame for a stream that was not opened"));
            }
            return Ok(false);
        }
        let is_new = id.index() >= self.remote[dir as usize].opened;
        if is_new {
            self.open_remote(id)?;
        }
        Ok(is_new)
    }

    /// RFC 9000 2.1: opening a stream opens all of its kind with lower numbers.
    fn open_remote(&mut self, id: StreamId) -> Result<(), TransportError> {
        let remote = &mut self.remote[id.dir() as usize];
        if id.index() >= remote.max {
            return Err(TransportError::stream_limit("more streams than were allowed"));
        }
        self.untouched.open(StreamId::new(!self.side, id.dir(), remote.opened), id);
        remote.opened = id.index() + 1;
        Ok(())
    }

    /// The stream, if it is open.
    pub(super) fn stream(&mut self, id: StreamId) -> Option<&mut Stream> {
        if self.untouched.count > 0 && self.untouched.touch(id) {
            let is_local = id.initiator() == self.side;
            let (has_send, has_recv) = (id.dir() == Dir::Bi || is_local, id.dir() == Dir::Bi || !is_local);
            let stream = Box::new(Stream {
                send: has_send.then(|| SendHalf::new(self.peer_stream_max)),
                recv: has_recv.then(|| RecvHalf::new(self.window.clone())),
            });
            self.live.insert(id, stream);
        }
        self.live.get_mut(&id).map(|stream| &mut **stream)
    }

    /// Those that data have passed on, or an application has asked about.
    pub(super) fn touched(&self) -> Vec<StreamId> {
        self.live.keys().copied().collect()
    }

    /// How many those are.
    pub(super) fn touched_count(&self) -> usize {
        self.live.len()
    }

    /// The sending half, if it is open.
    pub(super) fn send(&mut self, id: StreamId) -> Option<&mut SendHalf> {
        self.stream(id)?.send.as_mut()
    }

    /// The receiving half, if it is open.
    pub(super) fn recv(&mut self, id: StreamId) -> Option<&mut RecvHalf> {
        self.stream(id)?.recv.as_mut()
    }

    /// Forgets the stream if both halves have ended. Whether it did.
    pub(super) fn forget_if_done(&mut self, id: StreamId) -> bool {
        let is_done = self.live.get(&id).is_some_and(|stream| stream.send.is_none() && stream.recv.is_none());
        if is_done {
            self.live.remove(&id);
            if id.initiator() != self.side {
                self.remote[id.dir() as usize].closed += 1;
            }
        }
        is_done
    }

    /// Whether the peer is to be allowed more streams: when an eighth of what it may have at once has closed,
    /// so that it always may have nearly all and a frame pays for several.
    pub(super) fn advance_max(&mut self, dir: Dir) -> bool {
        let remote = &mut self.remote[dir as usize];
        let max = (remote.closed + remote.concurrent_max).min(STREAMS_MAX);
        let is_due = max.saturating_sub(remote.max) >= (remote.concurrent_max / 8).max(1);
        if is_due {
            remote.max = max;
        }
        is_due
    }

    /// The peer may have so many at once from now on. What was announced holds.
    pub(super) fn set_concurrent_max(&mut self, dir: Dir, max: u64) {
        self.remote[dir as usize].concurrent_max = max;
    }

    /// MAX_STREAMS as announced to the peer.
    pub(super) fn remote_max(&self, dir: Dir) -> u64 {
        self.remote[dir as usize].max
    }

    pub(super) fn is_live(&self, id: StreamId) -> bool {
        self.live.contains_key(&id) || self.untouched.contains(id)
    }

    /// Empty trees keep a leaf.
    pub(super) fn release(&mut self) {
        if self.live.is_empty() {
            self.live = BTreeMap::new();
        }
        if self.untouched.ranges.is_empty() {
            self.untouched.ranges = BTreeMap::new();
        }
    }

    /// Streams that are open.
    pub(super) fn len(&self) -> usize {
        self.live.len() + self.untouched.count as usize
    }

    /// Streams opened so far by this end and by the peer.
    pub(super) fn opened(&self) -> (u64, u64) {
        (self.local.iter().map(|kind| kind.opened).sum(), self.remote.iter().map(|kind| kind.opened).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one frame makes of a peer's ten thousand streams is one range, not ten thousand entries; and each
    /// of them is there all the same.
    #[test]
    fn opening_the_last_stream_costs_no_more_than_opening_the_first() {
        let config = StreamConfig { streams_bi_max: 10_000, ..StreamConfig::default() };
        let mut table = Table::new(Side::Server, &config);
        let id = |index| StreamId::new(Side::Client, Dir::Bi, index);
        assert_eq!(table.touch(id(9_999), Half::Recv), Ok(true));
        assert_eq!((table.live.len(), table.untouched.ranges.len(), table.len()), (0, 1, 10_000));
        assert_eq!(table.touch(id(5_000), Half::Recv), Ok(false));
        assert!(table.recv(id(5_000)).is_some() && table.send(id(5_000)).is_some());
        assert_eq!((table.live.len(), table.untouched.ranges.len(), table.len()), (1, 2, 10_000));
        assert!(table.is_live(id(0)) && table.is_live(id(9_999)) && !table.is_live(id(10_000)));
        assert!(table.touch(id(10_000), Half::Recv).is_err());
        let accepted: Vec<_> = std::iter::from_fn(|| table.accept(Dir::Bi)).collect();
        assert_eq!(accepted, (0..10_000).map(id).collect::<Vec<_>>());
        let stream = table.stream(id(5_000)).expect("it is open");
        (stream.send, stream.recv) = (None, None);
        assert!(table.forget_if_done(id(5_000)) && !table.forget_if_done(id(4_999)));
        assert!(!table.is_live(id(5_000)) && table.stream(id(5_000)).is_none());
        assert_eq!(table.len(), 9_999);
    }
}
