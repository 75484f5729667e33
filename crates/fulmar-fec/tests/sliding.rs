//! The sliding decoder against the reference: after every event both must say the same.

use fulmar_fec::*;

mod common;
use common::{Draw, drain, is_padded};

/// Sends `count` symbols with losses, reordering, duplicates and repair over random covers to both decoders.
fn compare<C: Code + Rows + Clone + 'static>(code: C, seed: u64, count: u64, limits: DecoderLimits) {
    let mut draw = Draw(seed);
    let loss = 1 + draw.below(60);
    let source: Vec<Vec<u8>> =
        (0..count).map(|_| (0..1 + draw.below(24)).map(|_| draw.below(256) as u8).collect()).collect();
    let mut encoder = code.encoder(24);
    let (mut fast, mut reference) = (code.decoder(24, limits), Linear::new(code).linear_decoder(24, limits));
    let mut repair = [0; 24];
    for step in 0..count * 3 {
        let newest = (step / 2).min(count - 1);
        let (a, b);
        if draw.below(2) == 0 {
            let id = SymbolId(newest - draw.below(10).min(newest));
            if draw.below(100) < loss {
                continue;
            }
            a = fast.on_source(id, &source[id.0 as usize]);
            b = reference.on_source(id, &source[id.0 as usize]);
        } else {
            let first = newest - draw.below(20).min(newest);
            let window = Window { first: SymbolId(first), len: 1 + draw.below(newest - first + 1) as u32 };
            let set: Vec<SymbolId> = (newest.saturating_sub(40)..=newest)
                .map(SymbolId)
                .filter(|id| !fast.is_decoded(*id))
                .take(8)
                .collect();
            let cover =
                if step % 3 == 0 && !set.is_empty() { Cover::Set(&set) } else { Cover::Window(window) };
            let key = RepairKey(draw.below(1 << 32) as u32);
            let len = encoder.repair(cover, key, &source, &mut repair).unwrap();
            a = fast.on_repair(cover, key, &repair[..len]);
            b = reference.on_repair(cover, key, &repair[..len]);
        }
        assert_eq!(a, b, "seed {seed} step {step}");
        let recovered = drain(&mut *fast);
        assert_eq!(recovered, drain(&mut reference), "seed {seed} step {step}");
        assert!(recovered.iter().all(|(id, symbol)| is_padded(symbol, &source[id.0 as usize])));
        assert_eq!(fast.decoded_below(), reference.decoded_below());
        assert_eq!(fast.seen_below(), reference.seen_below(), "seed {seed} step {step}");
        let window =
            Window { first: SymbolId(newest.saturating_sub(draw.below(30))), len: 1 + draw.below(30) as u32 };
        // What reaches beyond the window may be left out of account, unless it is all there is.
        let (said, truth) = (fast.deficit(window), reference.deficit(window));
        assert!(said >= truth && (said == 0) == (truth == 0), "seed {seed} step {step} {window:?}");
        let rest = Window { len: (count - window.first.0) as u32, ..window };
        assert_eq!(fast.deficit(rest), reference.deficit(rest), "seed {seed} step {step} {rest:?}");
        if draw.below(20) == 0 {
            let below = SymbolId(fast.decoded_below().0 + draw.below(3));
            fast.release(below);
            reference.release(below);
        }
    }
}

#[test]
fn agrees_with_the_reference() {
    let limits = DecoderLimits::new(2000, 100);
    for seed in 0..60 {
        compare(RlcWindow::new(64).unwrap(), seed, 120, limits);
        compare(RlcWindow::new(64).unwrap().with_density(Density::of_256(60).unwrap()), seed, 120, limits);
    }
}

#[test]
fn agrees_with_the_reference_when_equations_have_to_go() {
    let limits = DecoderLimits::new(2000, 4);
    for seed in 0..60 {
        compare(RlcWindow::new(64).unwrap(), seed, 120, limits);
    }
}
