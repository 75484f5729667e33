//! The fuzz targets' entry points with random bytes, so that they run in every ordinary test.
#![allow(unreachable_pub, reason = "modules of one program")]

use fulmar_world as common;
mod drivers;

use fulmar_net::Rng;

/// Calls `drive` with `count` inputs: random bytes, of which many are small or name a frame.
fn with_random_bytes(count: u64, len_max: u64, drive: fn(&[u8])) {
    for seed in 0..count {
        let mut rng = Rng::new(seed, 13);
        let len = rng.below(len_max);
        let bytes: Vec<u8> = (0..len)
            .map(|_| match rng.below(4) {
                0 => rng.below(4) as u8,
                1 => rng.below(0x20) as u8,
                2 => rng.below(100) as u8,
                _ => rng.draw() as u8,
            })
            .collect();
        drive(&bytes);
    }
}

#[test]
fn packets() {
    with_random_bytes(20_000, 200, drivers::packets);
}

#[test]
fn frames() {
    with_random_bytes(50_000, 100, drivers::frames);
}

#[test]
fn symbol_frames() {
    with_random_bytes(50_000, 100, drivers::symbol_frames);
}

#[test]
fn parameters() {
    with_random_bytes(20_000, 100, drivers::parameters);
}

#[test]
fn acks() {
    with_random_bytes(2000, 1000, drivers::acks);
}

#[test]
fn symbols() {
    with_random_bytes(3000, 2000, drivers::symbols);
}

#[test]
fn connection() {
    with_random_bytes(300, 400, drivers::connection);
}
