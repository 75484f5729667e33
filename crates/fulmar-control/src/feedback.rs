//! The one record every algorithm is fed.
//!
//! It was fixed before any algorithm was written, because everything hangs on it: rate-based control needs
//! delivery rate and rounds, LT-TCP needs raw loss beside marks, TCP-FEC needs to know what a code repaired
//! and what it could not, TCP/NC counts degrees of freedom. Units stand in the names.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use crate::LossView;

/// A sample of the delivery rate (draft-ietf-ccwg-bbr, "delivery rate samples"; Cheng et al.,
/// delivery-rate-estimation).
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct RateSample {
    /// Bytes acknowledged over `interval`, divided by it.
    pub rate: Rate,
    /// Bytes acknowledged between the sending of the sampled packet and now.
    pub delivered_bytes: u64,
    /// Bytes found lost between the sending of the sampled packet and now.
    pub lost_bytes: u64,
    /// The longer of the send interval and the ACK interval.
    pub interval: Duration,
    /// The sender had too little data while the sample was taken, so the rate is a lower bound.
    pub is_app_limited: bool,
}

impl RateSample {
    /// A sample of `delivered_bytes` over `interval`.
    pub fn new(delivered_bytes: u64, interval: Duration) -> Self {
        Self {
            rate: Rate::from_bytes_in(delivered_bytes, interval).unwrap_or(Rate::ZERO),
            delivered_bytes,
            lost_bytes: 0,
            interval,
            is_app_limited: false,
        }
    }
}

/// What the loss detector found since the last record.
///
/// A *burst* is a maximal run of packets lost one after another, in the order of packet numbers and over the
/// whole connection: only packets known to have arrived divide runs. Whoever detects losses counts a run
/// once, when its first packet is declared lost; the rest of it may follow in later records, which then tell
/// of more packets and of no burst.
#[derive(Copy, Clone, Debug, Default)]
#[non_exhaustive]
pub struct LossEvent {
    /// Bytes declared lost.
    pub bytes: u64,
    /// Packets declared lost.
    pub packets: u32,
    /// Bursts that begin with one of them, at most `packets`: sums of `packets` and `bursts` give the mean
    /// length.
    pub bursts: u32,
    /// When the last of them was sent: a loss of something sent before the last reduction is the same
    /// congestion event.
    pub newest_sent_at: Option<Instant>,
}

/// What coding made of the packets that arrived or were lost, and of what the receiver says it has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodingNews {
    /// Symbols whose packet was lost and that were since decoded from repair.
    pub repaired_packets: u32,
    /// When the newest of those was first sent, where that is known: repair may come rounds later.
    pub repaired_sent_at: Option<Instant>,
    /// Symbols whose proactive repair did not suffice, so that repair had to be asked for: found since the
    /// last feedback.
    pub unrepairable_packets: u32,
    /// When the newest of those symbols was first sent, where that is known: the verdict may come rounds
    /// later, and belongs to the congestion event of then.
    pub unrepairable_sent_at: Option<Instant>,
    /// Packets newly acknowledged that added a degree of freedom at the receiver.
    pub dof_delivered: u32,
    /// Packets newly acknowledged that carried symbols and added none.
    pub dof_redundant: u32,
    /// Packets newly acknowledged that carried symbols and did not move the first symbol not seen, which is
    /// what TCP/NC's receiver acknowledges: those it answers with a duplicate ACK.
    pub duplicate_acks: u32,
}

impl CodingNews {
    /// Packets newly acknowledged that carried symbols.
    fn carriers(&self) -> u32 {
        self.dof_delivered.saturating_add(self.dof_redundant)
    }
}

/// What one ACK (or one expiry of the loss timer) taught the sender.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Feedback {
    /// When it was learned.
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Packets newly acknowledged.
    pub acked_packets: u32,
    /// When the newest of the packets newly acknowledged was sent.
    pub newest_acked_sent_at: Option<Instant>,
    /// Its size.
    pub newest_acked_bytes: u32,
    /// How many packets that want an answer had been sent before it, modulo 2^32: with it, what was lost
    /// between two ACKs counts although it is not found yet.
    pub newest_acked_ordinal: u32,
    /// RTT of the newest packet newly acknowledged, ACK delay not yet taken out; `None` if this ACK gives no
    /// sample.
    pub rtt: Option<Duration>,
    /// How long the peer says it held that answer back, no more than was agreed; what of `rtt` is no path.
    pub ack_delay: Duration,
    /// Packets newly declared lost on the wire, whether or not a code repairs them.
    pub lost: LossEvent,
    /// Packets once declared lost that arrived after all.
    pub spurious_packets: u32,
    /// Packets newly reported with an ECN congestion mark.
    pub ecn_ce_packets: u32,
    /// What coding made of it.
    pub coding: CodingNews,
    /// Delivery rate, when this ACK completes a sample.
    pub rate_sample: Option<RateSample>,
    /// Packet-timed round trips completed since the connection began.
    pub round: u64,
    /// Bytes in flight before this feedback was applied.
    pub in_flight_bytes_before: u64,
    /// The sender was held back by the congestion window or the pacer, not by lack of data, since the last
    /// feedback.
    pub is_window_limited: bool,
}

impl Feedback {
    /// When the newest of the symbols was sent that a code could not repair. Where nobody knows, the newest
    /// packet found lost stands for it, or the newest acknowledged.
    pub(crate) fn unrepairable_dated(&self) -> Option<Instant> {
        self.coding.unrepairable_sent_at.or(self.lost.newest_sent_at).or(self.newest_acked_sent_at)
    }

    /// When the newest of the symbols was sent that were repaired; where nobody knows, the newest packet
    /// acknowledged stands for it.
    pub(crate) fn repaired_dated(&self) -> Option<Instant> {
        self.coding.repaired_sent_at.or(self.newest_acked_sent_at)
    }

    /// Some packet moved the first symbol not seen: TCP/NC's receiver acknowledges anew.
    pub fn advances_seen(&self) -> bool {
        self.coding.carriers() > self.coding.duplicate_acks
    }

    /// An empty record at `now`; tests and drivers fill the fields they mean.
    pub fn at(now: Instant) -> Self {
        Self { now, ..Self::default() }
    }

    /// Panics in debug builds if the record contradicts itself. Whoever makes records calls it before anybody
    /// is told.
    pub fn check(&self) {
        debug_assert_eq!(self.contradiction(), None, "{self:?}");
    }

    /// What in the record cannot be true together with the rest.
    fn contradiction(&self) -> Option<&'static str> {
        let lost = &self.lost;
        // Those that had been declared lost are reported as well when they arrive after all.
        let arrived_packets = self.acked_packets.saturating_add(self.spurious_packets);
        let is_later = |at: Option<Instant>| at.is_some_and(|at| at > self.now);
        let rules = [
            (
                !is_size_of(self.acked_bytes, self.acked_packets),
                "bytes acknowledged in no packet, or none in some",
            ),
            (!is_size_of(lost.bytes, lost.packets), "bytes lost in no packet, or none in some"),
            (lost.bursts > lost.packets, "more bursts than lost packets"),
            (
                lost.newest_sent_at.is_some() != (lost.packets > 0),
                "losses without the time of sending, or the reverse",
            ),
            (
                self.newest_acked_sent_at.is_some() != (arrived_packets > 0),
                "packets acknowledged without the time of sending, or the reverse",
            ),
            (self.rtt.is_some() && self.acked_packets == 0, "an RTT of no packet"),
            (self.coding.carriers() > arrived_packets, "more degrees of freedom than packets"),
            (
                self.acked_bytes.saturating_add(lost.bytes) > self.in_flight_bytes_before,
                "more left the path than was on it",
            ),
            (self.rate_sample.is_some_and(|sample| sample.interval.is_zero()), "a rate over no time"),
            (
                is_later(self.newest_acked_sent_at)
                    || is_later(lost.newest_sent_at)
                    || is_later(self.coding.repaired_sent_at)
                    || is_later(self.coding.unrepairable_sent_at),
                "sent after it was settled",
            ),
        ];
        rules.into_iter().find_map(|(is_broken, rule)| is_broken.then_some(rule))
    }
}

/// Can so many packets have so many bytes? A packet has at least one.
fn is_size_of(bytes: u64, packets: u32) -> bool {
    bytes >= u64::from(packets) && (packets > 0 || bytes == 0)
}

/// What every algorithm may know about the path at the moment it is asked.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct PathView {
    /// Largest UDP payload the path is known to carry.
    pub mtu_bytes: u32,
    /// Smoothed RTT (RFC 9002 5.3).
    pub rtt_smoothed: Duration,
    /// RTT variation (RFC 9002 5.3).
    pub rtt_var: Duration,
    /// Smallest RTT seen on this path.
    pub rtt_min: Duration,
    /// Latest RTT sample.
    pub rtt_latest: Duration,
    /// There has been at least one RTT sample: before it the four fields above are RFC 9002's initial guess.
    pub has_rtt_sample: bool,
    /// Bytes sent that are neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Bytes the congestion controller allows in flight.
    pub window_bytes: u64,
    /// What the connection's loss estimator says.
    pub loss: LossView,
}

impl PathView {
    /// A path of which nothing is known but its MTU (in bytes of UDP payload).
    pub fn unknown(mtu_bytes: u32) -> Self {
        // RFC 9002 6.2.2: kInitialRtt.
        let initial = Duration::from_millis(333);
        Self {
            mtu_bytes,
            rtt_smoothed: initial,
            rtt_var: initial / 2,
            rtt_min: initial,
            rtt_latest: initial,
            has_rtt_sample: false,
            in_flight_bytes: 0,
            // RFC 9002 7.2.
            window_bytes: 10 * u64::from(mtu_bytes),
            loss: LossView::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Feedback {
        let now = Instant::from_nanos(1_000_000);
        let mut feedback = Feedback::at(now);
        (feedback.acked_packets, feedback.acked_bytes) = (3, 3600);
        (feedback.newest_acked_sent_at, feedback.rtt) = (Some(Instant::ZERO), Some(now - Instant::ZERO));
        feedback.lost = LossEvent { bytes: 2400, packets: 2, bursts: 0, newest_sent_at: Some(Instant::ZERO) };
        feedback.in_flight_bytes_before = 6000;
        feedback.coding.dof_delivered = 3;
        feedback
    }

    #[test]
    fn a_sound_record_passes_and_an_empty_one_too() {
        assert_eq!(sound().contradiction(), None);
        assert_eq!(Feedback::at(Instant::ZERO).contradiction(), None);
        sound().check();
    }

    #[test]
    fn every_rule_is_kept() {
        type Break = fn(&mut Feedback);
        let broken: [(&str, Break); 10] = [
            ("bytes acknowledged", |f| f.acked_bytes = 2),
            ("bytes lost", |f| f.lost.bytes = 0),
            ("more bursts", |f| f.lost.bursts = 3),
            ("losses without", |f| f.lost.newest_sent_at = None),
            ("packets acknowledged without", |f| f.newest_acked_sent_at = None),
            ("an RTT", |f| (f.acked_packets, f.acked_bytes, f.spurious_packets) = (0, 0, 3)),
            ("more degrees", |f| f.coding.dof_redundant = 1),
            ("more left", |f| f.in_flight_bytes_before = 5999),
            ("a rate", |f| f.rate_sample = Some(RateSample::new(1, Duration::ZERO))),
            ("sent after", |f| f.lost.newest_sent_at = Some(Instant::from_nanos(1_000_001))),
        ];
        for (rule, break_it) in broken {
            let mut feedback = sound();
            break_it(&mut feedback);
            let found = feedback.contradiction();
            assert!(found.is_some_and(|found| found.starts_with(rule)), "{rule}: {found:?}");
        }
    }
}
