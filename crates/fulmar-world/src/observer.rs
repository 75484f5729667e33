//! Somebody on the way who cannot hold a packet up for good, but copies it: the copy comes from an address of
//! his own, ahead of the packet.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_net::Datagram;
use fulmar_proto::{Instant, Transmit};

/// Copies packets of the client to the server.
#[derive(Debug)]
pub struct Observer {
    /// One of so many packets is copied.
    pub every: u32,
    /// So many packets at most are.
    pub copies_max: u32,
    /// From so many addresses, in turn.
    pub addresses: u16,
    /// What the server sends to these addresses is brought to the client.
    pub relays: bool,
    /// Datagrams that the server sent there.
    pub answers: u32,
    /// And their bytes.
    pub answer_bytes: u64,
    ahead: Duration,
    seen: u32,
    copied: u32,
    held: VecDeque<(Instant, Datagram)>,
}

impl Observer {
    /// One whose copies of each packet in `every` come sooner by `ahead` than all packets do.
    pub fn new(every: u32, ahead: Duration) -> Self {
        Self {
            every,
            copies_max: u32::MAX,
            addresses: 1,
            relays: false,
            answers: 0,
            answer_bytes: 0,
            ahead,
            seen: 0,
            copied: 0,
            held: VecDeque::new(),
        }
    }

    /// Where his packets come from: number `place` of them.
    pub fn address(place: u16) -> SocketAddr {
        SocketAddr::from(([10, 66, 66, 66], 10_000 + place))
    }

    /// A packet passes. Where its copy comes from, if there is one, at once; the packet comes later.
    pub(crate) fn on_packet(&mut self, now: Instant, packet: &Datagram) -> Option<SocketAddr> {
        self.held.push_back((now + self.ahead, packet.clone()));
        self.seen += 1;
        if self.every == 0 || !self.seen.is_multiple_of(self.every) || self.copied >= self.copies_max {
            return None;
        }
        self.copied += 1;
        Some(Self::address((self.copied % u32::from(self.addresses)) as u16))
    }

    /// The next packet that comes by itself.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Datagram> {
        self.timeout().filter(|at| *at <= now)?;
        self.held.pop_front().map(|(_, packet)| packet)
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.held.front().map(|(at, _)| *at)
    }

    /// The server sent this to one of his addresses. True if he brings it to the client.
    pub(crate) fn on_answer(&mut self, transmit: &Transmit) -> bool {
        let is_his = transmit.destination.ip() == Self::address(0).ip();
        self.answers += u32::from(is_his);
        self.answer_bytes += if is_his { transmit.bytes as u64 } else { 0 };
        is_his && self.relays
    }
}
