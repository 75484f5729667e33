//! What it means that nothing is heard, and what is to be done about it.
//!
//! After a while without an ACK probes are to leave (RFC 9002 6.2), or everything under way counts as lost
//! (RFC 6298). How long that while is, how often it has passed, how many probes are owed for it and what they
//! carry is kept here; [`super::timers`] acts on it.

use std::time::Duration;

use fulmar_control::{Channel, RttEstimator};

use super::Timeout;
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

/// What a probe carries besides a PING.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ProbeCargo {
    /// What would leave next, if anything would (RFC 9002 6.2.4): if only ACKs were lost nothing goes twice.
    /// Else as [`Self::Full`].
    Next,
    /// What fits a packet of the size that the path carried last.
    Full,
    /// What fits a packet that every path carries: large ones may be what it no longer does.
    Base,
    /// Nothing.
    Nothing,
}

/// The silence on one path, if there is one, and the timeout that says when there is.
#[derive(Debug)]
pub(super) struct Silence {
    timeout: Timeout,
    /// [`Self::timeout_after`] without ACK delay or doubling. Asked for far more often than the RTT changes.
    base: Duration,
    /// When the first packet left of those after the last ACK that told something.
    since: Option<Instant>,
    /// From when the next timeout counts: a packet left that elicits an ACK, or the last timeout expired.
    counts_from: Instant,
    /// Timeouts that expired since that ACK.
    expiries: u32,
    /// So many they would have been if none had been doubled.
    single: u32,
    /// Those that count for doubling: the ones that no burst explains.
    doublings: u32,
    /// Probes earned since that ACK.
    probes: u32,
    owed: Owed,
}

/// Probes that a timeout has earned and that have not left yet.
#[derive(Copy, Clone, Debug, Default)]
struct Owed {
    probes: u32,
    /// So many of them, the last ones, are a PING.
    bare: u32,
    /// When the next of them may leave, if it has to wait.
    next_at: Option<Instant>,
}

impl Silence {
    pub(super) fn new(now: Instant, timeout: Timeout, rtt: &RttEstimator) -> Self {
        Self {
            timeout,
            base: timeout.base(rtt),
            since: None,
            counts_from: now,
            expiries: 0,
            single: 0,
            doublings: 0,
            probes: 0,
            owed: Owed::default(),
        }
    }

    /// Another timeout from now on.
    pub(super) fn adopt(&mut self, timeout: Timeout, rtt: &RttEstimator) {
        self.timeout = timeout;
        self.on_rtt(rtt);
    }

    /// The round trip is another.
    pub(super) fn on_rtt(&mut self, rtt: &RttEstimator) {
        self.base = self.timeout.base(rtt);
    }

    /// The timeout without ACK delay or doubling.
    pub(super) fn base(&self) -> Duration {
        self.base
    }

    /// It is that until a round trip is measured.
    pub(super) fn keep_base(&mut self, base: Duration) {
        self.base = base;
    }

    /// Everything under way counts as lost when the timeout expires (RFC 6298).
    pub(super) fn gives_up(&self) -> bool {
        matches!(self.timeout, Timeout::Retransmission { .. })
    }

    /// How long after a packet without an ACK something is done about it, `expiries` times in a row.
    pub(super) fn timeout_after(&self, ack_delay: Duration, expiries: u32) -> Duration {
        self.timeout.doubled(self.base + ack_delay, expiries)
    }

    /// A packet left that elicits an ACK.
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.counts_from = now;
    }

    /// An ACK told something; `was_lost`: of a packet that had been declared lost.
    pub(super) fn on_heard(&mut self, was_lost: bool) {
        (self.since, self.expiries, self.single, self.owed) = (None, 0, 0, Owed::default());
        // RFC 6298 5.7: a timeout that was too short stays doubled until a packet is acknowledged within it.
        if !(was_lost && self.gives_up()) {
            (self.doublings, self.probes) = (0, 0);
        }
    }

    /// Since when nothing was heard, while something is under way.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// From when the next timeout counts.
    pub(super) fn counts_from(&self) -> Instant {
        self.counts_from
    }

    /// Timeouts that expired since the last ACK that told something.
    pub(super) fn expiries(&self) -> u32 {
        self.expiries
    }

    /// Timeouts that would have expired since then, if none had been doubled: how long it is in vain, not how
    /// seldom it was tried.
    pub(super) fn single_expiries(&self) -> u32 {
        self.single
    }

    /// How often the timeout is doubled.
    pub(super) fn doublings(&self) -> u32 {
        self.doublings
    }

    /// When the next timeout expires, where an answer is awaited; not before the probes of the last one have
    /// left.
    pub(super) fn expires_at(&self, ack_delay: Duration) -> Option<Instant> {
        if self.owed.probes > 0 {
            return None;
        }
        let timeout = self.timeout_after(ack_delay, self.doublings);
        Some(self.counts_from + timeout.mul_f64(1.0 + self.unevenness()))
    }

    /// By how much of itself a timeout is longer, an eighth at most; another after each: at an even pace
    /// probes would meet every burst of something periodic.
    fn unevenness(&self) -> f64 {
        /// Multiples of the golden ratio, taken modulo 1, fill the interval most evenly.
        const GOLDEN: f64 = 0.618_033_988_75;
        if self.gives_up() {
            return 0.0;
        }
        ((0.5 + f64::from(self.expiries) * GOLDEN).fract() - 0.5) / 4.0
    }

    /// A timeout expired. `is_awaiting`: data wait for the answer. `forward` and `back` are the two ways, as
    /// a packet meets them of which those before it were lost.
    pub(super) fn on_expired(&mut self, now: Instant, is_awaiting: bool, forward: &Channel, back: &Channel) {
        self.expiries += 1;
        self.single = self.single.saturating_add(1 << self.doublings.min(8));
        self.owed.probes = match (self.gives_up(), is_awaiting) {
            (true, _) => 1,
            (false, true) => self.probes_to_outlive(forward, back),
            // No data waits for the answer: seldom, but one more each time, so that a burst is outlived.
            (false, false) => self.expiries.min(PROBES_MAX),
        };
        if self.gives_up() || !is_awaiting {
            self.doublings += 1;
        }
        self.owed.next_at = None;
        // The next timeout counts from now, whether or not the probe can leave at once.
        self.counts_from = now;
    }

    /// How many probes a timeout sends. RFC 9002 6.2.4 has one or two, each timeout twice as long as the
    /// last. But a burst of losses is counted in packets, and probes meet it one by one as long as it lasts,
    /// theirs or that of the ACKs that answer them. So they are as many as probably outlive it, and timeouts
    /// are not doubled, until more probes are lost than any burst explains, and more than a few: from then on
    /// this is a black-out, and timeouts double up to a bound. Bursts that are known may be short by chance,
    /// though: what it costs few bytes to send goes on counting one off.
    fn probes_to_outlive(&mut self, forward: &Channel, back: &Channel) -> u32 {
        let again = forward.lost_after_lost().max(back.lost_after_lost());
        let is_explained = libm::pow(again, f64::from(self.probes)) > BURST_EXPLAINS;
        if self.probes > 0 && !(is_explained && self.probes < PROBES_EVEN_MAX) {
            self.doublings += u32::from(self.probes >= PROBES_EVEN_MIN);
            self.owed.bare = PROBES_IN_BLACKOUT - 1;
            self.probes += PROBES_IN_BLACKOUT;
            return PROBES_IN_BLACKOUT;
        }
        let probes =
            forward.probes_for(PROBES_LOST, PROBES_MAX).max(back.probes_for(PROBES_LOST, PROBES_MAX));
        self.probes += probes;
        probes
    }

    /// What the next probe carries, if one is owed and may leave now.
    pub(super) fn probe_due(&self, now: Instant) -> Option<ProbeCargo> {
        (self.owed.probes > 0 && self.owed.next_at.is_none_or(|at| at <= now)).then(|| self.probe_cargo())
    }

    fn probe_cargo(&self) -> ProbeCargo {
        if self.owed.probes <= self.owed.bare {
            ProbeCargo::Nothing
        } else if self.expiries > PROBES_FULL_SIZED {
            ProbeCargo::Base
        } else if self.gives_up() {
            ProbeCargo::Full
        } else {
            ProbeCargo::Next
        }
    }

    /// A probe is about to leave. The next one follows `spacing` later.
    pub(super) fn take_probe(&mut self, now: Instant, spacing: Duration) {
        self.owed.probes = self.owed.probes.saturating_sub(1);
        self.owed.next_at = (self.owed.probes > 0).then(|| now + spacing);
    }

    /// When the next probe may leave that has to wait for that.
    pub(super) fn next_probe_at(&self) -> Option<Instant> {
        self.owed.next_at
    }

    /// Time has passed.
    pub(super) fn on_time(&mut self, now: Instant) {
        self.owed.next_at.take_if(|at| *at <= now);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_control::LossView;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Loses a twentieth, in bursts of four.
    fn way() -> Channel {
        Channel::new(&LossView { rate: 0.05, burst_packets: 4.0, weight_packets: 1000.0 })
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS * ms as u32
    }

    /// A packet left at 0 over a round trip of 40 ms.
    fn silence(timeout: Timeout) -> Silence {
        let mut rtt = RttEstimator::new();
        (0..50).for_each(|_| rtt.on_sample(Instant::ZERO, MS * 40, Duration::ZERO));
        let mut silence = Silence::new(Instant::ZERO, timeout, &rtt);
        silence.on_sent(Instant::ZERO);
        silence
    }

    fn expire(silence: &mut Silence, is_awaiting: bool) -> (Instant, u32) {
        let at = silence.expires_at(Duration::ZERO).expect("no probe is owed");
        silence.on_expired(at, is_awaiting, &way(), &way());
        let mut probes = 0;
        while silence.probe_due(at).is_some() {
            silence.take_probe(at, Duration::ZERO);
            probes += 1;
        }
        (at, probes)
    }

    #[test]
    fn timeouts_are_even_while_a_burst_explains_the_silence_and_double_from_then_on() {
        let mut silence = silence(Timeout::Probe);
        let mut gaps = Vec::new();
        let mut before = Instant::ZERO;
        for _ in 0..9 {
            let (at, _) = expire(&mut silence, true);
            gaps.push((at - before).as_millis());
            before = at;
        }
        // 41 ms, an eighth more or less; six probes each, so that thirty are lost with the fifth and the
        // seventh doubles.
        assert!(gaps[..6].iter().all(|gap| (35..=47).contains(gap)), "{gaps:?}");
        assert!(gaps[6] > 70 && gaps[7] > 140 && gaps[8] > 280, "{gaps:?}");
        assert_eq!((silence.expiries(), silence.doublings()), (9, 4));
    }

    #[test]
    fn probes_that_nothing_waits_for_are_one_more_each_time_and_seldom() {
        let mut silence = silence(Timeout::Probe);
        let probes: Vec<u32> = (0..12).map(|_| expire(&mut silence, false).1).collect();
        assert_eq!(probes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]);
        assert_eq!(silence.doublings(), 12);
        // Three timeouts are over with the second one, which was doubled.
        let mut silence = self::silence(Timeout::Probe);
        let single = [(); 3].map(|()| {
            expire(&mut silence, false);
            silence.single_expiries()
        });
        assert_eq!(single, [1, 3, 7]);
    }

    #[test]
    fn probes_leave_at_a_distance_and_no_timeout_expires_before_they_have() {
        let mut silence = silence(Timeout::Probe);
        silence.on_expired(at(100), true, &way(), &way());
        assert_eq!(silence.expires_at(Duration::ZERO), None);
        silence.take_probe(at(100), MS * 3);
        assert_eq!((silence.probe_due(at(102)), silence.next_probe_at()), (None, Some(at(103))));
        assert_eq!(silence.probe_due(at(103)), Some(ProbeCargo::Next));
        silence.on_time(at(103));
        assert_eq!(silence.next_probe_at(), None);
        while silence.probe_due(at(200)).is_some() {
            silence.take_probe(at(200), Duration::ZERO);
        }
        assert!(silence.expires_at(Duration::ZERO).is_some());
    }

    #[test]
    fn what_is_heard_ends_all_of_it_but_rfc_6298s_doubling_after_a_late_ack() {
        for timeout in [Timeout::Probe, Timeout::RFC_6298] {
            for was_lost in [false, true] {
                let mut silence = silence(timeout);
                assert_eq!(silence.since(), Some(Instant::ZERO));
                silence.on_expired(at(2000), false, &way(), &way());
                silence.on_heard(was_lost);
                assert_eq!((silence.since(), silence.expiries()), (None, 0));
                assert_eq!((silence.probe_due(at(9000)), silence.counts_from()), (None, at(2000)));
                let stays = was_lost && silence.gives_up();
                assert_eq!(silence.doublings(), u32::from(stays), "{timeout:?}, {was_lost}");
            }
        }
    }
}
