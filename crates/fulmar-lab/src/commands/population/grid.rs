//! What small imperfections of real networks do to bulk goodput: two base paths, ten losses, fifteen
//! imperfections.

use std::fmt::Write;

use super::line::{Figure, Line, Over};
use super::plan::{Plan, Row};

/// Rate in Mb/s and round trip.
const BASES: [(u32, &str); 2] = [(50, "30ms"), (10, "80ms")];
const LOSSES: &[&str] = &["none", "1%", "5%", "10%", "20%", "25%", "30%", "40%", "10%/5", "20%/5"];
const SECONDS: u32 = 8;

/// The imperfections, with their flags.
const FAULTS: &[(&str, &str)] = &[
    ("none", ""),
    ("jitter 50 us", "--jitter 50us"),
    ("200 us", "--jitter 200us"),
    ("1 ms", "--jitter 1ms"),
    ("5 ms", "--jitter 5ms"),
    ("20 ms", "--jitter 20ms"),
    ("reordered 1 ms", "--jitter 1ms --reorder"),
    ("reordered 5 ms", "--jitter 5ms --reorder"),
    ("duplicates 2 %", "--duplicate 2%"),
    ("corrupted 1 %", "--corrupt 1%"),
    ("stalls 5 ms each s", "--stall 1s/5ms"),
    ("2 ms each 50 ms", "--stall 50ms/2ms"),
    ("marks 0.5 %", "--mark 0.5%"),
    (WOBBLE, ""),
    ("jitter back 2 ms", "--back-jitter 2ms"),
];
const WOBBLE: &str = "rate -20 % each 300 ms";

/// The table that is to be filled.
pub(super) fn plan(is_quick: bool) -> Plan {
    let bases = BASES.iter().flat_map(|base| LOSSES.iter().map(move |loss| (base, loss)));
    let rows = bases.map(|(&(rate, rtt), loss)| Row {
        name: format!("{rate} Mb/s, {rtt}, loss {loss}"),
        lines: FAULTS.iter().map(|&fault| line((rate, rtt), loss, fault)).collect(),
    });
    Plan {
        name: "Small imperfections".into(),
        about: format!("Shares of (1 - p) x capacity x 0.955 in {SECONDS} s; of several seeds the least."),
        columns: FAULTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: rows.collect(),
        seeds: if is_quick { 1 } else { 3 },
    }
}

fn line((rate, rtt): (u32, &str), loss: &str, (name, flags): (&str, &str)) -> Line {
    let rate = if name == WOBBLE { wobble(rate) } else { format!("{rate}M") };
    Line {
        flags: format!("--profile {{profile}} --rate {rate} --rtt {rtt} --loss {loss} {flags} -t {SECONDS}"),
        figures: vec![(Figure::Share, Over::Least)],
    }
}

/// A rate that is a fifth less in every other 300 ms.
fn wobble(rate: u32) -> String {
    let mut text = format!("{rate}M");
    for step in 1..(SECONDS * 1000).div_ceil(300) {
        let part = if step % 2 == 1 { 8 } else { 10 };
        // A string takes all that is written.
        _ = write!(text, ",{}ms:{}k", step * 300, rate * part * 100);
    }
    text
}
