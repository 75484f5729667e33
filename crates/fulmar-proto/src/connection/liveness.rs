//! Whether the peer is still there: idle timeout, keep-alive, and the deadline of the handshake (RFC 9000
//! 10.1).

use std::time::Duration;

use crate::Instant;

/// When the peer was last heard of, and how long silence may last.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Silence after which the connection is given up: the smaller of both ends' values.
    idle_timeout: Option<Duration>,
    keep_alive: Option<Duration>,
    handshake_deadline: Option<Instant>,
    last_activity_at: Instant,
    last_heard_or_pinged_at: Instant,
    has_sent_since_heard: bool,
}

impl Liveness {
    pub(super) fn new(now: Instant, handshake_timeout: Duration, keep_alive: Option<Duration>) -> Self {
        Self {
            idle_timeout: None,
            keep_alive,
            handshake_deadline: Some(now + handshake_timeout),
            last_activity_at: now,
            last_heard_or_pinged_at: now,
            has_sent_since_heard: false,
        }
    }

    /// What both ends said they allow.
    pub(super) fn agree(&mut self, own: Option<Duration>, peers: Duration) {
        self.idle_timeout = [own, Some(peers).filter(|t| !t.is_zero())].into_iter().flatten().min();
    }

    pub(super) fn on_handshake_complete(&mut self) {
        self.handshake_deadline = None;
    }

    /// A packet of the peer was processed.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.last_activity_at = now;
        self.last_heard_or_pinged_at = now;
        self.has_sent_since_heard = false;
    }

    /// A packet left that elicits an ACK. The first after hearing from the peer restarts the idle timer (RFC
    /// 9000 10.1).
    pub(super) fn on_eliciting_sent(&mut self, now: Instant) {
        if !self.has_sent_since_heard {
            self.has_sent_since_heard = true;
            self.last_activity_at = now;
        }
    }

    /// The local address is another: silence so far proves nothing.
    pub(super) fn on_path_change(&mut self, now: Instant) {
        self.last_activity_at = now;
    }

    /// When the peer is given up. Not before three probe timeouts (RFC 9000 10.1).
    pub(super) fn dead_at(&self, probe_timeout: Duration) -> Option<Instant> {
        let idle_at = self.idle_timeout.map(|timeout| self.last_activity_at + timeout.max(probe_timeout * 3));
        [idle_at, self.handshake_deadline].into_iter().flatten().min()
    }

    /// When something is sent to keep the connection, once it is established.
    pub(super) fn keep_alive_at(&self) -> Option<Instant> {
        let period = self.keep_alive.filter(|_| self.handshake_deadline.is_none())?;
        Some(self.last_heard_or_pinged_at + period)
    }

    /// The keep-alive is on its way.
    pub(super) fn on_keep_alive(&mut self, now: Instant) {
        self.last_heard_or_pinged_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_smaller_idle_timeout_holds_but_never_less_than_three_probe_timeouts() {
        let now = Instant::ZERO;
        let mut liveness = Liveness::new(now, SECOND * 60, None);
        assert_eq!(liveness.dead_at(SECOND), Some(now + SECOND * 60));
        liveness.on_handshake_complete();
        assert_eq!(liveness.dead_at(SECOND), None);
        liveness.agree(Some(SECOND * 30), SECOND * 10);
        assert_eq!(liveness.dead_at(SECOND), Some(now + SECOND * 10));
        assert_eq!(liveness.dead_at(SECOND * 5), Some(now + SECOND * 15));
        liveness.agree(Some(SECOND * 30), Duration::ZERO);
        assert_eq!(liveness.dead_at(SECOND), Some(now + SECOND * 30), "zero is none");
    }

    #[test]
    fn rfc_9000_10_1_only_the_first_packet_after_hearing_restarts_the_timer() {
        let at = |seconds: u32| Instant::ZERO + SECOND * seconds;
        let mut liveness = Liveness::new(at(0), SECOND * 60, Some(SECOND * 4));
        liveness.on_handshake_complete();
        liveness.agree(Some(SECOND * 10), Duration::ZERO);
        liveness.on_eliciting_sent(at(1));
        liveness.on_eliciting_sent(at(2));
        assert_eq!(liveness.dead_at(SECOND), Some(at(11)));
        liveness.on_heard(at(3));
        liveness.on_eliciting_sent(at(5));
        assert_eq!(liveness.dead_at(SECOND), Some(at(15)));
        assert_eq!(liveness.keep_alive_at(), Some(at(7)));
    }
}
