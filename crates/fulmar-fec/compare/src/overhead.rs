//! How often a block is not decoded although as many symbols arrived as it has, and what more it takes.

use fulmar_fec::{Code, Cover, DecoderLimits, RaptorQ, RepairKey, RlcBlock, SymbolId, Window};
use fulmar_systems::dfcp;

use crate::measure::{Report, Row, symbols};

const LIMITS: DecoderLimits = DecoderLimits::new(4096, 256);

pub fn all(report: &mut Report, blocks: u32) {
    report.section("share of blocks not decoded with so many symbols more than the block has");
    failures(report, "RLC 32, all lost", &RlcBlock::new(32).expect("valid"), 32, 32, blocks * 10);
    failures(report, "RLC 32, 4 lost", &RlcBlock::new(32).expect("valid"), 32, 4, blocks * 10);
    failures(report, "RaptorQ 32, all lost", &RaptorQ::new(32).expect("valid"), 32, 32, blocks);
    failures(report, "RaptorQ 100, 10 lost", &RaptorQ::new(100).expect("valid"), 100, 10, blocks);
    dfcp_overhead(report, blocks);
}

/// The first `lost` symbols of each block are lost; keys differ from block to block.
fn failures(report: &mut Report, what: &str, code: &dyn Code, k: usize, lost: usize, blocks: u32) {
    const EXTRA: usize = 4;
    let sources = symbols(k, 8);
    let cover = Cover::Window(Window { first: SymbolId(0), len: k as u32 });
    let mut failed = [0u32; EXTRA];
    let mut encoder = code.encoder(8);
    for number in 0..blocks {
        let mut decoder = code.decoder(8, LIMITS);
        for (i, source) in sources.iter().enumerate().skip(lost) {
            decoder.on_source(SymbolId(i as u64), source).expect("valid");
        }
        let mut repair = [0; 8];
        for sent in 0..lost + EXTRA - 1 {
            let key = RepairKey(number * 64 + sent as u32);
            encoder.repair(cover, key, &sources, &mut repair).expect("valid");
            decoder.on_repair(cover, key, &repair).expect("valid");
            if sent + 1 >= lost && decoder.decoded_below() < SymbolId(k as u64) {
                failed[sent + 1 - lost] += 1;
            }
        }
    }
    for (extra, failed) in failed.into_iter().enumerate() {
        let share = f64::from(failed) / f64::from(blocks);
        report.push(Row::with_unit(
            &format!("{what}, +{extra}"),
            &format!("{failed} of {blocks}"),
            share,
            "",
        ));
    }
}

/// Coded bytes until a block of DFCP is decoded, a byte at a time near the end.
fn dfcp_overhead(report: &mut Report, blocks: u32) {
    report.section(&format!("DFCP Raptor: coded bytes needed, in % above 65536, over {blocks} blocks"));
    let message = symbols(1, dfcp::MESSAGE_BYTES).remove(0);
    let mut overheads: Vec<f64> = (0..blocks)
        .map(|number| {
            let ldpc = dfcp::ldpc_state(dfcp::Taus88::seeded(1), number);
            let mut block = dfcp::DfcpBlock::new(&message, ldpc).expect("fits");
            let mut receiver = dfcp::DfcpReceiver::new(message.len(), ldpc, 1 << 20);
            let mut key = 0;
            while !receiver.is_decoded() {
                let state = dfcp::Taus88::seeded(number.wrapping_mul(1000) + key);
                // Small segments, so that the figure is finer than 1420 bytes.
                let mut segment = vec![0; if key < 40 { 1600 } else { 100 }];
                block.segment(state, &mut segment);
                receiver.on_segment(state, &segment).expect("consistent");
                key += 1;
            }
            (receiver.coded_bytes() as f64 / 65536.0 - 1.0) * 100.0
        })
        .collect();
    overheads.sort_by(f64::total_cmp);
    let mean = overheads.iter().sum::<f64>() / overheads.len() as f64;
    report.push(Row::with_unit("mean", "DFCP Raptor", mean, "%"));
    for (name, share) in [("least", 0.0), ("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("most", 1.0)] {
        let index = ((overheads.len() - 1) as f64 * share) as usize;
        report.push(Row::with_unit(name, "DFCP Raptor", overheads[index], "%"));
    }
    let segments: f64 = overheads.iter().map(|o| ((1.0 + o / 100.0) * 65536.0 / 1420.0).ceil()).sum();
    report.push(Row::with_unit(
        "segments of 1420 bytes, mean",
        "DFCP Raptor",
        segments / overheads.len() as f64,
        "segments",
    ));
}
