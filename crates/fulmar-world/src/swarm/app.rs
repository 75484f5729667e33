//! The applications of both ends. They act on events alone, so an event that does not come shows as a run
//! that does not end; and they see both sides of every stream, so each read is checked against what was
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use fulmar_proto::stream::{FinishError, Read, ReadError, WriteError};
use fulmar_proto::{
    Connection, DatagramClass, DatagramOptions, Dir, Event, Instant, SendDatagramError, Side, StreamId,
};

use super::plan::{Plan, Transfer};

/// What became of the writing side of a half.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Writer {
    Writing,
    Finished,
    Reset,
}

/// What became of its reading side.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Reader {
    /// The peer does not know of the stream yet.
    Unaware,
    Reading,
    Ended,
    WasReset,
    Stopped,
}

/// One direction of one stream.
#[derive(Debug)]
struct Half {
    plan: Transfer,
    writer: Writer,
    written: u64,
    reader: Reader,
    read: u64,
    read_at: Option<Instant>,
}

/// Codes of resets and stops follow from the stream, so that a wrong one shows.
fn reset_code(id: StreamId) -> u64 {
    id.0 * 2 + 1
}

fn stop_code(id: StreamId) -> u64 {
    id.0 * 2
}

#[derive(Debug)]
pub(super) struct App {
    started_at: Instant,
    plan: Plan,
    halves: BTreeMap<(StreamId, Side), Half>,
    /// Flows not opened yet.
    unopened: BTreeSet<usize>,
    flow_of: BTreeMap<StreamId, usize>,
    connected: [bool; 2],
    pub(super) closed: [Option<fulmar_proto::ConnectionError>; 2],
    datagrams_sent: [u64; 2],
    datagrams_at: [Instant; 2],
    datagrams_heard: [BTreeSet<u64>; 2],
    scratch: Vec<u8>,
}

/// Byte `at` of what `writer` writes on `id`.
fn content(seed: u64, id: StreamId, writer: Side, offset: u64, out: &mut [u8]) {
    let salt = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.0 << 1 ^ writer as u64;
    for (at, byte) in (offset..).zip(out) {
        let word = ((at / 8) ^ salt).wrapping_mul(0xd6e8_feb8_6659_fd93);
        *byte = ((word ^ word >> 32) >> (at % 8 * 8)) as u8;
    }
}

impl App {
    pub(super) fn new(plan: &Plan, now: Instant) -> Self {
        Self {
            started_at: now,
            plan: plan.clone(),
            halves: BTreeMap::new(),
            unopened: (0..plan.flows.len()).collect(),
            flow_of: BTreeMap::new(),
            connected: [false; 2],
            closed: [None, None],
            datagrams_sent: [0; 2],
            datagrams_at: [now; 2],
            datagrams_heard: Default::default(),
            scratch: vec![0; 1 << 16],
        }
    }

    /// Everything the plan has was done.
    pub(super) fn is_done(&self) -> bool {
        let is_over = |half: &Half| {
            half.writer != Writer::Writing && !matches!(half.reader, Reader::Unaware | Reader::Reading)
        };
        self.unopened.is_empty()
            && self.halves.values().all(is_over)
            && [0, 1].iter().all(|&side| self.datagrams_sent[side] == self.plan.datagrams[side].count)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected == [true; 2]
    }

    /// What is not done yet, for a run that does not end.
    pub(super) fn describe(&self) -> String {
        let open: Vec<_> = self
            .halves
            .iter()
            .filter(|(_, half)| {
                half.writer == Writer::Writing || matches!(half.reader, Reader::Unaware | Reader::Reading)
            })
            .collect();
        format!("connected {:?}, flows not opened {:?}, open halves {open:#?}", self.connected, self.unopened)
    }

    /// The next time at which an application does something unasked.
    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let opening = self.unopened.iter().map(|&at| self.started_at + self.plan.flows[at].opens_at);
        let reading = self.halves.values().filter_map(|half| half.read_at);
        let sides = [0, 1].into_iter();
        let datagrams = sides
            .filter(|&side| {
                self.connected[side] && self.datagrams_sent[side] < self.plan.datagrams[side].count
            })
            .map(|side| self.datagrams_at[side]);
        opening.chain(reading).chain(datagrams).filter(|&at| at > now).min()
    }

    pub(super) fn on_event(&mut self, now: Instant, side: Side, connection: &mut Connection, event: Event) {
        match event {
            Event::Connected => {
                assert!(!self.connected[side as usize], "{side:?} is connected twice");
                self.connected[side as usize] = true;
                self.open_due(now, side, connection);
            }
            Event::StreamOpened { dir } => self.accept_all(now, side, connection, dir),
            Event::StreamsAvailable { .. } => self.open_due(now, side, connection),
            Event::Readable(id) => {
                if self.halves.get(&(id, !side)).is_some_and(|half| half.read_at.is_none()) {
                    self.read(now, side, connection, id);
                }
            }
            Event::Writable(id) => self.write(side, connection, id),
            Event::Stopped { id, code } => {
                assert_eq!(code, stop_code(id), "{side:?} is told a wrong code for {id:?}");
                self.on_stopped(side, connection, id);
            }
            Event::DatagramReceived => self.read_datagrams(side, connection),
            Event::Closed(reason) => {
                self.closed[side as usize] = Some(reason);
                self.read_rest(now, side, connection);
            }
            _ => {}
        }
    }

    /// What was delivered before the end can be read after it.
    fn read_rest(&mut self, now: Instant, side: Side, connection: &mut Connection) {
        for dir in [Dir::Bi, Dir::Uni] {
            self.accept_all(now, side, connection, dir);
        }
        let open: Vec<StreamId> =
            self.halves.iter().filter(|((_, writer), _)| *writer != side).map(|((id, _), _)| *id).collect();
        for id in open {
            while self.halves.get(&(id, !side)).is_some_and(|half| half.read_at.is_some()) {
                self.read(now, side, connection, id);
            }
        }
    }

    /// Timers that are due.
    pub(super) fn on_time(&mut self, now: Instant, side: Side, connection: &mut Connection) {
        self.open_due(now, side, connection);
        let due: Vec<StreamId> = self
            .halves
            .iter()
            .filter(|((_, writer), half)| *writer != side && half.read_at.is_some_and(|at| at <= now))
            .map(|((id, _), _)| *id)
            .collect();
        for id in due {
            self.read(now, side, connection, id);
        }
        self.send_datagrams(now, side, connection);
    }

    fn open_due(&mut self, now: Instant, side: Side, connection: &mut Connection) {
        if !self.connected[side as usize] {
            return;
        }
        let is_due = |at: &usize| {
            let flow = &self.plan.flows[*at];
            flow.opener == side && self.started_at + flow.opens_at <= now
        };
        let due: Vec<usize> = self.unopened.iter().copied().filter(is_due).collect();
        for at in due {
            let flow = self.plan.flows[at].clone();
            let Some(id) = connection.open(flow.dir) else { continue };
            assert_eq!((id.initiator(), id.dir()), (side, flow.dir));
            self.unopened.remove(&at);
            self.flow_of.insert(id, at);
            self.add_half(id, side, flow.there, Reader::Unaware);
            connection.set_priority(id, flow.priority).expect("just opened");
            if flow.dir == Dir::Bi {
                self.add_half(id, !side, flow.back, Reader::Reading);
                self.stop_if_due(side, connection, id);
            }
            self.write(side, connection, id);
        }
    }

    fn add_half(&mut self, id: StreamId, writer: Side, plan: Transfer, reader: Reader) {
        let half = Half { plan, writer: Writer::Writing, written: 0, reader, read: 0, read_at: None };
        let old = self.halves.insert((id, writer), half);
        assert!(old.is_none(), "{id:?} is opened twice");
    }

    fn accept_all(&mut self, now: Instant, side: Side, connection: &mut Connection, dir: Dir) {
        while let Some(id) = connection.accept(dir) {
            assert!(self.flow_of.contains_key(&id), "{side:?} accepts {id:?}, which nobody opened");
            let half = self.halves.get_mut(&(id, !side)).expect("opened with the stream");
            assert_eq!(half.reader, Reader::Unaware, "{id:?} is accepted twice");
            half.reader = Reader::Reading;
            self.stop_if_due(side, connection, id);
            self.read(now, side, connection, id);
            if dir == Dir::Bi {
                self.write(side, connection, id);
            }
        }
    }

    fn write(&mut self, side: Side, connection: &mut Connection, id: StreamId) {
        let Some(half) = self.halves.get_mut(&(id, side)) else { return };
        while half.writer == Writer::Writing {
            if half.plan.reset_at.is_some_and(|at| half.written >= at) {
                connection.reset(id, reset_code(id)).expect("a stream that is written to can be reset");
                half.writer = Writer::Reset;
                return;
            }
            let end = half.plan.reset_at.unwrap_or(half.plan.bytes);
            let len = (end - half.written).min(half.plan.write_bytes as u64) as usize;
            if len == 0 {
                half.writer = match connection.finish(id) {
                    Ok(()) => Writer::Finished,
                    Err(FinishError::Stopped(code))
                        if half.reader == Reader::Stopped && code == stop_code(id) =>
                    {
                        Writer::Reset
                    }
                    Err(error) => panic!("{side:?} cannot finish {id:?}: {error}"),
                };
                return;
            }
            self.scratch.resize(self.scratch.len().max(len), 0);
            content(self.plan.seed, id, side, half.written, &mut self.scratch[..len]);
            match connection.write(id, &self.scratch[..len]) {
                Ok(taken) => {
                    assert!((1..=len).contains(&taken));
                    half.written += taken as u64;
                }
                Err(WriteError::Blocked) => return,
                Err(WriteError::Stopped(code)) => {
                    assert_eq!(code, stop_code(id));
                    return self.on_stopped(side, connection, id);
                }
                Err(WriteError::Closed) if connection.is_closed() => return,
                Err(error) => panic!("{side:?} cannot write to {id:?}: {error}"),
            }
        }
    }

    fn on_stopped(&mut self, side: Side, connection: &mut Connection, id: StreamId) {
        let half = self.halves.get_mut(&(id, side)).expect("a stream of the plan");
        assert_eq!(half.reader, Reader::Stopped, "{side:?} is told that {id:?} was stopped");
        if half.writer == Writer::Writing {
            connection.reset(id, reset_code(id)).expect("kept until the application lets go");
            half.writer = Writer::Reset;
        }
    }

    /// Stops the reading if that is what the plan says now. True if it did.
    fn stop_if_due(&mut self, side: Side, connection: &mut Connection, id: StreamId) -> bool {
        let half = self.halves.get_mut(&(id, !side)).expect("a stream of the plan");
        let is_due = half.reader == Reader::Reading && half.plan.stop_at.is_some_and(|at| half.read >= at);
        if is_due {
            connection.stop(id, stop_code(id)).expect("a stream that is read can be stopped");
            (half.reader, half.read_at) = (Reader::Stopped, None);
        }
        is_due
    }

    fn read(&mut self, now: Instant, side: Side, connection: &mut Connection, id: StreamId) {
        loop {
            let Some(half) = self.halves.get_mut(&(id, !side)).filter(|half| half.reader == Reader::Reading)
            else {
                return;
            };
            half.read_at = None;
            let mut out = vec![0; half.plan.read_bytes.min(1 << 16)];
            match connection.read(now, id, &mut out) {
                Ok(Read::Data(len)) => {
                    assert!(len > 0, "a read of nothing");
                    let expected = &mut self.scratch[..len];
                    content(self.plan.seed, id, !side, half.read, expected);
                    assert!(
                        out[..len] == *expected,
                        "{side:?} reads wrong bytes on {id:?} from {}",
                        half.read
                    );
                    half.read += len as u64;
                    assert!(half.read <= half.written, "{side:?} reads more than was written on {id:?}");
                    let pause = half.plan.read_pause;
                    if self.stop_if_due(side, connection, id) {
                        return;
                    }
                    if !pause.is_zero() {
                        self.rest(now, side, id, pause);
                        return;
                    }
                }
                Ok(Read::End) => {
                    assert_eq!(half.writer, Writer::Finished, "{id:?} ends although it was not finished");
                    assert_eq!(half.read, half.written, "{id:?} ends early");
                    half.reader = Reader::Ended;
                }
                Err(ReadError::Blocked) => return,
                Err(ReadError::Reset(code)) => {
                    assert_eq!((half.writer, code), (Writer::Reset, reset_code(id)), "{id:?} is reset");
                    half.reader = Reader::WasReset;
                }
                Err(error) => panic!("{side:?} cannot read {id:?}: {error}"),
            }
        }
    }

    fn rest(&mut self, now: Instant, side: Side, id: StreamId, pause: Duration) {
        if let Some(half) = self.halves.get_mut(&(id, !side)) {
            half.read_at = Some(now + pause);
        }
    }

    fn send_datagrams(&mut self, now: Instant, side: Side, connection: &mut Connection) {
        let at = side as usize;
        let plan = self.plan.datagrams[at].clone();
        while self.connected[at] && self.datagrams_sent[at] < plan.count && self.datagrams_at[at] <= now {
            let number = self.datagrams_sent[at];
            self.datagrams_sent[at] += 1;
            self.datagrams_at[at] = now + plan.interval.max(Duration::from_nanos(1));
            let is_cut = plan.is_repaired && repair_of(number).is_some();
            let max =
                if is_cut { connection.any_datagram_bytes_max() } else { connection.datagram_bytes_max() };
            let max = max.unwrap_or(0) as u64;
            let len = (number * 977 % plan.bytes_max + 8).min(max.max(8)) as usize;
            let mut data = number.to_be_bytes().to_vec();
            data.resize(len, 0);
            content(self.plan.seed, StreamId(number), side, 0, &mut data[8..]);
            let sent = match (plan.is_repaired, repair_of(number)) {
                (true, Some(options)) => connection.send_datagram_with(now, Bytes::from(data), options),
                _ => connection.send_datagram(Bytes::from(data)),
            };
            match sent {
                Ok(()) | Err(SendDatagramError::Blocked) => {}
                Err(SendDatagramError::Unsupported) => assert_eq!(max, 0),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn read_datagrams(&mut self, side: Side, connection: &mut Connection) {
        while let Some(data) = connection.recv_datagram() {
            let (number, rest) = data.split_first_chunk().expect("a datagram has a number");
            let number = u64::from_be_bytes(*number);
            assert!(
                number < self.datagrams_sent[!side as usize],
                "{side:?} got a datagram that was never sent"
            );
            let heard = &mut self.datagrams_heard[side as usize];
            let newest_in_order = heard.iter().rev().find(|number| is_in_order(**number)).copied();
            assert!(
                !self.plan.datagrams[!side as usize].is_repaired
                    || !is_in_order(number)
                    || newest_in_order.is_none_or(|newest| newest < number),
                "{side:?} got datagram {number} after {newest_in_order:?}"
            );
            assert!(heard.insert(number), "{side:?} got datagram {number} twice");
            content(self.plan.seed, StreamId(number), !side, 0, &mut self.scratch[..rest.len()]);
            assert!(*rest == self.scratch[..rest.len()], "{side:?} got wrong bytes in datagram {number}");
        }
    }
}

/// The datagram of this number keeps its order, where they are repaired.
fn is_in_order(number: u64) -> bool {
    number % 5 == 2
}

/// What is asked for the datagram of this number, where they are repaired; some are sent as they are among
/// these.
fn repair_of(number: u64) -> Option<DatagramOptions> {
    let class = match number % 5 {
        0 => return None,
        1 => DatagramClass::Once,
        _ if is_in_order(number) => DatagramClass::RepairedInOrder,
        _ => DatagramClass::Repaired,
    };
    let options = DatagramOptions::new(class);
    Some(if number.is_multiple_of(3) { options.deadline(Duration::from_millis(number)) } else { options })
}
