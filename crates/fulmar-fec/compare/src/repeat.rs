//! One thing so many times and nothing else, so that counted instructions can be divided by it.

use fulmar_fec::{
    Code, Cover, DecoderLimits, Present, ReedSolomon, RepairKey, RlcWindow, SymbolId, Window, restore,
};
use fulmar_systems::dfcp;

use crate::measure::{SYMBOL, symbols};

/// Source bytes that one repetition handles are printed.
pub fn repeat(what: &str, times: u32) {
    let (k, r) = (32usize, 8usize);
    let sources = symbols(k, SYMBOL);
    let block = Cover::Window(Window { first: SymbolId(0), len: k as u32 });
    let keys: Vec<RepairKey> = (0..r as u32).map(RepairKey).collect();
    let code = ReedSolomon::new(k, r).expect("valid");
    let mut outs = symbols(r, SYMBOL);
    let mut encode = |times: u32| {
        for _ in 0..times {
            let mut outs: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
            code.encoder(SYMBOL).repair_many(block, &keys, &sources, &mut outs).expect("valid");
        }
    };
    match what {
        "rs-encode" => encode(times),
        "rs-decode" => {
            encode(1);
            let repairs: Vec<(RepairKey, &[u8])> =
                keys.iter().copied().zip(outs.iter().map(Vec::as_slice)).collect();
            let present: Vec<Option<&Vec<u8>>> =
                sources.iter().enumerate().map(|(i, s)| (i >= r).then_some(s)).collect();
            let mut restored = symbols(r, SYMBOL);
            for _ in 0..times {
                let mut outs: Vec<&mut [u8]> = restored.iter_mut().map(Vec::as_mut_slice).collect();
                restore(&code, block, &Present(&present), &repairs, &mut outs).expect("valid");
            }
        }
        "window-sources" => {
            let limits = DecoderLimits::new(1024, 64);
            let mut decoder = RlcWindow::new(256).expect("valid").decoder(SYMBOL, limits);
            for id in 0..u64::from(times) * k as u64 {
                decoder.on_source(SymbolId(id), &sources[id as usize % k]).expect("valid");
            }
        }
        "dfcp-encode" | "dfcp-decode" => return dfcp_repeat(what, times),
        _ => eprintln!("rs-encode, rs-decode, window-sources, dfcp-encode or dfcp-decode"),
    }
    println!("{}", k * SYMBOL);
}

fn dfcp_repeat(what: &str, times: u32) {
    let message = symbols(1, dfcp::MESSAGE_BYTES).remove(0);
    let ldpc = dfcp::Taus88::seeded(1);
    let mut segments = vec![[0; 1420]; 60];
    let mut encode = |times: u32| {
        for _ in 0..times {
            let mut block = dfcp::DfcpBlock::new(&message, ldpc).expect("fits");
            segments
                .iter_mut()
                .take(48)
                .zip(0..)
                .for_each(|(segment, key)| block.segment(dfcp::Taus88::seeded(key), segment));
        }
    };
    if what == "dfcp-encode" {
        encode(times);
    } else {
        encode(1);
        for _ in 0..times {
            let mut receiver = dfcp::DfcpReceiver::new(message.len(), ldpc, 1 << 20);
            for (segment, key) in segments.iter().take(48).zip(0..) {
                receiver.on_segment(dfcp::Taus88::seeded(key), segment).expect("consistent");
            }
        }
    }
    println!("{}", message.len());
}
