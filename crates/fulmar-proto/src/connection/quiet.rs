//! What a client does about silence: it asks for a sign of life where packets came steadily and come no more,
//! and wants another port where nothing that it sends is answered. A NAT that has forgotten it, or a firewall
//! that has closed its port, lets nothing through until it does one or the other; a server can do neither.

use std::time::Duration;

use crate::Instant;

/// So many packets that elicit an ACK must have come since it asked last: what comes now and then, as what
/// keeps a connection alive, is not worth a question each time.
const UNASKED_PACKETS: u32 = 8;
/// Packets come steadily if each came before the patience with the one before was over, for so many times
/// that long.
const STEADY_PATIENCES: u32 = 4;
/// That patience is so many round trips, or of the mean gaps between packets, at least as long as people
/// would not notice, and at most half of what they may call a standstill, which it is where packets do not
/// come steadily.
const PATIENCE_ROUNDS: u32 = 2;
const PATIENCE_GAPS: u32 = 4;
const PATIENCE_MIN: Duration = Duration::from_millis(100);
const PATIENCE_MAX: Duration = Duration::from_millis(1500);

/// Another port is wanted after so many probe timeouts in vain ..
pub(super) const TIMEOUTS_IN_VAIN: u32 = 3;
/// .. and so long a silence, as long as so many probe timeouts at least; then each time after twice as long.
const SILENCE_MIN: Duration = Duration::from_secs(1);
const SILENCE_TIMEOUTS: u32 = 3;
/// It is doubled so often at most: then there is a port in four minutes.
const DOUBLINGS_MAX: u32 = 8;

/// How long nothing was heard, and what was done about it.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    heard_at: Option<Instant>,
    /// Since when packets come steadily.
    steady_since: Option<Instant>,
    unasked_packets: u32,
    patience: Duration,
    /// The mean gap between the last packets, each no longer than the patience can be.
    gap: Duration,
    /// The silence that ports were wanted in, by its beginning.
    silent_since: Option<Instant>,
    ports: u32,
}

impl Quiet {
    /// A packet came.
    pub(super) fn on_heard(&mut self, now: Instant, rtt: Duration, is_ack_eliciting: bool) {
        if self.heard_at.is_none_or(|at| now - at > self.patience) {
            self.steady_since = Some(now);
        }
        if let Some(at) = self.heard_at {
            self.gap = self.gap * 7 / 8 + (now - at).min(PATIENCE_MAX) / 8;
        }
        let rhythm = (self.gap * PATIENCE_GAPS).min(PATIENCE_MAX);
        self.patience = PATIENCE_MIN.max(rtt * PATIENCE_ROUNDS).max(rhythm);
        self.heard_at = Some(now);
        self.unasked_packets = self.unasked_packets.saturating_add(u32::from(is_ack_eliciting));
    }

    /// When to ask for a sign of life.
    pub(super) fn asks_at(&self) -> Option<Instant> {
        let (heard_at, since) = (self.heard_at?, self.steady_since?);
        let is_steady = heard_at - since >= self.patience * STEADY_PATIENCES;
        let patience = if is_steady { self.patience } else { self.patience.max(PATIENCE_MAX) };
        (self.unasked_packets >= UNASKED_PACKETS).then(|| heard_at + patience)
    }

    /// That time has come, and it is asked; once for a silence.
    pub(super) fn on_asked(&mut self) {
        self.unasked_packets = 0;
    }

    /// When another port is wanted, in a silence that has lasted since `since` and for [`TIMEOUTS_IN_VAIN`].
    pub(super) fn wants_port_at(&self, since: Option<Instant>, probe_timeout: Duration) -> Option<Instant> {
        let since = since?;
        let ports = if self.silent_since == Some(since) { self.ports } else { 0 };
        let first = SILENCE_MIN.max(probe_timeout * SILENCE_TIMEOUTS);
        let doubled = (2 << ports.min(DOUBLINGS_MAX)) - 1;
        let at_most_doubled = ports.saturating_sub(DOUBLINGS_MAX).saturating_mul(1 << DOUBLINGS_MAX);
        Some(since + first.saturating_mul(at_most_doubled.saturating_add(doubled)))
    }

    /// That time has come.
    pub(super) fn on_port_wanted(&mut self, since: Option<Instant>) {
        if self.silent_since != since {
            (self.silent_since, self.ports) = (since, 0);
        }
        self.ports = self.ports.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_came_is_missed_by_its_rhythm_and_once() {
        // Every so many milliseconds, a hundred times; after how long it is missed.
        for (gap, missed_after) in [(0, 1500..=1500), (10, 100..=100), (200, 780..=820), (3000, 1500..=1500)]
        {
            let mut quiet = Quiet::default();
            (0..100).for_each(|n| quiet.on_heard(at(gap * n), RTT, true));
            let asks_after = quiet.asks_at().expect("much has come") - at(gap * 99);
            assert!(missed_after.contains(&asks_after.as_millis()), "{asks_after:?} after gaps of {gap} ms");
            quiet.on_asked();
            // The answer, and a packet now and then, are not missed.
            (0..100).for_each(|n| quiet.on_heard(at(400_000 + 5000 * n), RTT, false));
            assert_eq!(quiet.asks_at(), None);
            (0..7).for_each(|n| quiet.on_heard(at(1_000_000 + 5000 * n), RTT, true));
            assert_eq!(quiet.asks_at(), None);
        }
    }

    #[test]
    fn ports_are_wanted_ever_more_seldom_in_one_silence_and_soon_in_the_next() {
        let mut quiet = Quiet::default();
        for (since, timeout_ms) in [(at(5000), 60), (at(90_000), 1000)] {
            let first = Duration::from_millis(timeout_ms * 3).max(SILENCE_MIN);
            let mut wanted = Vec::new();
            for _ in 0..12 {
                let wanted_at = quiet.wants_port_at(Some(since), Duration::from_millis(timeout_ms)).unwrap();
                wanted.push((wanted_at - since).as_millis() / first.as_millis());
                quiet.on_port_wanted(Some(since));
            }
            // Each after the one before: a time that has passed already would be due again and again.
            assert_eq!(wanted, [1, 3, 7, 15, 31, 63, 127, 255, 511, 767, 1023, 1279]);
        }
        assert_eq!(quiet.wants_port_at(None, RTT), None);
        quiet.on_port_wanted(Some(at(0)));
        quiet.ports = u32::MAX;
        quiet.on_port_wanted(Some(at(0)));
        let far = quiet.wants_port_at(Some(at(0)), Duration::from_secs(100_000));
        assert!(far.is_some_and(|at| at > Instant::ZERO), "no overflow");
    }
}
