//! The passing of time on one path. Each wake-up time comes from the state that acts on it.

use std::time::Duration;

use fulmar_control::{Channel, LossView};

use super::{Findings, Recovery, Timeout};
use crate::Instant;

/// So many packets probe at once, at most: the initial window (RFC 9002 7.2).
const PROBES_MAX: u32 = 10;
/// A timeout sends so many probes that this is the probability that all are lost, in a burst that still
/// lasts.
pub(super) const PROBES_LOST: f64 = 0.2;
/// Silence that a burst of losses explains with less probability is taken for a black-out.
const BURST_EXPLAINS: f64 = 1e-3;
/// Fewer are none: a path that lost little so far may have bursts all the same, on the way back too.
const PROBES_EVEN_MIN: u32 = 30;
/// And so many probes without an answer are one in any case.
const PROBES_EVEN_MAX: u32 = 60;
/// In a black-out a timeout sends so many probes. All but the first are a PING, so that together they are
/// no longer than another packet.
const PROBES_IN_BLACKOUT: u32 = PROBES_MAX;
/// So many probe timeouts in a row send packets of full size.
const PROBES_FULL_SIZED: u32 = 2;
/// The burst length assumed of a path of which too little is known.
const BURST_UNKNOWN: LossView = LossView { rate: 0.05, burst_packets: 4.0, weight_packets: 0.0 };
/// Packets after which an estimate is believed.
pub(super) const WEIGHT_MIN: f64 = 50.0;

/// What a probe carries besides a PING.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ProbeCargo {
    /// What would leave next, if anything would (RFC 9002 6.2.4): if only ACKs were lost nothing goes twice. Else as
    /// [`Self::Full`].
    Next,
    /// What fits a packet of the size that the path carried last.
    Full,
    /// What fits a packet that every path carries: large ones may be what it no longer does.
    Base,
    /// Nothing.
    Nothing,
}

/// What silence may mean while it lasts.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Silence {
    /// Probes sent since the last ACK.
    probes: u32,
    /// Timeouts that count for doubling: those that no burst explains.
    doublings: u32,
    /// Of the probes that are to leave, so many are a PING.
    bare: u32,
}

impl<T: Copy> Recovery<T> {
    /// When [`Self::on_loss_timer`], [`Self::on_probe_timer`] or the pacer is due. `is_awaiting`: something
    /// is under way whose fate only an ACK can tell.
    pub fn timeout(&self, is_awaiting: bool) -> Option<Instant> {
        let recovery_at = self.loss_at.or_else(|| self.probe_at(is_awaiting));
        [recovery_at, self.impatient_at(), self.next_probe_at, self.pacer_at].into_iter().flatten().min()
    }

    /// When a larger MTU is looked for again.
    pub fn mtu_timeout(&self) -> Option<Instant> {
        self.may_probe_mtu().then(|| self.mtu.timeout()).flatten()
    }

    /// Time has come for what waited for its pace.
    pub fn on_pacer_timer(&mut self, now: Instant) {
        self.next_probe_at.take_if(|at| *at <= now);
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

    /// The probe timeout (RFC 9002 6.2), or the retransmission timeout (RFC 6298). The controllers hear of
    /// the timeout, not of the losses that it stands for; the layer above must hear of those, so the findings
    /// are settled, but not finished.
    pub fn on_probe_timer(&mut self, now: Instant, is_awaiting: bool) -> Option<Findings<T>> {
        if self.loss_at.is_some() || self.probe_at(is_awaiting).is_none_or(|at| at > now) {
            return None;
        }
        self.probe_expiries += 1;
        self.stats.probe_timeouts += 1;
        self.ecn.on_silence(now, self.probe_expiries, self.sent.next_number());
        let gives_up = matches!(self.timeout, Timeout::Retransmission { .. });
        self.probes_pending = match (gives_up, is_awaiting) {
            (true, _) => 1,
            (false, true) => self.probes_for_silence(),
            // No data waits for the answer: seldom, but one more each time, so that a burst is outlived.
            (false, false) => self.probe_expiries.min(PROBES_MAX),
        };
        if gives_up || !is_awaiting {
            self.silence.doublings += 1;
        }
        self.next_probe_at = None;
        // The next timeout counts from now, whether or not the probe can leave at once.
        self.last_eliciting_at = now;
        let mut findings = self.findings(now);
        if gives_up {
            // Every packet counts as having left (RFC 5681 3.1; LT-TCP, Hourt 2014, section 3.5). An ACK that
            // comes late takes these losses back.
            self.lose_all(&mut findings);
        }
        let view = self.view();
        self.congestion.on_timeout(now, self.silence.doublings.max(1), &view);
        self.apply_budget(now);
        Some(findings)
    }

    /// TCP's timer expires although ACKs come: it is not started again by those that tell of one hole each.
    /// Nothing counts as lost by that. The layer above is to be told.
    pub fn on_impatience_timer(&mut self, now: Instant) -> bool {
        if self.impatient_at().is_none_or(|at| at > now) {
            return false;
        }
        self.impatient_since = None;
        self.impatient_expired_at = now;
        // RFC 6298 5.5; and RFC 5681 3.1: what is lost again reduces nothing further.
        self.impatient_expiries += 1;
        self.stats.probe_timeouts += 1;
        let view = self.view();
        self.congestion.on_timeout(now, self.impatient_expiries, &view);
        self.apply_budget(now);
        true
    }

    fn impatient_at(&self) -> Option<Instant> {
        let has_timer = matches!(self.timeout, Timeout::Retransmission { .. });
        self.impatient_since
            .filter(|_| has_timer)
            .map(|since| since + self.probe_timeout(self.acks.delay(), self.impatient_expiries))
    }

    /// How long after a packet without an ACK something is done about it, in the state of the path now.
    pub fn probe_timeout(&self, ack_delay: Duration, expiries: u32) -> Duration {
        self.timeout.doubled(self.probe_base + ack_delay, expiries)
    }

    /// How long news from the peer may be under way: the probe timeout of RFC 9002 6.2.1, whatever the profile's
    /// own timeout is.
    pub fn news_timeout(&self) -> Duration {
        Timeout::Probe.base(&self.rtt) + self.ack_delay_max()
    }

    /// By how much of itself a timeout is longer, an eighth at most; another after each: at an even pace
    /// probes would meet every burst of something periodic.
    fn unevenness(&self) -> f64 {
        /// Multiples of the golden ratio, taken modulo 1, fill the interval most evenly.
        const GOLDEN: f64 = 0.618_033_988_75;
        match self.timeout {
            Timeout::Probe => ((0.5 + f64::from(self.probe_expiries) * GOLDEN).fract() - 0.5) / 4.0,
            Timeout::Retransmission { .. } => 0.0,
        }
    }

    /// Since when what left was not answered, if so many probe timeouts have passed since.
    pub fn unanswered_since(&self, timeouts: u32) -> Option<Instant> {
        self.unheard_since.filter(|_| self.probe_expiries >= timeouts)
    }

    fn probe_at(&self, is_awaiting: bool) -> Option<Instant> {
        if self.probes_pending > 0 || !(is_awaiting || self.has_outstanding()) {
            return None;
        }
        // The ACK of what is never sent again is held back as long as was agreed (docs/wire.md 6.5).
        let ack_delay = if is_awaiting { self.acks.delay() } else { self.acks.delay_max() };
        let timeout = self.probe_timeout(ack_delay, self.silence.doublings);
        Some(self.last_eliciting_at + timeout.mul_f64(1.0 + self.unevenness()))
    }

    /// What the next of the probes that are to leave carries.
    pub(super) fn probe_cargo(&self) -> ProbeCargo {
        if self.probes_pending <= self.silence.bare {
            ProbeCargo::Nothing
        } else if self.probe_expiries > PROBES_FULL_SIZED {
            ProbeCargo::Base
        } else if matches!(self.timeout, Timeout::Probe) {
            ProbeCargo::Next
        } else {
            ProbeCargo::Full
        }
    }

    /// The way forward, as a packet meets it of which those before it were lost.
    pub(super) fn forward_in_burst(&self) -> Channel {
        Channel::new(&LossView { burst_packets: self.loss_runs.burst_packets(), ..self.loss_view })
    }

    /// How many probes a timeout sends. RFC 9002 6.2.4 has one or two, each timeout twice as long as the
    /// last. But a burst of losses is counted in packets, and probes meet it one by one as long as it lasts,
    /// theirs or that of the ACKs that answer them. So they are as many as probably outlive it, and timeouts
    /// are not doubled, until more probes are lost than any burst explains, and more than a few: from then on this is a black-out,
    /// and timeouts double up to a bound. Bursts that are known may be short by chance, though: what it costs
    /// few bytes to send goes on counting one off.
    fn probes_for_silence(&mut self) -> u32 {
        let is_known = self.loss_view.weight_packets >= WEIGHT_MIN;
        let forward = if is_known { self.forward_in_burst() } else { Channel::new(&BURST_UNKNOWN) };
        let back = self.way_back.channel();
        let again = forward.lost_after_lost().max(back.lost_after_lost());
        let is_explained = libm::pow(again, f64::from(self.silence.probes)) > BURST_EXPLAINS;
        if self.silence.probes > 0 && !(is_explained && self.silence.probes < PROBES_EVEN_MAX) {
            self.silence.doublings += u32::from(self.silence.probes >= PROBES_EVEN_MIN);
            self.silence.bare = PROBES_IN_BLACKOUT - 1;
            self.silence.probes += PROBES_IN_BLACKOUT;
            return PROBES_IN_BLACKOUT;
        }
        let probes =
            forward.probes_for(PROBES_LOST, PROBES_MAX).max(back.probes_for(PROBES_LOST, PROBES_MAX));
        self.silence.probes += probes;
        probes
    }
}
