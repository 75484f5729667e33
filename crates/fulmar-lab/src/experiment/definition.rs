//! What an experiment is: what runs, what is varied, and what is reported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::claim::Claim;
use super::published::Published;
use crate::link::LinkSpec;
use crate::scenario::{Access, DecoderSymbols};
use crate::traffic::Traffic;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name: that of the file without its ending.
    pub name: String,
    /// For people.
    pub title: String,
    /// Where the published values stand.
    pub source: String,
    /// What a reader should know beside the figures.
    pub remark: String,
    /// Length of a run.
    pub duration: Duration,
    /// What arrives before this does not count.
    pub warm_up: Duration,
    /// No faults until the handshakes are complete.
    pub loss_free_handshake: bool,
    /// Runs of each cell, with seeds `seed`, `seed + 1` ..
    pub repetitions: u32,
    /// First seed.
    pub seed: u64,
    /// Kernel TCP negotiates ECN.
    pub has_ecn: bool,
    /// Runs in real time that go side by side, each over a link of its own.
    pub at_once: usize,
    /// Values over time at this interval.
    pub series: Option<Duration>,
    /// What is reported, the first in tables and plots.
    pub measures: Vec<String>,
    /// Leave out runs by the rule of the LT-TCP thesis ([`crate::statistics::without_outliers`]).
    pub drops_outliers: bool,
    /// The link, or the first bottleneck.
    pub link: LinkSpec,
    /// The link's settings as they are written.
    pub link_words: BTreeMap<String, String>,
    /// Further bottlenecks: a parking lot.
    pub more_links: Vec<LinkSpec>,
    /// Who sends.
    pub flows: Vec<FlowLine>,
    /// What is varied: name and values.
    pub sweep: BTreeMap<String, Vec<String>>,
    /// Figures to set beside the results.
    pub published: Vec<Published>,
    /// What the source claims of these figures.
    pub claims: Vec<Claim>,
    /// The settings of the cells that others are relative to: where the buffer is ample, for
    /// `performance_utilisation`.
    pub reference: Option<BTreeMap<String, String>>,
    /// How to draw.
    pub plot: Plot,
    /// Where the files of its peers are.
    pub peers: PathBuf,
}

/// One or several equal flows.
#[derive(Clone, Debug)]
pub struct FlowLine {
    /// A profile, `tcp-` and a congestion control, or `peer-` and the name of a peer.
    pub sender: String,
    /// What it sends.
    pub traffic: Traffic,
    /// The same as it is written.
    pub traffic_words: String,
    /// How many.
    pub count: usize,
    /// When it starts.
    pub start: Duration,
    /// When it stops.
    pub stop: Option<Duration>,
    /// Its own round-trip time.
    pub rtt: Option<Duration>,
    /// Its place in a parking lot.
    pub place: usize,
    /// How urgent its packets are, to a `priority` queue.
    pub priority: u8,
    /// It goes from the receivers' side to the senders'.
    pub is_reversed: bool,
    /// Its start is later by a time drawn from the seed, at most this.
    pub start_within: Duration,
    /// What is swept does not concern it.
    pub is_apart: bool,
    /// The links of its own at its ends.
    pub access: Access,
    /// Of several flows the last one's access links have this delay, and those between are evenly spread.
    pub access_delay_last: Duration,
    /// Symbols that its receiver's decoder keeps.
    pub decoder_symbols: Option<DecoderSymbols>,
}

impl FlowLine {
    /// The flows that it stands for.
    pub fn flows(&self) -> impl Iterator<Item = Self> + '_ {
        let steps = u32::try_from(self.count.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        let spread = self.access_delay_last.saturating_sub(self.access.delay);
        (0..self.count).zip(0..=steps).map(move |(_, step)| {
            let access = Access { delay: self.access.delay + spread * step / steps, ..self.access.clone() };
            Self { access, ..self.clone() }
        })
    }
}

/// How to draw.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The swept value on the horizontal axis; by default the first.
    pub x: Option<String>,
    /// A line for each value of this; by default the second.
    pub lines: Option<String>,
    /// Logarithmic horizontal axis.
    #[serde(default)]
    pub log_x: bool,
    /// Logarithmic vertical axis.
    #[serde(default)]
    pub log_y: bool,
    /// Words at the vertical axis.
    pub y_label: Option<String>,
    /// Values over time that the source has a figure of: each is a picture with a line for each cell, kept in
    /// the tree. Needs `series`.
    #[serde(default)]
    pub over_time: Vec<Curve>,
}

/// A value over time.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    /// Bytes delivered in order.
    Delivered,
    /// The window.
    Window,
    /// Repair symbols per source symbol that are aimed at.
    Redundancy,
    /// The longest delay of a message.
    Delay,
    /// Jain's index of the flows.
    Fairness,
}

impl Curve {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Window => "window",
            Self::Redundancy => "redundancy",
            Self::Delay => "delay",
            Self::Fairness => "fairness",
        }
    }
}

/// The name of an experiment without what a shortened run adds to it.
pub fn plain_name(name: &str) -> &str {
    ["-quick", "-sample"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

impl Experiment {
    /// The name without what a shortened run adds to it.
    pub fn plain_name(&self) -> &str {
        plain_name(&self.name)
    }

    /// Where its file is, below the folder of experiments, without its ending.
    pub fn place(&self) -> String {
        if self.name.starts_with("auto-") { format!("auto/{}", self.name) } else { self.name.clone() }
    }
}
