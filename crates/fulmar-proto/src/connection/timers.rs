//! The passing of time. Every wake-up time comes from the state that acts on it.

use fulmar_units::Instant;

use super::close::State;
use super::transmit::PACKET_BYTES_MIN;
use super::{Connection, EndpointEvent};
use crate::ConnectionError;

/// So many packets probe at once, at most: the initial window (RFC 9002 7.2).
const PROBES_MAX: u32 = 10;

impl Connection {
    /// When [`Self::handle_timeout`] is to be called next, followed by [`Self::poll_transmit`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state.is_closed() {
            return self.state.timeout();
        }
        let mut earliest = None;
        let mut consider = |at: Option<Instant>| {
            if let Some(at) = at
                && earliest.is_none_or(|earliest| at < earliest)
            {
                earliest = Some(at);
            }
        };
        consider(self.idle_at());
        consider(self.keep_alive_at());
        consider(self.handshake_deadline);
        consider(self.handshake.timeout());
        consider(self.recovery_timeout());
        consider(self.ack_timeout());
        consider(self.pacer_at);
        consider(self.policy_at);
        consider(self.path.timeout());
        consider(self.release_at);
        consider(self.mtu_timeout());
        earliest
    }

    /// Time has come to [`Self::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state.handle_timeout(now) {
            self.endpoint_events.push_back(EndpointEvent::Drained);
            return;
        }
        if self.state.is_closed() {
            return;
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.idle_at()) || is_due(self.handshake_deadline) {
            // RFC 9000 10.1: silently.
            self.drain(now, ConnectionError::TimedOut);
            return;
        }
        if is_due(self.keep_alive_at()) {
            self.is_ping_pending = true;
            self.last_heard_or_pinged_at = now;
        }
        self.handshake.handle_timeout(now);
        if is_due(self.loss_at) {
            self.on_loss_timeout(now);
        }
        if is_due(self.recovery_timeout()) {
            self.on_probe_timeout(now);
        }
        self.pacer_at.take_if(|at| *at <= now);
        self.policy_at.take_if(|at| *at <= now);
        if self.release_at.take_if(|at| *at <= now).is_some() {
            self.release_memory();
        }
        if !self.path.handle_timeout(now) {
            self.on_path_failed(now);
        }
    }

    /// Nothing has come for a while: what was kept for speed goes.
    fn release_memory(&mut self) {
        self.symbols_in.release_all();
        self.acked_scratch = Vec::new();
        self.lost_scratch = Vec::new();
    }

    fn idle_at(&self) -> Option<Instant> {
        // RFC 9000 10.1: at least three probe timeouts.
        let floor = self.path.probe_timeout(self.ack_delay_max(), 0) * 3;
        self.idle_timeout.map(|timeout| self.last_activity_at + timeout.max(floor))
    }

    fn keep_alive_at(&self) -> Option<Instant> {
        let period = self.config.keep_alive?;
        matches!(self.state, State::Established).then(|| self.last_heard_or_pinged_at + period)
    }

    /// When a loss is declared by time, or else the probe timeout (RFC 9002 6.2).
    fn recovery_timeout(&self) -> Option<Instant> {
        if self.loss_at.is_some() {
            return self.loss_at;
        }
        if self.probes_pending > 0 || !self.has_unsettled() {
            return None;
        }
        let delay = self.ack_policy_asked.delay;
        Some(self.last_eliciting_at + self.path.probe_timeout(delay, self.probe_expiries))
    }

    /// Something is under way whose fate only an ACK can tell.
    pub(super) fn has_unsettled(&self) -> bool {
        self.sent.outstanding_packets() > 0 || !self.symbols_out.is_all_delivered()
    }

    /// When a larger MTU is looked for again, on a connection that has something under way.
    fn mtu_timeout(&self) -> Option<Instant> {
        (self.may_probe_mtu() && self.has_unsettled()).then(|| self.path.mtu.timeout()).flatten()
    }

    fn ack_timeout(&self) -> Option<Instant> {
        let may_send =
            matches!(self.state, State::Established) && self.path.room_bytes(0) >= PACKET_BYTES_MIN;
        may_send.then(|| self.received.timeout()).flatten()
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        self.probe_expiries += 1;
        self.stats.probe_timeouts += 1;
        // RFC 9002 6.2.4 has one or two. A path that loses in bursts may swallow two as it did all before, and each timeout
        // is twice as long as the last: one packet more each time keeps the rate falling and outlives a burst.
        self.probes_pending =
            if self.path.gives_up_on_timeout() { 1 } else { self.probe_expiries.min(PROBES_MAX) };
        // The next timeout counts from now, whether or not the probe can leave at once.
        self.last_eliciting_at = now;
        if self.path.gives_up_on_timeout() {
            self.lose_all(now);
        }
        self.path.on_timeout(now, self.probe_expiries, self.sent.in_flight_bytes());
    }

    /// The new address did not answer its challenge: back to the one before (RFC 9000 9.3.2), if there is one.
    fn on_path_failed(&mut self, now: Instant) {
        match self.previous_path.take() {
            Some((remote, local_ip)) => self.path.rebind(remote, local_ip, super::path::Validation::Done, 0),
            None => self.drain(now, ConnectionError::TimedOut),
        }
    }

    /// A packet of the peer was processed.
    pub(super) fn touch(&mut self, now: Instant) {
        self.last_activity_at = now;
        self.last_heard_or_pinged_at = now;
        self.has_sent_since_heard = false;
    }
}
