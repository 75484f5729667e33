//! What makes a module, and what it may know.

use std::sync::Arc;
use std::time::Duration;

/// Makes one module for each connection (and anew for each path).
pub type Make<T> = Arc<dyn Fn(&MakeContext) -> Box<T> + Send + Sync>;

/// What a module may know when it is made.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct MakeContext {
    /// Largest UDP payload the path is known to carry.
    pub mtu_bytes: u32,
    /// Seed for an algorithm that draws.
    pub seed: u64,
}

impl MakeContext {
    /// A context for a path of which the MTU is known.
    pub fn new(mtu_bytes: u32, seed: u64) -> Self {
        Self { mtu_bytes, seed }
    }
}

/// A timer of the handshake that doubles, as TCP's and DFCP's do (Solymos 2014, section 3.6).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HandshakeTimer {
    /// A flight is repeated after so long, then after twice as long, and so on.
    pub first: Duration,
    /// So often; after the last one's time the connection is given up.
    pub retries: u32,
}
