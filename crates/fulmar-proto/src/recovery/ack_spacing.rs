//! How the peer is asked to space its ACKs (after draft-ietf-quic-ack-frequency).
//!
//! Decides how many packets and how much time an ACK may wait for. Too few ACKs make a sender blind, too many cost both ends
//! time. About eight per round trip, and none held back for longer than an eighth of it.

use std::time::Duration;

use super::AckPolicy;
use crate::Instant;

const PER_ROUND: u32 = 8;
const EVERY_MAX: u64 = 64;
const DELAY_MIN: Duration = Duration::from_millis(1);
/// RFC 9000 18.2: max_ack_delay.
const DELAY_MAX: Duration = Duration::from_millis(25);
/// A policy this close to the one asked for is not worth a frame.
const NEAR: f64 = 1.5;

/// What the peer was asked for, and what it is still to be told.
#[derive(Debug, Default)]
pub struct AckSpacing {
    asked: AckPolicy,
    pending: Option<AckPolicy>,
    /// When an ACK was last asked for at once.
    asked_at: Instant,
    /// The peer's own longest delay, from the handshake.
    peer_delay_max: Option<Duration>,
}

impl AckSpacing {
    /// The peer said in the handshake how long it may hold an ACK back.
    pub fn on_peer_delay(&mut self, delay: Duration) {
        self.peer_delay_max = Some(delay);
    }

    /// The longest time for which the peer may hold back an ACK.
    pub fn delay_max(&self) -> Duration {
        self.asked.delay.max(self.peer_delay_max.unwrap_or(DELAY_MAX))
    }

    /// The delay that was asked for.
    pub fn delay(&self) -> Duration {
        self.asked.delay
    }

    /// A request to be sent, once.
    pub fn poll(&mut self) -> Option<AckPolicy> {
        self.pending.take()
    }

    /// Whether the last symbol of a flight may ask to be acknowledged at once: not every one of a trickle at high speed may.
    pub fn may_ask_now(&mut self, now: Instant, rtt: Duration) -> bool {
        let may = now - self.asked_at > rtt / PER_ROUND;
        if may {
            self.asked_at = now;
        }
        may
    }

    /// The window, in packets, and the smoothed RTT are now these.
    pub(super) fn update(&mut self, window_packets: u64, rtt: Duration) {
        let every_packets = (window_packets / u64::from(PER_ROUND)).clamp(2, EVERY_MAX) as u32;
        let delay = (rtt / PER_ROUND).clamp(DELAY_MIN, DELAY_MAX);
        let is_near = |new: f64, old: f64| new <= old * NEAR && new * NEAR >= old;
        let is_fine = is_near(f64::from(every_packets), f64::from(self.asked.every_packets))
            && is_near(delay.as_secs_f64(), self.asked.delay.as_secs_f64());
        if !is_fine {
            self.asked = AckPolicy { every_packets, delay };
            self.pending = Some(self.asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_acks_a_round_trip_are_asked_for_once() {
        let mut acks = AckSpacing::default();
        acks.update(80, Duration::from_millis(80));
        let policy = AckPolicy { every_packets: 10, delay: Duration::from_millis(10) };
        assert_eq!((acks.poll(), acks.poll()), (Some(policy), None));
        acks.update(90, Duration::from_millis(90));
        assert_eq!(acks.poll(), None, "close to what was asked for");
        acks.update(100_000, Duration::from_secs(1));
        assert_eq!(acks.poll(), Some(AckPolicy { every_packets: 64, delay: DELAY_MAX }));
    }
}
