//! Peers that mean harm: bounded work for every call, bounded memory, and errors that say what is wrong.

use fulmar_fec::*;
use fulmar_systems::codes::{NAMES, by_name, from_parameters};

mod common;
use common::Draw;
use common::attacks::attacks;
use common::block;
use common::hostile::drive;
use common::probe::Probe;

#[test]
fn the_worst_known_attacks_stay_within_the_bounds() {
    for attack in attacks() {
        let mut probe = Probe::new(&*attack.code, attack.symbol_bytes, attack.limits, || 0.0);
        (attack.run)(&mut probe, attack.symbol_bytes);
        assert!(probe.work_most > 0, "{}", attack.name);
    }
}

/// What a client could name and did: 41 kB of these and a server was busy for 31 s.
#[test]
fn covers_that_overlap_a_block_on_its_way_are_refused() {
    let codes = [
        by_name("reed-solomon", 20).unwrap(),
        by_name("rlc-block", 20).unwrap(),
        by_name("dfcp", 20).unwrap(),
    ];
    for code in codes.into_iter().chain(by_name("raptorq", 20)) {
        let mut decoder = code.decoder(8, DecoderLimits::default());
        assert_eq!(decoder.on_repair(block(10, 10), RepairKey(0), &[0; 8]), Ok(Innovation::Innovative));
        for (first, len) in [(9, 10), (11, 10), (10, 9), (10, 11), (12, 3), (1, 20), (19, 1)] {
            let refused = decoder.on_repair(block(first, len), RepairKey(0), &[0; 8]);
            assert_eq!(refused, Err(CodeError::BadCover), "{code:?} {first} {len}");
        }
        for (first, len) in [(0, 10), (20, 10)] {
            let beside = decoder.on_repair(block(first, len), RepairKey(0), &[0; 8]);
            assert_eq!(beside, Ok(Innovation::Innovative), "{code:?} {first} {len}");
        }
    }
    let mut decoder = by_name("rlc-block", 20).unwrap().decoder(8, DecoderLimits::default());
    let set = |ids: [u64; 2]| ids.map(SymbolId);
    decoder.on_repair(block(10, 10), RepairKey(0), &[0; 8]).unwrap();
    assert_eq!(
        decoder.on_repair(Cover::Set(&set([11, 19])), RepairKey(1), &[0; 8]),
        Ok(Innovation::Innovative)
    );
    for across in [[9, 11], [19, 20], [5, 25]] {
        let refused = decoder.on_repair(Cover::Set(&set(across)), RepairKey(1), &[0; 8]);
        assert_eq!(refused, Err(CodeError::BadCover), "{across:?}");
    }
}

#[test]
fn parameters_that_would_cost_too_much_are_refused() {
    for (id, parameters) in [
        (XorGroups::ID, vec![1, 65_536]),
        (RlcBlock::ID, vec![65_536, 256, 1]),
        (RlcBlock::ID, vec![4097, 256, 1]),
        (RlcWindow::ID, vec![65_536, 256]),
        (CodeId(6), vec![257]),
        (CodeId(6), vec![56_403]),
    ] {
        let error = from_parameters(id, &parameters).map(|_| ()).unwrap_err();
        assert_eq!(error, CodeError::BadParameters, "{id:?} {parameters:?}");
    }
}

/// Every refusal for lack of room is visible: what was taken is what the decoder has.
#[test]
fn what_is_dropped_is_said() {
    let codes = [by_name("rlc-window", 64).unwrap(), by_name("rlc-block", 64).unwrap()];
    for code in codes.into_iter().chain(by_name("raptorq", 64)) {
        let mut decoder = code.decoder(8, DecoderLimits::new(100, 10));
        let told: Vec<_> =
            (0..20).map(|key| decoder.on_repair(block(0, 64), RepairKey(key), &[0; 8])).collect();
        assert!(told[..10].iter().all(|result| *result == Ok(Innovation::Innovative)), "{code:?} {told:?}");
        assert!(told[10..].iter().all(|result| *result == Ok(Innovation::Dropped)), "{code:?} {told:?}");
        assert_eq!(decoder.deficit(Window { first: SymbolId(0), len: 64 }), 54, "{code:?}");
    }
}

/// 1.7 MB sent, 2.37 GB held: one segment for each of many blocks of a symbol size that the peer names.
#[test]
fn memory_is_bounded_whatever_the_symbol_size() {
    for name in NAMES {
        let Ok(code) = by_name(name, 100) else { continue };
        for symbol_bytes in [1, 60, 1000, 1436, 9000, 65_507] {
            let limits = DecoderLimits::new(4096, 1024);
            let mut probe = Probe::new(&*code, symbol_bytes, limits, || 0.0);
            let len = code.len_max(symbol_bytes).clamp(1, 100);
            let symbol = vec![0; symbol_bytes];
            for number in 0..1000 {
                let first = number * u64::from(len);
                let key = if *name == *"xor" { XorGroups::key(1, 0).0 } else { number as u32 };
                let _ = probe.repair(block(first, len as usize), key, &symbol);
                let _ = probe.source(first + 1, &symbol);
            }
        }
    }
}

/// Peers made at random, of any code with any parameters and any symbol size. `FULMAR_SEEDS` says how many.
#[test]
fn no_peer_gets_beyond_the_bounds() {
    let seeds = std::env::var("FULMAR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4000);
    for seed in 0..seeds {
        let mut draw = Draw(seed);
        let len = 20 + draw.below(1000);
        let bytes: Vec<u8> = (0..len).map(|_| draw.below(256) as u8).collect();
        let result = std::panic::catch_unwind(|| drive(&bytes));
        assert!(result.is_ok(), "seed {seed}");
    }
}

/// What fuzzing (`fuzz/fuzz_targets/decode_any.rs`) has found worth keeping.
#[test]
fn the_fuzzers_corpus_stays_within_the_bounds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/decode_any");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let result = std::panic::catch_unwind(|| drive(&std::fs::read(&file).unwrap()));
        assert!(result.is_ok(), "{}", file.display());
    }
}
