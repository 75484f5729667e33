//! Measures on the loopback interface: throughput, handshakes per second, memory of idle connections.
//!
//! ```text
//! cargo run --release --example bench -- throughput [--seconds 5] [--profile auto] [--streams 1] [--cores 1] [--json]
//! cargo run --release --example bench -- handshakes [--seconds 5] [--json]
//! cargo run --release --example bench -- idle [--connections 10000] [--json]
//! ```
//!
//! Each side has a runtime of its own with `--cores` threads; processor times are those of the threads of
//! each side. With `--listen ADDRESS --via ADDRESS` a relay may stand between them. Figures are for people:
//! nothing is judged by them.

#[path = "bench/idle.rs"]
mod idle;
#[path = "bench/setup.rs"]
mod setup;
#[path = "bench/throughput.rs"]
mod throughput;

#[path = "bench/handshakes.rs"]
mod handshakes;

use std::error::Error;
use std::net::SocketAddr;

/// What was measured: names, values and units, in the order in which they are printed.
pub(crate) struct Figures(Vec<(&'static str, f64, &'static str)>);

impl Figures {
    fn print(&self, what: &str, is_json: bool) {
        if is_json {
            let fields: Vec<String> =
                self.0.iter().map(|(name, value, _)| format!("\"{name}\":{value}")).collect();
            println!("{{\"bench\":\"{what}\",{}}}", fields.join(","));
            return;
        }
        println!("{what}");
        for (name, value, unit) in &self.0 {
            println!("  {name:<36} {value:>14.3} {unit}");
        }
    }
}

/// The command line.
pub(crate) struct Options {
    seconds: f64,
    connections: usize,
    streams: usize,
    cores: usize,
    /// The server's address as the client sees it, if a relay is between them.
    via: Option<SocketAddr>,
    /// Where the server listens.
    listen: SocketAddr,
    profile: String,
    is_json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().ok_or("throughput, handshakes or idle?")?;
    let mut options = Options {
        seconds: 5.0,
        connections: 10_000,
        streams: 1,
        cores: 1,
        via: None,
        listen: "127.0.0.1:0".parse()?,
        profile: "auto".into(),
        is_json: false,
    };
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--seconds" => options.seconds = value()?.parse()?,
            "--connections" => options.connections = value()?.parse()?,
            "--streams" => options.streams = value()?.parse()?,
            "--cores" => options.cores = value()?.parse()?,
            "--via" => options.via = Some(value()?.parse()?),
            "--listen" => options.listen = value()?.parse()?,
            "--profile" => options.profile = value()?,
            "--json" => options.is_json = true,
            other => return Err(format!("{other} is no option").into()),
        }
    }
    let figures = match what.as_str() {
        "throughput" => throughput::run(&options)?,
        "handshakes" => handshakes::run(&options)?,
        "idle" => idle::run(&options)?,
        other => return Err(format!("{other} cannot be measured").into()),
    };
    figures.print(&what, options.is_json);
    Ok(())
}
