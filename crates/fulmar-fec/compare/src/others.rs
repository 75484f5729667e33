//! The crates, each as its documentation shows.

use raptorq::{
    ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder, SourceBlockEncodingPlan,
};
use reed_solomon_erasure::galois_8::ReedSolomon;

use crate::measure::{SYMBOL, gb_per_s, symbols};

pub fn simd_encode(k: usize, r: usize) -> f64 {
    let sources = symbols(k, SYMBOL);
    let mut encoder = reed_solomon_simd::ReedSolomonEncoder::new(k, r, SYMBOL).expect("supported");
    gb_per_s(k * SYMBOL, || {
        sources.iter().for_each(|source| encoder.add_original_shard(source).expect("fits"));
        std::hint::black_box(encoder.encode().expect("complete").recovery_iter().count());
    })
}

pub fn simd_decode(k: usize, r: usize) -> f64 {
    let sources = symbols(k, SYMBOL);
    let repairs = reed_solomon_simd::encode(k, r, &sources).expect("supported");
    let mut decoder = reed_solomon_simd::ReedSolomonDecoder::new(k, r, SYMBOL).expect("supported");
    gb_per_s(k * SYMBOL, || {
        let present = sources.iter().enumerate().skip(r);
        present.for_each(|(i, source)| decoder.add_original_shard(i, source).expect("fits"));
        repairs
            .iter()
            .enumerate()
            .for_each(|(i, repair)| decoder.add_recovery_shard(i, repair).expect("fits"));
        std::hint::black_box(decoder.decode().expect("enough").restored_original_iter().count());
    })
}

pub fn erasure_encode(k: usize, r: usize) -> f64 {
    let code = ReedSolomon::new(k, r).expect("supported");
    let sources = symbols(k, SYMBOL);
    let mut repairs = symbols(r, SYMBOL);
    gb_per_s(k * SYMBOL, || code.encode_sep(&sources, &mut repairs).expect("fits"))
}

pub fn erasure_decode(k: usize, r: usize) -> f64 {
    let code = ReedSolomon::new(k, r).expect("supported");
    let mut shards = symbols(k + r, SYMBOL);
    code.encode(&mut shards).expect("fits");
    let mut shards: Vec<(Vec<u8>, bool)> = shards.into_iter().map(|shard| (shard, true)).collect();
    gb_per_s(k * SYMBOL, || {
        shards[..r].iter_mut().for_each(|shard| shard.1 = false);
        code.reconstruct_data(&mut shards).expect("enough");
    })
}

pub fn raptorq_encode(k: usize) -> f64 {
    let data = symbols(1, k * SYMBOL).remove(0);
    let config = ObjectTransmissionInformation::new(data.len() as u64, SYMBOL as u16, 1, 1, 1);
    let plan = SourceBlockEncodingPlan::generate(k as u16);
    gb_per_s(k * SYMBOL, || {
        let encoder = SourceBlockEncoder::with_encoding_plan(0, &config, &data, &plan);
        std::hint::black_box(encoder.repair_packets(0, k as u32 / 10));
    })
}

pub fn raptorq_decode(k: usize) -> f64 {
    let data = symbols(1, k * SYMBOL).remove(0);
    let config = ObjectTransmissionInformation::new(data.len() as u64, SYMBOL as u16, 1, 1, 1);
    let encoder = SourceBlockEncoder::new(0, &config, &data);
    let lost = k / 10;
    let mut packets = encoder.source_packets().split_off(lost);
    packets.extend(encoder.repair_packets(0, lost as u32 + 2));
    gb_per_s(k * SYMBOL, || {
        let mut decoder = SourceBlockDecoder::new(0, &config, data.len() as u64);
        std::hint::black_box(decoder.decode(packets.iter().cloned()).expect("two more than needed"));
    })
}
