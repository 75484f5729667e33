//! A path challenge: asked again and again until it is answered, or often enough (RFC 9000 8.2).

use std::time::Duration;

use crate::Instant;

/// A question whose answer proves that somebody receives where it was sent.
#[derive(Debug)]
pub(super) struct Challenge {
    token: u64,
    /// It is to be sent (again).
    is_due: bool,
    sent: u32,
    next_at: Instant,
}

impl Challenge {
    /// To be sent at once. `token` is random.
    pub(super) fn new(token: u64, now: Instant) -> Self {
        Self { token, is_due: true, sent: 0, next_at: now }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// How often it was sent.
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// When it must be repeated or given up.
    pub(super) fn timeout(&self) -> Option<Instant> {
        (!self.is_due).then_some(self.next_at)
    }

    /// False if it has been sent `sent_max` times in vain.
    pub(super) fn handle_timeout(&mut self, now: Instant, sent_max: u32) -> bool {
        if self.timeout().is_some_and(|at| at <= now) {
            if self.sent >= sent_max {
                return false;
            }
            self.is_due = true;
        }
        true
    }

    /// It leaves, and is patient for `wait`. What to send.
    pub(super) fn take(&mut self, now: Instant, wait: Duration) -> u64 {
        self.is_due = false;
        self.sent += 1;
        self.next_at = now + wait;
        self.token
    }
}
