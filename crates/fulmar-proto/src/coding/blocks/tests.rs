//! A sender over blocks against a receiver, packet by packet, through every code that has blocks.

use std::collections::BTreeSet;

use fulmar_fec::{DecoderLimits, RaptorQ, ReedSolomon, RlcBlock};
use fulmar_systems::dfcp::{DfcpRaptor, Taus88};

use super::*;
use crate::coding::SymbolReceiver;
use crate::coding::strategy;
use crate::coding::tests::Made;
use crate::wire::frame::{Frame, Frames, OpenWindow};

const NOW: Instant = Instant::ZERO;
const RTT: Duration = Duration::from_millis(100);
const SYMBOL: usize = 400;
const SPACE: usize = SYMBOL + 20;

struct Pair {
    sender: Box<dyn Strategy>,
    receiver: SymbolReceiver,
    delivered: BTreeSet<u32>,
    /// Symbols that the application still has.
    left: u32,
    packets: u32,
}

impl Pair {
    fn new(code: Arc<dyn Code>, symbols: u32) -> Self {
        let limits = DecoderLimits::new(4096, 1024);
        let receiver = SymbolReceiver::new(&*code, SYMBOL, limits);
        let sender = strategy(code, SYMBOL, 4096);
        Self { sender, receiver, delivered: BTreeSet::new(), left: symbols, packets: 0 }
    }

    /// What the policy sees.
    fn look(&mut self) -> Opportunity {
        let has_data = self.left > 0;
        if !has_data {
            self.sender.on_data_exhausted();
        }
        self.sender.opportunity(NOW, has_data, RTT)
    }

    fn is_all_delivered(&self) -> bool {
        self.sender.ledger().is_all_delivered()
    }

    /// One packet, if the choice can be carried out.
    fn emit(&mut self, choice: Choice) -> Option<(Vec<u8>, Content)> {
        let mut packet = Vec::new();
        let left = &mut self.left;
        let mut source = Made(|symbol: &mut Vec<u8>, room: usize| {
            if *left > 0 {
                symbol.extend_from_slice(&left.to_be_bytes());
                symbol.resize(SYMBOL.min(room), *left as u8);
                *left -= 1;
            }
        });
        let content = self.sender.emit(NOW, choice, &mut packet, SPACE, &mut source)?;
        self.packets += 1;
        Some((packet, content))
    }

    fn arrive(&mut self, packet: &[u8], content: Content) {
        let delivered = &mut self.delivered;
        let mut deliver = |symbol: &[u8]| -> Result<(), TransportError> {
            let number = u32::from_be_bytes(symbol[..4].try_into().unwrap());
            assert!(symbol[4..].iter().all(|byte| *byte == number as u8));
            assert!(delivered.insert(number), "{number} twice");
            Ok(())
        };
        match Frames::new(packet).next() {
            Some(Ok(Frame::Source { id, symbol })) => self.receiver.on_source(id, symbol, &mut deliver),
            Some(Ok(Frame::Repair(repair))) => self.receiver.on_repair(&repair, &mut deliver),
            other => panic!("{other:?}"),
        }
        .expect("a sound sender");
        self.sender.on_arrived(NOW, content, false);
        let state = self.receiver.state();
        self.sender.on_report(NOW, &state).expect("a true report");
    }
}

fn codes() -> Vec<Arc<dyn Code>> {
    vec![
        Arc::new(ReedSolomon::new(32, 8).unwrap()),
        Arc::new(RlcBlock::new(32).unwrap()),
        Arc::new(RlcBlock::new(32).unwrap().not_systematic()),
        Arc::new(DfcpRaptor::new(Taus88::seeded(7))),
        Arc::new(RaptorQ::new(32).unwrap()),
    ]
}

#[test]
fn every_code_delivers_everything_whatever_is_lost() {
    for code in codes() {
        for lost_percent in [0, 30, 50] {
            let mut draw = 1u32;
            let mut pair = Pair::new(code.clone(), 500);
            let mut under_way = VecDeque::new();
            for _ in 0..20_000 {
                if pair.left == 0 && pair.is_all_delivered() {
                    break;
                }
                if pair.sender.needs_plan() {
                    pair.sender.plan_block(20);
                }
                let seen = pair.look();
                let choice = match seen.missing {
                    0 if seen.has_new_data => Choice::Source,
                    0 => Choice::Wait(None),
                    _ => Choice::Recover,
                };
                match pair.emit(choice) {
                    Some(sent) => under_way.push_back(sent),
                    None if under_way.is_empty() => {
                        let mut packet = Vec::new();
                        let probe =
                            pair.sender.emit_probe(&mut packet, SPACE).expect("something is not delivered");
                        under_way.push_back((packet, probe));
                    }
                    None => {}
                }
                if under_way.len() > 40 || choice == Choice::Wait(None) {
                    let Some((packet, content)) = under_way.pop_front() else { continue };
                    // Numerical Recipes' generator; its high bits are good enough.
                    draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if (draw >> 16) % 100 < lost_percent {
                        pair.sender.on_lost(NOW, content);
                    } else {
                        pair.arrive(&packet, content);
                    }
                }
            }
            assert_eq!(pair.delivered.len(), 500, "{code:?}, {lost_percent} % lost");
            assert!(pair.is_all_delivered(), "{code:?}");
            assert_eq!(pair.sender.ledger().ring.held_bytes(), 0);
        }
    }
}

#[test]
fn a_block_lacks_what_neither_arrived_nor_is_under_way() {
    let mut pair = Pair::new(Arc::new(ReedSolomon::new(32, 8).unwrap()), 100);
    pair.sender.plan_block(5);
    let sent: Vec<_> = (0..5).map(|_| pair.emit(Choice::Source).unwrap()).collect();
    let view = pair.look().block;
    assert_eq!((view.symbols, view.is_open, view.undecoded), (5, false, 1));
    let repair = Choice::Repair { symbols: 5, reason: RepairReason::Proactive };
    let repairs: Vec<_> = (0..2).map(|_| pair.emit(repair).unwrap()).collect();
    assert_eq!((pair.look().missing, pair.look().block.repairs), (0, 2));
    // n - k = 2: with two of seven lost it is decodable, with three it lacks one at once (Hourt 2014, section
    // 3.4).
    for (_, content) in &sent[..2] {
        pair.sender.on_lost(NOW, *content);
    }
    assert_eq!(pair.look().missing, 0);
    pair.sender.on_lost(NOW, sent[2].1);
    assert_eq!(pair.look().missing, 1);
    let (packet, content) = pair.emit(Choice::Recover).unwrap();
    assert_eq!(pair.look().missing, 0);
    for (packet, content) in sent[3..].iter().chain(&repairs).chain([&(packet, content)]) {
        pair.arrive(packet, *content);
    }
    assert_eq!(pair.delivered.len(), 5);
    assert!(pair.is_all_delivered());
    // A loss taken back counts for the block and not for flight.
    assert!(!pair.sender.on_arrived(NOW, sent[0].1, true));
}

/// A receiver that begins a block again (DFCP's, from 71 segments) lacks nearly all of it: as much is sent at
/// once, not one packet a round trip.
#[test]
fn a_block_that_does_not_decode_lacks_all_that_the_receiver_says() {
    let mut pair = Pair::new(Arc::new(DfcpRaptor::new(Taus88::seeded(7))), 64);
    pair.sender.plan_block(64);
    let mut sent = vec![pair.emit(Choice::Source).unwrap().1];
    let needed = 1 + pair.look().missing;
    while pair.look().missing > 0 {
        sent.push(pair.emit(Choice::Recover).unwrap().1);
    }
    let window = Window { first: SymbolId(0), len: 64 };
    let undecoded =
        |deficit| CodingState { windows: [OpenWindow { window, deficit }].into(), ..CodingState::default() };
    for content in sent {
        pair.sender.on_arrived(NOW, content, false);
    }
    pair.sender.on_report(NOW, &undecoded(60)).unwrap();
    let mut under_way = Vec::new();
    for lacking in (1..=60).rev() {
        assert_eq!(pair.look().missing, lacking);
        under_way.push(pair.emit(Choice::Recover).unwrap().1);
    }
    pair.sender.on_lost(NOW, under_way.pop().unwrap());
    assert_eq!(pair.look().missing, 1, "one that is lost is lacking again");
    under_way.push(pair.emit(Choice::Recover).unwrap().1);
    for content in under_way {
        pair.sender.on_arrived(NOW, content, false);
    }
    assert_eq!(pair.look().missing, 0);
    pair.sender.on_report(NOW, &undecoded(u32::MAX)).unwrap();
    assert_eq!(pair.look().missing, needed, "whatever a report says, no more than a whole block");
}

#[test]
fn a_loss_in_a_block_that_gets_no_more_data_closes_it() {
    let mut pair = Pair::new(Arc::new(RlcBlock::new(32).unwrap()), 3);
    let sent: Vec<_> = (0..3).map(|_| pair.emit(Choice::Source).unwrap()).collect();
    assert!(pair.look().block.is_open);
    pair.sender.on_lost(NOW, sent[1].1);
    assert_eq!((pair.look().missing, pair.look().block.is_open), (1, false));
}

#[test]
fn when_repair_symbols_are_used_up_copies_follow() {
    let mut pair = Pair::new(Arc::new(ReedSolomon::new(4, 1).unwrap()), 4);
    let sent: Vec<_> = (0..4).map(|_| pair.emit(Choice::Source).unwrap()).collect();
    sent.iter().for_each(|(_, content)| pair.sender.on_lost(NOW, *content));
    assert_eq!(pair.look().missing, 4);
    let (_, first) = pair.emit(Choice::Recover).unwrap();
    assert_eq!(first, Content::Repair(0));
    for id in 0..3 {
        let (packet, copy) = pair.emit(Choice::Recover).unwrap();
        assert_eq!(copy, Content::Copy(SymbolId(id)));
        pair.arrive(&packet, copy);
    }
    pair.sender.on_lost(NOW, first);
    let (packet, last) = pair.emit(Choice::Recover).unwrap();
    pair.arrive(&packet, last);
    assert_eq!(pair.delivered.len(), 4);
}

#[test]
fn a_report_of_what_was_never_sent_is_an_error() {
    let mut pair = Pair::new(Arc::new(RlcBlock::new(8).unwrap()), 1);
    let state = CodingState { decoded_below: SymbolId(1), ..CodingState::default() };
    assert!(pair.sender.on_report(NOW, &state).is_err());
}
