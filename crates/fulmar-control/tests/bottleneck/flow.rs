//! One sender and its receiver.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_control::{
    Channel, CongestionController, Feedback, LossEstimator, LossEvent, Pacer, PathView, Pooled, RateSample,
    RttEstimator, Sent,
};
use fulmar_units::Instant;

use super::MTU;

/// What there is to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum App {
    /// More than fits.
    Bulk,
    /// A packet per interval.
    Thin(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Flying,
    Acked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    sent_at: Instant,
    state: State,
    delivered_bytes: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost_bytes: u64,
    is_app_limited: bool,
}

pub struct Flow {
    pub controller: Box<dyn CongestionController>,
    pub start: Instant,
    pub generation: u64,
    /// Bytes that reached the receiver, and when the first and last did.
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub lost_packets: u64,
    pub timeouts: u64,
    pub rtt: RttEstimator,
    pub loss: Pooled,
    app: App,
    app_sent: u64,
    pacer: Pacer,
    unreported: Vec<(u64, bool)>,
    acks: VecDeque<Vec<(u64, bool)>>,
    packets: VecDeque<Packet>,
    base: u64,
    unresolved: u64,
    last_lost: Option<u64>,
    largest_acked: Option<u64>,
    in_flight_bytes: u64,
    delivered_bytes: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    total_lost_bytes: u64,
    round: u64,
    round_end: u64,
    timeout_count: u32,
    timer_base: Instant,
    probes: u32,
    is_window_limited: bool,
    app_limited_until: u64,
    pace_at: Option<Instant>,
    now: Instant,
}

impl Flow {
    pub fn new(controller: Box<dyn CongestionController>, start: Instant, app: App) -> Self {
        let pacer = Pacer::new(start, controller.budget());
        Self {
            controller,
            start,
            generation: 0,
            received_bytes: 0,
            sent_packets: 0,
            lost_packets: 0,
            timeouts: 0,
            rtt: RttEstimator::new(),
            loss: Pooled::new(),
            app,
            app_sent: 0,
            pacer,
            unreported: Vec::new(),
            acks: VecDeque::new(),
            packets: VecDeque::new(),
            base: 0,
            unresolved: 0,
            last_lost: None,
            largest_acked: None,
            in_flight_bytes: 0,
            delivered_bytes: 0,
            delivered_at: start,
            first_sent_at: start,
            total_lost_bytes: 0,
            round: 0,
            round_end: 0,
            timeout_count: 0,
            timer_base: start,
            probes: 0,
            is_window_limited: false,
            app_limited_until: 0,
            pace_at: None,
            now: start,
        }
    }

    fn path(&self) -> PathView {
        let mut path = PathView::unknown(MTU);
        self.rtt.fill(&mut path);
        path.in_flight_bytes = self.in_flight_bytes;
        path.loss = self.loss.view();
        path
    }

    pub fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    pub fn on_arrival(&mut self, packet_number: u64, is_marked: bool) {
        self.received_bytes += u64::from(MTU);
        self.unreported.push((packet_number, is_marked));
    }

    /// The receiver sends an ACK of everything it has not reported.
    pub fn acknowledge(&mut self) {
        self.acks.push_back(std::mem::take(&mut self.unreported));
    }

    /// The next packet allowed to leave, if any.
    pub fn poll_send(&mut self, now: Instant) -> Option<(u64, u32)> {
        self.now = now;
        self.pace_at = None;
        if let App::Thin(interval) = self.app
            && self.probes == 0
            && now < self.start + interval * u32::try_from(self.app_sent).expect("short runs")
        {
            self.app_limited_until = self.base + self.packets.len() as u64;
            return None;
        }
        if self.probes > 0 {
            self.probes -= 1;
            return Some(self.send(now));
        }
        let budget = self.controller.budget();
        self.pacer.on_budget(now, budget);
        if self.in_flight_bytes + u64::from(MTU) > budget.window_bytes {
            self.is_window_limited = true;
            return None;
        }
        if let Err(at) = self.pacer.poll(now, u64::from(MTU)) {
            self.is_window_limited = true;
            self.pace_at = Some(at);
            return None;
        }
        self.app_sent += 1;
        Some(self.send(now))
    }

    fn send(&mut self, now: Instant) -> (u64, u32) {
        let packet_number = self.base + self.packets.len() as u64;
        if self.in_flight_bytes == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.timer_base = now;
        }
        self.in_flight_bytes += u64::from(MTU);
        self.packets.push_back(Packet {
            sent_at: now,
            state: State::Flying,
            delivered_bytes: self.delivered_bytes,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost_bytes: self.total_lost_bytes,
            is_app_limited: self.app_limited_until > 0,
        });
        self.pacer.on_sent(now, u64::from(MTU));
        self.sent_packets += 1;
        let sent = Sent::new(now, MTU);
        let path = self.path();
        self.controller.on_sent(&sent, &path);
        (packet_number, MTU)
    }

    /// An ACK arrived; they arrive in order.
    pub fn on_ack(&mut self, now: Instant) {
        let mut feedback = Feedback::at(now);
        feedback.in_flight_bytes_before = self.in_flight_bytes;
        let mut newest = None;
        for (packet_number, is_marked) in self.acks.pop_front().expect("an ACK was sent") {
            feedback.ecn_ce_packets += u32::from(is_marked);
            if let Some(packet) = self.on_packet_acked(packet_number, &mut feedback) {
                newest = Some((packet_number, packet));
            }
        }
        let Some((packet_number, packet)) = newest else { return };
        self.delivered_at = now;
        feedback.newest_acked_sent_at = Some(packet.sent_at);
        if self.largest_acked.is_none_or(|largest| packet_number > largest) {
            self.largest_acked = Some(packet_number);
            feedback.rtt = Some(now - packet.sent_at);
            self.rtt.on_sample(now, now - packet.sent_at, Duration::ZERO);
            self.first_sent_at = packet.sent_at;
        }
        if packet_number >= self.round_end {
            self.round += 1;
            self.round_end = self.base + self.packets.len() as u64;
        }
        if packet_number >= self.app_limited_until {
            self.app_limited_until = 0;
        }
        self.timeout_count = 0;
        self.timer_base = now;
        self.detect(now, &mut feedback);
        feedback.rate_sample = self.sample(now, &packet);
        feedback.round = self.round;
        self.report(feedback);
    }

    fn on_packet_acked(&mut self, packet_number: u64, feedback: &mut Feedback) -> Option<Packet> {
        let index = packet_number.checked_sub(self.base)? as usize;
        let packet = self.packets.get_mut(index)?;
        let before = std::mem::replace(&mut packet.state, State::Acked);
        match before {
            State::Acked => return None,
            State::Lost => feedback.spurious_packets += 1,
            State::Flying => self.in_flight_bytes -= u64::from(MTU),
        }
        self.delivered_bytes += u64::from(MTU);
        feedback.acked_packets += 1;
        feedback.acked_bytes += u64::from(MTU);
        Some(*packet)
    }

    fn sample(&self, now: Instant, packet: &Packet) -> Option<RateSample> {
        let interval = (packet.sent_at - packet.first_sent_at).max(now - packet.delivered_at);
        if interval < self.rtt.min() {
            return None;
        }
        let mut sample = RateSample::new(self.delivered_bytes - packet.delivered_bytes, interval);
        sample.lost_bytes = self.total_lost_bytes - packet.lost_bytes;
        sample.is_app_limited = packet.is_app_limited;
        Some(sample)
    }

    fn report(&mut self, mut feedback: Feedback) {
        feedback.is_window_limited = std::mem::take(&mut self.is_window_limited);
        feedback.check();
        self.loss.on_feedback(&feedback);
        let path = self.path();
        self.controller.on_feedback(&feedback, &path);
        while self.packets.front().is_some_and(|packet| packet.state == State::Acked)
            && self.base < self.unresolved
        {
            self.packets.pop_front();
            self.base += 1;
        }
        // Lost packets are kept for a while, in case they come back.
        while self.packets.len() > 50_000 {
            self.packets.pop_front();
            self.base += 1;
        }
    }

    /// RFC 9002 6.1: three packets later, or 9/8 of a round trip later.
    fn detect(&mut self, now: Instant, feedback: &mut Feedback) {
        let Some(largest) = self.largest_acked else { return };
        let patience = self.rtt.conservative() * 9 / 8;
        let mut lost = LossEvent::default();
        while self.unresolved <= largest {
            let packet = &mut self.packets[(self.unresolved - self.base) as usize];
            if packet.state == State::Flying {
                if largest < self.unresolved + 3 && now < packet.sent_at + patience {
                    break;
                }
                packet.state = State::Lost;
                self.in_flight_bytes -= u64::from(MTU);
                self.total_lost_bytes += u64::from(MTU);
                self.lost_packets += 1;
                lost.packets += 1;
                lost.bytes += u64::from(MTU);
                lost.bursts += u32::from(self.last_lost.is_none_or(|last| last + 1 != self.unresolved));
                lost.newest_sent_at = Some(packet.sent_at);
                self.last_lost = Some(self.unresolved);
            }
            self.unresolved += 1;
        }
        feedback.lost = lost;
    }

    pub fn on_wake(&mut self, now: Instant) {
        if self.timeout_at().is_some_and(|at| now >= at) {
            self.timeout_count += 1;
            self.timeouts += 1;
            self.timer_base = now;
            self.probes = Channel::new(&self.loss.view()).probes_for(0.2, 8).max(2);
            let path = self.path();
            self.controller.on_timeout(now, self.timeout_count, &path);
        }
    }

    fn timeout_at(&self) -> Option<Instant> {
        let wait = self.rtt.probe_timeout(Duration::from_millis(25), self.timeout_count.min(2));
        (self.in_flight_bytes > 0).then(|| self.timer_base + wait)
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let next_message = match self.app {
            App::Thin(interval) => {
                Some(self.start + interval * u32::try_from(self.app_sent).expect("short runs"))
            }
            App::Bulk => None,
        };
        let next_message = next_message.filter(|&at| at > self.now);
        [self.pace_at, self.timeout_at(), next_message].into_iter().flatten().min()
    }

    pub fn line(&self) -> String {
        let budget = self.controller.budget();
        format!(
            "{:12} cwnd {:5} pace {:7.2} bw {:7.2} inflight {:5} srtt {:6.1} loss {:5.3} E {:4.1}",
            self.controller.phase(),
            budget.window_bytes / u64::from(MTU),
            budget.pacing.map_or(0.0, |rate| rate.bits_per_second() as f64 / 1e6),
            self.controller.bandwidth().map_or(0.0, |rate| rate.bits_per_second() as f64 / 1e6),
            self.in_flight_bytes / u64::from(MTU),
            self.rtt.smoothed().as_secs_f64() * 1e3,
            self.loss.view().rate,
            self.loss.view().burst_packets,
        )
    }
}
