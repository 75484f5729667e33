//! Timing and reporting.

use std::time::{Duration, Instant};

/// Bytes in a symbol: an unaligned length, as packets have.
pub const SYMBOL: usize = 1400;

/// GB/s of `bytes` per call: the best of many rounds of about 50 us each.
pub fn gb_per_s(bytes: usize, mut call: impl FnMut()) -> f64 {
    call();
    let started = Instant::now();
    call();
    let once = started.elapsed().max(Duration::from_nanos(100));
    let calls = (50_000 / once.as_nanos()).clamp(1, 500) as u32;
    let (mut best, begun) = (Duration::MAX, Instant::now());
    while begun.elapsed() < Duration::from_millis(150) {
        let started = Instant::now();
        (0..calls).for_each(|_| call());
        best = best.min(started.elapsed() / calls);
    }
    bytes as f64 / best.as_secs_f64() / 1e9
}

/// MB/s of `bytes` per call that takes milliseconds: the best of 200, of which some fall between two
/// interruptions.
pub fn mb_per_s(bytes: usize, mut call: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let started = Instant::now();
        call();
        best = best.min(started.elapsed());
    }
    bytes as f64 / best.as_secs_f64() / 1e6
}

/// Symbols of noise.
pub fn symbols(count: usize, len: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| (0..len).map(|_| next()).collect()).collect()
}

/// One figure.
pub struct Row {
    what: String,
    whose: String,
    value: f64,
    unit: &'static str,
}

impl Row {
    pub fn new(what: &str, whose: &str, gb_per_s: f64) -> Self {
        Self::with_unit(what, whose, gb_per_s, "GB/s")
    }

    pub fn with_unit(what: &str, whose: &str, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), whose: whose.into(), value, unit }
    }
}

/// Prints as it goes, and keeps everything for the file.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub fn section(&mut self, title: &str) {
        println!("\n{title}");
    }

    pub fn push(&mut self, row: Row) {
        println!("  {:48} {:22} {:>12.4} {}", row.what, row.whose, row.value, row.unit);
        self.rows.push(row);
    }

    pub fn to_json(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let Row { what, whose, value, unit } = row;
                format!("  {{\"what\": \"{what}\", \"whose\": \"{whose}\", \"value\": {value:.6}, \"unit\": \"{unit}\"}}")
            })
            .collect();
        format!("[\n{}\n]\n", rows.join(",\n"))
    }
}
