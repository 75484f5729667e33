//! The passing of time on one path. Each wake-up time comes from the state that acts on it.

use std::time::Duration;

use super::{Findings, Recovery, Timeout};
use crate::Instant;

/// So many packets probe at once, at most: the initial window (RFC 9002 7.2).
const PROBES_MAX: u32 = 10;

impl<T: Copy> Recovery<T> {
    /// When [`Self::on_loss_timer`], [`Self::on_probe_timer`] or the pacer is due. `is_awaiting`: something is under way whose
    /// fate only an ACK can tell.
    pub fn timeout(&self, is_awaiting: bool) -> Option<Instant> {
        let recovery_at = self.loss_at.or_else(|| self.probe_at(is_awaiting));
        [recovery_at, self.pacer_at].into_iter().flatten().min()
    }

    /// When a larger MTU is looked for again.
    pub fn mtu_timeout(&self) -> Option<Instant> {
        self.may_probe_mtu().then(|| self.mtu.timeout()).flatten()
    }

    /// The pacer's time has come.
    pub fn on_pacer_timer(&mut self, now: Instant) {
        self.pacer_at.take_if(|at| *at <= now);
    }

    /// Losses by time, without an ACK: to be settled and finished like an ACK's, if there are any.
    pub fn on_loss_timer(&mut self, now: Instant) -> Option<Findings<T>> {
        if self.loss_at.is_none_or(|at| at > now) {
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

    /// The probe timeout (RFC 9002 6.2), or the retransmission timeout (RFC 6298). The controllers hear of the timeout, not of
    /// the losses that it stands for; the layer above must hear of those, so the findings are settled, but not finished.
    pub fn on_probe_timer(&mut self, now: Instant, is_awaiting: bool) -> Option<Findings<T>> {
        if self.loss_at.is_some() || self.probe_at(is_awaiting).is_none_or(|at| at > now) {
            return None;
        }
        self.probe_expiries += 1;
        self.stats.probe_timeouts += 1;
        let gives_up = matches!(self.timeout, Timeout::Retransmission { .. });
        // RFC 9002 6.2.4 has one or two. A path that loses in bursts may swallow two as it did all before, and each timeout
        // is twice as long as the last: one packet more each time keeps the rate falling and outlives a burst.
        self.probes_pending = if gives_up { 1 } else { self.probe_expiries.min(PROBES_MAX) };
        // The next timeout counts from now, whether or not the probe can leave at once.
        self.last_eliciting_at = now;
        let mut findings = self.findings(now);
        if gives_up {
            // Every packet counts as having left (RFC 5681 3.1; LT-TCP, Hourt 2014, section 3.5). An ACK that comes late takes
            // these losses back.
            self.lose_all(&mut findings);
        }
        let view = self.view();
        self.congestion.on_timeout(now, self.probe_expiries, &view);
        self.apply_budget(now);
        Some(findings)
    }

    /// How long after a packet without an ACK something is done about it, in the state of the path now.
    pub fn probe_timeout(&self, ack_delay: Duration, expiries: u32) -> Duration {
        self.timeout.doubled(self.probe_base + ack_delay, expiries)
    }

    fn probe_at(&self, is_awaiting: bool) -> Option<Instant> {
        if self.probes_pending > 0 || !(is_awaiting || self.has_outstanding()) {
            return None;
        }
        let timeout = self.probe_timeout(self.acks.delay(), self.probe_expiries);
        Some(self.last_eliciting_at + timeout)
    }
}
