//! What an application favours is what it gets: notebook/auto/silence.md.

use std::time::Duration;

use fulmar_proto::stream::Read;
use fulmar_proto::{Dir, Favor, Instant, Profile, StreamId, TransportConfig};

use crate::common::World;
use crate::work::lossy;

const MESSAGE: [u8; 1000] = [7; 1000];
const MESSAGES: usize = 1000;
const EVERY: Duration = Duration::from_millis(5);

/// Messages at an even pace, on a stream of their own, and when each was read to its end.
struct Messages {
    id: StreamId,
    begin: Instant,
    read: usize,
    written: usize,
    delays: Vec<Duration>,
}

impl Messages {
    fn new(world: &mut World, favor: Option<Favor>) -> Self {
        let client = world.client.only();
        let id = client.open(Dir::Uni).expect("a stream is allowed");
        if let Some(favor) = favor {
            client.set_favor(id, favor).expect("just opened");
        }
        Self { id, begin: world.now, read: 0, written: 0, delays: Vec::new() }
    }

    fn due_at(&self, message: usize) -> Instant {
        self.begin + EVERY * message as u32
    }

    /// True when all have been read.
    fn step(&mut self, world: &mut World) -> bool {
        while self.written < MESSAGES && self.due_at(self.written) <= world.now {
            let taken = world.client.only().write(self.id, &MESSAGE).expect("there is room");
            assert_eq!(taken, MESSAGE.len());
            self.written += 1;
        }
        world.alarm = (self.written < MESSAGES).then(|| self.due_at(self.written));
        let mut out = [0; 4096];
        let now = world.now;
        let server = world.server.only();
        while server.accept(Dir::Uni).is_some() {}
        while let Ok(Read::Data(len)) = server.read(now, self.id, &mut out) {
            self.read += len;
        }
        while (self.delays.len() + 1) * MESSAGE.len() <= self.read {
            self.delays.push(now - self.due_at(self.delays.len()));
        }
        self.delays.len() == MESSAGES
    }

    /// The delay that one in fifty exceeds.
    fn slow(mut self) -> Duration {
        self.delays.sort_unstable();
        self.delays[MESSAGES * 98 / 100]
    }
}

/// Data without end on `bulk`, never so much that messages find no room.
fn keep_busy(world: &mut World, bulk: StreamId) {
    let client = world.client.only();
    while client.stats().streams.queued_bytes < 200_000 && client.write(bulk, &[0; 16_384]).is_ok() {}
    let (now, mut out) = (world.now, [0; 65_536]);
    while let Ok(Read::Data(_)) = world.server.only().read(now, bulk, &mut out) {}
}

fn favoring(favor: Favor) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.profile(Profile::auto().favoring(favor).expect("the default profile has the setting"));
    transport
}

#[test]
fn messages_are_repaired_the_sooner_the_more_latency_is_favoured() {
    let mut results = Vec::new();
    for favor in Favor::ALL {
        let mut world = World::new(3, lossy(10, 25, 10), favoring(favor), TransportConfig::default());
        world.connected();
        let mut messages = Messages::new(&mut world, None);
        assert!(world.run_until(Duration::from_secs(60), |world| messages.step(world)), "{favor}");
        let repairs = world.client.only().stats().coding_sent.repairs_sent();
        results.push((messages.slow(), repairs));
    }
    let [throughput, balanced, latency] = results[..] else { panic!("three of them") };
    assert!(throughput.0 > balanced.0 && balanced.0 >= latency.0, "{results:?}");
    assert!(throughput.1 < balanced.1 && balanced.1 < latency.1, "{results:?}");
}

/// Bulk data get no repair ahead of loss, so a message amid them waits for a round trip when it is lost; not
/// if its stream favours latency.
#[test]
fn a_stream_that_favours_latency_is_not_held_up_by_loss_amid_bulk_data() {
    let slow = |favor: Option<Favor>, seed| {
        let mut world =
            World::new(seed, lossy(20, 40, 5), TransportConfig::default(), TransportConfig::default());
        world.connected();
        let bulk = world.client.only().open(Dir::Uni).expect("a stream is allowed");
        let mut messages = Messages::new(&mut world, favor);
        world.client.only().set_priority(messages.id, 1).expect("open");
        assert!(world.run_until(Duration::from_secs(60), |world| {
            keep_busy(world, bulk);
            messages.step(world)
        }));
        messages.slow()
    };
    let [balanced, latency] = [None, Some(Favor::Latency)]
        .map(|favor| (1..=20).map(|seed| slow(favor, seed)).sum::<Duration>() / 20);
    assert!(latency + Duration::from_millis(20) < balanced, "{latency:?} against {balanced:?}");
}
