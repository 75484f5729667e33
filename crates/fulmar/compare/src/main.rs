//! Fulmar beside quinn on the loopback interface: each run in a process of its own, alternating, medians of
//! the runs.
//!
//! `fulmar-compare [--json FILE] [--seconds 3] [--rounds 5] [--quick]` (`make bench-loopback`). Both get
//! sockets and buffers of the same size, and a thread a side where not said otherwise. The datagrams are
//! checked to be of the same size. Needs Linux.

mod fulmar_side;
mod quinn_side;
mod run;

use std::process::Command;

use serde_json::{Map, Value, json};

use run::{Load, Plan, Result};

/// What is compared in a row: its name in the JSON, the plan's difference, and the figures that are shown.
struct Row {
    name: &'static str,
    connections: usize,
    cores: usize,
    loss_ppm: u32,
    mtu_bytes: u16,
    load: Load,
    figures: &'static [&'static str],
}

const COSTS: &[&str] = &["gbps", "sender_s_per_gb", "receiver_s_per_gb"];
/// Datagrams of the largest UDP payload in an IP packet of 1500 bytes.
const CLEAN: Row = Row {
    name: "",
    connections: 1,
    cores: 1,
    loss_ppm: 0,
    mtu_bytes: 1472,
    load: Load::Bulk,
    figures: COSTS,
};
const ROWS: &[Row] = &[
    CLEAN,
    Row { name: "loss_5_percent_", loss_ppm: 50_000, ..CLEAN },
    Row { name: "two_cores_a_side_", connections: 4, cores: 2, ..CLEAN },
    Row { name: "connections_1000_", connections: 1000, figures: &["gbps", "jain"], ..CLEAN },
    Row { name: "idle_10000_", connections: 10_000, load: Load::Idle, figures: &["kib_per_end"], ..CLEAN },
    Row {
        name: "handshakes_",
        connections: 32,
        load: Load::Handshakes,
        figures: &["handshakes_per_s_core"],
        ..CLEAN
    },
    // Apart, and never instead of the first.
    Row { name: "datagrams_8972_", mtu_bytes: 8972, ..CLEAN },
    Row { name: "datagrams_65000_", mtu_bytes: 65_000, ..CLEAN },
];
/// Who is compared: the name in the JSON, and the profile. quinn's congestion control is CUBIC, so is the
/// first's.
const WHO: &[(&str, &str)] = &[("fulmar", "cubic"), ("quinn", "quinn"), ("fulmar_auto", "auto")];

struct Options {
    json: Option<String>,
    seconds: f64,
    rounds: usize,
    rows: usize,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["run", plan @ ..] = &words[..] {
        println!("{}", run::carry_out(&Plan::parse(plan)?)?);
        return Ok(());
    }
    let options = options(&words)?;
    let mut results = Map::new();
    for row in &ROWS[..options.rows] {
        compare(row, &options, &mut results)?;
    }
    if results["fulmar_datagram_bytes"] != results["quinn_datagram_bytes"] {
        return Err("the datagrams are not of one size: nothing of this is comparable".into());
    }
    let share = |over: &str, under: &str| Some(results.get(over)?.as_f64()? / results.get(under)?.as_f64()?);
    for (what, over, under) in [
        ("one connection, against quinn's", "fulmar_gbps", "quinn_gbps"),
        ("5 % loss, against its own clean figure", "loss_5_percent_fulmar_gbps", "fulmar_gbps"),
        ("the same with auto", "loss_5_percent_fulmar_auto_gbps", "fulmar_auto_gbps"),
        ("receiver's processor, against the sender's", "fulmar_receiver_s_per_gb", "fulmar_sender_s_per_gb"),
        ("4 connections on twice the cores, against one", "two_cores_a_side_fulmar_gbps", "fulmar_gbps"),
        ("1,000 connections, against one", "connections_1000_fulmar_gbps", "fulmar_gbps"),
        (
            "handshakes, against quinn's",
            "handshakes_fulmar_handshakes_per_s_core",
            "handshakes_quinn_handshakes_per_s_core",
        ),
    ] {
        share(over, under).inspect(|share| println!("{what:<46} {share:.2}"));
    }
    if let Some(file) = options.json {
        std::fs::write(file, serde_json::to_string_pretty(&results)? + "\n")?;
    }
    Ok(())
}

fn options(words: &[&str]) -> Result<Options> {
    let mut options = Options { json: None, seconds: 3.0, rounds: 5, rows: ROWS.len() };
    let mut words = words.iter();
    while let Some(&name) = words.next() {
        let mut value = || words.next().ok_or(format!("{name} needs a value"));
        match name {
            "--json" => options.json = Some((*value()?).to_owned()),
            "--seconds" => options.seconds = value()?.parse()?,
            "--rounds" => options.rounds = value()?.parse::<usize>()?.max(1),
            "--quick" => options.rows = 1,
            other => return Err(format!("{other} is no option").into()),
        }
    }
    Ok(options)
}

/// Runs everybody in turn, again and again, and keeps the medians.
fn compare(row: &Row, options: &Options, results: &mut Map<String, Value>) -> Result<()> {
    let mut runs: Vec<Vec<Value>> = vec![Vec::new(); WHO.len()];
    // Memory does not vary as speed does.
    let rounds = if row.load == Load::Idle { 1 } else { options.rounds };
    for _ in 0..rounds {
        for (runs, (_, profile)) in runs.iter_mut().zip(WHO) {
            runs.push(in_own_process(&Plan {
                profile: (*profile).to_owned(),
                seconds: options.seconds,
                connections: row.connections,
                cores: row.cores,
                loss_ppm: row.loss_ppm,
                mtu_bytes: row.mtu_bytes,
                load: row.load,
            })?);
        }
    }
    let is_first = row.name.is_empty();
    for (runs, (who, _)) in runs.iter().zip(WHO) {
        for figure in row.figures.iter().chain(is_first.then_some(&"datagram_bytes")) {
            let mut values: Vec<f64> = runs.iter().filter_map(|run| run[*figure].as_f64()).collect();
            values.sort_by(f64::total_cmp);
            let median = *values.get(values.len() / 2).ok_or("a figure is missing")?;
            let name = format!("{}{who}_{figure}", row.name);
            println!("{name:<46} {median:>9.3}   {:.3} .. {:.3}", values[0], values[values.len() - 1]);
            results.insert(name, json!(median));
        }
        if row.load == Load::Bulk {
            println!("{:<46} {}", format!("{}{who} is limited by", row.name), limit(runs, row.cores));
        }
    }
    Ok(())
}

/// Whose cores are full; on a busy machine nobody's may be.
fn limit(runs: &[Value], cores: usize) -> &'static str {
    let is_full = |side: &str| {
        let used: f64 = runs.iter().filter_map(|run| run[side].as_f64()).sum();
        used > 0.9 * (cores * runs.len()) as f64
    };
    match (is_full("sender_cores"), is_full("receiver_cores")) {
        (true, true) => "the cores of both sides",
        (true, false) => "the sender's cores",
        (false, true) => "the receiver's cores",
        (false, false) => "waiting: neither side's cores are full",
    }
}

fn in_own_process(plan: &Plan) -> Result<Value> {
    let output = Command::new(std::env::current_exe()?).args(plan.words()).output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", plan.profile, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
