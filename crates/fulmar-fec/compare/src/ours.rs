//! Our codes: whole blocks from slices, and streams through the decoder that a transport uses.

use fulmar_fec::{
    Code, Cover, DecoderLimits, Density, Present, ReedSolomon, RepairKey, RlcBlock, RlcWindow,
    Rows, SymbolId, Window, XorGroups, restore,
};
use fulmar_systems::dfcp::{self, DfcpRaptor};

use crate::measure::{Report, Row, SYMBOL, gb_per_s, mb_per_s, symbols};

pub fn kernel() -> &'static str {
    fulmar_gf::kernel().name()
}

fn block(len: usize) -> Cover<'static> {
    Cover::Window(Window { first: SymbolId(0), len: len as u32 })
}

fn keys(count: usize) -> Vec<RepairKey> {
    (0..count as u32).map(RepairKey).collect()
}

pub fn multiply_add(k: usize) -> f64 {
    let sources = symbols(k, SYMBOL);
    let inputs: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let coefficients: Vec<u8> = (0..k).map(|i| 2 + i as u8).collect();
    let mut out = vec![0; SYMBOL];
    gb_per_s(k * SYMBOL, || fulmar_gf::dot_add(&mut [&mut out], &inputs, &coefficients))
}

fn encode(code: &dyn Code, k: usize, r: usize) -> f64 {
    let sources = symbols(k, SYMBOL);
    let mut encoder = code.encoder(SYMBOL);
    let mut outs = symbols(r, SYMBOL);
    let mut keys = keys(r);
    gb_per_s(k * SYMBOL, || {
        let mut outs: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
        encoder.repair_many(block(k), &keys, &sources, &mut outs).expect("valid");
        if !code.shape().is_mds {
            keys.iter_mut().for_each(|key| key.0 += r as u32); // New coefficients every time.
        }
    })
}

/// The first `lost` symbols lost, from slices to slices, coefficients and inversion included.
fn decode<C: Code + Rows>(code: &C, k: usize, lost: usize) -> f64 {
    let sources = symbols(k, SYMBOL);
    let mut repairs = symbols(lost, SYMBOL);
    let keys = keys(lost);
    let mut outs: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
    code.encoder(SYMBOL).repair_many(block(k), &keys, &sources, &mut outs).expect("valid");
    let repairs: Vec<(RepairKey, &[u8])> = keys.into_iter().zip(repairs.iter().map(Vec::as_slice)).collect();
    let present: Vec<Option<&Vec<u8>>> =
        sources.iter().enumerate().map(|(i, s)| (i >= lost).then_some(s)).collect();
    let mut restored = symbols(lost, SYMBOL);
    let speed = gb_per_s(k * SYMBOL, || {
        let mut outs: Vec<&mut [u8]> = restored.iter_mut().map(Vec::as_mut_slice).collect();
        restore(code, block(k), &Present(&present), &repairs, &mut outs)
            .expect("valid")
            .expect("independent");
    });
    assert_eq!(restored, sources[..lost]);
    speed
}

pub fn reed_solomon_encode(k: usize, r: usize) -> f64 {
    encode(&ReedSolomon::new(k, r).expect("valid"), k, r)
}

pub fn reed_solomon_decode(k: usize, r: usize) -> f64 {
    decode(&ReedSolomon::new(k, r).expect("valid"), k, r)
}

pub fn rlc_encode(k: usize, r: usize) -> f64 {
    encode(&RlcBlock::new(k as u32).expect("valid"), k, r)
}

pub fn rlc_decode(k: usize, lost: usize) -> f64 {
    decode(&RlcBlock::new(k as u32).expect("valid"), k, lost)
}

pub fn xor(k: usize) -> f64 {
    let sources = symbols(k, SYMBOL);
    let code = XorGroups::new(1, k as u32).expect("valid");
    let (mut encoder, mut out) = (code.encoder(SYMBOL), vec![0; SYMBOL]);
    gb_per_s(k * SYMBOL, || {
        encoder.repair(block(k), XorGroups::key(1, 0), &sources, &mut out).expect("valid");
    })
}

const LIMITS: DecoderLimits = DecoderLimits::new(4096, 256);

/// What the decoder of a transport costs, symbol by symbol.
pub fn streams(report: &mut Report) {
    report.section("the decoder of a transport, GB/s of source bytes");
    report.push(Row::new("source symbols, nothing lost", "RLC window", stream(256, 0, 0)));
    report.push(Row::new("source symbols + 5 % repair, nothing lost", "RLC window", stream(256, 0, 13)));
    for window in [32, 64, 128, 256] {
        let code = RlcWindow::new(window as u32).expect("valid");
        report.push(Row::new(
            &format!("RLC window {window}, one repair symbol"),
            "encode",
            encode(&code, window, 1),
        ));
        let (lost, repair) = (window / 10, window / 10);
        report.push(Row::new(
            &format!("RLC window {window}, 10 % lost, all symbols"),
            "decode",
            stream(window, lost, repair),
        ));
    }
    let sparse = RlcWindow::new(256).expect("valid").with_density(Density::of_256(64).expect("valid"));
    report.push(Row::new(
        "RLC window 256, density 1/4, one repair symbol",
        "encode",
        encode(&sparse, 256, 1),
    ));
    dfcp_speed(report);
}

/// A window at a time: its symbols less the first `lost` ones, then `repair` repair symbols.
fn stream(window: usize, lost: usize, repair: usize) -> f64 {
    let code = RlcWindow::new(window as u32).expect("valid");
    let sources = symbols(window, SYMBOL);
    let (mut decoder, mut encoder) = (code.decoder(SYMBOL, LIMITS), code.encoder(SYMBOL));
    let (mut first, mut symbol, mut repairs) = (0u64, Vec::new(), symbols(repair, SYMBOL));
    // Windows differ in their ids, so repair symbols are made anew, outside the clock.
    let mut best = 0f64;
    for _ in 0..400 {
        let shifted = Shifted { first, sources: &sources };
        let cover = Cover::Window(Window { first: SymbolId(first), len: window as u32 });
        for (key, out) in repairs.iter_mut().enumerate() {
            encoder.repair(cover, RepairKey(key as u32), &shifted, out).expect("valid");
        }
        let started = std::time::Instant::now();
        for (i, source) in sources.iter().enumerate().skip(lost) {
            decoder.on_source(SymbolId(first + i as u64), source).expect("valid");
        }
        for (key, out) in repairs.iter().enumerate() {
            decoder.on_repair(cover, RepairKey(key as u32), out).expect("valid");
        }
        while decoder.poll_recovered(&mut symbol).is_some() {}
        best = best.max((window * SYMBOL) as f64 / started.elapsed().as_secs_f64() / 1e9);
        first += window as u64;
        decoder.release(SymbolId(first.saturating_sub(1024)));
    }
    best
}

struct Shifted<'a> {
    first: u64,
    sources: &'a [Vec<u8>],
}

impl fulmar_fec::Symbols for Shifted<'_> {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        self.sources.get((id.0 - self.first) as usize).map(Vec::as_slice)
    }
}

/// One block of 63536 bytes, the LDPC part included, as many segments as it takes.
fn dfcp_speed(report: &mut Report) {
    let message = symbols(1, dfcp::MESSAGE_BYTES).remove(0);
    let ldpc = dfcp::Taus88::seeded(1);
    let segments = 48;
    let encode = mb_per_s(message.len(), || {
        let mut block = dfcp::DfcpBlock::new(&message, ldpc).expect("fits");
        let mut segment = [0; DfcpRaptor::SEGMENT_BYTES];
        (0..segments).for_each(|key| block.segment(dfcp::Taus88::seeded(key), &mut segment));
    });
    let mut block = dfcp::DfcpBlock::new(&message, ldpc).expect("fits");
    let coded: Vec<(dfcp::Taus88, Vec<u8>)> = (0..200)
        .map(|key| {
            let (state, mut segment) = (dfcp::Taus88::seeded(key), vec![0; DfcpRaptor::SEGMENT_BYTES]);
            block.segment(state, &mut segment);
            (state, segment)
        })
        .collect();
    let decode = mb_per_s(message.len(), || {
        let mut receiver = dfcp::DfcpReceiver::new(message.len(), ldpc, 1 << 20);
        let mut coded = coded.iter();
        while !receiver.is_decoded() {
            let (state, segment) = coded.next().expect("200 segments are plenty");
            receiver.on_segment(*state, segment).expect("consistent");
        }
    });
    report.push(Row::with_unit("DFCP Raptor, LDPC and 48 segments", "encode", encode, "MB/s"));
    report.push(Row::with_unit("DFCP Raptor, until decoded", "decode", decode, "MB/s"));
}

/// What decoders hold.
pub fn memory(report: &mut Report) {
    report.section("memory per decoder, bytes");
    let code = RlcWindow::new(256).expect("valid");
    let sources = symbols(4096, SYMBOL);
    let mut decoder = code.decoder(SYMBOL, LIMITS);
    let mut push =
        |what: &str, bytes: usize| report.push(Row::with_unit(what, "RLC window", bytes as f64, "bytes"));
    push("new", decoder.memory_bytes());
    for (i, source) in sources.iter().enumerate().take(256) {
        decoder.on_source(SymbolId(i as u64), source).expect("valid");
    }
    push("256 symbols retained", decoder.memory_bytes());
    for (i, source) in sources.iter().enumerate() {
        decoder.on_source(SymbolId(i as u64), source).expect("valid");
    }
    push("4096 symbols retained (limit)", decoder.memory_bytes());
    decoder.release(SymbolId(4096));
    push("all released", decoder.memory_bytes());
    let source = vec![vec![0u8; 1420]; 44];
    let code = DfcpRaptor::new(dfcp::Taus88::seeded(1));
    let (mut encoder, mut segment) = (code.encoder(1420), [0; 1420]);
    let mut decoder = code.decoder(1420, LIMITS);
    for key in 0..40 {
        encoder.repair(block(44), RepairKey(key), &source, &mut segment).expect("valid");
        decoder.on_repair(block(44), RepairKey(key), &segment).expect("valid");
    }
    report.push(Row::with_unit(
        "one block, 40 of 49 segments",
        "DFCP Raptor",
        decoder.memory_bytes() as f64,
        "bytes",
    ));
}
