//! The passing of time on one path. Each wake-up time comes from the state that acts on it.

use std::time::Duration;

use super::{Findings, Recovery, Timeout};
use crate::Instant;

impl<T: Copy> Recovery<T> {
    /// When [`Self::on_loss_timer`], [`Self::on_probe_timer`] or the pacer is due. `is_awaiting`: something
    /// is under way whose fate only an ACK can tell.
    pub fn timeout(&self, is_awaiting: bool) -> Option<Instant> {
        let recovery_at = self.detector.due_at().or_else(|| self.probe_at(is_awaiting));
        [recovery_at, self.impatient_at(), self.silence.next_probe_at(), self.control.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When a larger MTU is looked for again.
    pub fn mtu_timeout(&self) -> Option<Instant> {
        self.may_probe_mtu().then(|| self.mtu.timeout()).flatten()
    }

    /// Time has come for what waited for its pace.
    pub fn on_pacer_timer(&mut self, now: Instant) {
        self.silence.on_time(now);
        self.control.on_time(now);
    }

    /// Losses by time, without an ACK: to be settled and finished like an ACK's, if there are any.
    pub fn on_loss_timer(&mut self, now: Instant) -> Option<Findings<T>> {
        if self.detector.due_at().is_none_or(|at| at > now) {
            return None;
        }
        let mut findings = self.findings(now);
        self.detect_losses(now, &mut findings);
        if findings.fates.is_empty() {
            self.drop_findings(findings);
            return None;
        }
        findings.has_news = true;
        Some(findings)
    }

    /// The probe timeout (RFC 9002 6.2), or the retransmission timeout (RFC 6298). The controllers hear of
    /// the timeout, not of the losses that it stands for; the layer above must hear of those, so the findings
    /// are settled, but not finished.
    pub fn on_probe_timer(&mut self, now: Instant, is_awaiting: bool) -> Option<Findings<T>> {
        if self.detector.due_at().is_some() || self.probe_at(is_awaiting).is_none_or(|at| at > now) {
            return None;
        }
        self.silence.on_expired(now, is_awaiting, &self.forward.in_silence(), &self.way_back.channel());
        self.stats.probe_timeouts += 1;
        self.ecn.on_silence(now, self.silence.expiries(), self.sent.next_number());
        let mut findings = self.findings(now);
        if self.silence.gives_up() {
            // Every packet counts as having left (RFC 5681 3.1; LT-TCP, Hourt 2014, section 3.5). An ACK that
            // comes late takes these losses back.
            self.lose_all(&mut findings);
        }
        let view = self.view();
        let expiries = self.silence.doublings().max(1);
        self.control.tell(now, |controller| controller.on_timeout(now, expiries, &view));
        Some(findings)
    }

    /// TCP's timer expires although ACKs come: it is not started again by those that tell of one hole each.
    /// Nothing counts as lost by that. The layer above is to be told.
    pub fn on_impatience_timer(&mut self, now: Instant) -> bool {
        if self.impatient_at().is_none_or(|at| at > now) {
            return false;
        }
        let expiries = self.impatience.on_expired(now);
        self.stats.probe_timeouts += 1;
        let view = self.view();
        self.control.tell(now, |controller| controller.on_timeout(now, expiries, &view));
        true
    }

    fn impatient_at(&self) -> Option<Instant> {
        self.impatience.expires_at(&self.silence, self.acks.delay())
    }

    fn probe_at(&self, is_awaiting: bool) -> Option<Instant> {
        if !(is_awaiting || self.has_outstanding()) {
            return None;
        }
        // The ACK of what is never sent again is held back as long as was agreed (docs/internals/wire.md
        // 6.5).
        let ack_delay = if is_awaiting { self.acks.delay() } else { self.acks.delay_max() };
        self.silence.expires_at(ack_delay)
    }

    /// How long after a packet without an ACK something is done about it, in the state of the path now.
    pub fn probe_timeout(&self, ack_delay: Duration, expiries: u32) -> Duration {
        self.silence.timeout_after(ack_delay, expiries)
    }

    /// How long news from the peer may be under way: the probe timeout of RFC 9002 6.2.1, whatever the
    /// profile's own timeout is.
    pub fn news_timeout(&self) -> Duration {
        Timeout::Probe.base(&self.rtt) + self.ack_delay_max()
    }

    /// Since when what left was not answered, if so many probe timeouts have passed since.
    pub fn unanswered_since(&self, timeouts: u32) -> Option<Instant> {
        self.silence.since().filter(|_| self.silence.single_expiries() >= timeouts)
    }
}
