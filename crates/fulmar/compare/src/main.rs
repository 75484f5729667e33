//! Fulmar beside quinn, s2n-quic and quiche on the loopback interface: each run in a process of its own,
//! alternating, medians of the runs.
//!
//! `fulmar-compare [--json FILE] [--seconds 3] [--rounds 3] [--quick]` (`make bench-loopback`). All get
//! sockets and buffers of the same size, and a thread a side where not said otherwise. The datagrams are
//! checked to be of the same size. Needs Linux.

mod fulmar_side;
mod library;
#[cfg(feature = "quiche")]
mod quiche_side;
mod quinn_side;
mod run;
#[cfg(feature = "s2n")]
mod s2n_side;

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
    /// Who cannot take part.
    without: &'static [&'static str],
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
    without: &[],
};
const ROWS: &[Row] = &[
    CLEAN,
    // Data that nobody has to copy on the way in: quiche copies.
    Row { name: "bytes_", load: Load::BulkBytes, without: &["quiche"], ..CLEAN },
    // A listener of tokio-quiche takes no socket but tokio's, which loses nothing.
    Row { name: "loss_5_percent_", loss_ppm: 50_000, without: &["quiche"], ..CLEAN },
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
    // s2n-quic stands still with datagrams of half that, or is ended by a signal.
    Row { name: "datagrams_65000_", mtu_bytes: 65_000, without: &["s2n"], ..CLEAN },
];
/// Who is compared: the name in the JSON, and the profile. The others' congestion control is CUBIC, so is the
/// first's.
const WHO: &[(&str, &str)] = &[
    ("fulmar", "cubic"),
    ("quinn", "quinn"),
    ("fulmar_auto", "auto"),
    #[cfg(feature = "s2n")]
    ("s2n", "s2n"),
    #[cfg(feature = "quiche")]
    ("quiche", "quiche"),
];

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
        if let Some(file) = &options.json {
            std::fs::write(file, serde_json::to_string_pretty(&results)? + "\n")?;
        }
    }
    let size = |(who, _): &(&str, &str)| &results[&format!("{who}_datagram_bytes")];
    if WHO.iter().any(|who| size(who) != size(&WHO[0])) {
        return Err("the datagrams are not of one size: nothing of this is comparable".into());
    }
    let share = |over: &str, under: &str| Some(results.get(over)?.as_f64()? / results.get(under)?.as_f64()?);
    for (what, over, under) in [
        ("one connection, against quinn's", "fulmar_gbps", "quinn_gbps"),
        ("one connection, against s2n-quic's", "fulmar_gbps", "s2n_gbps"),
        ("one connection, against quiche's", "fulmar_gbps", "quiche_gbps"),
        ("uncopied data, against s2n-quic's", "bytes_fulmar_gbps", "bytes_s2n_gbps"),
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
    Ok(())
}

fn options(words: &[&str]) -> Result<Options> {
    let mut options = Options { json: None, seconds: 3.0, rounds: 3, rows: ROWS.len() };
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
    let who: Vec<_> = WHO.iter().filter(|(_, profile)| !row.without.contains(profile)).collect();
    let mut runs: Vec<Vec<Value>> = vec![Vec::new(); who.len()];
    // Memory does not vary as speed does.
    let rounds = if row.load == Load::Idle { 1 } else { options.rounds };
    for _ in 0..rounds {
        for (runs, (_, profile)) in runs.iter_mut().zip(&who) {
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
    for (runs, (who, _)) in runs.iter().zip(&who) {
        for figure in row.figures.iter().chain(is_first.then_some(&"datagram_bytes")) {
            // Of nothing that arrived there are no shares and no costs.
            let values = runs.iter().map(|run| Some(run.get(figure)?.as_f64().unwrap_or(0.0)));
            let mut values: Vec<f64> = values.collect::<Option<_>>().ok_or("a figure is missing")?;
            values.sort_by(f64::total_cmp);
            let median = values[values.len() / 2];
            let name = format!("{}{who}_{figure}", row.name);
            println!("{name:<46} {median:>9.3}   {:.3} .. {:.3}", values[0], values[values.len() - 1]);
            results.insert(name, json!(median));
        }
        if row.load.is_bulk() {
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
    let mut command = Command::new(std::env::current_exe()?);
    // tokio-quiche reads the system's certificates for each connection that it opens; nobody needs them here.
    command.args(plan.words()).env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nonexistent");
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}: {said}", plan.profile, output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
