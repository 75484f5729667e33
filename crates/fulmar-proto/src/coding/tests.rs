//! Sender and receiver against each other, packet by packet.

use std::sync::Arc;
use std::time::Duration;

use fulmar_control::{Choice, RepairReason};
use fulmar_fec::{Code, DecoderLimits, NoCode, RepairKey, RlcBlock, RlcWindow, SymbolId};
use fulmar_units::Instant;

use super::strategy::Strategy;
use super::{Content, Source, SymbolReceiver, strategy};
use crate::TransportError;
use crate::wire::frame::{self, Frame, Frames, RepairSpan};

const NOW: Instant = Instant::ZERO;
const RTT: Duration = Duration::from_millis(100);
const SPACE: usize = 150;

/// Makes symbols by a function.
pub(super) struct Made<F>(pub(super) F);

impl<F: FnMut(&mut Vec<u8>, usize)> Source for Made<F> {
    fn has_pending(&self) -> bool {
        true
    }

    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize) {
        (self.0)(symbol, bytes_max);
    }
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
        let mut source = Made(|symbol: &mut Vec<u8>, _| symbol.resize(100, id as u8 + 1));
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
        let delivered = &mut self.delivered;
        let mut deliver = |symbol: &[u8]| -> Result<(), TransportError> {
            delivered.push(symbol.to_vec());
            Ok(())
        };
        match Frames::new(packet).next() {
            Some(Ok(Frame::Source { id, symbol })) => self.receiver.on_source(id, symbol, &mut deliver),
            Some(Ok(Frame::SourcePart { id, len, start, piece })) => {
                self.receiver.on_part(id, len, start, piece, &mut deliver)
            }
            Some(Ok(Frame::Repair(repair))) => self.receiver.on_repair(&repair, &mut deliver),
            other => panic!("{other:?}"),
        }
        .expect("a sound sender");
        self.sender.on_arrived(content, false);
    }

    /// Sends `count` new symbols, of which those at `lost` do not arrive.
    fn send(&mut self, count: u64, lost: &[u64]) {
        let mut gone = Vec::new();
        for at in 0..count {
            let (packet, content) = self.emit(Choice::Source).expect("new data");
            if lost.contains(&at) { gone.push(content) } else { self.arrive(&packet, content) }
        }
        gone.into_iter().for_each(|content| {
            self.sender.on_lost(NOW, content);
        });
        self.report();
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
    let (insurance, content) = pair.emit(Choice::Insure).expect("copies are under way");
    let Some(Ok(Frame::Repair(repair))) = Frames::new(&insurance).next() else { panic!("no combination") };
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
    pair.arrive(&insurance, content);
    assert_eq!(pair.delivered.len(), 20);
    pair.sender.on_lost(NOW, seven);
    assert_eq!(pair.missing(), 0, "what was decoded is not asked for");
    pair.report();
    assert!(pair.is_all_delivered());
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
