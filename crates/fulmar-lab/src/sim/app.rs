//! The applications at the two ends: one writes as its kind of traffic says, the other reads and measures.
//!
//! Every transfer begins with eight bytes that number it, so that the reader knows which one a new stream
//! carries. Data are counted, not compared: that they arrive unharmed is what the authenticated packets see
//! to, and the protocol's own tests check.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_net::Rng;
use fulmar_proto::stream::{Read, ReadError};
use fulmar_proto::{ConnectionHandle, Dir, Event, Instant, StreamId};

use super::host::Host;
use crate::meter::Meter;
use crate::traffic::Traffic;

/// What is written, as often as needed.
static FILLER: [u8; 1 << 16] = [0x5a; 1 << 16];
/// Length of the number at the head of a transfer.
const NUMBER_BYTES: u64 = 8;
/// Most bytes read at once.
const READ_BYTES_MAX: usize = 1 << 20;

/// A stream being written.
struct Outgoing {
    handle: ConnectionHandle,
    id: StreamId,
    /// Bytes still to write; `u64::MAX` without end.
    left: u64,
    /// The stream is finished when nothing is left.
    has_end: bool,
}

/// The writing end of a flow.
pub(super) struct Sender {
    traffic: Traffic,
    start: Instant,
    end: Instant,
    rng: Rng,
    /// The connection all but web transfers use.
    main: Option<ConnectionHandle>,
    connected_at: Option<Instant>,
    streams: Vec<Outgoing>,
    /// When the next message, transfer, or change of state is due.
    next_at: Option<Instant>,
    /// On/off traffic: whether it is on.
    is_on: bool,
    /// Messages written and not yet delivered: when each was due.
    messages: VecDeque<Instant>,
    /// Web transfers: when each began, and what is to be written once its connection stands.
    transfers: Vec<Instant>,
    connecting: Vec<(ConnectionHandle, u64, u64)>,
}

impl Sender {
    pub(super) fn new(traffic: Traffic, start: Instant, end: Instant, rng: Rng) -> Self {
        Self {
            traffic,
            start,
            end,
            rng,
            main: None,
            connected_at: None,
            streams: Vec::new(),
            next_at: Some(start),
            is_on: true,
            messages: VecDeque::new(),
            transfers: Vec::new(),
            connecting: Vec::new(),
        }
    }

    pub(super) fn starts_at(&self) -> Instant {
        self.start
    }

    /// When its application stops writing.
    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// When its handshake was complete.
    pub(super) fn connected_at(&self) -> Option<Instant> {
        self.connected_at
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The measured time begins later by this.
    pub(super) fn postpone(&mut self, late: Duration) {
        self.end += late;
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.next_at
    }

    /// When each transfer began.
    pub(super) fn transfers(&self) -> &[Instant] {
        &self.transfers
    }

    /// When messages not yet delivered were due, oldest first.
    pub(super) fn waiting_messages(&self) -> impl Iterator<Item = Instant> {
        self.messages.iter().copied()
    }

    /// A message was delivered: when it was due.
    pub(super) fn on_message_delivered(&mut self) -> Option<Instant> {
        self.messages.pop_front()
    }

    /// Handles what happened on the host's connections, writes what is due and what there is room for.
    pub(super) fn serve(&mut self, now: Instant, host: &mut Host) {
        let events = host.take_events();
        for (handle, event) in &events {
            match event {
                Event::Connected => self.on_connected(now, *handle, host),
                Event::Writable(_) => self.write(host),
                Event::Delivered if self.main != Some(*handle) => {
                    if let Some(connection) = host.connection(*handle) {
                        connection.shutdown(now, 0, bytes::Bytes::new());
                    }
                }
                _ => {}
            }
        }
        host.recycle(events);
        while self.next_at.is_some_and(|at| at <= now) {
            self.on_due(now, host);
        }
    }

    fn on_connected(&mut self, now: Instant, handle: ConnectionHandle, host: &mut Host) {
        if self.main == Some(handle) {
            self.connected_at.get_or_insert(now);
            self.next_at.get_or_insert(self.start);
        }
        if let Some(at) = self.connecting.iter().position(|(connecting, ..)| *connecting == handle) {
            let (_, number, bytes) = self.connecting.swap_remove(at);
            self.open(handle, Some(number), bytes, true, host);
        }
    }

    /// Opens a stream for so many bytes.
    fn open(
        &mut self,
        handle: ConnectionHandle,
        number: Option<u64>,
        bytes: u64,
        has_end: bool,
        host: &mut Host,
    ) {
        let Some(connection) = host.connection(handle) else { return };
        let Some(id) = connection.open(Dir::Uni) else { return };
        let written = number.and_then(|number| connection.write(id, &number.to_be_bytes()).ok()).unwrap_or(0);
        self.streams.push(Outgoing { handle, id, left: bytes.saturating_sub(written as u64), has_end });
        self.write(host);
    }

    /// Something is due at `next_at`.
    fn on_due(&mut self, now: Instant, host: &mut Host) {
        let Some(due) = self.next_at.take() else { return };
        if now >= self.end {
            return self.stop(host);
        }
        if let Traffic::Web { interval, bytes } = self.traffic {
            self.begin_transfer(now, bytes, host);
            self.connected_at = Some(now);
            self.next_at = Some(due + self.rng.exponential(interval));
            return;
        }
        let Some(main) = self.main else {
            // The connection comes first; its completion calls again.
            self.main = host.connect(now);
            return;
        };
        let is_first = self.streams.is_empty();
        if is_first {
            let (bytes, has_end) = match self.traffic {
                Traffic::Fixed { bytes } => (bytes, true),
                Traffic::Messages { .. } | Traffic::None => (0, false),
                Traffic::Bulk | Traffic::OnOff { .. } | Traffic::Web { .. } => (u64::MAX, false),
            };
            self.open(main, None, bytes, has_end, host);
        }
        self.next_at = match self.traffic {
            Traffic::Messages { bytes, interval } => {
                // A handshake delays the first; a machine that stood still has the others to make up for.
                let due = if is_first { due.max(now - interval) } else { due };
                self.messages.push_back(due);
                self.add(u64::from(bytes), host);
                Some(due + interval)
            }
            Traffic::OnOff { on, off } => {
                self.is_on = is_first || !self.is_on;
                self.write(host);
                Some(now + self.rng.exponential(if self.is_on { on } else { off }))
            }
            Traffic::Bulk | Traffic::None => Some(self.end),
            Traffic::Fixed { .. } | Traffic::Web { .. } => None,
        };
    }

    fn begin_transfer(&mut self, now: Instant, mean_bytes: u64, host: &mut Host) {
        let bytes = Traffic::draw_web_bytes(mean_bytes, &mut self.rng).max(NUMBER_BYTES);
        if let Some(handle) = host.connect(now) {
            self.connecting.push((handle, self.transfers.len() as u64, bytes));
            self.transfers.push(now);
        }
    }

    /// The application has nothing more to say.
    fn stop(&mut self, host: &mut Host) {
        self.is_on = false;
        for stream in self.streams.iter_mut().filter(|stream| !stream.has_end) {
            stream.left = 0;
            stream.has_end = true;
        }
        self.write(host);
    }

    /// So many bytes more on the only stream.
    fn add(&mut self, bytes: u64, host: &mut Host) {
        if let Some(stream) = self.streams.first_mut() {
            stream.left += bytes;
        }
        self.write(host);
    }

    /// Writes what there is room for.
    fn write(&mut self, host: &mut Host) {
        if !self.is_on
            && matches!(self.traffic, Traffic::OnOff { .. })
            && self.streams.iter().all(|s| !s.has_end)
        {
            return;
        }
        self.streams.retain_mut(|stream| {
            let Some(connection) = host.connection(stream.handle) else { return false };
            while stream.left > 0 {
                let most = usize::try_from(stream.left).unwrap_or(usize::MAX).min(FILLER.len());
                match connection.write(stream.id, &FILLER[..most]) {
                    Ok(written) if stream.left != u64::MAX => stream.left -= written as u64,
                    Ok(_) => {}
                    Err(_) => return true,
                }
            }
            if stream.has_end {
                // An error can only say that the stream is gone, with its connection.
                let _ = connection.finish(stream.id);
            }
            !stream.has_end
        });
    }
}

/// A stream being read.
struct Incoming {
    handle: ConnectionHandle,
    id: StreamId,
    number: u64,
    number_bytes: u64,
}

/// The reading end of a flow.
pub(super) struct Receiver {
    /// Times since [`Instant::ZERO`].
    pub(super) meter: Meter,
    one_way: Duration,
    streams: Vec<Incoming>,
    /// Bytes of a message that is not complete.
    partial_bytes: u64,
    pub(super) message_delays: Vec<Duration>,
    /// Delays up to here have been looked at.
    delays_seen: usize,
    pub(super) transfer_times: Vec<Duration>,
}

impl Receiver {
    pub(super) fn new(count_from: Instant, one_way: Duration) -> Self {
        Self {
            meter: Meter::new(count_from - Instant::ZERO),
            one_way,
            streams: Vec::new(),
            partial_bytes: 0,
            message_delays: Vec::new(),
            delays_seen: 0,
            transfer_times: Vec::new(),
        }
    }

    /// The longest delay of a message since the last question.
    pub(super) fn take_delay_max(&mut self) -> Option<Duration> {
        let longest = self.message_delays[self.delays_seen..].iter().max().copied();
        self.delays_seen = self.message_delays.len();
        longest
    }

    pub(super) fn postpone(&mut self, late: Duration) {
        self.meter.postpone(late);
    }

    /// Reads what there is to read.
    pub(super) fn serve(&mut self, now: Instant, host: &mut Host, writer: &mut Sender) {
        let events = host.take_events();
        for (handle, event) in &events {
            let handle = *handle;
            let Some(connection) = host.connection(handle) else { continue };
            if let Event::StreamOpened { dir } = event {
                while let Some(id) = connection.accept(*dir) {
                    self.streams.push(Incoming { handle, id, number: 0, number_bytes: 0 });
                }
            }
            if let Event::Readable(id) = event
                && let Some(at) = self.streams.iter().position(|s| s.handle == handle && s.id == *id)
                && self.read(now, at, host, writer)
            {
                self.streams.swap_remove(at);
            }
        }
        host.recycle(events);
    }

    /// Reads one stream until nothing is left. True if it has ended.
    fn read(&mut self, now: Instant, at: usize, host: &mut Host, writer: &mut Sender) -> bool {
        let Some(connection) = host.connection(self.streams[at].handle) else { return true };
        loop {
            match connection.read_chunk(now, self.streams[at].id, READ_BYTES_MAX) {
                Ok(Read::Data(chunk)) => {
                    self.count(now, chunk.len() as u64, writer);
                    let stream = &mut self.streams[at];
                    for byte in chunk.iter().take((NUMBER_BYTES - stream.number_bytes) as usize) {
                        stream.number = stream.number << 8 | u64::from(*byte);
                        stream.number_bytes += 1;
                    }
                }
                Ok(Read::End) => {
                    self.on_end(now, at, writer);
                    return true;
                }
                Err(ReadError::Blocked) => return false,
                Err(_) => return true,
            }
        }
    }

    fn count(&mut self, now: Instant, bytes: u64, writer: &mut Sender) {
        let does_count = self.meter.on_bytes(bytes, now - Instant::ZERO);
        if let Traffic::Messages { bytes: size, .. } = writer.traffic() {
            self.partial_bytes += bytes;
            while self.partial_bytes >= u64::from(size) {
                self.partial_bytes -= u64::from(size);
                let delay = writer.on_message_delivered().map(|due| (now - due).saturating_sub(self.one_way));
                self.message_delays.extend(delay.filter(|_| does_count));
            }
        }
    }

    fn on_end(&mut self, now: Instant, at: usize, writer: &Sender) {
        if let Traffic::Web { .. } = writer.traffic() {
            let number = self.streams[at].number as usize;
            let began =
                writer.transfers().get(number).filter(|&&began| self.meter.does_count(began - Instant::ZERO));
            self.transfer_times.extend(began.map(|&began| now - began));
        } else {
            self.meter.has_ended = true;
        }
    }
}
