//! The sender's counts against a count of its symbols, through whatever may happen to packets.

use fulmar_fec::{RlcWindow, Window};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::coding::ring::SymbolState;
use crate::coding::tests::Made;
use crate::wire::frame::OpenWindow;

const RTT: Duration = Duration::from_millis(50);
const SPACE: usize = 150;

/// A sender whose packets meet any fate, in any order.
struct Field {
    sender: SlidingSender,
    rng: Pcg64Mcg,
    now: Instant,
    in_flight: Vec<Content>,
    lost: Vec<Content>,
}

impl Field {
    /// The receiver retains few symbols, so that many are out of reach.
    fn new(seed: u64) -> Self {
        let code = Arc::new(RlcWindow::new(64).expect("a sound length"));
        Self {
            sender: SlidingSender::new(code, 100, 64),
            rng: Pcg64Mcg::seed_from_u64(seed),
            now: Instant::ZERO,
            in_flight: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn emit(&mut self, choice: Choice) {
        let (mut packet, mut source) = (Vec::new(), Made(|symbol: &mut Vec<u8>, _| symbol.resize(100, 1)));
        let space = if self.draw(20) == 0 { 60 } else { SPACE };
        self.in_flight.extend(self.sender.emit(self.now, choice, &mut packet, space, &mut source));
    }

    fn emit_any(&mut self) {
        let choice = match self.draw(12) {
            0 => Choice::Repair { symbols: 1 + self.draw(20) as u32, reason: RepairReason::Proactive },
            1 => Choice::Protect,
            2 => Choice::ProtectAgain,
            3 => Choice::SecondCopy,
            4 if self.sender.often_lost(false).is_some() => Choice::CopyAgain,
            5 => Choice::Combine { symbols: 1 + self.draw(9) as u32 },
            6 => {
                let mut packet = Vec::new();
                self.in_flight.extend(self.sender.emit_probe(&mut packet, SPACE));
                return;
            }
            7..=8 => Choice::Recover,
            _ => Choice::Source,
        };
        self.emit(choice);
    }

    fn settle_any(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let at = self.draw(self.in_flight.len().min(12) as u64) as usize;
        let content = self.in_flight.remove(at);
        match self.draw(10) {
            0..=4 => {
                self.sender.on_arrived(self.now, content, false);
            }
            5..=8 => {
                self.sender.on_lost(self.now, content);
                self.lost.push(content);
            }
            _ => {
                self.sender.on_lost_unheard(self.now, content);
                self.lost.push(content);
            }
        }
    }

    /// What was taken for lost arrives after all, a timeout, or a report.
    fn surprise(&mut self) {
        match self.draw(4) {
            0 if !self.lost.is_empty() => {
                let at = self.draw(self.lost.len() as u64) as usize;
                let content = self.lost.remove(at);
                self.sender.on_arrived(self.now, content, true);
            }
            1 => self.sender.hear(self.now),
            2 => self.sender.catch_up(),
            _ => {
                let ring = &self.sender.ledger.ring;
                let (base, end) = (ring.base().0, ring.next_id().0);
                let below = base + self.draw((end - base + 1).min(4));
                let window = Window { first: SymbolId(below), len: (end - below).min(5) as u32 };
                let state = CodingState {
                    decoded_below: SymbolId(below),
                    seen_below: SymbolId(below),
                    windows: vec![OpenWindow { window, deficit: 2 }; usize::from(window.len > 0)].into(),
                };
                self.sender.on_report(self.now, &state).expect("of what was sent");
            }
        }
    }

    fn audit(&mut self) {
        let ring = &self.sender.ledger.ring;
        self.sender.fates.audit(ring);
        for id in (ring.base().0..ring.next_id().0).map(SymbolId) {
            let held = ring.held(id).expect("it is held");
            let is_sound = match held.state() {
                SymbolState::InFlight(packets) => !held.was_lost() && packets > 0,
                SymbolState::Copied(packets, _) => held.was_lost() && packets > 0,
                SymbolState::Unheard | SymbolState::Covered => held.was_lost(),
                _ => true,
            };
            assert!(is_sound, "{id:?}: {held:?}");
        }
    }
}

#[test]
fn whatever_happens_to_packets_the_counts_are_those_of_the_symbols() {
    for seed in 0..8 {
        let mut field = Field::new(seed);
        for _ in 0..1000 {
            field.now += Duration::from_millis(1);
            match field.draw(10) {
                0..=4 => field.emit_any(),
                5..=8 => field.settle_any(),
                _ => field.surprise(),
            }
            field.audit();
            let opportunity = field.sender.opportunity(field.now, true, RTT);
            assert!(opportunity.missing <= opportunity.missing_symbols);
            field.sender.take_unrepairable(field.now, RTT);
        }
    }
}
