//! Sender and receiver against each other, packet by packet.

use std::sync::Arc;
use std::time::Duration;

use fulmar_control::{Choice, Instant, RepairReason};
use fulmar_fec::{Code, DecoderLimits, NoCode, RlcWindow, SymbolId};

use super::{Emitted, SymbolReceiver, SymbolSender, symbol_sender};
use crate::TransportError;
use crate::wire::frame::{Frame, Frames, RepairSpan};

const NOW: Instant = Instant::ZERO;
const RTT: Duration = Duration::from_millis(100);
const SPACE: usize = 150;

struct Pair {
    sender: Box<dyn SymbolSender>,
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
        Self { sender: symbol_sender(code, 100, 256), receiver, delivered: Vec::new() }
    }

    fn emit(&mut self, choice: Choice) -> Option<(Vec<u8>, Emitted)> {
        let mut packet = Vec::new();
        let id = self.sender.next_id().0;
        let emitted = self
            .sender
            .emit(NOW, choice, &mut packet, SPACE, &mut |symbol, _| symbol.resize(100, id as u8 + 1));
        emitted.map(|emitted| (packet, emitted))
    }

    fn arrive(&mut self, packet: &[u8], emitted: Emitted) {
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
        self.sender.on_acked(emitted.content, false);
    }

    /// Sends `count` new symbols, of which those at `lost` do not arrive.
    fn send(&mut self, count: u64, lost: &[u64]) {
        let mut gone = Vec::new();
        for at in 0..count {
            let (packet, emitted) = self.emit(Choice::Source).expect("new data");
            if lost.contains(&at) { gone.push(emitted) } else { self.arrive(&packet, emitted) }
        }
        gone.into_iter().for_each(|emitted| {
            self.sender.on_lost(NOW, emitted.content);
        });
        self.report();
    }

    fn report(&mut self) {
        let state = self.receiver.state();
        self.sender.on_peer_state(NOW, state).expect("a true report");
    }
}

#[test]
fn repair_that_is_asked_for_is_of_exactly_the_symbols_known_missing() {
    let mut pair = Pair::new(RlcWindow::new(64).unwrap());
    let lost = [3u64, 7, 8, 15];
    pair.send(20, &lost);
    assert_eq!(pair.sender.slot(NOW, false, RTT).missing, 4);
    let mut copies = Vec::new();
    let mut named = Vec::new();
    while pair.sender.slot(NOW, false, RTT).missing > 0 {
        let (packet, emitted) = pair.emit(Choice::Recover).expect("something is missing");
        let Some(Ok(Frame::Source { id, .. })) = Frames::new(&packet).next() else { panic!("not a copy") };
        named.push(u64::from(id));
        copies.push((packet, emitted));
    }
    assert_eq!(named, lost);
    let (insurance, emitted) = pair.emit(Choice::Insure).expect("copies are under way");
    let Some(Ok(Frame::Repair(repair))) = Frames::new(&insurance).next() else { panic!("no combination") };
    let RepairSpan::Set(gaps) = &repair.span else { panic!("not over a set") };
    let mut ids = Vec::new();
    gaps.resolve(SymbolId(u64::from(repair.first)), &mut ids);
    assert_eq!(ids, lost.map(SymbolId));

    // Any four of the five restore the four: the copy of 7 is lost too, and costs no round trip.
    let (_, seven) = copies.remove(1);
    for (packet, emitted) in copies {
        pair.arrive(&packet, emitted);
    }
    assert_eq!(pair.delivered.len(), 19);
    pair.arrive(&insurance, emitted);
    assert_eq!(pair.delivered.len(), 20);
    pair.sender.on_lost(NOW, seven.content);
    assert_eq!(pair.sender.slot(NOW, false, RTT).missing, 0, "what was decoded is not asked for");
    pair.report();
    assert!(pair.sender.is_all_delivered());
}

#[test]
fn without_a_code_repair_is_a_copy_of_each() {
    let mut pair = Pair::new(NoCode);
    pair.send(20, &[0, 19]);
    for id in [0, 19] {
        let (packet, emitted) = pair.emit(Choice::Recover).expect("something is missing");
        assert!(
            matches!(Frames::new(&packet).next(), Some(Ok(Frame::Source { id: copied, .. })) if copied == id)
        );
        pair.arrive(&packet, emitted);
    }
    pair.report();
    assert!(pair.emit(Choice::Recover).is_none() && pair.sender.is_all_delivered());
}

#[test]
fn wire_5_4_5_a_copy_that_does_not_fit_travels_in_pieces() {
    for code in [Arc::new(NoCode) as Arc<dyn Code>, Arc::new(RlcWindow::new(64).unwrap())] {
        let mut pair = Pair::of(code);
        pair.send(5, &[2]);
        let mut pieces = 0;
        while pair.sender.slot(NOW, false, RTT).missing > 0 {
            let mut packet = Vec::new();
            let emitted =
                pair.sender.emit(NOW, Choice::Recover, &mut packet, 60, &mut |_, _| {}).expect("a piece");
            assert!(packet.len() <= 60);
            pieces += 1;
            // The first piece is lost at first.
            if pieces == 1 {
                pair.sender.on_lost(NOW, emitted.content);
            } else {
                pair.arrive(&packet, emitted);
            }
        }
        assert_eq!((pieces, pair.delivered.len()), (4, 5));
        pair.report();
        assert!(pair.sender.is_all_delivered());
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
    assert!(pair.sender.emit(NOW, tail, &mut packet, 60, &mut |_, _| {}).is_some());
    assert!(
        packet.len() <= 60
            && matches!(Frames::new(&packet).next(), Some(Ok(Frame::SourcePart { id: 0, .. })))
    );
}
