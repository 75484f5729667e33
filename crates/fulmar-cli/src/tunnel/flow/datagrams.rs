//! Datagrams of one connection, told apart by the number of their flow (docs/internals/tunnel-protocol.md,
//! section 6). They are repaired ahead of loss, unless the connection favours throughput.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use fulmar::{Connection, DatagramClass, DatagramOptions, Favor, Profile, SendDatagramError};
use tokio::task::AbortHandle;

use super::drops::{Cause, Drops};
use super::waiting::{Feeder, ROOM_BYTES, Room, Waiting};

/// The number of its flow before each packet.
const HEADER_BYTES: usize = 4;

/// Numbers from here on are not for UDP flows.
const FLOWS_END: u32 = 1 << 31;

/// The datagrams of one connection.
#[derive(Debug)]
pub struct Datagrams {
    /// Without one, every packet goes by its stream.
    connection: Option<Connection>,
    flows: Mutex<HashMap<u32, Feeder>>,
    /// What arrives waits here for its flow.
    room: Arc<Room>,
    /// Even at the client, odd at the gateway.
    next: AtomicU32,
    drops: Arc<Drops>,
    /// Packets are repaired: the connection does not favour throughput.
    is_repaired: bool,
    /// Milliseconds after which a packet is worth nothing, and one more; 0: it is always worth something.
    deadline_ms: AtomicU32,
    /// The task that reads. It must not outlive this: it holds the connection, which would never end.
    reading: OnceLock<AbortHandle>,
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.reading.get().map(AbortHandle::abort);
    }
}

/// Which end of a connection numbers a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Even numbers.
    Client,
    /// Odd numbers.
    Gateway,
}

impl Datagrams {
    /// Reads the datagrams of a connection from now on, until it ends.
    pub fn of(connection: &Connection, end: End, drops: &Arc<Drops>) -> Arc<Self> {
        let datagrams = Arc::new(Self::with(Some(connection.clone()), end, Arc::clone(drops)));
        let (connection, shared) = (connection.clone(), Arc::downgrade(&datagrams));
        let reading = tokio::spawn(async move {
            while let Ok(datagram) = connection.read_datagram().await {
                let Some(datagrams) = shared.upgrade() else { return };
                datagrams.deliver(datagram);
            }
        });
        // Set once, here.
        let _ = datagrams.reading.set(reading.abort_handle());
        datagrams
    }

    /// For connections without datagrams.
    pub fn none(end: End) -> Arc<Self> {
        Arc::new(Self::with(None, end, Arc::default()))
    }

    fn with(connection: Option<Connection>, end: End, drops: Arc<Drops>) -> Self {
        let next = AtomicU32::new(if end == End::Client { 0 } else { 1 });
        let favors_throughput = |connection: &Connection| {
            let profile = Profile::parse(&connection.stats().profile);
            profile.is_ok_and(|profile| profile.favor == Favor::Throughput)
        };
        let is_repaired = connection.as_ref().is_some_and(|connection| !favors_throughput(connection));
        let (flows, deadline_ms, reading) = Default::default();
        let room = Room::new(ROOM_BYTES);
        Self { connection, flows, room, next, drops, is_repaired, deadline_ms, reading }
    }

    /// From now on packets are worth nothing so long after they were sent; `None`: they always are.
    pub fn set_deadline(&self, deadline: Option<Duration>) {
        let ms = |deadline: Duration| {
            u32::try_from(deadline.as_millis()).map_or(u32::MAX, |ms| ms.saturating_add(1))
        };
        self.deadline_ms.store(deadline.map_or(0, ms), Ordering::Relaxed);
    }

    /// How packets are sent.
    fn options(&self) -> DatagramOptions {
        let options = DatagramOptions::new(DatagramClass::Repaired);
        match self.deadline_ms.load(Ordering::Relaxed).checked_sub(1) {
            Some(ms) => options.deadline(Duration::from_millis(ms.into())),
            None => options,
        }
    }

    /// A new flow of this end.
    pub fn open(self: &Arc<Self>) -> Inbox {
        loop {
            let flow = self.next.fetch_add(2, Ordering::Relaxed) % FLOWS_END;
            if let Some(inbox) = self.register(flow) {
                return inbox;
            }
        }
    }

    /// The flow that the peer has numbered so; `None` if there is one already, or the number is not the
    /// peer's to give.
    pub fn accept(self: &Arc<Self>, flow: u32) -> Option<Inbox> {
        let is_peers = flow % 2 != self.next.load(Ordering::Relaxed) % 2 && flow < FLOWS_END;
        if is_peers { self.register(flow) } else { None }
    }

    /// What arrives for the tunnel of packets; `None` if there is one already.
    pub fn tun(self: &Arc<Self>) -> Option<Inbox> {
        self.register(FLOWS_END)
    }

    fn register(self: &Arc<Self>, flow: u32) -> Option<Inbox> {
        let (feeder, packets) = self.room.queue();
        let mut flows = self.lock();
        if flows.contains_key(&flow) {
            return None;
        }
        flows.insert(flow, feeder);
        Some(Inbox { datagrams: Arc::clone(self), flow, packets })
    }

    /// Sends a packet; false if one of this length does not go by datagrams. One that is repaired is cut if
    /// need be, where the other end knows that.
    fn send(&self, flow: u32, packet: &[u8], is_repaired: bool) -> bool {
        let Some(connection) = &self.connection else { return false };
        let mut datagram = BytesMut::with_capacity(HEADER_BYTES + packet.len());
        datagram.put_u32(flow);
        datagram.extend_from_slice(packet);
        let datagram = datagram.freeze();
        let sent = if is_repaired {
            connection.try_send_datagram_with(datagram, self.options())
        } else {
            connection.try_send_datagram(datagram)
        };
        match sent {
            Ok(()) => true,
            Err(SendDatagramError::Full) => {
                self.drops.count(Cause::SendQueueFull);
                true
            }
            Err(SendDatagramError::ConnectionLost(_)) => true,
            Err(_) => false,
        }
    }

    /// Hands a datagram to its flow. One that belongs to none, or to one that does not read, is dropped.
    fn deliver(&self, mut datagram: Bytes) {
        if datagram.len() < HEADER_BYTES {
            return self.drops.count(Cause::NoFlow);
        }
        let header = datagram.split_to(HEADER_BYTES);
        let flow = u32::from_be_bytes(header[..].try_into().expect("four bytes"));
        match self.lock().get(&flow).map(|inbox| inbox.put(datagram)) {
            Some(true) => {}
            Some(false) => self.drops.count(Cause::InboxFull),
            None => self.drops.count(Cause::NoFlow),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Feeder>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What arrives for one flow by datagrams. The flow is forgotten when this is dropped.
#[derive(Debug)]
pub struct Inbox {
    datagrams: Arc<Datagrams>,
    flow: u32,
    packets: Waiting,
}

impl Inbox {
    /// From now on packets of its connection are worth nothing so long after they were sent.
    pub fn set_deadline(&self, deadline: Option<Duration>) {
        self.datagrams.set_deadline(deadline);
    }

    /// The number of the flow.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Sends packets of this flow while others wait for them.
    pub fn sender(&self) -> Sender {
        Sender { datagrams: Arc::clone(&self.datagrams), flow: self.flow }
    }

    /// The next packet.
    pub async fn recv(&mut self) -> Option<Bytes> {
        self.packets.recv().await
    }

    /// Sends a packet of this flow; false if one of this length does not go by datagrams.
    pub fn send(&self, packet: &[u8]) -> bool {
        self.datagrams.send(self.flow, packet, self.datagrams.is_repaired)
    }
}

/// Sends packets of one flow by datagrams.
#[derive(Debug, Clone)]
pub struct Sender {
    datagrams: Arc<Datagrams>,
    flow: u32,
}

impl Sender {
    /// Sends a packet of this flow, repaired or once; false if one of this length does not go by datagrams.
    pub fn send(&self, packet: &[u8], is_repaired: bool) -> bool {
        self.datagrams.send(self.flow, packet, is_repaired)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.datagrams.lock().remove(&self.flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(flow: u32, packet: &[u8]) -> Bytes {
        [&flow.to_be_bytes()[..], packet].concat().into()
    }

    #[tokio::test]
    async fn datagrams_find_their_flow_and_others_are_dropped() {
        let client = Datagrams::none(End::Client);
        let (mut a, mut b) = (client.open(), client.open());
        assert_eq!((a.flow(), b.flow()), (0, 2));
        client.deliver(datagram(2, b"for b"));
        client.deliver(datagram(0, b""));
        client.deliver(datagram(7, b"for nobody"));
        client.deliver(Bytes::from_static(b"abc"));
        assert_eq!((b.recv().await.unwrap(), a.recv().await.unwrap()), ("for b".into(), Bytes::new()));
        assert_eq!(client.drops.of(Cause::NoFlow), 2);
        drop(b);
        client.deliver(datagram(2, b"too late"));
        assert_eq!(client.drops.of(Cause::NoFlow), 3);
    }

    #[test]
    fn numbers_of_the_peer_are_the_peers() {
        let gateway = Datagrams::none(End::Gateway);
        let held = gateway.accept(4).unwrap();
        assert!(gateway.accept(4).is_none() && gateway.accept(5).is_none());
        assert!(gateway.accept(FLOWS_END).is_none());
        drop(held);
        assert!(gateway.accept(4).is_some());
    }

    #[test]
    fn one_who_does_not_read_fills_an_inbox_and_no_more() {
        let client = Datagrams::none(End::Client);
        let mut inbox = client.open();
        // A second of 10 Mb/s waits, and not for ever.
        let packets = 10_000_000 / 8 / 1200;
        (0..packets).for_each(|_| client.deliver(datagram(0, &[0; 1200])));
        assert_eq!(client.drops.of(Cause::InboxFull), 0);
        (0..10 * packets).for_each(|_| client.deliver(datagram(0, &[0; 1200])));
        assert!(client.drops.of(Cause::InboxFull) > 0);
        let held = ROOM_BYTES / 2 / 1200;
        assert!((packets..=held).contains(&std::iter::from_fn(|| inbox.packets.try_recv()).count()));
    }
}
