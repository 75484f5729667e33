//! What may leave beside window and pace: no more than this end's limit, which connections keep together, and
//! no more than the peer has asked for.
//!
//! A packet waits for its turn (`fulmar_control::Turns`) as it waits for its pace, so that nothing queues and
//! nothing is dropped. ACKs and probes do not wait: what they take is taken off what follows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_control::{Division, Turns};
use fulmar_units::Rate;

use crate::Instant;

/// No peer is obeyed that asks for less: a few packets each minute keep a connection and its timers in order.
const PEER_RATE_MIN: Rate = Rate::from_bytes_per_second(1000);

/// A rate that connections send at together, at most: all those that were given this handle or a clone of it.
/// It counts UDP payloads, handshakes left out. Without a rate there is no limit.
#[derive(Clone, Debug, Default)]
pub struct SendLimit(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// There is a rate: without one nobody takes the lock.
    is_set: AtomicBool,
    turns: Mutex<Turns>,
}

impl SendLimit {
    /// A limit, or none yet.
    pub fn new(rate: Option<Rate>) -> Self {
        let limit = Self::default();
        limit.set(rate);
        limit
    }

    /// Another rate, for connections that there are too.
    pub fn set(&self, rate: Option<Rate>) {
        self.turns().set_rate(rate);
        self.0.is_set.store(rate.is_some(), Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.turns().rate()
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rate that connections receive at together, at most: all those that were given this handle or a clone of
/// it. Their peers are asked to send no faster, and what one does not use the others get. It counts UDP
/// payloads that are sent: what is lost on the way counts. Peers of an older version do not understand.
#[derive(Clone, Debug, Default)]
pub struct ReceiveLimit(Arc<Mutex<Division>>);

impl ReceiveLimit {
    /// A limit, or none yet.
    pub fn new(rate: Option<Rate>) -> Self {
        Self(Arc::new(Mutex::new(Division::new(rate))))
    }

    /// Another rate: connections ask for it as they receive.
    pub fn set(&self, rate: Option<Rate>) {
        self.division().set_rate(rate);
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.division().rate()
    }

    pub(crate) fn division(&self) -> MutexGuard<'_, Division> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits of one connection.
#[derive(Debug, Default)]
pub(super) struct Limits {
    own: Option<Share>,
    peers: Option<Share>,
    /// Number of the peer's newest word.
    peers_sequence: u64,
}

impl Limits {
    pub(super) fn new(own: Option<SendLimit>) -> Self {
        Self { own: own.map(Share::new), ..Self::default() }
    }

    /// The peer asks for this rate, or for none any more. Words may come in another order than they were
    /// said.
    pub(super) fn on_asked(&mut self, sequence: u64, rate: Option<Rate>) {
        if sequence < self.peers_sequence {
            return;
        }
        self.peers_sequence = sequence;
        let rate = rate.map(|rate| rate.max(PEER_RATE_MIN));
        match &self.peers {
            Some(share) => share.limit.set(rate),
            None => self.peers = rate.map(|rate| Share::new(SendLimit::new(Some(rate)))),
        }
    }

    /// May `bytes` leave now? If not, when.
    pub(super) fn poll(&mut self, now: Instant, bytes: u64) -> Result<(), Instant> {
        self.shares().try_for_each(|share| share.poll(now, bytes))
    }

    /// A datagram of `bytes` left, whether or not it was asked.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.shares().for_each(|share| share.on_sent(now, bytes));
    }

    /// There is nothing to send: others may have the turn.
    pub(super) fn rest(&mut self) {
        self.shares().for_each(Share::rest);
    }

    fn shares(&mut self) -> impl Iterator<Item = &mut Share> {
        self.own.iter_mut().chain(&mut self.peers)
    }
}

/// What one connection has taken of a limit.
#[derive(Debug)]
struct Share {
    limit: SendLimit,
    /// Taken and not used.
    bytes: u64,
    /// When the turn begins.
    from: Instant,
}

impl Share {
    fn new(limit: SendLimit) -> Self {
        Self { limit, bytes: 0, from: Instant::ZERO }
    }

    fn poll(&mut self, now: Instant, bytes: u64) -> Result<(), Instant> {
        if !self.limit.is_set() {
            return Ok(());
        }
        if self.bytes < bytes {
            let mut turns = self.limit.turns();
            let turn_bytes = turns.turn_bytes(bytes);
            self.from = turns.take(now, turn_bytes);
            self.bytes += turn_bytes;
        }
        if self.from <= now { Ok(()) } else { Err(self.from) }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64) {
        if !self.limit.is_set() {
            return;
        }
        let untaken = bytes.saturating_sub(self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if untaken > 0 {
            self.limit.turns().take(now, untaken);
        }
    }

    fn rest(&mut self) {
        if self.bytes > 0 {
            self.limit.turns().give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A kilobyte takes a millisecond; what was left from before is used up.
    fn limit(now: Instant) -> SendLimit {
        let limit = SendLimit::new(Some(Rate::from_bytes_per_second(1_000_000)));
        limit.turns().take(now, 20_000);
        limit
    }

    #[test]
    fn connections_take_turns_and_none_is_passed_over() {
        let begin = Instant::ZERO + MS * 1000;
        let limit = limit(begin);
        let mut all: Vec<Limits> = (0..4).map(|_| Limits::new(Some(limit.clone()))).collect();
        let mut sent = [0_u32; 4];
        for ms in 0..1000 {
            let now = begin + MS * ms;
            for (limits, sent) in all.iter_mut().zip(&mut sent) {
                while limits.poll(now, 1000).is_ok() {
                    limits.on_sent(now, 1000);
                    *sent += 1;
                }
            }
        }
        assert!(sent.iter().all(|count| (249..=251).contains(count)), "{sent:?}");
        assert_eq!(sent.iter().sum::<u32>(), 1000);
        // Two have nothing to send any more, and a third is gone.
        all[0].rest();
        all[1].rest();
        all.remove(2);
        let count = (1000..2000).filter(|ms| {
            let now = begin + MS * *ms;
            all[2].poll(now, 1000).map(|()| all[2].on_sent(now, 1000)).is_ok()
        });
        assert!((997..=1000).contains(&count.count()));
    }

    #[test]
    fn what_does_not_wait_is_taken_off_what_follows() {
        let now = Instant::ZERO + MS * 1000;
        let mut limits = Limits::new(Some(limit(now)));
        limits.on_sent(now, 5000);
        assert_eq!(limits.poll(now, 1000), Err(now + MS * 5));
        assert_eq!(limits.poll(now + MS * 5, 1000), Ok(()));
    }

    #[test]
    fn the_peer_s_newest_word_holds_whenever_it_comes() {
        let now = Instant::ZERO + MS * 1000;
        let mut limits = Limits::new(None);
        let waits = |limits: &mut Limits| {
            limits.on_sent(now, 1 << 20);
            let waits = limits.poll(now, 1000).is_err();
            limits.rest();
            waits
        };
        assert!(!waits(&mut limits));
        limits.on_asked(1, Some(Rate::from_bytes_per_second(1_000_000)));
        assert!(waits(&mut limits));
        limits.on_asked(3, None);
        limits.on_asked(2, Some(Rate::from_bytes_per_second(1_000_000)));
        assert!(!waits(&mut limits));
        limits.on_asked(4, Some(Rate::ZERO));
        assert!(limits.poll(now, 1000).is_err_and(|at| at < now + MS * 2_000_000), "never for ever");
    }
}
