//! Packets that wait to be taken by their flows. Flows that share a room share its bytes: what waits is
//! bounded by memory, and one flow that is slow, or being opened, leaves room for the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

/// What a room takes unless it is said otherwise. One flow gets half of it: a second of 16 Mb/s, which is
/// what comes while a flow is opened at a round trip of a second.
pub const ROOM_BYTES: usize = 4 << 20;

/// What a packet takes besides its bytes: an empty one counts too.
const ENTRY_BYTES: usize = 64;

/// Bytes that several flows share.
#[derive(Debug)]
pub struct Room {
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl Room {
    /// A room of this size.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0) })
    }

    /// The two ends of a new flow's queue.
    pub fn queue(self: &Arc<Self>) -> (Feeder, Waiting) {
        let (send, packets) = mpsc::unbounded_channel();
        let bytes = Arc::<AtomicUsize>::default();
        let feeder = Feeder { room: Arc::clone(self), bytes: Arc::clone(&bytes), send };
        (feeder, Waiting { room: Arc::clone(self), bytes, packets })
    }
}

/// Where packets are put.
#[derive(Debug)]
pub struct Feeder {
    room: Arc<Room>,
    bytes: Arc<AtomicUsize>,
    send: mpsc::UnboundedSender<Bytes>,
}

impl Feeder {
    /// Has a packet wait; false if there is no room, or nobody takes packets any more. A flow may hold as
    /// much as is left free (Choudhury and Hahne 1998, alpha = 1), and one packet in any case.
    pub fn put(&self, packet: Bytes) -> bool {
        let own = self.bytes.load(Ordering::Relaxed);
        let cost = packet.len() + ENTRY_BYTES;
        let free = self.room.bytes_max.saturating_sub(self.room.bytes.load(Ordering::Relaxed));
        if own > 0 && own + cost > free {
            return false;
        }
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        self.room.bytes.fetch_add(cost, Ordering::Relaxed);
        let is_put = self.send.send(packet).is_ok();
        if !is_put {
            give_back(&self.room, &self.bytes, cost);
        }
        is_put
    }
}

/// Where packets are taken from.
#[derive(Debug)]
pub struct Waiting {
    room: Arc<Room>,
    bytes: Arc<AtomicUsize>,
    packets: mpsc::UnboundedReceiver<Bytes>,
}

impl Waiting {
    /// The next packet; `None` when no more will come. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Bytes> {
        let packet = self.packets.recv().await?;
        give_back(&self.room, &self.bytes, packet.len() + ENTRY_BYTES);
        Some(packet)
    }
}

#[cfg(test)]
impl Waiting {
    /// The next packet, if there is one now.
    pub(super) fn try_recv(&mut self) -> Option<Bytes> {
        let packet = self.packets.try_recv().ok()?;
        give_back(&self.room, &self.bytes, packet.len() + ENTRY_BYTES);
        Some(packet)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.packets.close();
        while let Ok(packet) = self.packets.try_recv() {
            give_back(&self.room, &self.bytes, packet.len() + ENTRY_BYTES);
        }
    }
}

fn give_back(room: &Room, own: &AtomicUsize, bytes: usize) {
    own.fetch_sub(bytes, Ordering::Relaxed);
    room.bytes.fetch_sub(bytes, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_flow_leaves_room_for_others_and_gives_all_back() {
        let room = Room::new(100 * (100 + ENTRY_BYTES));
        let packet = || Bytes::from_static(&[0; 100]);
        let (slow, slow_end) = room.queue();
        let count = (0..1000).filter(|_| slow.put(packet())).count();
        assert_eq!(count, 50, "half of the room");
        let (next, mut next_end) = room.queue();
        assert_eq!((0..1000).filter(|_| next.put(packet())).count(), 25);
        assert!(next_end.recv().await.is_some() && next.put(packet()) && !next.put(packet()));
        drop(slow_end);
        assert!(!slow.put(packet()), "nobody is there");
        drop((next, next_end));
        assert_eq!(room.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn what_was_put_before_the_end_is_taken() {
        let room = Room::new(10);
        let (feeder, mut waiting) = room.queue();
        assert!(feeder.put(Bytes::from_static(&[1; 1000])), "one packet in any case");
        assert!(!feeder.put(Bytes::new()));
        drop(feeder);
        assert_eq!((waiting.recv().await.unwrap().len(), waiting.recv().await), (1000, None));
    }
}
