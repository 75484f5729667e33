//! What ACKs and expiries teach: from ranges of packet numbers to the one record that every algorithm is fed.

use std::time::Duration;

use fulmar_control::{CodingNews, Feedback, PathView};

use super::{Acked, Cargo, Lost, Recovery};
use crate::wire::frame::Ack;
use crate::{Instant, PacketNumber, TransportError};

/// Packets whose fate is found in one pass, so that one ACK does not hold up everything else: half a
/// millisecond. What is left has another pass at once.
pub const FATES_MAX: usize = 1024;

/// What became of a packet that carried `T`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fate<T> {
    /// It arrived.
    Arrived(T),
    /// It arrived, although it had been declared lost.
    Returned(T),
    /// It is declared lost.
    Lost(T),
}

/// What was found in one pass: to be settled above, and then handed back to [`Recovery::finish`].
#[derive(Debug)]
#[must_use]
pub struct Findings<T> {
    /// Fates of packets: first those that arrived, in the order of the ACK's ranges; then those that are
    /// lost, ascending.
    pub fates: Vec<Fate<T>>,
    /// The ACK is of a larger packet number than any before: what else it says is the newest word.
    pub is_newest: bool,
    /// It told the fate of at least one packet.
    pub has_news: bool,
    /// Too many are acknowledged for one pass: these and what is below are left for the next.
    pub rest: Option<PacketNumber>,
    feedback: Feedback,
}

/// What the layer above made of the fates.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// What the record says of it.
    pub coding: CodingNews,
    /// Since when a retransmission timer runs that the ACKs that come do not start again.
    pub impatient_since: Option<Instant>,
}

impl<T: Copy> Recovery<T> {
    /// An ACK arrived. Afterwards its findings are settled and given to [`Self::finish`]. If they leave a
    /// [rest](Findings::rest), [`Self::on_rest_of_ack`] is to follow at once, or another ACK.
    pub fn on_ack(&mut self, now: Instant, ack: &Ack<'_>) -> Result<Findings<T>, TransportError> {
        self.on_rest_of_ack(now, ack, ack.largest)
    }

    /// What packets carried that `ack` acknowledges and that are under way, as far as is known.
    pub fn news<'a>(&'a self, ack: &'a Ack<'_>) -> impl Iterator<Item = T> + 'a {
        ack.ranges().flat_map(|(low, high)| self.sent.carried(low, high))
    }

    /// The packets of an ACK up to `upto`, the others having been looked at. Nothing is declared lost before
    /// all have been.
    pub fn on_rest_of_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        upto: PacketNumber,
    ) -> Result<Findings<T>, TransportError> {
        if ack.largest >= self.sent.next_number() {
            return Err(TransportError::protocol_violation("ACK of a packet that was never sent"));
        }
        if self.skips.as_ref().is_some_and(|skips| skips.is_named_in(ack)) {
            return Err(TransportError::protocol_violation("ACK of a packet number that was skipped"));
        }
        let mut findings = self.findings(now);
        findings.is_newest = self.sent.largest_acked().is_none_or(|largest| ack.largest > largest);
        let newest = self.take_acked(now, ack, upto, &mut findings);
        findings.has_news = newest.is_some();
        if let Some(newest) = newest {
            self.on_newest_acked(now, ack, &newest, &mut findings);
            self.silence.on_heard(newest.was_lost);
        }
        if findings.rest.is_none() && (findings.has_news || self.is_rest_left) {
            self.detect_losses(now, &mut findings);
            findings.has_news |= !findings.fates.is_empty();
        }
        self.is_rest_left = findings.rest.is_some();
        Ok(findings)
    }

    /// The record is complete: everyone is told. Returns it for the policies above, with the path as it is
    /// now.
    pub fn finish(&mut self, findings: Findings<T>, news: News) -> (Feedback, PathView) {
        let mut feedback = findings.feedback;
        self.impatience.on_told(news.impatient_since);
        self.stats.fates_found += findings.fates.len() as u64;
        self.scratch = findings.fates;
        feedback.coding = news.coding;
        feedback.is_window_limited = self.control.take_is_limiting();
        feedback.check();
        self.forward.on_feedback(&feedback);
        let view = self.view();
        self.stats.recoveries += self.control.on_feedback(&feedback, &view);
        self.burst_room.learn(self.control.controller().bandwidth(), &self.forward, self.packet_bytes());
        if self.rtt.has_sample() {
            let window_packets = self.budget().window_bytes / self.packet_bytes();
            // Beside TCP's timer ACKs are TCP's, which open the window, and no more than is known to be
            // needed.
            let way_back =
                if self.silence.gives_up() { self.way_back.channel() } else { self.way_back.at_worst() };
            self.acks.update(window_packets, &self.rtt, &way_back, &mut self.back_rate);
        }
        self.sent.forget_front(feedback.now, self.rtt.conservative() * 3);
        let view = self.view();
        (feedback, view)
    }

    /// These findings are of no further interest: nobody is told.
    pub fn drop_findings(&mut self, findings: Findings<T>) {
        self.scratch = findings.fates;
    }

    /// A round trip was measured during the handshake.
    pub fn on_handshake_rtt(&mut self, now: Instant, rtt: Duration) {
        self.on_rtt(now, rtt, Duration::ZERO);
        let view = self.view();
        self.control.tell(now, |controller| controller.on_handshake_rtt(&view));
    }

    pub(super) fn findings(&mut self, now: Instant) -> Findings<T> {
        let mut feedback = Feedback::at(now);
        feedback.in_flight_bytes_before = self.sent.in_flight_bytes();
        feedback.round = self.sampler.round();
        let mut fates = std::mem::take(&mut self.scratch);
        fates.clear();
        Findings { fates, is_newest: false, has_news: false, rest: None, feedback }
    }

    /// Takes every packet up to `upto` that `ack` acknowledges for the first time, as far as one pass goes,
    /// and returns the newest.
    fn take_acked(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        upto: PacketNumber,
        findings: &mut Findings<T>,
    ) -> Option<Acked<T>> {
        let mut newest: Option<Acked<T>> = None;
        let (mut ect_packets, mut newest_ect, mut slots) = (0, None, FATES_MAX);
        let mut sent = std::mem::take(&mut self.sent);
        // Ranges descend, packets within one ascend.
        for (low, high) in ack.ranges().skip_while(|(low, _)| *low > upto) {
            let rest = sent.on_ack_range(low, high.min(upto), &mut slots, |acked| {
                if newest.is_none_or(|newest| acked.number > newest.number) {
                    newest = Some(acked);
                }
                if acked.packet.is_ect {
                    ect_packets += 1;
                    newest_ect = newest_ect.max(Some(acked.number));
                }
                self.apply_acked(now, ack.largest, &acked, findings);
            });
            if rest.is_some() {
                findings.rest = rest;
                break;
            }
        }
        self.sent = sent;
        if findings.is_newest && newest.is_some() {
            let marked = self.ecn.on_ack(ect_packets, newest_ect, ack.ecn);
            findings.feedback.ecn_ce_packets = u32::try_from(marked).unwrap_or(u32::MAX);
            self.stats.ecn_ce_packets += marked;
        }
        newest
    }

    fn apply_acked(
        &mut self,
        now: Instant,
        largest: PacketNumber,
        acked: &Acked<T>,
        findings: &mut Findings<T>,
    ) {
        let (bytes, feedback) = (u64::from(acked.packet.bytes), &mut findings.feedback);
        if acked.was_lost {
            feedback.spurious_packets += 1;
            self.stats.spurious_packets += 1;
            self.detector.on_spurious(acked.number, largest, self.sampler.round());
        } else {
            feedback.acked_bytes += bytes;
            feedback.acked_packets += 1;
        }
        self.sampler.on_delivered(now, bytes);
        if self.mtu.on_acked(acked.number, acked.packet.bytes) {
            self.stats.mtu_probes_passed += 1;
        }
        if let Cargo::Given(cargo) = acked.packet.cargo {
            let fate = if acked.was_lost { Fate::Returned(cargo) } else { Fate::Arrived(cargo) };
            findings.fates.push(fate);
        }
    }

    /// The samples that the newest packet of an ACK completes: round trip and delivery rate.
    fn on_newest_acked(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        newest: &Acked<T>,
        findings: &mut Findings<T>,
    ) {
        let feedback = &mut findings.feedback;
        feedback.newest_acked_sent_at = Some(newest.packet.sent_at);
        feedback.newest_acked_bytes = newest.packet.bytes;
        feedback.newest_acked_ordinal = newest.packet.ordinal;
        // RFC 9002 5.1: a sample only from the largest packet, and only when newly acknowledged.
        if findings.is_newest && newest.number == ack.largest && !newest.was_lost {
            let rtt = now - newest.packet.sent_at;
            // RFC 9002 5.3: no more than the delay that was agreed.
            let delay = Duration::from_micros(ack.delay_us).min(self.acks.delay_max());
            (feedback.rtt, feedback.ack_delay) = (Some(rtt), delay);
            self.on_rtt(now, rtt, delay);
        }
        feedback.rate_sample = self.sampler.sample(&newest.packet.stamp, newest.packet.sent_at);
        feedback.round = self.sampler.round();
        self.detector.on_round(feedback.round);
    }

    fn on_rtt(&mut self, now: Instant, latest: Duration, ack_delay: Duration) {
        self.rtt.on_sample(now, latest, ack_delay);
        self.silence.on_rtt(&self.rtt);
    }

    /// Finds losses by packets and by time, and sets the time of the next look.
    pub(super) fn detect_losses(&mut self, now: Instant, findings: &mut Findings<T>) {
        let rtt = self.rtt.conservative();
        let due_at = loop {
            if findings.fates.len() >= FATES_MAX {
                break Some(now);
            }
            match self.detector.poll(now, rtt, &mut self.sent) {
                Ok(lost) => self.apply_lost(&lost, findings),
                Err(next) => break next,
            }
        };
        self.detector.look_again(due_at);
    }

    /// Every packet under way counts as having left. The estimator hears of it, for it will hear of those
    /// that arrive after all: it would take back what it never counted.
    pub(super) fn lose_all(&mut self, findings: &mut Findings<T>) {
        while let Some(lost) = self.sent.declare_oldest_lost() {
            self.apply_lost(&lost, findings);
        }
        self.forward.on_feedback(&findings.feedback);
        self.detector.look_again(None);
    }

    fn apply_lost(&mut self, lost: &Lost<T>, findings: &mut Findings<T>) {
        let bytes = lost.packet.bytes;
        if lost.packet.is_ect {
            self.ecn.on_lost(lost.number);
        }
        let Cargo::Given(cargo) = lost.packet.cargo else {
            self.mtu.on_probe_lost(lost.number, self.forward.view().rate);
            return;
        };
        self.stats.lost_packets += 1;
        if let Some(log) = &mut self.lost {
            log.push((lost.number, bytes));
        }
        if lost.number >= self.recovery_below {
            self.stats.recoveries += u64::from(self.control.controller().recoveries().is_none());
            self.recovery_below = self.sent.next_number();
        }
        let event = &mut findings.feedback.lost;
        event.bytes += u64::from(bytes);
        event.packets += 1;
        event.bursts += u32::from(self.forward.on_lost(lost.packet.ordinal));
        event.newest_sent_at = Some(lost.packet.sent_at);
        self.sampler.on_lost(u64::from(bytes));
        if self.mtu.on_lost(lost.number, lost.packet.sent_at, bytes, self.rtt.smoothed()) {
            self.stats.black_holes += 1;
        }
        findings.fates.push(Fate::Lost(cargo));
    }
}
