//! One model for all codes: whatever arrives, in any order, twice or as garbage, a decoder never says what is
//! not so, never panics, keeps within its limits, and in the end has everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use fulmar_fec::*;
use fulmar_systems::codes::by_name;
use proptest::prelude::*;

mod common;
use common::{Draw, is_padded, source};

const LIMITS: DecoderLimits = DecoderLimits::new(300, 80);
const SYMBOL: usize = 48;

/// A code and the length of the covers to use with it.
fn codes() -> Vec<(Arc<dyn Code>, usize)> {
    let mut codes: Vec<(Arc<dyn Code>, usize)> = vec![
        (by_name("none", 1).unwrap(), 1),
        (by_name("xor", 8).unwrap(), 24),
        (by_name("reed-solomon", 20).unwrap(), 20),
        (by_name("rlc-block", 20).unwrap(), 20),
        (Arc::new(RlcBlock::new(20).unwrap().not_systematic()), 20),
        (Arc::new(RlcBlock::new(20).unwrap().with_density(Density::of_256(100).unwrap())), 20),
        (by_name("rlc-window", 30).unwrap(), 30),
        (by_name("dfcp", 1).unwrap(), 10),
    ];
    codes.extend(by_name("raptorq", 20).ok().map(|code| (code, 20)));
    codes
}

/// The key number `n` of a code, over a cover of `len`.
fn key(code: &dyn Code, n: u64, len: usize) -> RepairKey {
    match code.shape().id {
        XorGroups::ID => XorGroups::key(len.min(8) as u16, (n % len.min(8) as u64) as u16),
        _ => RepairKey((n % u64::from(code.shape().repairs_max)) as u32),
    }
}

/// A sender and a receiver, and everything that must hold between them.
struct Model {
    code: Arc<dyn Code>,
    source: Vec<Vec<u8>>,
    encoder: Box<dyn Encoder>,
    decoder: Box<dyn Decoder>,
    /// What the receiver has, and how it came.
    have: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    fn new(code: Arc<dyn Code>, draw: &mut Draw, count: usize) -> Self {
        let (encoder, decoder) = (code.encoder(SYMBOL), code.decoder(SYMBOL, LIMITS));
        Self { code, source: source(draw, count, SYMBOL as u64), encoder, decoder, have: BTreeMap::new() }
    }

    fn source_arrives(&mut self, id: u64) {
        let innovation = self.decoder.on_source(SymbolId(id), &self.source[id as usize]).unwrap();
        assert_eq!(innovation == Innovation::Redundant, self.have.contains_key(&id));
        self.have.entry(id).or_insert_with(|| self.source[id as usize].clone());
        self.check();
    }

    fn repair_arrives(&mut self, cover: Cover<'_>, key: RepairKey) -> Innovation {
        let mut repair = vec![0; SYMBOL];
        let len = self.encoder.repair(cover, key, &self.source, &mut repair).unwrap();
        let innovation = self.decoder.on_repair(cover, key, &repair[..len]).unwrap();
        self.check();
        while self.decoder.is_busy() {
            self.decoder.go_on().unwrap();
            self.check();
        }
        innovation
    }

    /// What is recovered is right, came once, and is what the decoder says it has.
    fn check(&mut self) {
        let mut symbol = vec![0xEE; 3];
        while let Some(id) = self.decoder.poll_recovered(&mut symbol) {
            assert!(
                is_padded(&symbol, &self.source[id.0 as usize]),
                "{:?} recovered wrong {id:?}",
                self.code
            );
            assert!(
                self.have.insert(id.0, symbol.clone()).is_none(),
                "{:?} delivered {id:?} twice",
                self.code
            );
        }
        for id in 0..self.source.len() as u64 {
            assert_eq!(
                self.decoder.is_decoded(SymbolId(id)),
                self.have.contains_key(&id),
                "{:?} s{id}",
                self.code
            );
        }
        let below = (0..).find(|id| !self.have.contains_key(id)).unwrap();
        assert_eq!(self.decoder.decoded_below(), SymbolId(below));
        assert!(self.decoder.seen_below() >= self.decoder.decoded_below());
        let all = Window { first: SymbolId(0), len: self.source.len() as u32 };
        assert_eq!(self.decoder.deficit(all) == 0, self.have.len() == self.source.len());
        assert!(self.decoder.memory_bytes() <= LIMITS.memory_bytes_max);
    }
}

/// Blocks one after the other, losses, reordering, duplicates; then repair until all is there.
fn transfer(code: Arc<dyn Code>, len: usize, seed: u64, loss_percent: u64) {
    let mut draw = Draw(seed);
    let blocks = 3;
    let is_systematic = code.shape().is_systematic;
    let mut model = Model::new(code.clone(), &mut draw, blocks * len);
    if is_systematic {
        let mut arrivals: Vec<u64> =
            (0..(blocks * len) as u64).filter(|_| draw.below(100) >= loss_percent).collect();
        arrivals.extend(arrivals.clone().iter().filter(|_| draw.below(4) == 0));
        draw.shuffle(&mut arrivals);
        arrivals.into_iter().for_each(|id| model.source_arrives(id));
    }
    let is_rateless = code.shape().repairs_max > 100;
    // DFCP needs 1400 segments of so few bytes, the others a few repair symbols.
    for round in 0..if is_rateless { 5000 } else { 30 } {
        for block in 0..blocks {
            let cover = common::block((block * len) as u64, len);
            if draw.below(100) >= loss_percent {
                let key = key(&*code, round, len);
                let first = model.repair_arrives(cover, key);
                if first != Innovation::OutOfReach {
                    assert_eq!(model.repair_arrives(cover, key), Innovation::Redundant, "{code:?}");
                }
            }
        }
        if model.have.len() == blocks * len {
            break;
        }
    }
    if !is_rateless {
        let missing: Vec<u64> =
            (0..(blocks * len) as u64).filter(|id| !model.have.contains_key(id)).collect();
        missing.into_iter().for_each(|id| model.source_arrives(id));
    }
    assert_eq!(model.have.len(), blocks * len, "{code:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_in_the_end(seed: u64, loss_percent in 0u64..60) {
        for (code, len) in codes() {
            transfer(code, len, seed, loss_percent);
        }
    }

    /// Random covers, keys and bytes, right and wrong: errors are errors, and nothing else happens.
    #[test]
    fn garbage_does_no_harm(seed: u64, steps in 1usize..60) {
        let mut draw = Draw(seed);
        for (code, _) in codes() {
            let mut decoder = code.decoder(SYMBOL, LIMITS);
            let mut out = Vec::new();
            for _ in 0..steps {
                let near = |draw: &mut Draw| match draw.below(20) {
                    0 => u64::MAX - draw.below(40),
                    1 => draw.below(1 << 22),
                    _ => draw.below(60),
                };
                let bytes: Vec<u8> = (0..draw.below(SYMBOL as u64 + 3)).map(|_| draw.below(256) as u8).collect();
                let set: Vec<SymbolId> = (0..draw.below(6)).map(|_| SymbolId(near(&mut draw))).collect();
                let len = if draw.below(20) == 0 { u32::MAX } else { draw.below(40) as u32 };
                let window = Window { first: SymbolId(near(&mut draw)), len };
                let key = if draw.below(2) == 0 { RepairKey(draw.below(8) as u32) } else { RepairKey(draw.below(1 << 32) as u32) };
                match draw.below(5) {
                    0 => drop(decoder.on_source(window.first, &bytes)),
                    1 => drop(decoder.on_repair(Cover::Set(&set), key, &bytes)),
                    2 => decoder.release(SymbolId(draw.below(30))),
                    _ => drop(decoder.on_repair(Cover::Window(window), key, &bytes)),
                }
                while decoder.poll_recovered(&mut out).is_some() {}
                prop_assert!(decoder.memory_bytes() <= LIMITS.memory_bytes_max, "{:?}", code);
            }
        }
    }

    /// The encoder refuses what it cannot do.
    #[test]
    fn encoders_refuse(seed: u64) {
        let mut draw = Draw(seed);
        for (code, len) in codes() {
            let source = source(&mut draw, len, SYMBOL as u64);
            let mut encoder = code.encoder(SYMBOL);
            let mut out = [0; SYMBOL];
            let key = key(&*code, 0, len);
            let missing = common::block(1, len);
            prop_assert_eq!(encoder.repair(missing, key, &source, &mut out), Err(CodeError::MissingSource(SymbolId(len as u64))));
            prop_assert_eq!(encoder.repair(common::block(0, 0), key, &source, &mut out), Err(CodeError::BadCover));
            let longest = source.iter().map(Vec::len).max().unwrap();
            prop_assert_eq!(encoder.repair(common::block(0, len), key, &source, &mut out[..longest - 1]), Err(CodeError::TooLong));
            let unsorted = [SymbolId(0), SymbolId(0)];
            prop_assert_eq!(encoder.repair(Cover::Set(&unsorted), key, &source, &mut out), Err(CodeError::BadCover));
        }
    }
}

#[test]
fn a_contradiction_is_an_error() {
    for code in [by_name("rlc-window", 10).unwrap(), by_name("reed-solomon", 10).unwrap()] {
        let mut decoder = code.decoder(8, LIMITS);
        let cover = common::block(0, 2);
        decoder.on_source(SymbolId(0), &[1; 8]).unwrap();
        assert_eq!(
            decoder.on_repair(cover, RepairKey(0), &[3; 7]),
            Err(CodeError::Inconsistent),
            "shorter than a symbol"
        );
        let mut decoder = code.decoder(8, LIMITS);
        let wide = common::block(0, 3);
        decoder.on_repair(wide, RepairKey(0), &[5; 8]).unwrap();
        assert_eq!(decoder.on_repair(wide, RepairKey(0), &[6; 8]), Err(CodeError::Inconsistent), "{code:?}");
    }
}

#[test]
fn ids_far_ahead_are_out_of_reach_and_cost_nothing() {
    for (code, len) in codes() {
        let mut decoder = code.decoder(SYMBOL, LIMITS);
        let before = decoder.memory_bytes();
        for first in [REACH, 1 << 40, u64::MAX - 100] {
            assert_eq!(decoder.on_source(SymbolId(first), b"far"), Ok(Innovation::OutOfReach), "{code:?}");
            let key = key(&*code, 0, len);
            assert_eq!(
                decoder.on_repair(common::block(first, len), key, b"far"),
                Ok(Innovation::OutOfReach),
                "{code:?}"
            );
        }
        assert_eq!(decoder.memory_bytes(), before);
    }
}
