//! One sender and its receiver.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_control::{CongestionController, Pooled};
use fulmar_net::Datagram;
use fulmar_proto::recovery::{
    AckPolicy, Arrival, Awaits, Fate, Findings, Modules, News, PathLimits, Permit, ProbeCargo, Received,
    Recovery,
};
use fulmar_proto::wire::frame::{self, Frame, Frames};
use fulmar_proto::{Ecn, Instant, RecoveryConfig};

use super::{Link, MTU, Packet};

/// Of a probe that carries nothing.
const PING_BYTES: u32 = 40;
/// Room for an ACK: some thirty ranges, more than any that are new.
const ACK_BYTES_MAX: usize = 80;

/// What there is to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum App {
    /// More than fits.
    Bulk,
    /// A packet per interval.
    Thin(Duration),
}

pub struct Flow {
    index: usize,
    start: Instant,
    app: App,
    app_sent: u32,
    /// What the sender knows. An ideal code asks of a packet only whether it arrived.
    pub recovery: Recovery<()>,
    /// How it wants to be acknowledged: each packet says so.
    policy: AckPolicy,
    acks_as_asked: bool,
    received: Received,
    /// By how much its round trip is longer than the link's, and the ACKs on that way.
    farther: Duration,
    acks: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes that reached the receiver.
    pub received_bytes: u64,
    pub sent_packets: u64,
    /// When the application has the next packet, if it has none yet.
    next_message_at: Option<Instant>,
    /// When it has something to do, as long as nothing reaches it before. Kept: to ask every flow at every
    /// event was most of what a crowd took.
    wake_at: Option<Instant>,
}

impl Flow {
    pub fn new(
        index: usize,
        congestion: Box<dyn CongestionController>,
        start: Instant,
        link: &Link,
        app: App,
        farther: Duration,
    ) -> Self {
        let config = RecoveryConfig::default();
        let modules = Modules { congestion, loss: Box::new(Pooled::new()), config };
        let mtu_bytes = MTU as u16;
        let limits =
            PathLimits { initial_mtu_bytes: mtu_bytes, mtu_max_bytes: mtu_bytes, is_ecn_enabled: true };
        let policy = if link.acks_as_asked {
            AckPolicy::default()
        } else {
            AckPolicy { every_packets: 1, ..AckPolicy::default() }
        };
        let mut recovery = Recovery::new(start, modules, limits);
        recovery.on_handshake_rtt(start, link.rtt + farther);
        Self {
            index,
            start,
            app,
            app_sent: 0,
            recovery,
            policy,
            acks_as_asked: link.acks_as_asked,
            received: Received::new(policy),
            farther,
            acks: VecDeque::new(),
            received_bytes: 0,
            sent_packets: 0,
            next_message_at: Some(start),
            wake_at: Some(start),
        }
    }

    pub fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    /// All that is due by now.
    pub fn step(&mut self, now: Instant, mut send: impl FnMut(Packet), mut send_ack: impl FnMut(Datagram)) {
        self.on_acks(now);
        self.on_timeout(now);
        if let Some(ack) = self.poll_ack(now) {
            send_ack(ack);
        }
        while let Some(packet) = self.poll_send(now) {
            send(packet);
        }
        self.wake_at = self.poll_timeout();
    }

    /// A packet reached the receiver.
    pub fn on_packet(&mut self, now: Instant, packet: &Packet) {
        self.wake_at = Some(now);
        assert_eq!(self.received.classify(packet.number), Arrival::New, "the link copies nothing");
        self.received_bytes += u64::from(packet.bytes);
        let ecn = match packet.ecn {
            fulmar_net::Ecn::NotEct => None,
            fulmar_net::Ecn::Ect0 => Some(Ecn::Ect0),
            fulmar_net::Ecn::Ect1 => Some(Ecn::Ect1),
            fulmar_net::Ecn::Ce => Some(Ecn::Ce),
        };
        self.received.set_policy(packet.policy);
        self.received.on_packet(now, packet.number, ecn, Awaits::Arrival);
        if packet.is_ping {
            self.received.request_ack();
        }
    }

    /// The receiver's ACK, if one is due.
    fn poll_ack(&mut self, now: Instant) -> Option<Datagram> {
        if !self.received.is_ack_due(now) {
            return None;
        }
        let mut contents = Vec::new();
        let (delay_us, ecn) = (self.received.delay_us(now), self.received.ecn_counts());
        assert!(frame::put_ack(&mut contents, self.received.ranges(), delay_us, ecn, None, ACK_BYTES_MAX));
        self.received.on_ack_sent(now);
        Some(Datagram { contents, flow: self.index as u64, ..Datagram::default() })
    }

    /// The link has carried an ACK.
    pub fn on_ack_carried(&mut self, now: Instant, contents: Vec<u8>) {
        let at = now + self.farther;
        self.wake_at = Some(self.wake_at.map_or(at, |wake_at| wake_at.min(at)));
        self.acks.push_back((at, contents));
    }

    /// ACKs that are there by now.
    fn on_acks(&mut self, now: Instant) {
        while self.acks.front().is_some_and(|(at, _)| *at <= now) {
            let (_, contents) = self.acks.pop_front().expect("there is one");
            self.on_ack(now, &contents);
        }
    }

    /// An ACK reached the sender.
    fn on_ack(&mut self, now: Instant, contents: &[u8]) {
        let Some(Ok(Frame::Ack(ack))) = Frames::new(contents).next() else { panic!("an ACK") };
        let findings = self.recovery.on_ack(now, &ack).expect("of what was sent");
        if findings.has_news {
            self.finish(findings);
        } else {
            self.recovery.drop_findings(findings);
        }
    }

    /// With an ideal code each packet that arrives adds a degree of freedom.
    fn finish(&mut self, findings: Findings<()>) {
        let arrived = findings.fates.iter().filter(|fate| !matches!(fate, Fate::Lost(())));
        let mut news = News::default();
        news.coding.dof_delivered = arrived.count() as u32;
        self.recovery.finish(findings, news);
    }

    /// Loss by time, silence, the pacer.
    fn on_timeout(&mut self, now: Instant) {
        if let Some(findings) = self.recovery.on_loss_timer(now) {
            self.finish(findings);
        }
        if let Some(findings) = self.recovery.on_probe_timer(now, self.recovery.has_outstanding()) {
            self.recovery.drop_findings(findings);
        }
        self.recovery.on_pacer_timer(now);
    }

    /// The next packet allowed to leave, if any.
    fn poll_send(&mut self, now: Instant) -> Option<Packet> {
        if now < self.start {
            return None;
        }
        if let Some(probe) = self.recovery.poll_mtu_probe(now, true) {
            let packet = self.packet(u32::from(probe.bytes), true);
            self.recovery.on_mtu_probe_sent(now, probe);
            return Some(packet);
        }
        if let Some(cargo) = self.recovery.probe_due(now) {
            self.recovery.take_probe(now);
            return Some(match cargo {
                ProbeCargo::Nothing => self.send(now, PING_BYTES, true),
                ProbeCargo::Next | ProbeCargo::Full | ProbeCargo::Base => self.send_full(now, true),
            });
        }
        self.next_message_at = match self.app {
            App::Bulk => None,
            App::Thin(interval) => Some(self.start + interval * self.app_sent).filter(|&at| at > now),
        };
        let has_more = self.next_message_at.is_none();
        let permit = self.recovery.permit(now, u64::from(self.recovery.mtu_bytes()));
        if permit == Permit::Leave && has_more {
            self.app_sent += 1;
            return Some(self.send_full(now, false));
        }
        match permit {
            Permit::Leave => self.recovery.on_app_limited(),
            Permit::Wait(at) | Permit::Limited(at) => self.recovery.wake_for_pacer(has_more.then_some(at)),
            Permit::Blocked => {}
        }
        if permit != Permit::Leave && has_more {
            self.recovery.on_held_back();
        }
        None
    }

    fn send_full(&mut self, now: Instant, is_ping: bool) -> Packet {
        self.send(now, u32::from(self.recovery.mtu_bytes()), is_ping)
    }

    fn send(&mut self, now: Instant, bytes: u32, is_ping: bool) -> Packet {
        let packet = self.packet(bytes, is_ping);
        self.recovery.on_sent(now, bytes, ());
        packet
    }

    fn packet(&mut self, bytes: u32, is_ping: bool) -> Packet {
        if let Some(policy) = self.recovery.acks().poll().filter(|_| self.acks_as_asked) {
            self.policy = policy;
        }
        self.sent_packets += 1;
        Packet {
            flow: self.index,
            number: self.recovery.next_number(),
            bytes,
            ecn: self.recovery.mark().map_or(fulmar_net::Ecn::NotEct, |_| fulmar_net::Ecn::Ect0),
            policy: self.policy,
            is_ping,
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let recovery_at = self.recovery.timeout(self.recovery.has_outstanding());
        let ack_at = self.acks.front().map(|(at, _)| *at);
        let mtu_at = self.recovery.mtu_timeout();
        let times = [recovery_at, mtu_at, self.received.timeout(), self.next_message_at, ack_at];
        times.into_iter().flatten().min()
    }

    pub fn line(&self) -> String {
        let view = self.recovery.view();
        let (budget, congestion) = (self.recovery.budget(), self.recovery.congestion());
        let megabits = |rate: fulmar_proto::Rate| rate.bits_per_second() as f64 / 1e6;
        format!(
            "{:12} cwnd {:5} pace {:7.2} bw {:7.2} inflight {:5} srtt {:6.1} loss {:5.3} E {:4.1}",
            congestion.phase(),
            budget.window_bytes / u64::from(MTU),
            budget.pacing.map_or(0.0, megabits),
            congestion.bandwidth().map_or(0.0, megabits),
            view.in_flight_bytes / u64::from(MTU),
            self.recovery.rtt().smoothed().as_secs_f64() * 1e3,
            view.loss.rate,
            view.loss.burst_packets,
        )
    }
}
