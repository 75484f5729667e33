//! TCP's retransmission timer beside ACKs that keep coming: it is started again by those alone that move the
//! first symbol not delivered (RFC 6298 5.3), so it may expire although there is no silence.

use std::time::Duration;

use super::silence::Silence;
use crate::Instant;

/// The timer, where a profile has one.
#[derive(Debug)]
pub(super) struct Impatience {
    /// Since when it runs, as the layer above said last.
    since: Option<Instant>,
    /// When it last expired, and how often in a row without anything new since.
    expired_at: Instant,
    expiries: u32,
}

impl Default for Impatience {
    fn default() -> Self {
        Self { since: None, expired_at: Instant::ZERO, expiries: 0 }
    }
}

impl Impatience {
    /// The layer above said since when the timer runs.
    pub(super) fn on_told(&mut self, since: Option<Instant>) {
        self.since = since;
        if since.is_some_and(|since| since > self.expired_at) {
            self.expiries = 0;
        }
    }

    /// When it expires; never, where silence means a probe.
    pub(super) fn expires_at(&self, silence: &Silence, ack_delay: Duration) -> Option<Instant> {
        let since = self.since.filter(|_| silence.gives_up())?;
        Some(since + silence.timeout_after(ack_delay, self.expiries))
    }

    /// It expired. How often it has in a row (RFC 6298 5.5; and RFC 5681 3.1: what is lost again reduces
    /// nothing further).
    pub(super) fn on_expired(&mut self, now: Instant) -> u32 {
        (self.since, self.expired_at) = (None, now);
        self.expiries += 1;
        self.expiries
    }
}

#[cfg(test)]
mod tests {
    use fulmar_control::RttEstimator;

    use super::super::Timeout;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_doubles_until_something_is_newer_than_its_last_expiry() {
        let rtt = RttEstimator::new();
        let tcp = Silence::new(Instant::ZERO, Timeout::RFC_6298, &rtt);
        let mut impatience = Impatience::default();
        assert_eq!(impatience.expires_at(&tcp, Duration::ZERO), None);
        let begin = Instant::ZERO + SECOND * 5;
        impatience.on_told(Some(begin));
        let probing = Silence::new(Instant::ZERO, Timeout::Probe, &rtt);
        assert_eq!(impatience.expires_at(&probing, Duration::ZERO), None);
        assert_eq!(impatience.expires_at(&tcp, Duration::ZERO), Some(begin + SECOND));
        assert_eq!(impatience.on_expired(begin + SECOND), 1);
        assert_eq!(impatience.expires_at(&tcp, Duration::ZERO), None);
        // Nothing new: it runs since the expiry.
        impatience.on_told(Some(begin + SECOND));
        assert_eq!(impatience.expires_at(&tcp, Duration::ZERO), Some(begin + SECOND * 3));
        assert_eq!(impatience.on_expired(begin + SECOND * 3), 2);
        impatience.on_told(Some(begin + SECOND * 4));
        assert_eq!(impatience.expires_at(&tcp, Duration::ZERO), Some(begin + SECOND * 5));
    }
}
