//! What `scripts/instructions` counts: a bulk transfer in virtual time, each kind of work in a function of its own name.
//!
//! `instructions PROFILE LOSS_PPM` prints the datagrams with data that were counted. Callgrind's inclusive instructions of the functions
//! called `phase_..` are what is measured, so they are never inlined. Handshake and slow start go before, uncounted.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

use fulmar_net::LinkConfig;
use fulmar_proto::stream::Read;
use fulmar_proto::{DatagramMeta, Dir, Instant, Profile, Rate, Route, StreamId, TransportConfig};
use fulmar_world::{Node, World};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// One way.
const DELAY: Duration = Duration::from_millis(2);
/// Datagrams that one batch may hold: as over sockets.
const SEGMENTS_MAX: usize = 44;
/// Datagrams with data that are counted, after as many that are not.
const COUNTED: u64 = 10_000;

/// A batch under way.
struct Batch {
    arrives: Instant,
    datagrams: Vec<Vec<u8>>,
}

type Write = fn(&mut Node, StreamId, &[u8]);
type Send = fn(&mut Node, Instant) -> Vec<Vec<Vec<u8>>>;

struct Transfer {
    world: World,
    stream: StreamId,
    forward: VecDeque<Batch>,
    backward: VecDeque<Batch>,
    data: Vec<u8>,
    buffer: Vec<u8>,
    fates: Pcg32,
    loss_ppm: u64,
    sent: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let profile = arguments.next().ok_or("which profile?")?;
    let loss_ppm = arguments.next().ok_or("how much loss?")?.parse()?;
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(&profile)?);
    let mut world = World::new(
        1,
        LinkConfig::new(Rate::from_bits_per_second(1_000_000_000), DELAY),
        transport.clone(),
        transport,
    );
    world.connected();
    let stream = world.client.only().open(Dir::Uni).ok_or("no stream")?;
    let mut transfer = Transfer {
        world,
        stream,
        forward: VecDeque::new(),
        backward: VecDeque::new(),
        data: vec![0x55; 1 << 16],
        buffer: vec![0; 1 << 16],
        fates: Pcg32::seed_from_u64(1),
        loss_ppm,
        sent: 0,
    };
    transfer.run_until_sent::<false>(COUNTED);
    let before = transfer.sent;
    transfer.run_until_sent::<true>(2 * COUNTED);
    println!("{}", transfer.sent - before);
    Ok(())
}

impl Transfer {
    fn run_until_sent<const IS_COUNTED: bool>(&mut self, sent: u64) {
        while self.sent < sent {
            let arrivals =
                [self.forward.front(), self.backward.front()].map(|batch| batch.map(|b| b.arrives));
            let ends = [self.world.client.only().poll_timeout(), self.world.server.only().poll_timeout()];
            let next = arrivals.into_iter().chain(ends).flatten().min();
            self.world.now = next.map_or(self.world.now, |next| next.max(self.world.now));
            self.turn::<IS_COUNTED>();
        }
    }

    /// All that happens now.
    fn turn<const IS_COUNTED: bool>(&mut self) {
        let now = self.world.now;
        while self.forward.front().is_some_and(|batch| batch.arrives <= now) {
            let batch = self.forward.pop_front().map(|batch| batch.datagrams).unwrap_or_default();
            if IS_COUNTED {
                phase_receive(&mut self.world.server, now, self.world.client.addr, batch);
                phase_read(&mut self.world.server, now, self.stream, &mut self.buffer);
            } else {
                receive(&mut self.world.server, now, self.world.client.addr, batch);
                read(&mut self.world.server, now, self.stream, &mut self.buffer);
            }
        }
        while self.backward.front().is_some_and(|batch| batch.arrives <= now) {
            let batch = self.backward.pop_front().map(|batch| batch.datagrams).unwrap_or_default();
            if IS_COUNTED {
                phase_take_ack(&mut self.world.client, now, self.world.server.addr, batch);
            } else {
                receive(&mut self.world.client, now, self.world.server.addr, batch);
            }
        }
        let (write, send, acknowledge): (Write, Send, Send) =
            if IS_COUNTED { (phase_write, phase_send, phase_make_ack) } else { (write, send, send) };
        write(&mut self.world.client, self.stream, &self.data);
        for mut datagrams in send(&mut self.world.client, now) {
            self.sent += datagrams.len() as u64;
            datagrams.retain(|_| (u64::from(self.fates.next_u32()) * 1_000_000) >> 32 >= self.loss_ppm);
            self.forward.push_back(Batch { arrives: now + DELAY, datagrams });
        }
        for datagrams in acknowledge(&mut self.world.server, now) {
            self.backward.push_back(Batch { arrives: now + DELAY, datagrams });
        }
    }
}

#[inline(never)]
fn phase_write(node: &mut Node, stream: StreamId, data: &[u8]) {
    write(node, stream, data);
}

#[inline(never)]
fn phase_send(node: &mut Node, now: Instant) -> Vec<Vec<Vec<u8>>> {
    send(node, now)
}

#[inline(never)]
fn phase_receive(node: &mut Node, now: Instant, remote: std::net::SocketAddr, batch: Vec<Vec<u8>>) {
    receive(node, now, remote, batch);
}

#[inline(never)]
fn phase_read(node: &mut Node, now: Instant, stream: StreamId, buffer: &mut [u8]) {
    read(node, now, stream, buffer);
}

#[inline(never)]
fn phase_make_ack(node: &mut Node, now: Instant) -> Vec<Vec<Vec<u8>>> {
    std::hint::black_box("make_ack"); // Or it would be merged with its twin.
    send(node, now)
}

#[inline(never)]
fn phase_take_ack(node: &mut Node, now: Instant, remote: std::net::SocketAddr, batch: Vec<Vec<u8>>) {
    std::hint::black_box("take_ack"); // Or it would be merged with its twin.
    receive(node, now, remote, batch);
}

fn write(node: &mut Node, stream: StreamId, data: &[u8]) {
    while node.only().write(stream, data).is_ok() {}
}

/// The batches that may leave now, cut into datagrams as the system does.
fn send(node: &mut Node, now: Instant) -> Vec<Vec<Vec<u8>>> {
    let mut batches = Vec::new();
    let connection = node.only();
    if connection.poll_timeout().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    let mut buf = Vec::new();
    while let Some(transmit) = connection.poll_transmit(now, SEGMENTS_MAX, &mut buf) {
        let segment_bytes = transmit.segment_bytes.unwrap_or(buf.len()).max(1);
        batches.push(buf.chunks(segment_bytes).map(<[u8]>::to_vec).collect());
        buf.clear();
    }
    batches
}

fn receive(node: &mut Node, now: Instant, remote: std::net::SocketAddr, batch: Vec<Vec<u8>>) {
    let meta = DatagramMeta { remote, local_ip: None, ecn: None };
    for mut datagram in batch {
        if let Route::Connection(handle) = node.endpoint.route(now, &meta, &datagram, &mut Vec::new())
            && let Some(connection) = node.connections.get_mut(&handle)
        {
            connection.handle_datagram(now, &meta, &mut datagram);
        }
    }
    let connection = node.only();
    while connection.poll_event().is_some() {}
}

fn read(node: &mut Node, now: Instant, stream: StreamId, buffer: &mut [u8]) {
    while let Ok(Read::Data(_)) = node.only().read(now, stream, buffer) {}
}
