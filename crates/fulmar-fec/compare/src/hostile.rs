//! What the worst known attacks cost the receiver: the slowest call of each, and what it held.

use std::sync::OnceLock;
use std::time::Instant;

use crate::measure::{Report, Row};

#[path = "../../tests/common/mod.rs"]
mod common;
use common::attacks::attacks;
use common::probe::Probe;

fn seconds() -> f64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// The runs of an attack are the same call by call, and of each call the fastest counts: the machine has
/// other work too.
const RUNS: usize = 15;

pub fn all(report: &mut Report) {
    report.section("attacks on decoders: slowest call, its counted work, memory");
    for attack in attacks() {
        let (mut calls, mut work, mut memory): (Vec<f64>, _, _) = (Vec::new(), 0, 0);
        for _ in 0..RUNS {
            let mut probe = Probe::new(&*attack.code, attack.symbol_bytes, attack.limits, seconds);
            (attack.run)(&mut probe, attack.symbol_bytes);
            calls.resize(probe.seconds.len(), f64::MAX);
            calls.iter_mut().zip(&probe.seconds).for_each(|(least, seconds)| *least = least.min(*seconds));
            (work, memory) = (probe.work_most, probe.memory_most);
        }
        let slowest = calls.iter().copied().fold(0.0, f64::max);
        report.push(Row::with_unit(attack.name, "slowest call", slowest * 1e6, "us"));
        report.push(Row::with_unit(attack.name, "most work", work as f64 / 1e6, "million units"));
        report.push(Row::with_unit(attack.name, "memory", memory as f64, "bytes"));
    }
}
