//! Sender and receiver against each other, packet by packet.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulmar_control::{Choice, CodingNews, FixedSizing, PathView, ProtectedSet, RepairReason};
use fulmar_fec::{Code, DecoderLimits, NoCode, RepairKey, RlcBlock, RlcWindow, SymbolId, XorGroups};
use fulmar_systems::tcp_nc::{TcpNcCombinations, TcpNcConfig};
use fulmar_units::Instant;

use super::strategy::Strategy;
use super::{Coding, Content, Next, Source, SymbolReceiver, strategy};
use crate::TransportError;
use crate::recovery::Fate;
use crate::wire::frame::{self, Frame, Frames, RepairSpan};

const NOW: Instant = Instant::ZERO;
const RTT: Duration = Duration::from_millis(100);
const SPACE: usize = 150;

/// Makes symbols by a function; those that begin with an even byte are in two parts.
pub(super) struct Made<F>(pub(super) F);

impl<F: FnMut(&mut Vec<u8>, usize)> Source for Made<F> {
    fn has_pending(&self) -> bool {
        true
    }

    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize) -> Bytes {
        (self.0)(symbol, bytes_max);
        let is_linked = symbol.first().is_some_and(|byte| byte % 2 == 0);
        if is_linked { Bytes::from(symbol.split_off(symbol.len() / 10)) } else { Bytes::new() }
    }
}

/// A packet arrives at `receiver`.
fn receive(receiver: &mut SymbolReceiver, packet: &[u8], delivered: &mut Vec<Vec<u8>>) {
    let mut deliver = |symbol: &[u8]| -> Result<(), TransportError> {
        delivered.push(symbol.to_vec());
        Ok(())
    };
    match Frames::new(packet).next() {
        Some(Ok(Frame::Source { id, symbol })) => receiver.on_source(id, symbol, &mut deliver),
        Some(Ok(Frame::SourcePart { id, len, start, piece })) => {
            receiver.on_part(id, len, start, piece, &mut deliver)
        }
        Some(Ok(Frame::Repair(repair))) => receiver.on_repair(&repair, &mut deliver),
        other => panic!("{other:?}"),
    }
    .expect("a sound sender");
}

struct Pair {
    sender: Box<dyn Strategy>,
    receiver: SymbolReceiver,
    delivered: Vec<Vec<u8>>,
}

impl Pair {
    fn new(code: impl Code + 'static) -> Self {
        Self::of(Arc::new(code))
    }

    fn of(code: Arc<dyn Code>) -> Self {
        let limits = DecoderLimits::new(256, 64);
        let receiver = SymbolReceiver::new(&*code, 100, limits);
        Self { sender: strategy(code, 100, 256), receiver, delivered: Vec::new() }
    }

    fn emit(&mut self, choice: Choice) -> Option<(Vec<u8>, Content)> {
        let mut packet = Vec::new();
        let id = self.sender.ledger().ring.next_id().0;
        let mut source = Made(|symbol: &mut Vec<u8>, _| symbol.resize(100, (id as u8).wrapping_add(1)));
        let content = self.sender.emit(NOW, choice, &mut packet, SPACE, &mut source);
        content.map(|content| (packet, content))
    }

    fn missing(&self) -> u32 {
        self.sender.opportunity(NOW, false, RTT).missing
    }

    fn is_all_delivered(&self) -> bool {
        self.sender.ledger().is_all_delivered()
    }

    fn arrive(&mut self, packet: &[u8], content: Content) {
        receive(&mut self.receiver, packet, &mut self.delivered);
        self.sender.on_arrived(NOW, content, false);
    }

    /// Sends `count` new symbols, of which those at `lost` do not arrive.
    fn send(&mut self, count: u64, lost: &[u64]) {
        let mut gone = Vec::new();
        for at in 0..count {
            let (packet, content) = self.emit(Choice::Source).expect("new data");
            if lost.contains(&at) { gone.push(content) } else { self.arrive(&packet, content) }
        }
        self.lose(gone);
        self.report();
    }

    fn lose(&mut self, contents: impl IntoIterator<Item = Content>) {
        contents.into_iter().for_each(|content| self.sender.on_lost(NOW, content));
    }

    fn report(&mut self) {
        let state = self.receiver.state();
        self.sender.on_report(NOW, &state).expect("a true report");
    }
}

#[test]
fn repair_that_is_asked_for_is_of_exactly_the_symbols_known_missing() {
    let mut pair = Pair::new(RlcWindow::new(64).unwrap());
    let lost = [3u64, 7, 8, 15];
    pair.send(20, &lost);
    assert_eq!(pair.missing(), 4);
    let mut copies = Vec::new();
    let mut named = Vec::new();
    while pair.missing() > 0 {
        let (packet, content) = pair.emit(Choice::Recover).expect("something is missing");
        let Some(Ok(Frame::Source { id, .. })) = Frames::new(&packet).next() else { panic!("not a copy") };
        named.push(u64::from(id));
        copies.push((packet, content));
    }
    assert_eq!(named, lost);
    let (protection, content) = pair.emit(Choice::Protect).expect("copies are under way");
    let Some(Ok(Frame::Repair(repair))) = Frames::new(&protection).next() else { panic!("no combination") };
    let RepairSpan::Set(gaps) = &repair.span else { panic!("not over a set") };
    let mut ids = Vec::new();
    gaps.resolve(SymbolId(u64::from(repair.first)), &mut ids);
    assert_eq!(ids, lost.map(SymbolId));

    // Any four of the five restore the four: the copy of 7 is lost too, and costs no round trip.
    let (_, seven) = copies.remove(1);
    for (packet, content) in copies {
        pair.arrive(&packet, content);
    }
    assert_eq!(pair.delivered.len(), 19);
    pair.arrive(&protection, content);
    assert_eq!(pair.delivered.len(), 20);
    pair.sender.on_lost(NOW, seven);
    assert_eq!(pair.missing(), 0, "what was decoded is not asked for");
    pair.report();
    assert!(pair.is_all_delivered());
}

#[test]
fn two_combinations_over_a_set_restore_two_lost_copies() {
    let mut pair = Pair::new(RlcWindow::new(64).unwrap());
    pair.send(20, &[3, 7, 8, 15]);
    assert!(pair.emit(Choice::ProtectAgain).is_none(), "there is no set");
    let copies: Vec<_> = (0..4).map(|_| pair.emit(Choice::Recover).expect("something is missing")).collect();
    let protection = [Choice::Protect, Choice::ProtectAgain]
        .map(|choice| pair.emit(choice).expect("copies are under way"));
    assert_eq!(
        pair.sender.opportunity(NOW, false, RTT).protected,
        Some(ProtectedSet { symbols: 4, combinations: 2 })
    );
    for (at, (packet, content)) in copies.into_iter().enumerate() {
        if at < 2 { pair.sender.on_lost(NOW, content) } else { pair.arrive(&packet, content) }
    }
    assert_eq!(pair.missing(), 0, "both count on a combination");
    let [(first, content), (second, again)] = protection;
    pair.arrive(&first, content);
    assert_eq!(pair.delivered.len(), 18);
    pair.arrive(&second, again);
    assert_eq!(pair.delivered.len(), 20);
    pair.report();
    assert!(pair.is_all_delivered() && pair.sender.opportunity(NOW, false, RTT).protected.is_none());
}

#[test]
fn without_a_code_repair_is_a_copy_of_each() {
    let mut pair = Pair::new(NoCode);
    pair.send(20, &[0, 19]);
    for id in [0, 19] {
        let (packet, content) = pair.emit(Choice::Recover).expect("something is missing");
        assert!(
            matches!(Frames::new(&packet).next(), Some(Ok(Frame::Source { id: copied, .. })) if copied == id)
        );
        pair.arrive(&packet, content);
    }
    pair.report();
    assert!(pair.emit(Choice::Recover).is_none() && pair.is_all_delivered());
}

#[test]
fn wire_5_4_5_a_copy_that_does_not_fit_travels_in_pieces() {
    for code in [Arc::new(NoCode) as Arc<dyn Code>, Arc::new(RlcWindow::new(64).unwrap())] {
        let mut pair = Pair::of(code);
        pair.send(5, &[2]);
        let mut pieces = 0;
        while pair.missing() > 0 {
            let mut packet = Vec::new();
            let content = pair
                .sender
                .emit(NOW, Choice::Recover, &mut packet, 60, &mut Made(|_: &mut Vec<u8>, _| {}))
                .expect("a piece");
            assert!(packet.len() <= 60);
            pieces += 1;
            // The first piece is lost at first.
            if pieces == 1 {
                pair.sender.on_lost(NOW, content);
            } else {
                pair.arrive(&packet, content);
            }
        }
        assert_eq!((pieces, pair.delivered.len()), (4, 5));
        pair.report();
        assert!(pair.is_all_delivered());
    }
}

/// After a black-out that looked like a path of a smaller MTU a stream stood still: copies of a symbol's
/// first piece had arrived, the rest was lost, and the symbol counted as under way for ever.
#[test]
fn a_symbol_of_which_only_copies_of_one_piece_arrive_is_missing() {
    let mut pair = Pair::new(RlcWindow::new(64).unwrap());
    pair.send(5, &[2]);
    let piece = |pair: &mut Pair, choice: Choice| {
        let mut packet = Vec::new();
        let mut nothing = Made(|_: &mut Vec<u8>, _| {});
        let content = pair.sender.emit(NOW, choice, &mut packet, 60, &mut nothing).expect("a piece");
        assert!(matches!(Frames::new(&packet).next(), Some(Ok(Frame::SourcePart { id: 2, .. }))));
        (packet, content)
    };
    let mut sent = Vec::new();
    while pair.missing() > 0 {
        sent.push(piece(&mut pair, Choice::Recover));
    }
    let probe = Choice::Repair { symbols: 5, reason: RepairReason::Tail };
    let first = [sent.remove(0), piece(&mut pair, probe), piece(&mut pair, probe)];
    for (_, lost) in sent {
        pair.sender.on_lost(NOW, lost);
    }
    for (packet, content) in first {
        pair.arrive(&packet, content);
    }
    assert_eq!(pair.missing(), 1);
    while pair.missing() > 0 {
        let (packet, content) = piece(&mut pair, Choice::Recover);
        pair.arrive(&packet, content);
    }
    pair.report();
    assert!(pair.is_all_delivered());
}

/// Packets of 60 bytes, where symbols of 100 were made: as much as can be sent of what is asked for, until
/// `is_enough`.
fn recover_in_parts(pair: &mut Pair, is_enough: impl Fn(&Pair) -> bool) -> Vec<(Vec<u8>, Content)> {
    let mut sent = Vec::new();
    while pair.missing() > 0 && !is_enough(pair) {
        let (mut packet, mut nothing) = (Vec::new(), Made(|_: &mut Vec<u8>, _| {}));
        let content = pair.sender.emit(NOW, Choice::Recover, &mut packet, 60, &mut nothing);
        let Some(content) = content else { break };
        assert!(matches!(Frames::new(&packet).next(), Some(Ok(Frame::SourcePart { .. }))));
        sent.push((packet, content));
    }
    sent
}

/// All that is asked for gets through such packets, of which none is lost.
fn assert_all_get_through_in_parts(pair: &mut Pair) {
    for _ in 0..100 {
        for (packet, content) in recover_in_parts(pair, |_| false) {
            pair.arrive(&packet, content);
        }
        pair.report();
    }
    assert!(pair.is_all_delivered(), "{} of them", pair.delivered.len());
}

/// New symbols, whose fate is to be told.
fn emit_sources(pair: &mut Pair, count: usize) -> Vec<Content> {
    (0..count).map(|_| pair.emit(Choice::Source).expect("new data").1).collect()
}

/// Symbols that no longer fit a packet: `PARTIAL_MAX` of them are in parts, and an older one is lost.
#[test]
fn the_oldest_symbol_is_not_shut_out_by_those_that_are_in_parts() {
    let codes = [Arc::new(NoCode) as Arc<dyn Code>, Arc::new(RlcWindow::new(64).unwrap())];
    for code in codes.into_iter().chain([Arc::new(RlcBlock::new(60).unwrap()) as Arc<dyn Code>]) {
        let mut pair = Pair::of(code);
        let mut sources = emit_sources(&mut pair, 60);
        let others = sources.split_off(1);
        pair.lose(others);
        let is_full = |pair: &Pair| pair.sender.ledger().parts.is_full();
        let pieces = recover_in_parts(&mut pair, is_full);
        assert!(is_full(&pair));
        pair.lose(pieces.into_iter().map(|(_, content)| content));
        pair.lose(sources);
        assert_all_get_through_in_parts(&mut pair);
    }
}

/// The same, but those in parts count as restored by combinations of which nothing was said yet.
#[test]
fn nor_by_those_that_are_believed_to_be_restored() {
    let mut pair = Pair::new(RlcWindow::new(64).unwrap());
    let oldest = emit_sources(&mut pair, 1);
    for _ in 0..2 {
        let sources = emit_sources(&mut pair, 8);
        pair.lose(sources);
        let pieces = recover_in_parts(&mut pair, |_| false);
        // The path carries more again, for a while.
        let mut combinations = vec![pair.emit(Choice::Protect).expect("copies are under way")];
        combinations.extend((0..7).map(|_| pair.emit(Choice::ProtectAgain).expect("a set")));
        pair.lose(pieces.into_iter().map(|(_, content)| content));
        combinations.into_iter().for_each(|(packet, content)| pair.arrive(&packet, content));
    }
    assert!(pair.sender.ledger().parts.is_full());
    pair.lose(oldest);
    assert_all_get_through_in_parts(&mut pair);
}

#[test]
fn a_combination_whose_symbols_no_longer_fit_becomes_a_piece_of_a_copy() {
    let mut pair = Pair::new(RlcWindow::new(64).unwrap());
    for _ in 0..5 {
        pair.emit(Choice::Source).expect("new data");
    }
    let mut packet = Vec::new();
    let tail = Choice::Repair { symbols: 5, reason: RepairReason::Tail };
    assert!(pair.sender.emit(NOW, tail, &mut packet, 60, &mut Made(|_: &mut Vec<u8>, _| {})).is_some());
    assert!(
        packet.len() <= 60
            && matches!(Frames::new(&packet).next(), Some(Ok(Frame::SourcePart { id: 0, .. })))
    );
}

/// One repair symbol over a block of two, of which nothing has arrived.
fn block_repair(receiver: &mut SymbolReceiver, block: u64) -> Result<(), TransportError> {
    let window = fulmar_fec::Window { first: SymbolId(block * 2), len: 2 };
    let mut packet = Vec::new();
    frame::put_repair_window_header(&mut packet, RlcBlock::ID, window, RepairKey(1));
    packet.extend_from_slice(&[1; 50]);
    let Some(Ok(Frame::Repair(repair))) = Frames::new(&packet).next() else { panic!("a repair symbol") };
    receiver.on_repair(&repair, &mut |_| Ok(()))
}

#[test]
fn a_report_asks_the_decoder_no_more_than_an_ack_can_name() {
    let code = RlcBlock::new(2).unwrap();
    let mut receiver = SymbolReceiver::new(&code, 100, DecoderLimits::new(4096, 1024));
    (0..1000).for_each(|block| block_repair(&mut receiver, block).unwrap());
    let before = receiver.work();
    let named = receiver.state().windows.len() as u64;
    let many = receiver.work() - before;
    let mut few = SymbolReceiver::new(&code, 100, DecoderLimits::new(4096, 1024));
    (0..named).for_each(|block| block_repair(&mut few, block).unwrap());
    let before = few.work();
    few.state();
    assert!(named > 0 && many <= few.work() - before, "{many} for {named} of 1000 blocks");
}

#[test]
fn what_the_decoder_has_no_room_for_counts_as_lost() {
    let code = RlcBlock::new(2).unwrap();
    let mut receiver = SymbolReceiver::new(&code, 100, DecoderLimits::new(4096, 4));
    let kept = (0..100).filter(|&block| {
        block_repair(&mut receiver, block).unwrap();
        !receiver.take_dropped()
    });
    let kept = kept.count();
    assert!((1..100).contains(&kept), "{kept}");
    assert_eq!(receiver.stats().dropped, 100 - kept as u64);
}

/// TCP/NC's sender, and a receiver at the other end of a path on which `is_lost` decides.
struct Combined {
    coding: Coding,
    receiver: SymbolReceiver,
    sent: u64,
    delivered: Vec<Vec<u8>>,
}

impl Combined {
    /// Of packets sent, `R` per symbol over at most `window_packets`.
    fn new(redundancy: f64, window_packets: u32) -> Self {
        let code: Arc<dyn Code> = Arc::new(RlcWindow::new(64).unwrap());
        let mut config = TcpNcConfig::default();
        config.window_packets = window_packets;
        let policy = Box::new(TcpNcCombinations::new(config, redundancy));
        let mut coding = Coding::new(policy, Box::new(FixedSizing::longest()), 1 << 20);
        coding.set_code(code.clone(), 100, 256);
        let receiver = SymbolReceiver::new(&*code, 100, DecoderLimits::new(256, 64));
        Self { coding, receiver, sent: 0, delivered: Vec::new() }
    }

    /// Sends `count` packets, of which those at `lost` do not arrive, and learns what one ACK tells of them.
    fn send(&mut self, count: u64, lost: &[u64]) -> CodingNews {
        let (mut fates, mut gone) = (Vec::new(), Vec::new());
        let view = PathView::unknown(1200);
        for at in 0..count {
            let Next::Packet(turn) = self.coding.next(NOW, &view, true) else { panic!("nothing to send") };
            let mut packet = Vec::new();
            let mut source = Made(|symbol: &mut Vec<u8>, _| {
                symbol.resize(100, self.sent as u8 + 1);
                self.sent += 1;
            });
            let content = self.coding.emit(turn, &view, &mut packet, SPACE, &mut source).expect("a packet");
            if lost.contains(&at) {
                gone.push(Fate::Lost(content));
            } else {
                receive(&mut self.receiver, &packet, &mut self.delivered);
                fates.push(Fate::Arrived(content));
            }
        }
        let state = self.receiver.state();
        let fates = fates.into_iter().chain(gone);
        self.coding.settle(NOW, RTT, fates, Some(&state)).expect("a true report").coding
    }
}

#[test]
fn degrees_of_freedom_are_those_that_the_receiver_reports() {
    let mut path = Combined::new(2.0, 64);
    let mut delivered = 0;
    for round in 0..20 {
        let news = path.send(12, &[4]);
        delivered += u64::from(news.dof_delivered);
        assert_eq!(news.dof_delivered + news.dof_redundant, 11);
        assert_eq!((delivered, path.delivered.len() as u64), (path.sent, path.sent), "round {round}");
    }
}

/// Two packets in a row are lost and every combination covers two symbols: the first of the two is never
/// seen, so that the ACK of TCP/NC stands still there, whatever comes.
#[test]
fn the_ack_stands_at_the_first_symbol_not_seen() {
    let news = Combined::new(1.0, 2).send(12, &[4, 5]);
    assert_eq!((news.dof_delivered, news.dof_redundant, news.duplicate_acks), (10, 0, 6));
}

/// fmax = 1: the packet of a symbol is lost and the repair right behind it arrives, before anybody knows of
/// the loss.
#[test]
fn the_repair_of_a_group_of_one_recovers() {
    let mut pair = Pair::new(XorGroups::new(1, 64).unwrap());
    let group = Choice::Group { symbols: 1, groups: 1, group: 0 };
    let mut repaired = 0;
    for round in 0..10 {
        let (source, lost) = pair.emit(Choice::Source).expect("new data");
        let (repair, content) = pair.emit(group).expect("its repair");
        assert!(matches!(Frames::new(&repair).next(), Some(Ok(Frame::Repair(_)))));
        let is_lost = round % 3 == 0;
        if !is_lost {
            pair.arrive(&source, lost);
        }
        pair.arrive(&repair, content);
        pair.report();
        if is_lost {
            pair.sender.on_lost(NOW, lost);
            repaired += 1;
        }
        assert_eq!(pair.sender.take_repaired_early(), u32::from(is_lost));
        assert_eq!((pair.missing(), pair.receiver.stats().recovered), (0, repaired));
    }
    let stats = &pair.sender.ledger().stats;
    assert_eq!((stats.lost, stats.repaired, stats.repairs_proactive), (repaired, repaired, 10));
    assert!(pair.is_all_delivered());
}

/// The next of the symbols that were lost more than once, while new data leave: losses and copies.
fn often_lost(pair: &Pair) -> Option<(u32, u32)> {
    let often = pair.sender.often_lost(true)?;
    Some((often.losses, often.copies))
}

/// A receiver that retains 256 symbols, of which 224 may be referred to: what is older than twice as many is
/// old.
#[test]
fn what_is_old_and_was_lost_twice_is_shown_again_and_again_until_something_else_leaves() {
    let mut pair = Pair::new(NoCode);
    pair.send(500, &[3]);
    let (_, copy) = pair.emit(Choice::Recover).expect("a copy");
    pair.send(40, &[]);
    assert_eq!(often_lost(&pair), None, "lost once");
    pair.sender.on_lost(NOW, copy);
    pair.emit(Choice::Recover).expect("a copy");
    assert_eq!(often_lost(&pair), None, "a burst would take both");
    pair.send(32, &[]);
    assert_eq!(often_lost(&pair), Some((2, 1)));
    let (packet, second) = pair.emit(Choice::CopyAgain).expect("another copy");
    assert_eq!(often_lost(&pair), None);
    assert_eq!(pair.sender.often_lost(false).map(|often| often.copies), Some(2));
    pair.send(32, &[]);
    assert_eq!(often_lost(&pair), Some((2, 2)));
    pair.send(1, &[]);
    assert_eq!(often_lost(&pair), None, "no more was wanted");
    assert_eq!(pair.emit(Choice::CopyAgain), None);
    pair.arrive(&packet, second);
    pair.report();
    assert!(pair.is_all_delivered());
}
