//! Entry points that take any bytes: the fuzz targets of `fuzz/` and an ordinary test call them. None may
//! panic, and each checks what must hold of whatever was accepted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fulmar_control::{
    Choice, Feedback, FixedSizing, Opportunity, PathView, Pooled, RedundancyPolicy, RepairReason,
};
use fulmar_fec::{Code, DecoderLimits, SymbolId, Window};
use fulmar_net::{Datagram, Direction, LinkConfig};
use fulmar_proto::coding::{Coding, Content, Next, Source, SymbolReceiver};
use fulmar_proto::crypto::{PacketKeys, retry};
use fulmar_proto::recovery::{Fate, Modules, PathLimits, Recovery, RecoveryConfig, Timeout};
use fulmar_proto::wire::frame::{
    ACK_RANGES_MAX, CodingState, Frame, Frames, OpenWindow, RepairSpan, SET_SYMBOLS_MAX, put_ack,
};
use fulmar_proto::wire::packet;
use fulmar_proto::wire::symbol::SymbolFrames;
use fulmar_proto::{ConnectionId, Dir, Instant, PacketNumber, Parameters, Rate, Side, TransportConfig};
use fulmar_systems::dfcp::Unlimited;

use crate::common::World;

/// Takes numbers from the front of the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        u64::from(self.byte()) << 8 | u64::from(self.byte())
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()) * 6;
        let (head, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        head
    }
}

/// Outer fields, packet protection, Retry.
pub fn packets(data: &[u8]) {
    let _ = packet::peek(data, 8);
    if let Ok(parsed) = packet::parse(data, 8) {
        assert!(parsed.pn_offset + 20 <= parsed.end && parsed.end <= data.len());
    }
    let cid = ConnectionId::new([7; 8]);
    let _ = retry::open(data, &cid);
    let keys = PacketKeys::initial(&cid, Side::Server);
    let mut copy = data.to_vec();
    let mut total = 0;
    for (parsed, bytes) in packet::split(&mut copy, 8) {
        total += bytes.len();
        assert_eq!(parsed.end, bytes.len());
        assert!(
            keys.open(bytes, parsed.pn_offset, PacketNumber(0)).is_err(),
            "bytes that nobody sealed open"
        );
    }
    assert!(total <= data.len());
}

/// Frames of packets.
pub fn frames(data: &[u8]) {
    let mut ids = Vec::new();
    for frame in Frames::new(data) {
        match frame {
            Ok(Frame::Ack(ack)) => {
                let ranges: Vec<_> = ack.ranges().collect();
                assert!((1..=ACK_RANGES_MAX).contains(&ranges.len()) && ranges[0].1 == ack.largest);
                assert!(ranges.iter().all(|(low, high)| low <= high));
                assert!(ranges.windows(2).all(|pair| pair[1].1 < pair[0].0));
            }
            Ok(Frame::Repair(repair)) => {
                if let RepairSpan::Set(gaps) = repair.span {
                    gaps.resolve(SymbolId(u64::from(repair.first)), &mut ids);
                    assert!((1..=SET_SYMBOLS_MAX).contains(&ids.len()));
                }
            }
            _ => {}
        }
    }
}

/// Frames of symbols: what is accepted comes back as it was.
pub fn symbol_frames(data: &[u8]) {
    for frame in SymbolFrames::new(data).flatten() {
        let mut bytes = Vec::new();
        frame.put(&mut bytes);
        assert_eq!(bytes.len(), frame.wire_bytes());
        let again = SymbolFrames::new(&bytes).next().expect("one frame").expect("well-formed");
        assert_eq!(again, frame);
    }
}

/// Parameters of the handshake: what is accepted comes back as it was.
pub fn parameters(data: &[u8]) {
    if let Ok(parameters) = Parameters::decode(data) {
        assert_eq!(Parameters::decode(&parameters.encode()), Ok(parameters));
    }
}

/// A policy that wants what it is told to.
#[derive(Debug)]
struct Told(Arc<Mutex<Choice>>);

impl RedundancyPolicy for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn choose(&self, _opportunity: &Opportunity, _path: &PathView) -> Choice {
        *self.0.lock().expect("one thread")
    }
}

/// Symbols of one length.
struct Symbols(usize);

impl Source for Symbols {
    fn has_pending(&self) -> bool {
        true
    }

    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize) -> Bytes {
        let len = self.0.min(bytes_max);
        symbol.resize(len.min(1), 1);
        Bytes::from(vec![1; len - symbol.len()])
    }
}

/// Acknowledgements, losses and reports of the receiver, in any order: packets in flight and symbols missing
/// are counted right.
pub fn acks(data: &[u8]) {
    let mut input = Input(data);
    let choice = Arc::new(Mutex::new(Choice::Source));
    let mut coding = Coding::new(Box::new(Told(choice.clone())), Box::new(FixedSizing::longest()), u64::MAX);
    coding.set_code(code(input.byte()), 100, 64);
    let mut now = Instant::ZERO;
    let modules = Modules {
        congestion: Box::new(Unlimited::new(1200, Default::default())),
        loss: Box::new(Pooled::new()),
        config: RecoveryConfig { timeout: Timeout::RFC_6298, ..RecoveryConfig::default() },
    };
    let limits = PathLimits { initial_mtu_bytes: 1200, mtu_max_bytes: 1472, is_ecn_enabled: true };
    let mut recovery: Recovery<Option<Content>> = Recovery::new(now, modules, limits);
    while !input.is_empty() {
        now += Duration::from_micros(input.number());
        match input.byte() % 5 {
            0 | 1 => {
                *choice.lock().expect("one thread") = choice_of(&mut input);
                send(now, &mut input, &mut coding, &mut recovery);
            }
            2 if recovery.next_number().0 > 0 => ack(now, &mut input, &mut coding, &mut recovery),
            3 => {
                if let Some(findings) = recovery.on_loss_timer(now) {
                    let news = coding.settle(now, rtt(&recovery), contents(&findings.fates), None);
                    recovery.finish(findings, news.expect("no report"));
                }
            }
            _ => {
                if let Some(findings) = recovery.on_probe_timer(now, !coding.is_all_delivered()) {
                    coding.on_silence(now, contents(&findings.fates));
                    recovery.drop_findings(findings);
                }
            }
        }
        assert_eq!(recovery.has_outstanding(), recovery.in_flight_bytes() > 0);
        assert!(coding.held_bytes() <= 100 * coding.stats().sources);
        // Somebody who waits is called again, unless a probe may leave at once.
        assert!(recovery.timeout(true).is_some() || recovery.probe_due(now).is_some());
    }
}

fn rtt(recovery: &Recovery<Option<Content>>) -> Duration {
    recovery.rtt().smoothed()
}

fn contents(fates: &[Fate<Option<Content>>]) -> impl Iterator<Item = Fate<Content>> + '_ {
    fates.iter().filter_map(|fate| match *fate {
        Fate::Arrived(content) => content.map(Fate::Arrived),
        Fate::Returned(content) => content.map(Fate::Returned),
        Fate::Lost(content) => content.map(Fate::Lost),
    })
}

/// An ACK of anything, with a report of anything.
fn ack(now: Instant, input: &mut Input<'_>, coding: &mut Coding, recovery: &mut Recovery<Option<Content>>) {
    let high = input.number() % recovery.next_number().0;
    let low = high.saturating_sub(u64::from(input.byte()));
    let decoded_below = SymbolId(input.number() % 300);
    let (len, deficit) = (u32::from(input.byte()) + 1, u32::from(input.byte()));
    let window = OpenWindow { window: Window { first: decoded_below, len }, deficit };
    let state = CodingState { decoded_below, seen_below: decoded_below, windows: [window].into() };
    let mut bytes = Vec::new();
    let ranges = [(PacketNumber(low), PacketNumber(high))];
    assert!(put_ack(&mut bytes, ranges.into_iter(), input.number(), None, Some(&state), 1200));
    let Some(Ok(Frame::Ack(ack))) = Frames::new(&bytes).next() else { panic!("an ACK") };
    let findings = recovery.on_ack(now, &ack).expect("of packets that were sent");
    let settled = coding.settle(now, rtt(recovery), contents(&findings.fates), ack.coding.as_ref());
    assert_eq!(settled.is_ok(), decoded_below.0 <= coding.stats().sources);
    let (feedback, view) = recovery.finish(findings, settled.unwrap_or_default());
    coding.on_feedback(&feedback, &view);
}

fn choice_of(input: &mut Input<'_>) -> Choice {
    match input.byte() % 9 {
        0 => Choice::Recover,
        8 => Choice::ProtectAgain,
        1 => Choice::Protect,
        6 => Choice::SecondCopy,
        7 => Choice::CopyAgain,
        3 => Choice::Combine { symbols: u32::from(input.byte()) },
        4 => Choice::Group {
            symbols: u32::from(input.byte()),
            groups: u16::from(input.byte() % 8),
            group: u16::from(input.byte() % 8),
        },
        2 => Choice::Repair { symbols: u32::from(input.byte()), reason: RepairReason::Tail },
        _ => Choice::Source,
    }
}

fn send(now: Instant, input: &mut Input<'_>, coding: &mut Coding, recovery: &mut Recovery<Option<Content>>) {
    let (space, len) = (usize::from(input.byte()), usize::from(input.byte()) % 100 + 1);
    let view = recovery.view();
    let Next::Packet(turn) = coding.next(now, &view, true) else { return };
    let mut packet = Vec::new();
    let content = coding.emit(turn, &view, &mut packet, space, &mut Symbols(len));
    assert!(packet.len() <= space, "{} bytes in {space}", packet.len());
    assert_eq!(content.is_some(), !packet.is_empty(), "what left is what is booked");
    match content {
        Some(_) => recovery.on_sent(now, 100, content),
        None => recovery.on_sent_untracked(),
    }
}

/// Every code there is, small.
fn code(number: u8) -> Arc<dyn Code> {
    let name = fulmar_systems::codes::NAMES[usize::from(number) % fulmar_systems::codes::NAMES.len()];
    fulmar_systems::codes::by_name(name, 16).expect("every code")
}

/// Symbols, pieces and combinations of a peer that says anything.
pub fn symbols(data: &[u8]) {
    let mut input = Input(data);
    let limits = DecoderLimits::new(128, 64);
    let mut receiver = SymbolReceiver::new(&*code(input.byte()), 200, limits);
    let mut delivered = 0u64;
    while !input.is_empty() {
        for frame in Frames::new(input.bytes()).flatten() {
            let mut deliver = |symbol: &[u8]| {
                assert!(symbol.len() <= 200);
                delivered += 1;
                Ok(())
            };
            let outcome = match frame {
                Frame::Source { id, symbol } => receiver.on_source(id % 1000, symbol, &mut deliver),
                Frame::SourcePart { id, len, start, piece } => {
                    receiver.on_part(id % 1000, len, start, piece, &mut deliver)
                }
                Frame::Repair(mut repair) => {
                    repair.first %= 1000;
                    receiver.on_repair(&repair, &mut deliver)
                }
                _ => Ok(()),
            };
            if outcome.is_err() {
                return;
            }
            let state = receiver.state();
            assert!(state.seen_below >= state.decoded_below && state.decoded_below.0 <= delivered);
            assert!(receiver.memory_bytes() < 200_000);
        }
    }
}

/// A whole connection, to either end of which any datagrams and any frames under the right keys are given
/// while it works.
pub fn connection(data: &[u8]) {
    let mut transport = TransportConfig::default();
    transport.receive_window_bytes(100_000).expect("in range");
    let link = LinkConfig::new(Rate::from_bits_per_second(100_000_000), Duration::from_millis(2));
    let mut world = World::new(1, link, transport.clone(), transport);
    let handle = world.connected();
    let mut input = Input(data);
    while !input.is_empty() {
        match input.byte() % 8 {
            0 => world.run_for(Duration::from_millis(input.number() % 2000)),
            1 => raw(&mut world, Direction::Forward, input.bytes()),
            2 => raw(&mut world, Direction::Backward, input.bytes()),
            3 | 4 => forged(&mut world, Direction::Forward, input.bytes()),
            5 => forged(&mut world, Direction::Backward, input.bytes()),
            6 => {
                if let Some(client) = world.client.connections.get_mut(&handle)
                    && let Some(id) = client.open(Dir::Bi)
                {
                    let _ = client.write(id, input.bytes());
                    let _ = client.finish(id);
                }
            }
            _ => world.run_for(Duration::from_millis(10)),
        }
    }
    world.run_for(Duration::from_secs(2));
    for connection in world.client.connections.values().chain(world.server.connections.values()) {
        let stats = connection.stats();
        assert!(stats.decoder_bytes < 16 << 20 && stats.symbols_held_bytes < 16 << 20, "{stats:?}");
    }
}

fn raw(world: &mut World, direction: Direction, bytes: &[u8]) {
    let now = world.now;
    world.path.send(now, direction, Datagram { contents: bytes.to_vec(), ..Datagram::default() });
}

fn forged(world: &mut World, direction: Direction, frames: &[u8]) {
    let node = if direction == Direction::Forward { &mut world.client } else { &mut world.server };
    let Some(connection) = node.connections.values_mut().next() else { return };
    if let Some(packet) = connection.forge_packet(frames) {
        raw(world, direction, &packet);
    }
}
