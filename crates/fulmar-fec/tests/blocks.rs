//! Block codes: what is certain, and whole blocks from slices to slices.

use fulmar_fec::*;

mod common;
use common::{Draw, block, drain, source};

const LIMITS: DecoderLimits = DecoderLimits::new(400, 100);

/// All repair symbols of one block.
fn repairs(code: &dyn Code, source: &[Vec<u8>], cover: Cover<'_>, count: u32) -> Vec<(RepairKey, Vec<u8>)> {
    let keys: Vec<RepairKey> = (0..count).map(RepairKey).collect();
    let mut outs = vec![vec![0xAA; 64]; count as usize];
    let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
    let len = code.encoder(64).repair_many(cover, &keys, &source.to_vec(), &mut slices).unwrap();
    outs.iter_mut().for_each(|out| out.truncate(len));
    keys.into_iter().zip(outs).collect()
}

#[test]
fn several_repair_symbols_at_once_equal_one_after_the_other() {
    let mut draw = Draw(1);
    let source = source(&mut draw, 100, 64);
    let codes: [&dyn Code; 3] =
        [&ReedSolomon::new(100, 40).unwrap(), &RlcBlock::new(100).unwrap(), &RlcWindow::new(100).unwrap()];
    for code in codes {
        for (key, repair) in repairs(code, &source, block(0, 100), 40) {
            let mut one = vec![0; 64];
            let len = code.encoder(64).repair(block(0, 100), key, &source, &mut one).unwrap();
            assert_eq!(one[..len], repair, "{code:?}");
        }
    }
}

#[test]
fn reed_solomon_restores_from_any_k_symbols() {
    let mut draw = Draw(2);
    for (k, r) in [(1, 1), (1, 4), (4, 2), (10, 10), (32, 8), (64, 16), (200, 55)] {
        let code = ReedSolomon::new(k, r).unwrap();
        let source = source(&mut draw, k, 64);
        let repairs = repairs(&code, &source, block(0, k), r as u32);
        for _ in 0..20 {
            let mut arrivals: Vec<usize> = (0..k + r).collect();
            draw.shuffle(&mut arrivals);
            let mut decoder = code.decoder(64, LIMITS);
            for index in &arrivals[..k] {
                let innovation = match index.checked_sub(k) {
                    None => decoder.on_source(SymbolId(*index as u64), &source[*index]),
                    Some(i) => decoder.on_repair(block(0, k), repairs[i].0, &repairs[i].1),
                };
                assert_eq!(innovation, Ok(Innovation::Innovative));
            }
            assert_eq!(decoder.decoded_below(), SymbolId(k as u64));
            for (id, symbol) in drain(&mut *decoder) {
                assert!(common::is_padded(&symbol, &source[id.0 as usize]));
            }
        }
    }
}

#[test]
fn restore_agrees_with_the_decoder() {
    let mut draw = Draw(3);
    let codes: [(usize, u32, Box<dyn RowsAndCode>); 4] = [
        (32, 8, Box::new(ReedSolomon::new(32, 8).unwrap())),
        (64, 16, Box::new(ReedSolomon::new(64, 16).unwrap())),
        (32, 6, Box::new(RlcBlock::new(32).unwrap())),
        (150, 40, Box::new(RlcBlock::new(150).unwrap().with_density(Density::of_256(64).unwrap()))),
    ];
    for (k, r, code) in &codes {
        for _ in 0..20 {
            let source: Vec<Vec<u8>> = source(&mut draw, *k, 64)
                .into_iter()
                .map(|mut s| {
                    s.resize(64, 0);
                    s
                })
                .collect();
            let lost: Vec<usize> = (0..*k).filter(|_| draw.below(10) == 0).collect();
            let present: Vec<Option<&Vec<u8>>> =
                source.iter().enumerate().map(|(i, s)| (!lost.contains(&i)).then_some(s)).collect();
            let all = repairs(code.code(), &source, block(0, *k), *r);
            let some: Vec<(RepairKey, &[u8])> = all.iter().map(|(key, repair)| (*key, &repair[..])).collect();
            let mut outs = vec![vec![0; 64]; lost.len()];
            let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
            let len = restore(code.rows(), block(0, *k), &Present(&present), &some, &mut slices).unwrap();
            let mut decoder = code.code().decoder(64, LIMITS);
            for (i, symbol) in present.iter().enumerate().filter_map(|(i, s)| s.map(|s| (i, s))) {
                decoder.on_source(SymbolId(i as u64), symbol).unwrap();
            }
            for (key, repair) in &some {
                decoder.on_repair(block(0, *k), *key, repair).unwrap();
            }
            assert_eq!(len.is_some(), decoder.decoded_below() == SymbolId(*k as u64));
            if len.is_some() {
                assert!(lost.iter().zip(&outs).all(|(i, out)| *out == source[*i]));
            }
        }
    }
}

/// Both sides of a code that is a matrix.
trait RowsAndCode {
    fn rows(&self) -> &dyn Rows;
    fn code(&self) -> &dyn Code;
}

impl<C: Rows + Code> RowsAndCode for C {
    fn rows(&self) -> &dyn Rows {
        self
    }

    fn code(&self) -> &dyn Code {
        self
    }
}

#[test]
fn restore_refuses_what_does_not_fit() {
    let code = ReedSolomon::new(4, 2).unwrap();
    let repair = [0u8; 8];
    let present = [Some([1u8; 8]), None, None, Some([1; 8])];
    let few = restore(
        &code,
        block(0, 4),
        &Present(&present),
        &[(RepairKey(0), &repair)],
        &mut [&mut [0; 8], &mut [0; 8]],
    );
    assert_eq!(few, Ok(None));
    let outs: &mut [&mut [u8]] = &mut [&mut [0; 8]];
    let two: [(RepairKey, &[u8]); 2] = [(RepairKey(0), &repair), (RepairKey(1), &repair)];
    assert_eq!(restore(&code, block(0, 4), &Present(&present), &two, outs), Err(CodeError::BadParameters));
    let outs: &mut [&mut [u8]] = &mut [&mut [0; 8], &mut [0; 7]];
    assert_eq!(restore(&code, block(0, 4), &Present(&present), &two, outs), Err(CodeError::TooLong));
    let outs: &mut [&mut [u8]] = &mut [&mut [0; 8], &mut [0; 8]];
    let two: [(RepairKey, &[u8]); 2] = [(RepairKey(0), &repair), (RepairKey(2), &repair)];
    assert_eq!(restore(&code, block(0, 4), &Present(&present), &two, outs), Err(CodeError::BadKey));
}

#[test]
fn xor_groups_restore_one_loss_each() {
    let mut draw = Draw(4);
    let code = XorGroups::new(5, 8).unwrap();
    let source = source(&mut draw, 23, 64);
    let mut decoder = code.decoder(64, LIMITS);
    // A burst of five, and five groups.
    for (i, symbol) in source.iter().enumerate().filter(|(i, _)| !(9..14).contains(i)) {
        decoder.on_source(SymbolId(i as u64), symbol).unwrap();
    }
    let mut repair = [0; 64];
    for group in 0..5 {
        let len =
            code.encoder(64).repair(block(0, 23), XorGroups::key(5, group), &source, &mut repair).unwrap();
        decoder.on_repair(block(0, 23), XorGroups::key(5, group), &repair[..len]).unwrap();
        assert_eq!(drain(&mut *decoder).len(), 1);
    }
    assert_eq!(decoder.decoded_below(), SymbolId(23));
    let refused = [(block(0, 4), XorGroups::key(5, 0)), (block(0, 41), XorGroups::key(5, 0))];
    for (cover, key) in refused {
        assert_eq!(decoder.on_repair(cover, key, &repair), Err(CodeError::BadCover));
    }
    for key in [RepairKey(0), XorGroups::key(6, 0), XorGroups::key(2, 2)] {
        assert_eq!(decoder.on_repair(block(0, 23), key, &repair), Err(CodeError::BadKey));
    }
}
