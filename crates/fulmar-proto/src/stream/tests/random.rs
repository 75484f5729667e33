//! Seeded random runs of both ends over a queue that delivers symbols in any order.
//!
//! Every byte of a stream is a function of stream and offset, so a reader can check what it gets without a
//! copy. Safety while everything happens at random; then liveness: writers finish, readers read, and all must
//! end.

use super::*;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

fn byte_at(id: StreamId, offset: u64) -> u8 {
    (id.0.wrapping_mul(31) ^ offset.wrapping_mul(0x9e37_79b9) >> 7 ^ offset) as u8
}

/// What a test knows of one sending half and of the half that reads it.
#[derive(Debug, Default)]
struct Flow {
    written: u64,
    is_finished: bool,
    reset: Option<u64>,
    read: u64,
    stop: Option<u64>,
    /// The reader saw the end or a reset, or stopped.
    is_read: bool,
}

struct Run {
    rng: Pcg64Mcg,
    pair: Pair,
    /// Symbols under way to the client and to the server.
    wire: [Vec<Vec<u8>>; 2],
    now: Instant,
    /// By stream and the side that sends.
    flows: BTreeMap<(StreamId, bool), Flow>,
    configs: [StreamConfig; 2],
    seen: Seen,
}

/// What happened at all, so that the test cannot become one in which nothing does.
#[derive(Debug, Default)]
struct Seen {
    bytes: u64,
    ends: u64,
    resets: u64,
    stopped_writers: u64,
    blocked_writers: u64,
    blocked_readers: u64,
    fragments_max: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let configs = [random_config(&mut rng), random_config(&mut rng)];
        let pair = Pair::new(&configs[0], &configs[1]);
        Self {
            rng,
            pair,
            wire: Default::default(),
            now: Instant::ZERO,
            flows: BTreeMap::new(),
            configs,
            seen: Seen::default(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn side(&mut self) -> Side {
        if self.chance(2) { Side::Client } else { Side::Server }
    }

    fn open(&mut self, side: Side) {
        let dir = if self.chance(2) { Dir::Bi } else { Dir::Uni };
        if let Some(id) = self.pair.end(side).open(dir) {
            self.flows.insert((id, side.is_client()), Flow::default());
            if dir == Dir::Bi {
                self.flows.insert((id, !side.is_client()), Flow::default());
            }
        }
    }

    /// A flow at random that `wanted` accepts.
    fn pick(&mut self, wanted: impl Fn(&Flow) -> bool) -> Option<(StreamId, bool)> {
        let keys: Vec<_> = self.flows.iter().filter(|(_, flow)| wanted(flow)).map(|(&key, _)| key).collect();
        if keys.is_empty() { None } else { Some(keys[self.below(keys.len() as u64) as usize]) }
    }

    /// Whether the end that did not open the stream knows of it.
    fn is_known(&mut self, id: StreamId, side: Side) -> bool {
        id.initiator() == side || self.pair.end(side).table.is_live(id)
    }

    fn write(&mut self) {
        let Some(key @ (id, by_client)) = self.pick(|flow| !flow.is_finished && flow.reset.is_none()) else {
            return;
        };
        let side = if by_client { Side::Client } else { Side::Server };
        if !self.is_known(id, side) {
            return;
        }
        let len = if self.chance(4) { 1 + self.below(9) } else { self.below(20_000) };
        let from = self.flows[&key].written;
        let data: Vec<u8> = (from..from + len).map(|offset| byte_at(id, offset)).collect();
        let result = self.pair.end(side).write(id, &data);
        let flow = self.flows.get_mut(&key).unwrap();
        match result {
            Ok(len) => flow.written += len as u64,
            Err(WriteError::Blocked) => self.seen.blocked_writers += 1,
            Err(WriteError::Stopped(code)) => {
                assert_eq!(flow.stop, Some(code));
                self.seen.stopped_writers += 1;
            }
            Err(WriteError::Closed) => panic!("{id} closed for writing"),
        }
    }

    fn finish(&mut self, key: (StreamId, bool)) {
        let (id, by_client) = key;
        let side = if by_client { Side::Client } else { Side::Server };
        if !self.is_known(id, side) {
            return;
        }
        let result = self.pair.end(side).finish(id);
        let flow = self.flows.get_mut(&key).unwrap();
        match result {
            Ok(()) => flow.is_finished = true,
            Err(FinishError::Stopped(code)) => {
                assert_eq!(flow.stop, Some(code));
                flow.reset = Some(code);
            }
            Err(FinishError::Closed) => panic!("{id} closed for finishing"),
        }
    }

    fn reset(&mut self) {
        let Some((id, by_client)) = self.pick(|flow| flow.reset.is_none()) else { return };
        let side = if by_client { Side::Client } else { Side::Server };
        let code = self.below(1000);
        if self.is_known(id, side) && self.pair.end(side).reset(id, code).is_ok() {
            self.flows.get_mut(&(id, by_client)).unwrap().reset = Some(code);
        }
    }

    fn stop(&mut self) {
        let Some((id, by_client)) = self.pick(|flow| !flow.is_read) else { return };
        let side = if by_client { Side::Server } else { Side::Client };
        let code = 5000 + self.below(1000);
        if self.is_known(id, side) {
            self.pair.end(side).stop(id, code).unwrap();
            let flow = self.flows.get_mut(&(id, by_client)).unwrap();
            (flow.stop, flow.is_read) = (Some(code), true);
        }
    }

    fn read(&mut self) {
        let Some(key) = self.pick(|flow| !flow.is_read) else { return };
        self.read_from(key);
    }

    fn read_from(&mut self, key: (StreamId, bool)) {
        let (id, by_client) = key;
        let side = if by_client { Side::Server } else { Side::Client };
        if !self.is_known(id, side) {
            return;
        }
        let max = 1 + self.below(30_000) as usize;
        let (now, mut buffer) = (self.now, vec![0; max]);
        let result = if self.chance(2) {
            self.pair.end(side).read_chunk(id, max, now, RTT)
        } else {
            self.pair.end(side).read(id, &mut buffer, now, RTT).map(|read| match read {
                Read::Data(len) => Read::Data(bytes::Bytes::copy_from_slice(&buffer[..len])),
                Read::End => Read::End,
            })
        };
        let flow = self.flows.get_mut(&key).unwrap();
        match result {
            Ok(Read::Data(data)) => {
                assert!(!data.is_empty() && data.len() <= max);
                assert!(data.iter().zip(flow.read..).all(|(&byte, offset)| byte == byte_at(id, offset)));
                flow.read += data.len() as u64;
                self.seen.bytes += data.len() as u64;
                assert!(flow.read <= flow.written);
            }
            Ok(Read::End) => {
                assert!(flow.is_finished && flow.read == flow.written, "{id} {flow:?}");
                flow.is_read = true;
                self.seen.ends += 1;
            }
            Err(ReadError::Blocked) => self.seen.blocked_readers += 1,
            Err(ReadError::Reset(code)) => {
                assert_eq!(flow.reset, Some(code));
                flow.is_read = true;
                self.seen.resets += 1;
            }
            Err(ReadError::Closed) => panic!("{id} closed for reading"),
        }
    }

    fn send(&mut self, side: Side) {
        if self.pair.end(side).has_pending() {
            let space_bytes = FILL_BYTES_MIN + self.below(1400) as usize;
            let mut symbol = Vec::new();
            let linked = self.pair.end(side).fill(&mut symbol, space_bytes);
            symbol.extend_from_slice(&linked);
            self.pair.end(side).recycle(linked);
            assert!(!symbol.is_empty() && symbol.len() <= space_bytes);
            self.wire[usize::from(side.is_client())].push(symbol);
        }
    }

    fn deliver(&mut self, to: Side) {
        let under_way = self.wire[usize::from(to.is_server())].len() as u64;
        if under_way > 0 {
            let index = self.below(under_way) as usize;
            let symbol = self.wire[usize::from(to.is_server())].swap_remove(index);
            deliver(self.pair.end(to), &symbol);
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        let side = self.side();
        match self.below(100) {
            0..8 => self.open(side),
            8..28 => self.write(),
            28..30 => {
                if let Some(key) = self.pick(|flow| !flow.is_finished && flow.reset.is_none()) {
                    self.finish(key);
                }
            }
            30 => self.reset(),
            31 => self.stop(),
            32 => {
                if let Some((id, by_client)) = self.pick(|flow| flow.written > 0) {
                    let priority = self.below(3) as i32 - 1;
                    let _ = self
                        .pair
                        .end(if by_client { Side::Client } else { Side::Server })
                        .set_priority(id, priority);
                }
            }
            33..50 => self.read(),
            50..75 => self.send(side),
            75..98 => self.deliver(side),
            _ => while self.pair.end(side).poll_event().is_some() {},
        }
        self.check_bounds();
    }

    fn check_bounds(&mut self) {
        for (streams, config) in
            [(&self.pair.client, &self.configs[0]), (&self.pair.server, &self.configs[1])]
        {
            let stats = streams.stats();
            assert!(stats.queued_bytes <= config.send_buffer_bytes_max);
            assert!(
                stats.read_bytes <= stats.received_bytes
                    && stats.received_bytes <= streams.receiving.window.max()
            );
            self.seen.fragments_max = self.seen.fragments_max.max(stats.fragments);
            assert!(stats.sent_bytes <= streams.sending.max);
        }
    }

    /// No more faults: writers finish, readers read, all symbols arrive.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.now += Duration::from_millis(1);
            for side in [Side::Client, Side::Server] {
                for _ in 0..4 {
                    self.send(side);
                    self.deliver(!side);
                }
                while self.pair.end(side).poll_event().is_some() {}
            }
            if let Some(key) = self.pick(|flow| !flow.is_finished && flow.reset.is_none()) {
                self.finish(key);
            }
            if let Some(key) = self.pick(|flow| !flow.is_read) {
                self.read_from(key);
            } else if self.is_quiet() && self.pick(|flow| !flow.is_finished && flow.reset.is_none()).is_none()
            {
                return;
            }
        }
        panic!("not done: {:?}", self.flows.iter().filter(|(_, flow)| !flow.is_read).collect::<Vec<_>>());
    }

    fn is_quiet(&self) -> bool {
        self.wire.iter().all(Vec::is_empty)
            && !self.pair.client.has_pending()
            && !self.pair.server.has_pending()
    }
}

fn random_config(rng: &mut Pcg64Mcg) -> StreamConfig {
    let mut draw = |from: u64, to: u64| from + rng.next_u64() % (to - from);
    StreamConfig {
        streams_bi_max: draw(1, 40),
        streams_uni_max: draw(1, 40),
        stream_window_bytes: draw(1, 20_000),
        stream_window_bytes_max: draw(1, 60_000),
        connection_window_bytes: draw(1, 50_000),
        connection_window_bytes_max: draw(1, 100_000),
        fragments_max: 100_000,
        stream_send_buffer_bytes_max: draw(1, 20_000),
        send_buffer_bytes_max: draw(1, 40_000),
    }
}

#[test]
fn everything_arrives_whatever_the_order() {
    let mut seen = Seen::default();
    for seed in 0..60 {
        let mut run = Run::new(seed);
        run.seen = seen;
        (0..4000).for_each(|_| run.step());
        run.settle();
        let (client, server) = (&run.pair.client, &run.pair.server);
        for (from, to) in [(client, server), (server, client)] {
            let (sent, received) = (from.stats(), to.stats());
            assert_eq!((sent.streams, sent.queued_bytes), (0, 0), "seed {seed}");
            assert_eq!(sent.sent_bytes, received.received_bytes, "seed {seed}");
            assert_eq!(sent.frames_packed, received.frames_received, "seed {seed}");
            assert_eq!(received.fragments, 0, "seed {seed}");
            // No credit is lost, whether bytes were read, reset or stopped.
            assert_eq!(to.receiving.window.consumed(), received.received_bytes, "seed {seed}");
            assert!(from.is_idle() && from.sending.waiting.is_empty());
        }
        seen = run.seen;
    }
    let counts = [seen.ends, seen.resets, seen.stopped_writers, seen.blocked_writers, seen.blocked_readers];
    assert!(seen.bytes > 1 << 20 && seen.fragments_max > 8 && counts.iter().all(|&n| n > 50), "{seen:?}");
}
