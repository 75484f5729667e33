//! What runs need.

use std::sync::Arc;
use std::time::Duration;

use super::agents::Agents;
use crate::bridge;
use crate::desk::board::Board;

/// What runs need.
#[derive(Debug)]
pub(crate) struct Means {
    pub(crate) board: Arc<Board>,
    pub(crate) agents: Arc<Agents>,
    /// Where the bridge is, if there can be one.
    pub(crate) ground: Option<bridge::Ground>,
    /// A transfer does not count if more than one of its packets in a hundred was later than this.
    pub(crate) late_max: Duration,
}
