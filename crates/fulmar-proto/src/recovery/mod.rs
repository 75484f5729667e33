//! Loss recovery below the coding layer: when a packet may leave, which packets arrived, which are lost, how
//! fast they are delivered.
//!
//! [`Recovery`] owns all that is known of one path's traffic, and all of its timers: packets under way, loss
//! detection, rate samples, RTT, ECN, path MTU, loss estimate, congestion controller, pacer, the spacing of
//! ACKs. Each of these questions is a struct of its own with its own tests. What a packet carries is somebody
//! else's affair: an opaque `T` comes back with its [`Fate`]. Nothing here retransmits: a lost packet is a
//! fact for the layer above and for the controllers.
//!
//! ```text
//! permit(now, bytes)       may a packet leave?
//! on_sent(.., T)           it has left
//! on_ack(ack) -> Findings  which T arrived, were lost, came back; settled above, and then
//! finish(findings, news)   the one feedback record is complete, and everyone is told
//! ```
//!
//! [`Received`] is the other direction: what arrived here, and when to say so.

use std::time::Duration;

use fulmar_control::{CongestionController, LossEstimator, PathView, RttEstimator, SendBudget};

use crate::chance::Chance;
use crate::{Instant, PacketNumber, Rate};

mod ack_policy;
mod ack_spacing;
mod back_rate;
mod burst_room;
mod config;
mod control;
mod ecn;
mod impatience;
mod learn;
mod limits;
mod loss;
mod loss_runs;
mod mtu;
mod ranges;
mod rate_sample;
mod received;
mod send;
mod sent;
mod silence;
mod skips;
mod stats;
mod timers;
mod way_back;
mod way_forward;

#[cfg(test)]
mod tests;

pub use ack_policy::AckPolicy;
pub use ack_spacing::AckSpacing;
use back_rate::BackRate;
use burst_room::BurstRoom;
pub use config::{RecoveryConfig, Timeout};
use control::Control;
pub use ecn::{Ecn, EcnState};
use impatience::Impatience;
pub use learn::{FATES_MAX, Fate, Findings, News};
use limits::Limits;
pub use limits::{ReceiveLimit, SendLimit};
pub use loss::{LossDetector, LossTime};
pub(crate) use mtu::BASE_BYTES;
pub use mtu::{MtuDiscovery, Probe};
pub use ranges::RangeSet;
pub use rate_sample::{RateSampler, Stamp};
pub use received::{Arrival, Awaits, Received};
pub use send::Permit;
pub use sent::{Acked, Cargo, Lost, SentPacket, SentPackets};
pub use silence::ProbeCargo;
use silence::Silence;
use skips::Skips;
pub use stats::RecoveryStats;
pub use way_back::WayBack;
use way_forward::WayForward;

/// The modules that a profile picks for recovery, made for one path.
#[derive(Debug)]
pub struct Modules {
    /// How much may be in flight, and how fast it may leave.
    pub congestion: Box<dyn CongestionController>,
    /// How often packets are lost.
    pub loss: Box<dyn LossEstimator>,
    /// Loss detection and timeouts.
    pub config: RecoveryConfig,
}

/// Limits of a path, known before anything is measured on it.
#[derive(Copy, Clone, Debug)]
pub struct PathLimits {
    /// Largest UDP payload that it is trusted to carry, at least 1200.
    pub initial_mtu_bytes: u16,
    /// Largest UDP payload that is probed for.
    pub mtu_max_bytes: u16,
    /// Packets may be marked as ECN-capable.
    pub is_ecn_enabled: bool,
}

/// Recovery on one path: see the [module](self).
#[derive(Debug)]
pub struct Recovery<T> {
    limits: PathLimits,
    /// No packet is made longer.
    packet_bytes_max: Option<u16>,
    sent: SentPackets<T>,
    /// Numbers that no packet has; none are skipped without.
    skips: Option<Skips>,
    /// Packets that elicited an ACK, probes for a larger MTU left out.
    eliciting_sent: u32,
    detector: LossDetector,
    /// A loss of a packet below this belongs to a recovery that has begun.
    recovery_below: PacketNumber,
    sampler: RateSampler,
    rtt: RttEstimator,
    silence: Silence,
    impatience: Impatience,
    ecn: EcnState,
    mtu: MtuDiscovery,
    forward: WayForward,
    way_back: WayBack,
    back_rate: BackRate,
    control: Control,
    burst_room: BurstRoom,
    /// None for most.
    rates: Option<Box<Limits>>,
    acks: AckSpacing,
    /// An ACK has not been looked at in full: it is too early to tell what is lost.
    is_rest_left: bool,
    /// Room for the next findings.
    scratch: Vec<Fate<T>>,
    /// Packets declared lost since somebody asked, if somebody wants to know.
    lost: Option<Vec<(PacketNumber, u32)>>,
    stats: RecoveryStats,
}

impl<T: Copy> Recovery<T> {
    /// A path of which nothing is known.
    pub fn new(now: Instant, modules: Modules, limits: PathLimits) -> Self {
        let config = modules.config;
        let rtt = RttEstimator::new().with_variation(config.variation);
        let mut acks = AckSpacing::default();
        config.acks.into_iter().for_each(|policy| acks.fix(policy));
        Self {
            limits,
            packet_bytes_max: config.packet_bytes_max,
            sent: SentPackets::default(),
            skips: None,
            eliciting_sent: 0,
            detector: detector(&config),
            recovery_below: PacketNumber(0),
            sampler: RateSampler::default(),
            silence: Silence::new(now, config.timeout, &rtt),
            impatience: Impatience::default(),
            rtt,
            ecn: EcnState::new(limits.is_ecn_enabled),
            mtu: MtuDiscovery::held_to(&limits, config.packet_bytes_max),
            forward: WayForward::new(modules.loss),
            way_back: WayBack::default(),
            back_rate: BackRate::default(),
            control: Control::new(now, modules.congestion),
            burst_room: BurstRoom::default(),
            rates: None,
            acks,
            is_rest_left: false,
            scratch: Vec::new(),
            lost: None,
            stats: RecoveryStats::default(),
        }
    }

    /// From now on packet numbers are skipped at random, drawn by `rng`: an ACK of one is an error.
    pub(crate) fn skip_numbers(&mut self, rng: Chance) {
        self.skips = Some(Skips::new(rng));
    }

    /// All that is sent keeps this limit.
    pub fn keep_limit(&mut self, limit: &SendLimit) {
        self.rates = Some(Box::new(Limits::new(Some(limit.clone()))));
    }

    /// The peer asks to be sent no more than this rate, as its word number `sequence`; `None`: as much as may
    /// be.
    pub fn on_rate_asked(&mut self, sequence: u64, rate: Option<Rate>) {
        self.rates.get_or_insert_default().on_asked(sequence, rate);
    }

    /// Other modules, before anything was measured for the old ones.
    pub fn adopt(&mut self, now: Instant, modules: Modules) {
        let config = modules.config;
        self.forward.adopt(modules.loss);
        self.detector = detector(&config);
        self.rtt = self.rtt.clone().with_variation(config.variation);
        self.packet_bytes_max = config.packet_bytes_max;
        self.mtu = MtuDiscovery::held_to(&self.limits, self.packet_bytes_max);
        self.silence.adopt(config.timeout, &self.rtt);
        config.acks.into_iter().for_each(|policy| self.acks.fix(policy));
        let view = self.rtt.has_sample().then(|| self.view());
        self.control.adopt(now, modules.congestion, view.as_ref());
    }

    /// What was measured belongs to another path: begin anew. `udp_payload_max` is the peer's limit.
    pub fn on_path_change(&mut self, now: Instant, udp_payload_max: Option<u16>) {
        let view = PathView::unknown(u32::from(self.mtu.current_bytes()));
        self.rtt.reset();
        self.silence.on_rtt(&self.rtt);
        self.control.tell(now, |controller| controller.on_path_change(now, &view));
        self.mtu = MtuDiscovery::held_to(&self.limits, self.packet_bytes_max);
        if let Some(limit) = udp_payload_max {
            self.mtu.set_limit(limit);
        }
        self.ecn = EcnState::new(self.limits.is_ecn_enabled);
        (self.way_back, self.back_rate) = (WayBack::default(), BackRate::default());
    }

    /// The same where the way to a peer is another, and the peer is not: what is in vain shows after as long
    /// as before, until a round trip was measured. An end that only receives may not measure one for long.
    pub fn on_other_way(&mut self, now: Instant, udp_payload_max: Option<u16>) {
        let before = self.rtt.has_sample().then(|| self.silence.base());
        self.on_path_change(now, udp_payload_max);
        before.into_iter().for_each(|base| self.silence.keep_base(base));
    }

    /// The peer is elsewhere, on what is the same path otherwise: silence so far tells nothing.
    pub fn on_moved(&mut self) {
        self.silence.on_heard(false);
    }

    /// The peer takes no datagrams beyond `bytes`.
    pub fn set_udp_payload_max(&mut self, bytes: u16) {
        self.mtu.set_limit(bytes);
    }

    /// The path as every algorithm sees it.
    pub fn view(&self) -> PathView {
        let mut view = PathView::unknown(u32::from(self.mtu.current_bytes()));
        self.rtt.fill(&mut view);
        view.in_flight_bytes = self.sent.in_flight_bytes();
        view.window_bytes = self.budget().window_bytes;
        view.loss = self.way_back.in_place_of(self.forward.view());
        view
    }

    /// What the congestion controller allows now.
    pub fn budget(&self) -> SendBudget {
        self.control.budget()
    }

    /// The congestion controller.
    pub fn congestion(&self) -> &dyn CongestionController {
        self.control.controller()
    }

    /// The RTT estimate.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// What ECN is known to do on this path.
    pub fn ecn(&self) -> &EcnState {
        &self.ecn
    }

    /// Largest UDP payload the path is known to carry.
    pub fn mtu_bytes(&self) -> u16 {
        self.mtu.current_bytes()
    }

    /// Number of the next packet.
    pub fn next_number(&self) -> PacketNumber {
        self.sent.next_number()
    }

    /// Largest packet number acknowledged so far.
    pub fn largest_acked(&self) -> Option<PacketNumber> {
        self.sent.largest_acked()
    }

    /// Bytes neither acknowledged nor declared lost.
    pub fn in_flight_bytes(&self) -> u64 {
        self.sent.in_flight_bytes()
    }

    /// Packets whose fate was settled so far: what ACKs and losses have cost.
    pub fn fates_found(&self) -> u64 {
        self.stats.fates_found
    }

    /// Nothing is sent and nothing arrives any more: what is under way is forgotten.
    pub fn let_go(&mut self) {
        self.scratch = Vec::new();
        self.sent.let_go();
    }

    /// Bytes that packets under way take.
    pub fn memory_bytes(&self) -> usize {
        self.sent.memory_bytes()
    }

    /// Packets whose fate is not known.
    pub fn has_outstanding(&self) -> bool {
        self.sent.outstanding_packets() > 0
    }

    /// The other end stands for one that keeps duplicate ACKs back ([`RecoveryConfig`]).
    pub fn keeps_duplicates_back(&self) -> bool {
        self.detector.is_in_order()
    }

    /// Packets neither acknowledged nor declared lost.
    pub fn outstanding_packets(&self) -> usize {
        self.sent.outstanding_packets()
    }

    /// The longest time for which the peer may hold back an ACK.
    pub fn ack_delay_max(&self) -> Duration {
        self.acks.delay_max()
    }

    /// A packet of the other end arrived: its number tells what the path back loses.
    pub fn on_received(&mut self, now: Instant, number: PacketNumber, awaits: Awaits) {
        let gap = self.way_back.on_packet(number, awaits != Awaits::Nothing);
        if self.back_rate.on_packet(now, gap, self.rtt.smoothed()) {
            self.way_back.forget_losses();
        }
    }

    /// What the path back does to packets.
    pub fn way_back(&self) -> &WayBack {
        &self.way_back
    }

    /// Nothing has come or gone for a while: what was kept for speed goes.
    pub fn release_memory(&mut self) {
        self.scratch = Vec::new();
        self.sent.release_memory();
    }

    /// How the peer is asked to space its ACKs.
    pub fn acks(&mut self) -> &mut AckSpacing {
        &mut self.acks
    }

    /// Remembers which packets are declared lost, until they are asked for.
    pub fn keep_lost(&mut self, is_wanted: bool) {
        self.lost = is_wanted.then(Vec::new);
    }

    /// Packets declared lost since they were asked for, with their bytes.
    pub fn take_lost(&mut self) -> Vec<(PacketNumber, u32)> {
        self.lost.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Counts so far.
    pub fn stats(&self) -> &RecoveryStats {
        &self.stats
    }
}

fn detector(config: &RecoveryConfig) -> LossDetector {
    LossDetector::new(config.reordering_packets)
        .by_packets_alone(config.is_by_packets_alone)
        .in_order(config.keeps_duplicates_back)
}
