//! Fixed vectors, one file for each code, so that other implementations can check themselves:
//! `tests/vectors/NAME.txt`.
//!
//! `FULMAR_WRITE_VECTORS=1 cargo test -p fulmar-fec --features raptorq --test vectors` writes them anew; that
//! is a change of what goes over the wire.
//!
//! Lines: `symbol_bytes N`, `source ID HEX`, `repair window FIRST LEN key KEY HEX`,
//! `repair set ID,ID,... key KEY HEX`.

use std::fmt::Write;
use std::path::PathBuf;

use fulmar_fec::*;
use fulmar_systems::codes::{NAMES, by_name};

const SYMBOL: usize = 16;
const COUNT: usize = 12;

/// Symbol i is the first 16 - i % 3 bytes of i * 37 + 11 j, plain enough to type.
fn source() -> Vec<Vec<u8>> {
    (0..COUNT).map(|i| (0..SYMBOL - i % 3).map(|j| (i * 37 + 11 * j) as u8).collect()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Covers and keys of a code; those it refuses are left out.
fn repairs(code: &dyn Code) -> Vec<(Window, Vec<SymbolId>, RepairKey)> {
    let mut repairs = Vec::new();
    for (first, len) in [(0, 1), (0, COUNT as u32), (3, 5)] {
        let window = Window { first: SymbolId(first), len };
        for key in [0, 1, 2, 1000, 3 << 16, (3 << 16) + 2] {
            repairs.push((window, Vec::new(), RepairKey(key)));
        }
        repairs.push((window, vec![SymbolId(1), SymbolId(4), SymbolId(11)], RepairKey(1)));
    }
    let mut encoder = code.encoder(SYMBOL);
    repairs.retain(|(window, set, key)| {
        encoder.repair(cover(*window, set), *key, &source(), &mut [0; SYMBOL]).is_ok()
    });
    repairs
}

fn cover(window: Window, set: &[SymbolId]) -> Cover<'_> {
    if set.is_empty() { Cover::Window(window) } else { Cover::Set(set) }
}

fn vectors(name: &str, code: &dyn Code) -> String {
    let mut text = format!("# {name}, code number {}\nsymbol_bytes {SYMBOL}\n", code.shape().id.0);
    for (id, symbol) in source().iter().enumerate() {
        let _ = writeln!(text, "source {id} {}", hex(symbol));
    }
    let mut encoder = code.encoder(SYMBOL);
    for (window, set, key) in repairs(code) {
        let mut out = [0; SYMBOL];
        let len = encoder.repair(cover(window, &set), key, &source(), &mut out).unwrap();
        let covered = match set.is_empty() {
            true => format!("window {} {}", window.first.0, window.len),
            false => format!("set {}", set.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",")),
        };
        let _ = writeln!(text, "repair {covered} key {} {}", key.0, hex(&out[..len]));
    }
    text
}

#[test]
fn all_codes_make_what_the_files_say() {
    for name in NAMES {
        let Ok(code) = by_name(name, 32) else { continue };
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{name}.txt"));
        let text = vectors(name, &*code);
        if std::env::var_os("FULMAR_WRITE_VECTORS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name}");
        assert!(text.lines().filter(|line| line.starts_with("repair")).count() >= 3, "{name}");
    }
}

/// The same by hand, from the definitions: nothing of the library but the field.
#[test]
fn reed_solomon_by_hand() {
    let text = vectors("reed-solomon", &*by_name("reed-solomon", 32).unwrap());
    let invert = |a: u8| (0..=255).find(|b| fulmar_gf::mul_by_definition(a, *b) == 1).unwrap();
    let source = source();
    let expected: Vec<u8> = (0..SYMBOL)
        .map(|at| {
            (0..COUNT).fold(0, |sum, j| {
                // Key 2 at point 34, scaled by key 0 at point 32.
                let c = fulmar_gf::mul_by_definition(invert(34 ^ j as u8), 32 ^ j as u8);
                sum ^ fulmar_gf::mul_by_definition(c, source[j].get(at).copied().unwrap_or(0))
            })
        })
        .collect();
    assert!(text.contains(&format!("repair window 0 12 key 2 {}", hex(&expected))), "{text}");
}
