//! The course of the demo: a path and a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_net::{LinkConfig, QueueConfig, QueueLimit};
use fulmar_units::Rate;
use serde_json::json;

use super::back::Back;
use super::loss::loss;
use crate::exit::Failure;
use crate::units;

/// What the path is like.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PathArgs {
    /// Capacity of the path, each way
    #[arg(long, default_value = "50mbit", value_parser = units::parse_rate)]
    rate: u64,
    /// Round-trip time of the path
    #[arg(long, default_value = "60ms", value_parser = units::parse_millis)]
    rtt: Duration,
    /// Share of packets that get lost, in percent, each way
    #[arg(long, default_value = "10", value_parser = units::parse_percent_ppm)]
    loss: u32,
    /// Mean number of packets lost in a row; 1 for losses that are independent
    #[arg(long, default_value = "3", value_parser = parse_burst)]
    burst: u32,
    /// Queue before the bottleneck, e.g. `1bdp`, `200p`, `64KiB`
    #[arg(long, default_value = "1bdp", value_parser = parse_queue)]
    queue: QueueLimit,
    /// Seed of the path's losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    back: Back,
}

/// Path and file.
#[derive(Debug)]
pub struct Course {
    path: PathArgs,
    /// To the server, and back.
    pub links: [LinkConfig; 2],
    /// What is copied.
    pub file: PathBuf,
    /// Size of the file.
    pub file_bytes: u64,
}

impl Course {
    pub(super) fn new(path: PathArgs, file: &Path) -> Result<Self, Failure> {
        let metadata =
            std::fs::metadata(file).map_err(|e| Failure::File(format!("{}: {e}", file.display())))?;
        if !metadata.is_file() {
            return Err(Failure::File(format!("{} is not a file", file.display())));
        }
        let link = LinkConfig::new(Rate::from_bits_per_second(path.rate), path.rtt / 2)
            .with_loss(loss(path.loss, path.burst)?)
            .with_queue(QueueConfig::DropTail(path.queue));
        let links = path.back.links(&link, path.rtt, path.burst)?;
        Ok(Self { path, links, file: file.to_owned(), file_bytes: metadata.len() })
    }

    /// Round-trip time of the path.
    pub fn rtt(&self) -> Duration {
        self.path.rtt
    }

    /// Seed of the path's losses.
    pub fn seed(&self) -> u64 {
        self.path.seed
    }

    pub(super) fn rate_mbps(&self) -> f64 {
        self.path.rate as f64 / 1e6
    }

    pub(super) fn loss(&self) -> f64 {
        f64::from(self.path.loss) / 1e6
    }

    pub(super) fn describe(&self) -> String {
        let percent = self.loss() * 100.0;
        let loss = match self.path.burst {
            _ if self.path.loss == 0 => "no loss".into(),
            0..=1000 => format!("{percent} % loss, independent"),
            milli => format!("{percent} % loss in bursts of {}", f64::from(milli) / 1000.0),
        };
        format!(
            "{}, RTT {:.0} ms, {loss}, both ways, queue {}{}",
            units::rate(self.rate_mbps()),
            self.path.rtt.as_secs_f64() * 1e3,
            describe_queue(self.path.queue),
            self.path.back.describe()
        )
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "rate_mbps": self.rate_mbps(),
            "rtt_ms": self.path.rtt.as_secs_f64() * 1e3,
            "loss_percent": self.loss() * 100.0,
            "burst_packets": f64::from(self.path.burst) / 1000.0,
            "queue": describe_queue(self.path.queue),
            "seed": self.path.seed,
        })
    }
}

fn describe_queue(queue: QueueLimit) -> String {
    match queue {
        QueueLimit::Bytes(bytes) => units::bytes(bytes),
        QueueLimit::Packets(packets) => format!("{packets} packets"),
        QueueLimit::Bdp { milli, .. } => format!("{} BDP", f64::from(milli) / 1000.0),
    }
}

fn parse_queue(text: &str) -> Result<QueueLimit, String> {
    fulmar_net::parse::queue_limit(text).map_err(|e| e.to_string())
}

/// In thousandths, as the model wants it.
fn parse_burst(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(burst) if (1.0..=1000.0).contains(&burst) => Ok((burst * 1000.0).round() as u32),
        _ => Err("a mean burst is between 1 and 1000 packets".into()),
    }
}
