//! What the page and the controller say to each other: docs/internals/operator-api.md says what each field
//! means.
#![allow(
    missing_docs,
    reason = "each is described in docs/internals/operator-api.md, and a test holds both together"
)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::Summary;

/// How a run is carried out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverName {
    Real,
    Relay,
    Virtual,
}

/// A series of transfers, or one of an image.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Test,
    Demo,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    InTurn,
    Together,
}

#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    Bytes(u64),
    Seconds(f64),
}

/// One direction of a path, in the words of the command line.
pub type Link = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    pub forward: Link,
    #[serde(default)]
    pub backward: Option<Link>,
}

/// What a change of a path says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathChange {
    pub forward: Link,
    pub backward: Option<Link>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub kind: Kind,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub preset: String,
    pub driver: DriverName,
    pub transports: Vec<String>,
    pub path: Path,
    #[serde(default = "no_amount")]
    pub amount: Amount,
    #[serde(default = "time_max")]
    pub time_max_s: f64,
    #[serde(default = "one")]
    pub transfers: u32,
    #[serde(default = "in_turn")]
    pub order: Order,
    #[serde(default = "first_seed")]
    pub seed: u64,
    #[serde(default)]
    pub ecn: bool,
    #[serde(default)]
    pub drops_outliers: bool,
    #[serde(default = "yes")]
    pub loss_free_handshake: bool,
    #[serde(default)]
    pub image: String,
}

fn no_amount() -> Amount {
    Amount::Bytes(0)
}
fn time_max() -> f64 {
    60.0
}
fn one() -> u32 {
    1
}
fn in_turn() -> Order {
    Order::InTurn
}
fn first_seed() -> u64 {
    1
}
fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Serialize)]
pub struct State {
    pub version: &'static str,
    pub mode: &'static str,
    pub drivers: Vec<Driver>,
    pub agents: Vec<Agent>,
    pub runs: Vec<RunSummary>,
    pub running: Option<String>,
    pub queue: Vec<String>,
    pub results_folder: String,
    pub watchers: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    pub name: DriverName,
    pub available: bool,
    pub missing: String,
    pub steerable: bool,
    pub kernel_tcp: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Sender,
    Receiver,
    Spare,
}

#[derive(Clone, Debug, Serialize)]
pub struct Agent {
    pub name: String,
    pub role: Role,
    pub address: String,
    pub data_address: String,
    pub key: String,
    pub connected: bool,
    pub since_s: f64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Queued,
    Running,
    Done,
    Stopped,
    Failed,
}

impl Status {
    /// Nothing will happen any more.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub done: u32,
    pub total: u32,
    pub elapsed_s: f64,
    pub left_s: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    pub id: String,
    pub title: String,
    pub kind: Kind,
    pub driver: DriverName,
    pub transports: Vec<String>,
    pub status: Status,
    pub error: Option<String>,
    pub progress: Progress,
    pub created_unix_s: u64,
    pub steps: u8,
}

#[derive(Clone, Debug, Serialize)]
pub struct Run {
    #[serde(flatten)]
    pub summary: RunSummary,
    pub spec: Spec,
    pub transfers: Vec<Transfer>,
    pub statistics: Vec<Statistics>,
    pub flows: Vec<FlowState>,
    pub folder: String,
}

/// How a transfer ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Complete,
    Time,
    GaveUp,
    Stopped,
    Failed,
    Invalid,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    pub flow: usize,
    pub transfer: u32,
    pub seed: u64,
    pub status: Ending,
    pub error: Option<String>,
    pub received_bytes: u64,
    pub time_s: f64,
    pub goodput_mbps: f64,
    pub wire_ratio: Option<f64>,
    /// Lost on the wire or dropped by the queue, as the samples add up.
    pub lost_packets: u64,
    pub offered_packets: u64,
    pub repair_packets: u64,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub time_s: Option<Summary>,
    pub goodput_mbps: Option<Summary>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    pub flow: usize,
    pub all: Figures,
    pub kept: Figures,
    pub left_out: Vec<u32>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FlowStatus {
    Under(UnderWay),
    Ended(Ending),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnderWay {
    Waiting,
    Running,
}

#[derive(Clone, Debug, Serialize)]
pub struct FlowState {
    pub flow: usize,
    pub transfer: u32,
    pub status: FlowStatus,
    pub received_bytes: u64,
    pub total_bytes: Option<u64>,
    pub t: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub flow: usize,
    pub transfer: u32,
    pub t: f64,
    pub received_bytes: u64,
    pub sequence_bytes: u64,
    pub goodput_mbps: f64,
    pub window_bytes: u64,
    pub in_flight_bytes: u64,
    pub rtt_ms: f64,
    pub pacing_mbps: Option<f64>,
    pub queue_bytes: u64,
    pub lost_packets: u64,
    pub dropped_packets: u64,
    pub marked_packets: u64,
    pub offered_packets: u64,
    pub loss: f64,
    pub loss_estimate: Option<f64>,
    pub repair_packets: u64,
    pub redundancy: Option<f64>,
}

/// A refusal: the status and what the page shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub status: u16,
    pub message: String,
    pub field: Option<String>,
}

impl Refusal {
    /// Understood, but impossible; the field is a path into what was sent.
    pub fn impossible(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: 422, message: message.into(), field: Some(field.into()) }
    }

    /// Any other.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), field: None }
    }
}
