//! The decoder of a window that moves on agrees with the reference, keeps within its limits, and survives
//! whatever comes.

use std::collections::BTreeMap;

use fulmar_fec::*;

mod common;
use common::{Draw, is_padded, source};

/// Over "one", "two" and "three" with ids from 0x3ffff on, key 200.
const VECTOR: [u8; 5] = [106, 144, 212, 27, 27];

/// Symbols known so far, by id.
#[derive(Default)]
struct Known(BTreeMap<u64, Vec<u8>>);

impl Symbols for Known {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        self.0.get(&id.0).map(Vec::as_slice)
    }
}

/// What both ends make of a stream of symbols, each followed by a repair symbol over the last few, of which
/// so many percent arrive, in any order within a few.
fn stream(seed: u64, arrive_percent: u64, mut hear: impl FnMut(Option<SymbolId>, Window, RepairKey, &[u8])) {
    let mut draw = Draw(seed);
    let symbols = source(&mut draw, 300, 40);
    for id in 0..symbols.len() as u64 {
        if draw.below(100) < arrive_percent {
            hear(
                Some(SymbolId(id)),
                Window { first: SymbolId(id), len: 1 },
                RepairKey(0),
                &symbols[id as usize],
            );
        }
        let len = 1 + draw.below(8.min(id + 1));
        let window = Window { first: SymbolId(id + 1 - len), len: len as u32 };
        let (key, mut repair) = (RepairKey(draw.below(256) as u32), Vec::new());
        Recent::repair(window, key, &symbols, &mut repair).unwrap();
        if draw.below(100) < arrive_percent {
            hear(None, window, key, &repair);
        }
    }
}

#[test]
fn it_restores_what_the_reference_restores() {
    for seed in 0..60 {
        let symbols = source(&mut Draw(seed), 300, 40);
        let reference = Linear::new(RlcWindow::new(Recent::COVER_MAX).unwrap());
        let mut reference = reference.linear_decoder(64, DecoderLimits::new(1000, 1000));
        let (mut recent, mut known) = (Recent::new(1000, usize::MAX), Known::default());
        let mut recovered = 0;
        stream(seed, 55, |id, window, key, payload| {
            match id {
                Some(id) => {
                    reference.on_source(id, payload).unwrap();
                    if known.0.insert(id.0, payload.to_vec()).is_none() {
                        recent.on_source(id, payload).unwrap();
                    }
                }
                None => {
                    reference.on_repair(Cover::Window(window), key, payload).unwrap();
                    recent.on_repair(window, key, payload, &known).unwrap();
                }
            }
            while let Some((id, symbol)) = recent.poll_recovered() {
                assert!(is_padded(&symbol, &symbols[id.0 as usize]), "{id:?}");
                assert!(known.0.insert(id.0, symbol).is_none(), "{id:?} twice");
                recovered += 1;
            }
            for id in 0..300 {
                assert_eq!(
                    known.0.contains_key(&id),
                    reference.is_decoded(SymbolId(id)),
                    "{id}, seed {seed}"
                );
            }
        });
        assert!(recovered > 30, "{recovered}");
    }
}

#[test]
fn equations_are_bounded_and_go_with_their_symbols() {
    let (mut recent, known) = (Recent::new(20, 600), Known::default());
    stream(1, 100, |id, window, key, payload| {
        if id.is_none() {
            recent.on_repair(window, key, payload, &known).unwrap();
            while recent.poll_recovered().is_some() {}
            assert!(recent.memory_bytes() < 600 + 20 * (16 * 40 + 64), "{}", recent.memory_bytes());
        }
    });
    recent.release(SymbolId(1000));
    assert!(recent.memory_bytes() < 2000);
}

#[test]
fn contradictions_and_covers_that_are_none_are_refused() {
    let symbols = [b"one".to_vec(), b"two".to_vec()];
    let known = Known((0..2).map(|id| (id, symbols[id as usize].clone())).collect());
    let window = Window { first: SymbolId(0), len: 2 };
    let mut repair = Vec::new();
    Recent::repair(window, RepairKey(3), &symbols[..], &mut repair).unwrap();
    let mut recent = Recent::new(8, 1000);
    assert_eq!(recent.on_repair(window, RepairKey(3), &repair, &known), Ok(()));
    repair[1] ^= 1;
    assert_eq!(recent.on_repair(window, RepairKey(3), &repair, &known), Err(CodeError::Inconsistent));
    assert_eq!(recent.on_repair(window, RepairKey(3), &repair[..2], &known), Err(CodeError::Inconsistent));
    for len in [0, Recent::COVER_MAX + 1] {
        let window = Window { first: SymbolId(0), len };
        assert_eq!(recent.on_repair(window, RepairKey(3), &repair, &known), Err(CodeError::BadCover));
    }
}

#[test]
fn wire_5_6_2_the_repair_symbols_of_datagrams_are_these() {
    let symbols = [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
    let first = 0x3_ffff;
    let known = Known((0..3).map(|id| (first + id, symbols[id as usize].clone())).collect());
    let window = |first| Window { first: SymbolId(first), len: 3 };
    let mut repair = Vec::new();
    Recent::repair(window(first), RepairKey(200), &known, &mut repair).unwrap();
    assert_eq!(repair, VECTOR);
    // Ids count modulo 2^16: the same as RlcWindow's over what is left of them.
    let folded = Known((0..3).map(|id| (0xffff + id, symbols[id as usize].clone())).collect());
    let mut of_code = [0; 5];
    let cover = Cover::Window(window(0xffff));
    RlcWindow::new(8).unwrap().encoder(5).repair(cover, RepairKey(200), &folded, &mut of_code).unwrap();
    assert_eq!(repair, of_code);
}
