//! What `scripts/instructions` counts: a bulk transfer in virtual time, each kind of work in a function of
//! its own name.
//!
//! `instructions PROFILE LOSS_PPM` prints the datagrams with data that were counted. Callgrind's inclusive
//! instructions of the functions called `phase_..` are what is measured, so they are never inlined. Handshake
//! and slow start go before, uncounted.

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_net::LinkConfig;
use fulmar_proto::stream::Read;
use fulmar_proto::{DatagramMeta, Dir, Instant, Profile, Rate, Route, StreamId, TransportConfig};
use fulmar_world::{Node, World};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// Of the wire, each way; what leaves faster waits, however much it is. With a rate the counted part is sixty
/// round trips and more of a sender that has found it, and not the first flights of one that looks for it.
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// One way.
const DELAY: Duration = Duration::from_millis(2);
/// Nobody wakes more often: timers of a program are a millisecond late on the average, and what arrives in
/// between comes as one batch.
const TICK_NANOS: u64 = 250_000;
/// Datagrams that one batch may hold: as over sockets.
const SEGMENTS_MAX: usize = 44;
/// Of each write and read: below what the C library's `memcpy` does with one instruction for each byte.
const WRITE_BYTES: usize = 2000;
/// Datagrams with data that go before, uncounted.
const UNCOUNTED: u64 = 10_000;
/// Datagrams with data that are counted.
const COUNTED: u64 = 10_000;
/// As many where some are lost: which ones changes the work. Of eight draws of 10,000 at 5 % reading took
/// 383 to 436 instructions each and receiving 7248 to 7511.
const COUNTED_WITH_LOSS: u64 = 160_000;

/// A batch under way: one buffer, as it goes to a socket and comes from one.
struct Batch {
    arrives: Instant,
    bytes: Vec<u8>,
    segment_bytes: usize,
}

/// Batches under way one way, and buffers of those that have arrived.
#[derive(Default)]
struct Wire {
    /// When what was sent so far has left.
    free_at: Option<Instant>,
    batches: VecDeque<Batch>,
    spare: Vec<Vec<u8>>,
}

impl Wire {
    fn push(&mut self, now: Instant, bytes: Vec<u8>, segment_bytes: usize) {
        let left = self.free_at.map_or(now, |at| at.max(now)) + RATE.time_for(bytes.len() as u64);
        self.free_at = Some(left);
        self.batches.push_back(Batch { arrives: left + DELAY, bytes, segment_bytes });
    }

    /// The next batch that has arrived.
    fn poll(&mut self, now: Instant) -> Option<Batch> {
        if self.batches.front().is_some_and(|batch| batch.arrives <= now) {
            self.batches.pop_front()
        } else {
            None
        }
    }
}

type Write = fn(&mut Node, StreamId, &[u8]);
type Send = fn(&mut Node, Instant, &mut Wire) -> u64;

struct Transfer {
    world: World,
    stream: StreamId,
    forward: Wire,
    backward: Wire,
    data: Vec<u8>,
    buffer: Vec<u8>,
    fates: Fates,
    sent: u64,
}

/// Draws which datagrams arrive.
struct Fates {
    generator: Pcg32,
    loss_ppm: u64,
}

impl Fates {
    fn arrives(&mut self) -> bool {
        self.loss_ppm == 0 || (u64::from(self.generator.next_u32()) * 1_000_000) >> 32 >= self.loss_ppm
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let profile = arguments.next().ok_or("which profile?")?;
    let loss_ppm = arguments.next().ok_or("how much loss?")?.parse()?;
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(&profile)?);
    let mut world = World::new(1, LinkConfig::new(RATE, DELAY), transport.clone(), transport);
    world.connected();
    let stream = world.client.only().open(Dir::Uni).ok_or("no stream")?;
    let mut transfer = Transfer {
        world,
        stream,
        forward: Wire::default(),
        backward: Wire::default(),
        data: vec![0x55; WRITE_BYTES],
        buffer: vec![0; WRITE_BYTES],
        fates: Fates { generator: Pcg32::seed_from_u64(1), loss_ppm },
        sent: 0,
    };
    transfer.run_until_sent::<false>(UNCOUNTED);
    let before = transfer.sent;
    let counted = if loss_ppm == 0 { COUNTED } else { COUNTED_WITH_LOSS };
    transfer.run_until_sent::<true>(before + counted);
    println!("{}", transfer.sent - before);
    Ok(())
}

impl Transfer {
    fn run_until_sent<const IS_COUNTED: bool>(&mut self, sent: u64) {
        while self.sent < sent {
            let arrivals =
                [&self.forward, &self.backward].map(|wire| wire.batches.front().map(|b| b.arrives));
            let ends = [self.world.client.only().poll_timeout(), self.world.server.only().poll_timeout()];
            let next = arrivals.into_iter().chain(ends).flatten().min();
            self.world.now = next.map_or(self.world.now, |next| tick_after(next.max(self.world.now)));
            self.turn::<IS_COUNTED>();
        }
    }

    /// All that happens now.
    fn turn<const IS_COUNTED: bool>(&mut self) {
        let Self { world, stream, forward, backward, data, buffer, fates, sent } = self;
        let now = world.now;
        let addresses = (world.client.addr, world.server.addr);
        while let Some(mut batch) = forward.poll(now) {
            if IS_COUNTED {
                phase_receive(&mut world.server, now, addresses.0, &mut batch, fates);
                phase_read(&mut world.server, now, *stream, buffer);
            } else {
                receive(&mut world.server, now, addresses.0, &mut batch, fates);
                read(&mut world.server, now, *stream, buffer);
            }
            forward.spare.push(batch.bytes);
        }
        let no_loss = &mut Fates { generator: Pcg32::seed_from_u64(1), loss_ppm: 0 };
        while let Some(mut batch) = backward.poll(now) {
            if IS_COUNTED {
                phase_take_ack(&mut world.client, now, addresses.1, &mut batch, no_loss);
            } else {
                receive(&mut world.client, now, addresses.1, &mut batch, no_loss);
            }
            backward.spare.push(batch.bytes);
        }
        let (write, send, acknowledge): (Write, Send, Send) =
            if IS_COUNTED { (phase_write, phase_send, phase_make_ack) } else { (write, send, send) };
        write(&mut world.client, *stream, data);
        *sent += send(&mut world.client, now, forward);
        acknowledge(&mut world.server, now, backward);
    }
}

fn tick_after(time: Instant) -> Instant {
    Instant::from_nanos(time.as_nanos().next_multiple_of(TICK_NANOS))
}

#[inline(never)]
fn phase_write(node: &mut Node, stream: StreamId, data: &[u8]) {
    write(node, stream, data);
}

#[inline(never)]
fn phase_send(node: &mut Node, now: Instant, wire: &mut Wire) -> u64 {
    send(node, now, wire)
}

#[inline(never)]
fn phase_receive(node: &mut Node, now: Instant, remote: SocketAddr, batch: &mut Batch, fates: &mut Fates) {
    receive(node, now, remote, batch, fates);
}

#[inline(never)]
fn phase_read(node: &mut Node, now: Instant, stream: StreamId, buffer: &mut [u8]) {
    read(node, now, stream, buffer);
}

#[inline(never)]
fn phase_make_ack(node: &mut Node, now: Instant, wire: &mut Wire) -> u64 {
    std::hint::black_box("make_ack"); // Or it would be merged with its twin.
    send(node, now, wire)
}

#[inline(never)]
fn phase_take_ack(node: &mut Node, now: Instant, remote: SocketAddr, batch: &mut Batch, fates: &mut Fates) {
    std::hint::black_box("take_ack"); // Or it would be merged with its twin.
    receive(node, now, remote, batch, fates);
}

fn write(node: &mut Node, stream: StreamId, data: &[u8]) {
    while node.only().write(stream, data).is_ok() {}
}

/// Puts the batches that may leave now on the wire. Returns how many datagrams they are.
fn send(node: &mut Node, now: Instant, wire: &mut Wire) -> u64 {
    let mut datagrams = 0;
    let connection = node.only();
    if connection.poll_timeout().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    loop {
        let mut bytes = wire.spare.pop().unwrap_or_else(|| Vec::with_capacity(1 << 16));
        bytes.clear();
        let Some(transmit) = connection.poll_transmit(now, SEGMENTS_MAX, &mut bytes) else {
            wire.spare.push(bytes);
            return datagrams;
        };
        let segment_bytes = transmit.segment_bytes.unwrap_or(bytes.len()).max(1);
        datagrams += bytes.len().div_ceil(segment_bytes) as u64;
        wire.push(now, bytes, segment_bytes);
    }
}

fn receive(node: &mut Node, now: Instant, remote: SocketAddr, batch: &mut Batch, fates: &mut Fates) {
    let meta = DatagramMeta { remote, local_ip: None, ecn: None };
    let mut response = Vec::new();
    for datagram in batch.bytes.chunks_mut(batch.segment_bytes) {
        if fates.arrives()
            && let Route::Connection(handle) = node.endpoint.route(now, &meta, datagram, &mut response)
            && let Some(connection) = node.connections.get_mut(&handle)
        {
            connection.handle_datagram(now, &meta, datagram);
        }
    }
    let connection = node.only();
    while connection.poll_event().is_some() {}
}

fn read(node: &mut Node, now: Instant, stream: StreamId, buffer: &mut [u8]) {
    while let Ok(Read::Data(_)) = node.only().read(now, stream, buffer) {}
}
