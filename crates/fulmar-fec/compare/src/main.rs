//! Speed of the codes beside ISA-L's and other crates', in one run on one core: GB/s of source bytes, in
//! cache.
//!
//! `fulmar-fec-compare [--json FILE] [--quick]`, `--hostile`, or `fulmar-fec-compare --repeat WHAT TIMES` for
//! `instructions.sh`. Each figure is the best of many short rounds, which is what a shared machine disturbs
//! least; compare ratios. `FULMAR_GF` chooses our kernel.

mod hostile;
mod isal;
mod measure;
mod others;
mod ours;
mod overhead;
mod repeat;

use measure::{Report, Row};

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut json, mut is_quick) = (None, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => json = args.next(),
            "--quick" => is_quick = true,
            "--hostile" => return hostile::all(&mut Report::default()),
            "--repeat" => {
                let (what, times) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
                return repeat::repeat(&what, times.parse().unwrap_or(1));
            }
            _ => {
                eprintln!("usage: fulmar-fec-compare [--json FILE] [--quick] | --hostile");
                std::process::exit(2);
            }
        }
    }
    let mut report = Report::default();
    speed(&mut report);
    ours::streams(&mut report);
    ours::memory(&mut report);
    hostile::all(&mut report);
    overhead::all(&mut report, if is_quick { 50 } else { 1000 });
    if let Some(file) = json {
        std::fs::write(&file, report.to_json()).unwrap_or_else(|error| eprintln!("{file}: {error}"));
    }
}

/// Everything that several implementations do.
fn speed(report: &mut Report) {
    report.section(&format!(
        "GB/s of source bytes, symbols of {} bytes, our kernel: {}",
        measure::SYMBOL,
        ours::kernel()
    ));
    let isal = isal::Isal::load();
    if isal.is_none() {
        println!("  (no libisal.so.2 to compare with: apt-get install libisal2)");
    }
    report.push(Row::new("multiply-add 64 -> 1", "ours", ours::multiply_add(64)));
    isal.iter().for_each(|isal| report.push(Row::new("multiply-add 64 -> 1", "ISA-L", isal.encode(64, 1))));
    for (k, r) in [(32, 8), (64, 16)] {
        let what = |way: &str| format!("RS {k}+{r} {way}");
        report.push(Row::new(&what("encode"), "ours", ours::reed_solomon_encode(k, r)));
        if let Some(isal) = &isal {
            report.push(Row::new(&what("encode"), "ISA-L", isal.encode(k, r)));
        }
        report.push(Row::new(&what("encode"), "reed-solomon-simd", others::simd_encode(k, r)));
        report.push(Row::new(&what("encode"), "reed-solomon-erasure", others::erasure_encode(k, r)));
        report.push(Row::new(&what("decode"), "ours", ours::reed_solomon_decode(k, r)));
        if let Some(isal) = &isal {
            report.push(Row::new(&what("decode"), "ISA-L", isal.decode(k, r)));
        }
        report.push(Row::new(&what("decode"), "reed-solomon-simd", others::simd_decode(k, r)));
        report.push(Row::new(&what("decode"), "reed-solomon-erasure", others::erasure_decode(k, r)));
    }
    for lost in [3, 4] {
        report.push(Row::new(&format!("RLC 32, {lost} lost, encode"), "ours", ours::rlc_encode(32, lost)));
        report.push(Row::new(&format!("RLC 32, {lost} lost, decode"), "ours", ours::rlc_decode(32, lost)));
    }
    for k in [32, 256] {
        report.push(Row::new(
            &format!("RaptorQ {k}, 10 % repair, encode"),
            "raptorq",
            others::raptorq_encode(k),
        ));
        report.push(Row::new(
            &format!("RaptorQ {k}, 10 % lost, decode"),
            "raptorq",
            others::raptorq_decode(k),
        ));
    }
    report.push(Row::new("XOR of 10", "ours", ours::xor(10)));
}
