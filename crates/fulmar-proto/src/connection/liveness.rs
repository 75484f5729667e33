//! Whether the peer is still there: idle timeout, keep-alive, and the deadline of the handshake (RFC 9000
//! 10.1).

use std::time::Duration;

use crate::Instant;

/// When the peer was last heard of, and how long silence may last.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Silence after which the connection is given up: the smaller of both ends' values.
    idle_timeout: Option<Duration>,
    /// Silence for so long is not answered by the peer: it is given up.
    answer_timeout: Option<Duration>,
    keep_alive: Option<Box<KeepAlive>>,
    handshake_deadline: Option<Instant>,
    last_activity_at: Instant,
    /// When something of the application's came or left.
    used_at: Instant,
    last_heard_or_pinged_at: Instant,
    has_sent_since_heard: bool,
}

impl Liveness {
    pub(super) fn new(
        now: Instant,
        handshake_timeout: Duration,
        answer_timeout: Option<Duration>,
        keep_alive: Option<KeepAlive>,
    ) -> Self {
        Self {
            idle_timeout: None,
            answer_timeout,
            keep_alive: keep_alive.map(Box::new),
            handshake_deadline: Some(now + handshake_timeout),
            last_activity_at: now,
            used_at: now,
            last_heard_or_pinged_at: now,
            has_sent_since_heard: false,
        }
    }

    /// What both ends said they allow.
    pub(super) fn agree(&mut self, own: Option<Duration>, peers: Duration) {
        self.idle_timeout = [own, Some(peers).filter(|t| !t.is_zero())].into_iter().flatten().min();
    }

    pub(super) fn on_handshake_complete(&mut self) {
        self.handshake_deadline = None;
    }

    /// A packet of the peer was processed.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.last_activity_at = now;
        self.last_heard_or_pinged_at = now;
        self.has_sent_since_heard = false;
    }

    /// A packet left that elicits an ACK. The first after hearing from the peer restarts the idle timer (RFC
    /// 9000 10.1).
    pub(super) fn on_eliciting_sent(&mut self, now: Instant) {
        if !self.has_sent_since_heard {
            self.has_sent_since_heard = true;
            self.last_activity_at = now;
        }
    }

    /// The local address is another: silence so far proves nothing.
    pub(super) fn on_path_change(&mut self, now: Instant) {
        self.last_activity_at = now;
    }

    /// When the peer is given up that has not answered what left at `unanswered_since`. Not before three
    /// probe timeouts (RFC 9000 10.1).
    pub(super) fn dead_at(
        &self,
        probe_timeout: Duration,
        unanswered_since: Option<Instant>,
    ) -> Option<Instant> {
        let after = |timeout: Duration| timeout.max(probe_timeout * 3);
        // Where silences grow with the time in which nothing was to be said, a short one tells more than a
        // long.
        let longest = |timeout: Duration| match self.answer_timeout {
            Some(answer) => timeout.min(answer + unused(self.used_at, self.last_activity_at) / UNUSED_PARTS),
            None => timeout,
        };
        let idle_at = self.idle_timeout.map(|timeout| self.last_activity_at + after(longest(timeout)));
        let since = unanswered_since.map(|since| since.max(self.last_activity_at));
        let unanswered_at = since.zip(self.answer_timeout).map(|(since, timeout)| since + after(timeout));
        [idle_at, unanswered_at, self.handshake_deadline].into_iter().flatten().min()
    }

    /// Something of the application's came or left.
    pub(super) fn on_used(&mut self, now: Instant) {
        self.used_at = now;
    }

    /// The peer asks whether this end is where its packets come from: they come from somewhere else than
    /// before.
    pub(super) fn on_challenged(&mut self) {
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.on_challenged();
        }
    }

    /// When something is sent to keep the connection, once it is established.
    pub(super) fn keep_alive_at(&self) -> Option<Instant> {
        let keep_alive = self.keep_alive.as_ref().filter(|_| self.handshake_deadline.is_none())?;
        Some(
            self.last_heard_or_pinged_at
                + keep_alive.period(unused(self.used_at, self.last_heard_or_pinged_at)),
        )
    }

    /// The keep-alive is on its way.
    pub(super) fn on_keep_alive(&mut self, now: Instant) {
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.on_sent(now - self.last_heard_or_pinged_at);
        }
        self.last_heard_or_pinged_at = now;
    }
}

/// A silence lasts for so large a part of the time in which nothing of the application's has moved: who has
/// just talked may miss an answer soon.
const UNUSED_PARTS: u32 = 3;

/// For how long nothing of the application's had moved.
fn unused(used_at: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(used_at)
}

/// A NAT that has remembered a silence is tried with one that is so much longer.
const TRIAL_PERCENT: u32 = 150;

/// How long a silence may last on this end's side.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// While the connection is in use.
    min: Duration,
    /// What every NAT is believed to remember, and more once this one has shown that it does.
    known: Duration,
    /// The longest that is tried.
    max: Duration,
    /// The silence before the last keep-alive, if it was longer than what is known.
    trial: Option<Duration>,
    /// A longer silence was forgotten.
    is_settled: bool,
}

impl KeepAlive {
    pub(super) fn new(min: Duration, known: Duration, max: Duration) -> Self {
        let known = known.max(min);
        Self { min, known, max: max.max(known), trial: None, is_settled: false }
    }

    /// After what silence one leaves that begins when nothing has been said for so long.
    fn period(&self, unused: Duration) -> Duration {
        let longest = if self.is_settled { self.known } else { self.longer() };
        self.min.max((unused / UNUSED_PARTS).min(longest))
    }

    /// The next silence to try, once what is known has been kept before.
    fn longer(&self) -> Duration {
        if self.trial.is_some() { (self.known * TRIAL_PERCENT / 100).min(self.max) } else { self.known }
    }

    /// One left after such a silence; the one before has been answered, by now.
    fn on_sent(&mut self, silence: Duration) {
        if let Some(trial) = self.trial.filter(|_| !self.is_settled) {
            self.known = self.known.max(trial.min(self.max));
        }
        self.trial = Some(silence).filter(|silence| *silence >= self.known);
    }

    /// The silence before the last one was forgotten. After an hour's sleep that tells nothing.
    fn on_challenged(&mut self) {
        let trial = self.trial.take();
        self.is_settled |= trial.is_some_and(|trial| trial > self.known && trial <= self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_smaller_idle_timeout_holds_but_never_less_than_three_probe_timeouts() {
        let now = Instant::ZERO;
        let mut liveness = Liveness::new(now, SECOND * 60, None, None);
        assert_eq!(liveness.dead_at(SECOND, None), Some(now + SECOND * 60));
        liveness.on_handshake_complete();
        assert_eq!(liveness.dead_at(SECOND, None), None);
        liveness.agree(Some(SECOND * 30), SECOND * 10);
        assert_eq!(liveness.dead_at(SECOND, None), Some(now + SECOND * 10));
        assert_eq!(liveness.dead_at(SECOND * 5, None), Some(now + SECOND * 15));
        liveness.agree(Some(SECOND * 30), Duration::ZERO);
        assert_eq!(liveness.dead_at(SECOND, None), Some(now + SECOND * 30), "zero is none");
    }

    #[test]
    fn rfc_9000_10_1_only_the_first_packet_after_hearing_restarts_the_timer() {
        let at = |seconds: u32| Instant::ZERO + SECOND * seconds;
        let mut liveness =
            Liveness::new(at(0), SECOND * 60, None, Some(KeepAlive::new(SECOND * 4, SECOND * 4, SECOND * 4)));
        liveness.on_handshake_complete();
        liveness.agree(Some(SECOND * 10), Duration::ZERO);
        liveness.on_eliciting_sent(at(1));
        liveness.on_eliciting_sent(at(2));
        assert_eq!(liveness.dead_at(SECOND, None), Some(at(11)));
        liveness.on_heard(at(3));
        liveness.on_eliciting_sent(at(5));
        assert_eq!(liveness.dead_at(SECOND, None), Some(at(15)));
        assert_eq!(liveness.keep_alive_at(), Some(at(7)));
    }

    #[test]
    fn what_is_not_answered_is_given_up_before_silence_in_which_nothing_was_asked() {
        let at = |seconds: u32| Instant::ZERO + SECOND * seconds;
        let mut liveness = Liveness::new(at(0), SECOND * 60, Some(SECOND * 30), None);
        liveness.on_handshake_complete();
        liveness.agree(Some(SECOND * 180), Duration::ZERO);
        assert_eq!(liveness.dead_at(SECOND, None), Some(at(30)), "it was in use, so a sign of life is due");
        liveness.on_heard(at(90));
        assert_eq!(liveness.dead_at(SECOND, None), Some(at(90 + 30 + 30)), "its silences grow");
        liveness.on_heard(at(900));
        assert_eq!(liveness.dead_at(SECOND, None), Some(at(900 + 180)));
        assert_eq!(liveness.dead_at(SECOND, Some(at(1000))), Some(at(1030)));
        assert_eq!(liveness.dead_at(SECOND * 20, Some(at(1000))), Some(at(1060)));
        liveness.on_path_change(at(1020));
        assert_eq!(liveness.dead_at(SECOND, Some(at(1000))), Some(at(1050)), "silence on another path");
    }

    /// Silences, until they are settled, of a NAT that forgets after so many seconds.
    fn silences(remembers_s: u64) -> Vec<u64> {
        let mut keep_alive = KeepAlive::new(SECOND * 5, SECOND * 25, SECOND * 90);
        let mut now = Instant::ZERO;
        let mut all = Vec::new();
        for _ in 0..40 {
            let silence = keep_alive.period(now - Instant::ZERO);
            now += silence;
            keep_alive.on_sent(silence);
            if silence > Duration::from_secs(remembers_s) {
                keep_alive.on_challenged();
            }
            all.push(silence.as_secs());
        }
        all
    }

    #[test]
    fn silences_grow_as_far_as_the_nat_remembers() {
        for (remembers_s, last) in [(30, 25..=25), (60, 40..=60), (600, 90..=90)] {
            let of = silences(remembers_s);
            assert_eq!(of[..4], [5, 5, 5, 5]);
            assert!(of.iter().filter(|silence| **silence > remembers_s).count() <= 1, "tried once: {of:?}");
            assert!(last.contains(&of[39]), "{remembers_s}: {of:?}");
        }
    }
}
