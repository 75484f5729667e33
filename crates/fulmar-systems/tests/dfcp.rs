//! DFCP's Raptor: decodes, at the overhead its degree distribution was made for, and never gives up.

use fulmar_fec::*;
use fulmar_systems::dfcp::{DfcpBlock, DfcpRaptor, DfcpReceiver, MESSAGE_BYTES, Taus88, ldpc_state};

#[path = "../../fulmar-fec/tests/common/mod.rs"]
mod common;
use common::{Draw, block, drain, is_padded, source};

/// Segments until the block is decoded; every third segment is lost.
fn segments_needed(seed: u32, message: &[u8]) -> usize {
    let ldpc = ldpc_state(Taus88::seeded(9), seed);
    let mut sender = DfcpBlock::new(message, ldpc).unwrap();
    let mut receiver = DfcpReceiver::new(message.len(), ldpc, 1 << 20);
    let (mut state, mut segment, mut segments) = (Taus88::seeded(seed), [0; 1420], 0);
    while !receiver.is_decoded() {
        sender.segment(state, &mut segment);
        if segments % 3 != 2 {
            receiver.on_segment(state, &segment).unwrap();
        }
        segments += 1;
        state = Taus88::from_parts(state.draw(), state.draw(), state.draw());
    }
    let mut bytes = vec![0; message.len()];
    assert!(receiver.read(0, &mut bytes) && bytes == message);
    receiver.coded_bytes().div_ceil(1420)
}

#[test]
fn a_full_block_needs_a_few_percent_more_than_its_size() {
    let mut draw = Draw(1);
    let message: Vec<u8> = (0..MESSAGE_BYTES).map(|_| draw.below(256) as u8).collect();
    for seed in 0..5 {
        let needed = segments_needed(seed, &message);
        assert!((46..=53).contains(&needed), "65536 bytes are 46.2 segments; needed {needed}");
    }
}

#[test]
fn a_short_block_needs_no_more() {
    for len in [0, 1, 1420, 20_000] {
        assert!(segments_needed(3, &vec![7; len]) <= 60);
    }
}

#[test]
fn a_message_that_does_not_fit_is_refused() {
    assert_eq!(DfcpBlock::new(&[0; MESSAGE_BYTES + 1], Taus88::seeded(1)).unwrap_err(), CodeError::TooLong);
}

#[test]
fn as_a_code_it_delivers_symbols_padded_to_the_symbol_size() {
    let mut draw = Draw(2);
    let source = source(&mut draw, 90, 1420);
    let code = DfcpRaptor::new(Taus88::seeded(4));
    let (mut encoder, mut segment) = (code.encoder(1420), [0; 1420]);
    let mut decoder = code.decoder(1420, DecoderLimits::new(200, 100));
    let mut recovered = Vec::new();
    let mut key = 0;
    while decoder.decoded_below() < SymbolId(90) {
        for (first, len) in [(0, 44), (44, 44), (88, 2)] {
            key += 1;
            assert!(key < 400, "three blocks of about 49 segments each");
            encoder.repair(block(first, len), RepairKey(key), &source, &mut segment).unwrap();
            let innovation = decoder.on_repair(block(first, len), RepairKey(key), &segment).unwrap();
            assert_eq!(
                decoder.on_repair(block(first, len), RepairKey(key), &segment),
                Ok(Innovation::Redundant)
            );
            assert!(innovation != Innovation::OutOfReach);
        }
        recovered.extend(drain(&mut *decoder));
    }
    assert_eq!(recovered.len(), 90);
    assert!(recovered.iter().all(|(id, symbol)| is_padded(symbol, &source[id.0 as usize])));
    decoder.release(SymbolId(90));
    assert!(decoder.memory_bytes() < 1000, "nothing is held when all is decoded and released");
}

#[test]
fn segments_that_contradict_each_other_are_an_error() {
    let source = [[1u8; 1420]];
    let code = DfcpRaptor::new(Taus88::seeded(4));
    let mut encoder = code.encoder(1420);
    let mut decoder = code.decoder(1420, DecoderLimits::new(200, 100));
    let mut segment = [0; 1420];
    let result = (0..200).find_map(|key| {
        encoder.repair(block(0, 1), RepairKey(key), &source, &mut segment).unwrap();
        segment[key as usize * 7 % 1420] ^= 1;
        decoder.on_repair(block(0, 1), RepairKey(key), &segment).err()
    });
    assert_eq!(result, Some(CodeError::Inconsistent));
}

/// A window of blocks on a lossy path: each has most of its segments before the first gets the rest. There
/// are receivers for three of them; the others wait, and still take few segments more than one block alone.
#[test]
fn more_blocks_than_receivers_wait_for_one_and_decode() {
    let (symbol_bytes, count) = (1150, 24);
    let code = DfcpRaptor::new(Taus88::seeded(4));
    let len = DfcpRaptor::len_max(symbol_bytes) as usize;
    let source = source(&mut Draw(3), len * count, symbol_bytes as u64);
    let (mut encoder, mut segment) = (code.encoder(symbol_bytes), vec![0; symbol_bytes]);
    let mut decoder = code.decoder(symbol_bytes, DecoderLimits::new(4096, 1024));
    let (mut sent, mut recovered) = (0, 0);
    let mut send = |decoder: &mut dyn Decoder, number: usize| {
        sent += 1;
        let cover = block((number * len) as u64, len);
        encoder.repair(cover, RepairKey(sent), &source, &mut segment).unwrap();
        assert_ne!(decoder.on_repair(cover, RepairKey(sent), &segment), Ok(Innovation::Dropped));
        recovered += drain(decoder).len();
        sent
    };
    for number in 0..count {
        (0..53).for_each(|_| _ = send(&mut *decoder, number));
    }
    let mut sent = 0;
    while decoder.decoded_below() < SymbolId((len * count) as u64) {
        for number in 0..count {
            let window = Window { first: SymbolId((number * len) as u64), len: len as u32 };
            for _ in 0..decoder.deficit(window).min(7) {
                sent = send(&mut *decoder, number);
            }
        }
    }
    assert_eq!(recovered, len * count);
    assert!(sent as usize <= 66 * count, "58 segments each are expected; {sent} for {count} blocks");
}
