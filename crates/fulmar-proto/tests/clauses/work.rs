//! What the tests have in common: links in numbers, and a transfer whose bytes are checked.

use std::time::Duration;

use fulmar_net::{Direction, LinkConfig, Loss, Probability};
use fulmar_proto::stream::{Read, ReadError};
use fulmar_proto::{Dir, Instant, Profile, Rate, StreamId, TransportConfig};

use crate::common::World;

pub fn link(mbps: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_second(mbps * 1_000_000), Duration::from_millis(delay_ms))
}

pub fn lossy(mbps: u64, delay_ms: u64, percent: u32) -> LinkConfig {
    link(mbps, delay_ms).with_loss(Loss::bernoulli(Probability::from_percent(percent)))
}

/// The profiles whose clauses are tested to the millisecond: the default and the yardsticks.
pub const PROFILES: [&str; 3] = ["auto", "newreno", "cubic"];

pub fn profile(name: &str) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(name).expect("a profile of this name"));
    transport
}

/// A world with a connection over `link` in both directions.
pub fn connected(seed: u64, link: LinkConfig) -> World {
    let mut world = World::new(seed, link, TransportConfig::default(), TransportConfig::default());
    world.connected();
    world
}

pub fn set_link(world: &mut World, direction: Direction, link: LinkConfig) {
    let now = world.now;
    world.path.link_mut(direction).reconfigure(now, link);
}

pub fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 16) as u8
}

/// A transfer from client to server on a stream of its own.
pub struct Upload {
    pub id: StreamId,
    bytes: u64,
    written: u64,
    pub read: u64,
    pub done_at: Option<Instant>,
}

impl Upload {
    pub fn new(world: &mut World, bytes: u64) -> Self {
        let id = world.client.only().open(Dir::Uni).expect("a stream is allowed");
        Self { id, bytes, written: 0, read: 0, done_at: None }
    }

    /// Writes and reads what can be. True when the end has been read.
    pub fn step(&mut self, world: &mut World) -> bool {
        self.write(world);
        self.read(world);
        self.done_at.is_some()
    }

    pub fn write(&mut self, world: &mut World) {
        if world.client.connections.is_empty() || self.written == self.bytes {
            return;
        }
        let client = world.client.only();
        while self.written < self.bytes {
            let len = (self.bytes - self.written).min(16 << 10);
            let data: Vec<u8> = (self.written..self.written + len).map(byte).collect();
            match client.write(self.id, &data) {
                Ok(taken) => self.written += taken as u64,
                Err(_) => return,
            }
        }
        client.finish(self.id).expect("not finished before");
    }

    pub fn read(&mut self, world: &mut World) {
        let now = world.now;
        if world.server.connections.is_empty() {
            return;
        }
        let server = world.server.only();
        while server.accept(Dir::Uni).is_some() {}
        let mut out = vec![0; 64 << 10];
        loop {
            match server.read(now, self.id, &mut out) {
                Ok(Read::Data(len)) => {
                    for &got in &out[..len] {
                        assert_eq!(got, byte(self.read), "wrong byte at {}", self.read);
                        self.read += 1;
                    }
                }
                Ok(Read::End) => {
                    assert_eq!(self.read, self.bytes);
                    self.done_at = Some(now);
                }
                Err(ReadError::Blocked | ReadError::Closed) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A transfer from server to client, of bytes that are not looked at.
pub struct Download {
    id: Option<StreamId>,
    bytes: u64,
    written: u64,
    pub read: u64,
}

impl Download {
    pub fn new(bytes: u64) -> Self {
        Self { id: None, bytes, written: 0, read: 0 }
    }

    /// Writes and reads what can be. True when all has been read.
    pub fn step(&mut self, world: &mut World) -> bool {
        if self.id.is_none() && !world.server.connections.is_empty() {
            self.id = world.server.only().open(Dir::Uni);
        }
        let Some(id) = self.id else { return false };
        let chunk = [9; 16 << 10];
        while self.written < self.bytes {
            let len = (self.bytes - self.written).min(chunk.len() as u64) as usize;
            let Ok(taken) = world.server.only().write(id, &chunk[..len]) else { break };
            self.written += taken as u64;
        }
        let now = world.now;
        let client = world.client.only();
        while client.accept(Dir::Uni).is_some() {}
        let mut out = vec![0; 64 << 10];
        while let Ok(Read::Data(len)) = client.read(now, id, &mut out) {
            self.read += len as u64;
        }
        self.read == self.bytes
    }
}

/// Sends `bytes` from client to server and returns how long it took.
pub fn upload(world: &mut World, bytes: u64) -> Duration {
    upload_within(world, bytes, Duration::from_secs(120))
}

pub fn upload_within(world: &mut World, bytes: u64, limit: Duration) -> Duration {
    let begin = world.now;
    let mut upload = Upload::new(world, bytes);
    let is_done = world.run_until(limit, |world| upload.step(world));
    assert!(is_done, "{} of {bytes} bytes after {limit:?}: {}", upload.read, world.describe());
    world.now - begin
}
