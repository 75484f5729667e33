//! One path: what is known of it, and what may be sent on it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fulmar_control::{
    CongestionController, Feedback, LossEstimator, Pacer, PathView, RttEstimator, SendBudget, Sent,
};

use crate::Instant;
use crate::config::TransportConfig;
use crate::profile::{MakeContext, Profile};
use crate::recovery::{EcnState, LossDetector, MtuDiscovery, RateSampler, Timeout};

/// Before its address is validated, a peer is sent at most this many times what it sent (RFC 9000 8.1).
const AMPLIFICATION_MAX: u64 = 3;
/// How often a path challenge is repeated before the path is given up.
const CHALLENGES_MAX: u32 = 6;

/// The state of address validation.
#[derive(Debug)]
pub(super) enum Validation {
    /// The peer receives at this address.
    Done,
    /// Nothing proves it yet, and the handshake will (server) or need not (client).
    ByHandshake,
    /// A challenge is out.
    Challenged {
        token: u64,
        /// It is to be sent (again).
        is_due: bool,
        sent: u32,
        next_at: Instant,
    },
}

/// A path and everything measured on it.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
    pub(super) rtt: RttEstimator,
    /// [`Self::probe_timeout`] without ACK delay or doubling. Asked for far more often than the RTT changes.
    probe_base: Duration,
    pub(super) congestion: Box<dyn CongestionController>,
    pub(super) loss: Box<dyn LossEstimator>,
    pub(super) pacer: Pacer,
    pub(super) sampler: RateSampler,
    pub(super) detector: LossDetector,
    timeout: Timeout,
    pub(super) ecn: EcnState,
    pub(super) mtu: MtuDiscovery,
    pub(super) validation: Validation,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Path {
    pub(super) fn new(
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        validation: Validation,
        config: &TransportConfig,
        profile: &Profile,
        seed: u64,
    ) -> Self {
        let context = MakeContext::new(u32::from(config.initial_mtu_bytes), seed);
        let congestion = (profile.congestion)(&context);
        let pacer = Pacer::new(now, congestion.budget());
        Self {
            remote,
            local_ip,
            rtt: RttEstimator::new(),
            probe_base: profile.recovery.timeout.base(&RttEstimator::new()),
            congestion,
            loss: (profile.loss)(&context),
            pacer,
            sampler: RateSampler::default(),
            detector: LossDetector::new(profile.recovery.reordering_packets),
            timeout: profile.recovery.timeout,
            ecn: EcnState::new(config.is_ecn_enabled),
            mtu: MtuDiscovery::new(config.initial_mtu_bytes, config.mtu_max_bytes),
            validation,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// The peer turned out to want another profile; nothing has been measured for the old one yet.
    pub(super) fn adopt(&mut self, now: Instant, profile: &Profile, seed: u64) {
        let context = MakeContext::new(u32::from(self.mtu.current_bytes()), seed);
        self.congestion = (profile.congestion)(&context);
        self.loss = (profile.loss)(&context);
        self.detector = LossDetector::new(profile.recovery.reordering_packets);
        self.timeout = profile.recovery.timeout;
        self.probe_base = self.timeout.base(&self.rtt);
        self.pacer = Pacer::new(now, self.congestion.budget());
    }

    /// The peer has another address, from which `received_bytes` have come. If only its port changed (NAT rebinding), what
    /// was measured still holds (RFC 9000 9.4).
    pub(super) fn rebind(
        &mut self,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        validation: Validation,
        received_bytes: u64,
    ) {
        self.remote = remote;
        self.local_ip = local_ip;
        self.validation = validation;
        (self.received_bytes, self.sent_bytes) = (received_bytes, 0);
    }

    pub(super) fn view(&self, in_flight_bytes: u64) -> PathView {
        let mut view = PathView::unknown(u32::from(self.mtu.current_bytes()));
        self.rtt.fill(&mut view);
        view.in_flight_bytes = in_flight_bytes;
        view.window_bytes = self.congestion.budget().window_bytes;
        view.loss = self.loss.view();
        view
    }

    pub(super) fn budget(&self) -> SendBudget {
        self.congestion.budget()
    }

    pub(super) fn on_feedback(&mut self, feedback: &Feedback, in_flight_bytes: u64) {
        self.loss.on_feedback(feedback);
        let view = self.view(in_flight_bytes);
        self.congestion.on_feedback(feedback, &view);
        self.pacer.on_budget(feedback.now, self.congestion.budget());
    }

    pub(super) fn on_sent(&mut self, sent: &Sent, in_flight_bytes: u64) {
        let view = self.view(in_flight_bytes);
        self.congestion.on_sent(sent, &view);
        self.pacer.on_sent(sent.now, u64::from(sent.bytes));
    }

    pub(super) fn on_timeout(&mut self, now: Instant, count: u32, in_flight_bytes: u64) {
        let view = self.view(in_flight_bytes);
        self.congestion.on_timeout(now, count, &view);
        self.pacer.on_budget(now, self.congestion.budget());
    }

    /// A round trip was measured: `latest` includes `ack_delay`.
    pub(super) fn on_rtt(&mut self, now: Instant, latest: Duration, ack_delay: Duration) {
        self.rtt.on_sample(now, latest, ack_delay);
        self.probe_base = self.timeout.base(&self.rtt);
    }

    /// What was measured belongs to another path.
    pub(super) fn reset_rtt(&mut self) {
        self.rtt.reset();
        self.probe_base = self.timeout.base(&self.rtt);
    }

    /// How long after a packet without an ACK something is done about it.
    pub(super) fn probe_timeout(&self, ack_delay: Duration, expiries: u32) -> Duration {
        self.timeout.doubled(self.probe_base + ack_delay, expiries)
    }

    /// Silence means that everything under way is lost.
    pub(super) fn gives_up_on_timeout(&self) -> bool {
        matches!(self.timeout, Timeout::Retransmission { .. })
    }

    pub(super) fn on_datagram_received(&mut self, bytes: u64) {
        self.received_bytes += bytes;
    }

    pub(super) fn on_datagram_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Bytes that may still be sent, of which `written` are in a buffer already: bounded until the address is validated.
    pub(super) fn room_bytes(&self, written: usize) -> usize {
        match self.validation {
            Validation::Done => usize::MAX,
            Validation::ByHandshake | Validation::Challenged { .. } => {
                let budget = (self.received_bytes * AMPLIFICATION_MAX).saturating_sub(self.sent_bytes);
                usize::try_from(budget).unwrap_or(usize::MAX).saturating_sub(written)
            }
        }
    }

    pub(super) fn is_validated(&self) -> bool {
        matches!(self.validation, Validation::Done)
    }

    /// When a challenge must be repeated or given up.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.validation {
            Validation::Challenged { next_at, is_due: false, .. } => Some(next_at),
            _ => None,
        }
    }

    /// False if the path cannot be validated.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        if let Validation::Challenged { is_due, sent, next_at, .. } = &mut self.validation
            && *next_at <= now
        {
            if *sent >= CHALLENGES_MAX {
                return false;
            }
            *is_due = true;
        }
        true
    }

    /// The challenge to send now, if one is due.
    pub(super) fn poll_challenge(&mut self, now: Instant) -> Option<u64> {
        let period = self.rtt.probe_timeout(Duration::ZERO, 0);
        match &mut self.validation {
            Validation::Challenged { token, is_due: is_due @ true, sent, next_at } => {
                *is_due = false;
                *sent += 1;
                *next_at = now + period * (1 << (*sent).min(6));
                Some(*token)
            }
            _ => None,
        }
    }

    /// The challenge under way, if there is one.
    pub(super) fn challenge(&self) -> Option<u64> {
        match self.validation {
            Validation::Challenged { token, .. } => Some(token),
            _ => None,
        }
    }

    /// The peer answered `token`. True if that validated the path.
    pub(super) fn on_response(&mut self, response: u64) -> bool {
        let is_right = matches!(self.validation, Validation::Challenged { token, .. } if token == response);
        if is_right {
            self.validation = Validation::Done;
        }
        is_right
    }
}

impl Validation {
    /// A challenge to be sent at once.
    pub(super) fn challenge(token: u64, now: Instant) -> Self {
        Self::Challenged { token, is_due: true, sent: 0, next_at: now }
    }
}
