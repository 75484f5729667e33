//! The passing of time. Every wake-up time comes from the state that acts on it.

use super::close::State;
use super::path::Validation;
use super::quiet::TIMEOUTS_IN_VAIN;
use super::transmit::PACKET_BYTES_MIN;
use super::{Connection, EndpointEvent, Event};
use crate::{ConnectionError, Instant};

impl Connection {
    /// When [`Self::handle_timeout`] is to be called next, followed by [`Self::poll_transmit`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state.is_closed() {
            return self.state.timeout();
        }
        [
            self.dead_at(),
            self.liveness.keep_alive_at(),
            self.handshake.timeout(),
            self.path.recovery.timeout(!self.coding.is_all_delivered()),
            self.mtu_timeout(),
            self.ack_timeout(),
            self.coding.timeout(),
            self.datagrams.timeout(),
            self.path.timeout(),
            self.elsewhere_timeout(),
            self.release_at,
            self.unsettled_at,
            self.quiet.asks_at().filter(|_| self.may_ask_for_life()),
            self.wants_port_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has come to [`Self::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.state.handle_timeout(now) {
            self.let_go();
            self.endpoint_events.push_back(EndpointEvent::Drained);
            return;
        }
        if self.state.is_closed() {
            return;
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.dead_at()) {
            // RFC 9000 10.1: silently.
            self.drain(now, ConnectionError::TimedOut);
            return;
        }
        if is_due(self.liveness.keep_alive_at()) {
            self.is_ping_pending = true;
            self.liveness.on_keep_alive(now);
        }
        if self.may_ask_for_life() && is_due(self.quiet.asks_at()) {
            self.quiet.on_asked();
            // What is under way asks as well.
            self.is_ping_pending |= !self.path.recovery.has_outstanding();
        }
        if is_due(self.wants_port_at()) {
            self.quiet.on_port_wanted(self.unanswered_since());
            self.events.push_back(Event::PathSilent);
        }
        self.handshake.handle_timeout(now);
        if self.handshake.is_given_up() {
            self.drain(now, ConnectionError::TimedOut);
            return;
        }
        if let Err(error) = self.on_recovery_timers(now) {
            self.fail(now, error);
            return;
        }
        self.coding.handle_timeout(now);
        let came = self.datagrams.handle_timeout(now, &self.path.recovery.view().loss);
        self.on_datagrams(came);
        if self.release_at.take_if(|at| *at <= now).is_some() {
            self.rest(now);
        }
        if !self.path.handle_timeout(now) {
            // Nothing has come from where the peer would have been heard: it is asked for as long as the
            // connection lives.
            self.path.validation = Validation::challenge(self.draw(), now);
        }
        self.elsewhere.handle_timeout(now, self.path.recovery.rtt().smoothed());
        self.settle_whereabouts(now);
    }

    fn elsewhere_timeout(&self) -> Option<Instant> {
        if self.elsewhere.is_empty() { None } else { self.elsewhere.timeout(self.grace()) }
    }

    /// When the peer is given up.
    fn dead_at(&self) -> Option<Instant> {
        self.liveness.dead_at(self.probe_timeout(), self.unanswered_since())
    }

    /// Since when nothing has been answered of what left and asks for an answer; `None` while it is too early
    /// to tell, three probe timeouts.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.path.recovery.unanswered_since(TIMEOUTS_IN_VAIN)
    }

    /// Servers cannot do anything about a NAT.
    fn may_ask_for_life(&self) -> bool {
        self.side.is_client() && matches!(self.state, State::Established)
    }

    /// When this client wants another port.
    fn wants_port_at(&self) -> Option<Instant> {
        let since = self.unanswered_since().filter(|_| self.may_ask_for_life());
        self.quiet.wants_port_at(since, self.probe_timeout())
    }

    /// Nothing will come or go any more. The application may hold this for long: what it can still read is
    /// left, and the counts.
    fn let_go(&mut self) {
        self.is_delivery_awaited &= !self.has_unacked();
        self.coding.let_go();
        self.symbols_in.let_go();
        self.path.recovery.let_go();
        self.streams.let_go();
        self.datagrams.let_go();
        self.elsewhere.let_go();
        (self.early, self.stash, self.rest_of_ack) = (Vec::new(), None, None);
    }

    /// Nothing has come or gone for a while: what was kept for speed goes.
    fn rest(&mut self, now: Instant) {
        self.symbols_in.release_all();
        self.path.recovery.release_memory();
        self.streams.release_memory();
        self.coding.on_idle();
        self.keys.iter_mut().for_each(|keys| keys.release_memory());
        self.cids.release_memory();
        let came = self.datagrams.release_memory(now);
        self.on_datagrams(came);
        self.events.shrink_to_fit();
        self.endpoint_events.shrink_to_fit();
        self.look_for_unsettled(now);
    }

    /// The probe timeout now (RFC 9002 6.2), as long as the peer may hold an ACK back included.
    pub(super) fn probe_timeout(&self) -> std::time::Duration {
        let recovery = &self.path.recovery;
        recovery.probe_timeout(recovery.ack_delay_max(), 0)
    }

    /// Something is under way whose fate only an ACK can tell.
    pub(super) fn has_unsettled(&self) -> bool {
        self.path.recovery.has_outstanding() || !self.coding.is_all_delivered()
    }

    /// The path is in use, so that it is worth knowing what it carries.
    pub(super) fn may_probe_mtu(&self) -> bool {
        self.is_confirmed && self.path.is_validated()
    }

    /// When a larger MTU is looked for again, on a connection that has something under way.
    fn mtu_timeout(&self) -> Option<Instant> {
        (self.may_probe_mtu() && self.has_unsettled()).then(|| self.path.recovery.mtu_timeout()).flatten()
    }

    fn ack_timeout(&self) -> Option<Instant> {
        let may_send =
            matches!(self.state, State::Established) && self.path.room_bytes(0) >= PACKET_BYTES_MIN;
        may_send.then(|| self.received.timeout()).flatten()
    }
}
