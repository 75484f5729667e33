//! The most expensive things a peer can do to each decoder, as far as they are known.

use std::sync::Arc;

use fulmar_fec::*;
use fulmar_systems::codes::{by_name, from_parameters};
use fulmar_systems::dfcp::DfcpRaptor;

use super::Draw;
use super::probe::Probe;

/// Symbols that fill Ethernet's packets.
const SYMBOL: usize = 1436;

/// An attack on a decoder of a code for symbols of so many bytes.
pub struct Attack {
    pub name: &'static str,
    pub code: Arc<dyn Code>,
    pub symbol_bytes: usize,
    pub limits: DecoderLimits,
    pub run: fn(&mut Probe, usize),
}

fn block(first: u64, len: u32) -> Cover<'static> {
    Cover::Window(Window { first: SymbolId(first), len })
}

fn parameters(id: CodeId, parameters: &[u32]) -> Arc<dyn Code> {
    from_parameters(id, parameters).expect("the most that is accepted")
}

pub fn attacks() -> Vec<Attack> {
    let window = DecoderLimits::new(4096, 256);
    let blocks = DecoderLimits::new(4096, 1024);
    let attack = |name, code, limits, run| Attack { name, code, symbol_bytes: SYMBOL, limits, run };
    let all = |density| parameters(RlcWindow::ID, &[RLC_LEN_MAX, density]);
    let mut attacks = vec![
        attack(
            "window: equations over 4096 missing symbols",
            all(256),
            window,
            wide as fn(&mut Probe, usize),
        ),
        attack("window: the same, sparse", all(1), window, wide),
        attack("window: the same, upside down", all(256), window, downwards),
        attack("window: repair over 3500 known symbols", all(256), window, products),
        attack("window: deficits of windows in the middle", all(256), window, deficits),
        attack("xor: groups over 4096 symbols", parameters(XorGroups::ID, &[65535, 4096]), window, groups),
        attack("rlc-block: 4096 missing symbols", parameters(RlcBlock::ID, &[4096, 256, 1]), blocks, wide),
        attack(
            "rlc-block: 900 missing symbols",
            parameters(RlcBlock::ID, &[900, 256, 1]),
            blocks,
            full_block,
        ),
        attack("rlc-block: many short blocks", parameters(RlcBlock::ID, &[2, 256, 1]), blocks, many_blocks),
        attack("reed-solomon: 127 + 128", parameters(ReedSolomon::ID, &[127, 128]), blocks, full_block),
        attack("none: copies", parameters(NoCode::ID, &[]), blocks, copies),
    ];
    for (name, symbol_bytes) in
        [("dfcp: one block", 1150), ("dfcp: long segments", 2048), ("dfcp: short segments", 62)]
    {
        let code = parameters(DfcpRaptor::ID, &[1, 2, 3]);
        attacks.push(Attack { name, code, symbol_bytes, limits: blocks, run: one_dfcp_block });
    }
    for (name, symbol_bytes) in [("dfcp: many blocks", 1150), ("dfcp: many blocks of one byte", 1)] {
        let code = parameters(DfcpRaptor::ID, &[1, 2, 3]);
        attacks.push(Attack { name, code, symbol_bytes, limits: blocks, run: many_dfcp_blocks });
    }
    if let Ok(raptorq) = by_name("raptorq", 256) {
        attacks.push(attack("raptorq: all 256 missing", raptorq.clone(), blocks, solves));
        attacks.push(attack("raptorq: 1 of 256 missing", raptorq.clone(), blocks, solves_of_one));
        attacks.push(attack("raptorq: many blocks", raptorq, blocks, many_blocks));
    }
    attacks
}

/// More equations than fit, over everything, then the symbols, the lowest first: each takes a pivot away.
fn wide(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for key in 0..300 {
        let _ = probe.repair(block(0, RLC_LEN_MAX), key, &zeros);
    }
    for id in 0..300 {
        let _ = probe.source(id, &zeros);
    }
    let _ = probe.deficit(100, 3000);
}

/// Covers that end earlier each time: every new equation has the lowest pivot.
fn downwards(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for step in 0..400u32 {
        let _ = probe.repair(block(u64::from(4000 - 10 * step), 96 + 9 * step), step, &zeros);
    }
}

fn products(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for id in (0..3500).filter(|id| id % 50 != 7) {
        let _ = probe.source(id, &zeros);
    }
    for key in 0..70 {
        let _ = probe.repair(block(0, 3500), key, &zeros);
    }
}

fn deficits(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for key in 0..256 {
        let _ = probe.repair(block(0, RLC_LEN_MAX), key, &zeros);
        let _ = probe.deficit(u64::from(key), 2000);
        let _ = probe.deficit(0, u32::MAX);
    }
}

fn groups(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for group in 0..300 {
        let key = XorGroups::key(4000, group).0;
        let _ = probe.repair(block(0, 4096), key, &zeros);
        let _ = probe.repair(block(0, 4096), XorGroups::key(1 + group, 0).0, &zeros);
    }
    for id in 0..300 {
        let _ = probe.source(id, &zeros);
    }
}

/// A block of as many symbols as it may have, of which nothing arrives but repair, and then the symbols.
fn full_block(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    let len = if probe.repair(block(0, 900), 0, &zeros).is_ok() { 900 } else { 127 };
    for key in 0..len - 1 {
        let _ = probe.repair(block(0, len), key, &zeros);
        let _ = probe.deficit(0, len);
    }
    for id in 0..u64::from(len) {
        let _ = probe.source(id, &zeros);
    }
}

/// A repair symbol for each of many blocks, none of which can be decoded.
fn many_blocks(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for number in 0..5000 {
        let _ = probe.repair(block(2 * number, 2), 0, &zeros);
    }
    let _ = probe.deficit(0, u32::MAX);
    for number in (0..5000).rev() {
        let _ = probe.source(2 * number + 1, &zeros);
    }
}

fn copies(probe: &mut Probe, symbol_bytes: usize) {
    let zeros = vec![0; symbol_bytes];
    for id in 0..2000 {
        let _ = probe.repair(block(REACH - 1 - 64 * id, 1), 0, &zeros);
        let _ = probe.deficit(0, u32::MAX);
    }
    let _ = probe.source(0, &zeros);
}

/// Blocks decoded one after the other, each from segments with keys from anywhere.
fn one_dfcp_block(probe: &mut Probe, symbol_bytes: usize) {
    let (zeros, mut draw) = (vec![0; symbol_bytes], Draw(symbol_bytes as u64));
    let len = DfcpRaptor::len_max(symbol_bytes);
    for first in [0, u64::from(len)] {
        while probe.deficit(first, len) > 0 {
            probe.repair(block(first, len), draw.below(1 << 32) as u32, &zeros).expect("consistent");
        }
    }
}

/// As many blocks at once as there is room for, and more.
fn many_dfcp_blocks(probe: &mut Probe, symbol_bytes: usize) {
    let (zeros, mut draw) = (vec![0; symbol_bytes], Draw(7));
    let len = DfcpRaptor::len_max(symbol_bytes);
    for _ in 0..40 {
        for number in 0..130 {
            let _ = probe.repair(block(number * u64::from(len), len), draw.below(1 << 32) as u32, &zeros);
        }
    }
}

/// Blocks of which nothing arrives but repair symbols with keys from anywhere.
fn solves(probe: &mut Probe, symbol_bytes: usize) {
    let (zeros, mut draw) = (vec![0; symbol_bytes], Draw(8));
    for first in (0..4).map(|number| 256 * number) {
        while probe.deficit(first, 256) > 0 {
            let _ = probe.repair(block(first, 256), draw.below(1 << 23) as u32, &zeros);
        }
    }
}

/// Every symbol but one, and repair symbols that are empty: the cheapest way to have a block solved.
fn solves_of_one(probe: &mut Probe, _symbol_bytes: usize) {
    for first in (0..4).map(|number| 256 * number) {
        for id in first + 1..first + 256 {
            let _ = probe.source(id, &[]);
        }
        let _ = probe.repair(block(first, 256), 0, &[]);
        let _ = probe.repair(block(first, 256), 1, &[]);
    }
}
