//! Entry points that take any bytes: the fuzz targets of `fuzz/` and an ordinary test call them. None may panic, and each
//! checks what must hold of whatever was accepted.

use std::sync::Arc;
use std::time::Duration;

use fulmar_fec::{Code, DecoderLimits, SymbolId, Window};
use fulmar_net::{Datagram, Direction, LinkConfig};
use fulmar_proto::coding::{SymbolReceiver, SymbolSender, symbol_sender};
use fulmar_proto::crypto::{PacketKeys, retry};
use fulmar_proto::recovery::{Content, LossDetector, RateSampler, SentPacket, SentPackets};
use fulmar_proto::wire::frame::{
    ACK_RANGES_MAX, CodingState, Frame, Frames, OpenWindow, RepairSpan, SET_SYMBOLS_MAX,
};
use fulmar_proto::wire::packet;
use fulmar_proto::wire::symbol::SymbolFrames;
use fulmar_proto::{ConnectionId, Dir, Instant, PacketNumber, Parameters, Rate, Side, TransportConfig};

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
    let _ = packet::peek(data);
    if let Ok(parsed) = packet::parse(data) {
        assert!(parsed.pn_offset + 20 <= parsed.end && parsed.end <= data.len());
    }
    let cid = ConnectionId::new([7; 8]);
    let _ = retry::open(data, &cid);
    let keys = PacketKeys::initial(&cid, Side::Server);
    let mut copy = data.to_vec();
    let mut total = 0;
    for (parsed, bytes) in packet::split(&mut copy) {
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

/// Acknowledgements, losses and reports of the receiver, in any order: packets in flight and symbols missing are counted right.
pub fn acks(data: &[u8]) {
    let mut input = Input(data);
    let mut sender = symbol_sender(code(input.byte()), 100, 64);
    let (mut sent, mut sampler) = (SentPackets::default(), RateSampler::default());
    let detector = LossDetector::new(3);
    let mut now = Instant::ZERO;
    while !input.is_empty() {
        now += Duration::from_micros(input.number());
        match input.byte() % 5 {
            0 => send(now, &mut input, &mut *sender, &mut sent, &mut sampler),
            1 if sent.next_number().0 > 0 => {
                let high = input.number() % sent.next_number().0;
                let low = high.saturating_sub(u64::from(input.byte()));
                let mut contents = Vec::new();
                sent.on_ack_range(PacketNumber(low), PacketNumber(high), |acked| {
                    contents.push((acked.packet.content, acked.was_lost))
                });
                for (content, was_lost) in contents {
                    sender.on_acked(content, was_lost);
                }
            }
            2 => {
                let mut contents = Vec::new();
                let rtt = Duration::from_millis(u64::from(input.byte()));
                detector.detect(now, rtt, &mut sent, |lost| contents.push(lost.packet.content));
                for content in contents {
                    sender.on_lost(now, content);
                }
            }
            3 => {
                let decoded_below = SymbolId(input.number() % 300);
                let (len, deficit) = (u32::from(input.byte()) + 1, u32::from(input.byte()));
                let window = OpenWindow { window: Window { first: decoded_below, len }, deficit };
                let state = CodingState {
                    decoded_below,
                    seen_below: decoded_below,
                    equations: u32::from(input.byte()),
                    windows: vec![window],
                };
                let is_true = decoded_below <= sender.next_id();
                assert_eq!(sender.on_peer_state(now, state).is_ok(), is_true);
            }
            _ => sent.forget_front(now, Duration::from_millis(u64::from(input.byte()))),
        }
        assert!(sender.span_symbols() <= sender.next_id().0);
        assert!(sender.held_bytes() <= 100 * sender.span_symbols());
        assert_eq!(sent.outstanding_packets() == 0, sent.in_flight_bytes() == 0);
    }
}

fn send(
    now: Instant,
    input: &mut Input<'_>,
    sender: &mut dyn SymbolSender,
    sent: &mut SentPackets,
    sampler: &mut RateSampler,
) {
    use fulmar_control::{Choice, RepairReason};
    let choice = match input.byte() % 6 {
        0 => Choice::Recover,
        1 => Choice::Insure,
        3 => Choice::Combine { symbols: u32::from(input.byte()) },
        4 => Choice::Group {
            symbols: u32::from(input.byte()),
            groups: u16::from(input.byte() % 8),
            group: u16::from(input.byte() % 8),
        },
        2 => Choice::Repair { symbols: u32::from(input.byte()), reason: RepairReason::Tail },
        _ => Choice::Source,
    };
    let (space, len) = (usize::from(input.byte()), usize::from(input.byte()) % 100 + 1);
    let mut packet = Vec::new();
    let emitted =
        sender.emit(now, choice, &mut packet, space, &mut |symbol, room| symbol.resize(len.min(room), 1));
    assert!(packet.len() <= space.max(1), "{} bytes in {space}", packet.len());
    if let Some(emitted) = emitted {
        let stamp = sampler.on_sent(now, 100, 100);
        let content: Content = emitted.content;
        sent.push(SentPacket {
            sent_at: now,
            bytes: 100,
            content,
            largest_acked: None,
            is_ect: false,
            stamp,
        });
    } else {
        sent.push_untracked();
    }
}

/// Every code there is, small.
fn code(number: u8) -> Arc<dyn Code> {
    let name = fulmar_fec::NAMES[usize::from(number) % fulmar_fec::NAMES.len()];
    fulmar_fec::by_name(name, 16).expect("every code")
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

/// A whole connection, to either end of which any datagrams and any frames under the right keys are given while it works.
pub fn connection(data: &[u8]) {
    let mut transport = TransportConfig::default();
    transport.receive_window_bytes(100_000);
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
