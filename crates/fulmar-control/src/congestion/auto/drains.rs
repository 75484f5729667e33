//! Draining together.
//!
//! Flows that keep a queue full take it for the path: none of them sees the shortest round trip, and what one leaves
//! when it looks for it alone (`probing`) the others fill. So whoever sees the round trip fall below that of the last
//! seconds, though it sent no slower itself, takes it that somebody drains, and joins: then more see it fall, until
//! the queue is gone, all know the path, and know it since the same moment, so that they come to look for it together
//! the next time.
//!
//! A queue that stood and is gone when we drain, and the next time again, is filled by flows that drain with us: our
//! own kind, and nobody who takes no loss for congestion.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use super::phase::{Phase, Slow};
use super::{Auto, Mechanism};
use crate::windowed::WindowedMin;

/// The round trip is compared with the shortest of the rounds of so long.
const RECENT: Duration = Duration::from_secs(2);
/// Somebody drains if it is shorter by more than this part of the shortest, and by more than the hosts' noise.
const DIP: u32 = 64;
const DIP_MIN: Duration = Duration::from_micros(300);
/// So much time passes between two drains, or two flows would go on joining each other.
const PAUSE: Duration = Duration::from_millis(2500);
/// A queue is gone so many rounds after we began to drain it, or others fill it.
const DRAIN_ROUNDS: u64 = 5;
/// That they drain when we do is believed for so long after the first of two such drains: beside BBR one empties the
/// queue by chance.
const KIN_MEMORY: Duration = Duration::from_secs(10);

/// A drain of which it is not known yet whether it empties the queue.
#[derive(Copy, Clone, Debug)]
struct Drain {
    began_at: Instant,
    round: u64,
    /// The shortest round trip of the round before.
    rtt: Duration,
    /// It held a queue, as far as we knew.
    had_queue: bool,
}

/// What the drains of a queue show.
#[derive(Clone, Debug)]
pub(super) struct Drains {
    /// Of the last rounds.
    rtt_min: WindowedMin,
    open: Option<Drain>,
    /// When two last emptied a queue, the older first.
    emptied_at: [Option<Instant>; 2],
}

impl Drains {
    pub(super) fn new() -> Self {
        Self { rtt_min: WindowedMin::new(whole_nanos(RECENT)), open: None, emptied_at: [None; 2] }
    }
}

impl Auto {
    /// We begin to drain the queue.
    pub(super) fn open_drain(&mut self, now: Instant) {
        let rtt = self.tally.rtt_min;
        let had_queue = self.tally.rtt_samples > 0 && self.has_queue(rtt);
        self.drains.open = Some(Drain { began_at: now, round: self.round, rtt, had_queue });
    }

    /// A round ends: did the drain empty the queue?
    pub(super) fn watch_drain(&mut self, now: Instant) {
        let Some(drain) = self.drains.open else { return };
        let is_empty = !self.model.is_rtt_min_older_than(now, now - drain.began_at);
        if !is_empty && self.round < drain.round + DRAIN_ROUNDS {
            return;
        }
        self.drains.open = None;
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        if is_empty && (drain.had_queue || drain.rtt > rtt_min + self.steady_slack()) {
            self.drains.emptied_at = [self.drains.emptied_at[1], Some(now)];
            if self.is_among_kin(now) {
                self.stubborn = self.stubborn.filter(|stubborn| stubborn.is_certain());
            }
        }
    }

    /// Whoever fills the queue drains it when we do.
    pub(super) fn is_among_kin(&self, now: Instant) -> bool {
        self.drains.emptied_at[0].is_some_and(|at| now - at < KIN_MEMORY)
    }

    /// A round ends: does somebody drain the queue, so that we should join?
    pub(super) fn watch_dip(&mut self, now: Instant) -> bool {
        if self.tally.rtt_samples == 0 {
            return false;
        }
        let rtt = self.tally.rtt_min;
        let shortest = self.drains.rtt_min.value().map_or(rtt, Duration::from_nanos);
        self.drains.rtt_min.update(now.as_nanos(), whole_nanos(rtt));
        // It may be BBR's trough: until that is known nothing of ours may move the queue.
        let is_steady = matches!(self.phase, Phase::Cruise { .. } | Phase::Up(_)) && !self.troughs.is_open();
        let is_ours = self.sent_gain <= Slow::Down.gain();
        let was_drained = self.schedule.rtt_probed_at.is_some_and(|at| now - at < PAUSE);
        let dip = (rtt / DIP).max(DIP_MIN).max(self.spread());
        is_steady && !is_ours && !was_drained && rtt + dip < shortest && self.has(Mechanism::Join)
    }
}
