//! How an end asks the other to space its ACKs: what ACK_POLICY says (docs/internals/wire.md 6.5).

use std::time::Duration;

/// How the peer wants its packets acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// At least after so many ack-eliciting packets.
    pub every_packets: u32,
    /// At least after so long.
    pub delay: Duration,
    /// An ACK after which nothing comes is repeated so often: it may be lost, and the other end wait for it.
    pub repeats: u8,
}

impl AckPolicy {
    /// No ACK is repeated more often, whatever the peer asks for.
    pub const REPEATS_MAX: u8 = 10;
}

impl Default for AckPolicy {
    fn default() -> Self {
        // RFC 9000 13.2.2: every second packet; 18.2: max_ack_delay of 25 ms.
        Self { every_packets: 2, delay: PASSING_DELAY, repeats: 0 }
    }
}

/// No ACK is held back longer unless the peer asks for it (RFC 9000 18.2, `max_ack_delay`), and one of
/// packets that are never sent again is held back so long: nothing but the peer's congestion control waits
/// for it.
pub(super) const PASSING_DELAY: Duration = Duration::from_millis(25);
