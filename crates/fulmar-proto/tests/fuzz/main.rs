//! The fuzz targets' entry points with random bytes, so that they run in every ordinary test.
#![allow(unreachable_pub, reason = "modules of one program")]

use fulmar_world as common;
mod drivers;

use fulmar_net::Rng;

/// Random bytes, of which many are small or name a frame.
fn random_bytes(seed: u64, len_max: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed, 13);
    let len = rng.below(len_max);
    (0..len)
        .map(|_| match rng.below(4) {
            0 => rng.below(4) as u8,
            1 => rng.below(0x20) as u8,
            2 => rng.below(100) as u8,
            _ => rng.draw() as u8,
        })
        .collect()
}

/// Calls `drive` with what fuzzing has found worth keeping for `target`, if there is any, and with `count`
/// random inputs, which follow from `FULMAR_FUZZ_FIRST`.
fn fuzz(target: &str, count: u64, len_max: u64, drive: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        drive(&std::fs::read(entry.expect("a readable folder").path()).expect("a readable file"));
    }
    let first = std::env::var("FULMAR_FUZZ_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        let result = std::panic::catch_unwind(|| drive(&random_bytes(seed, len_max)));
        assert!(result.is_ok(), "{target}, with FULMAR_FUZZ_FIRST={seed}");
    }
}

#[test]
fn packets() {
    fuzz("proto_packets", 20_000, 200, drivers::packets);
}

#[test]
fn frames() {
    fuzz("proto_frames", 50_000, 100, drivers::frames);
}

#[test]
fn symbol_frames() {
    fuzz("proto_symbol_frames", 50_000, 100, drivers::symbol_frames);
}

#[test]
fn parameters() {
    fuzz("proto_parameters", 20_000, 100, drivers::parameters);
}

#[test]
fn acks() {
    fuzz("proto_acks", 2000, 1000, drivers::acks);
}

#[test]
fn symbols() {
    fuzz("proto_symbols", 3000, 2000, drivers::symbols);
}

#[test]
fn connection() {
    fuzz("proto_connection", 300, 400, drivers::connection);
}
