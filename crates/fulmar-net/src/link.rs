//! One direction of a link.

use core::time::Duration;

use fulmar_units::Instant;

use crate::loss::LossProcess;
use crate::policer::Bucket;
use crate::queue::{Bound, Queue, Queued, try_mark};
use crate::stats::{Backlog, Count, LinkStats};
use crate::transit::Transit;
use crate::{Jitter, LinkConfig, LossPlace, Order, Payload, Rng, StallProcess};

/// One direction of a link: a queue, a transmitter, a wire.
///
/// What happens to a packet on the wire is decided when its transmission starts, so all that is to come is
/// known: the packets on the wire with their times of arrival, and the time at which the transmitter is free
/// again. Nothing happens between calls; each call first catches up to its `now`, at the exact times. Times
/// that go backwards are taken as the latest time seen.
#[derive(Clone, Debug)]
pub struct Link<P> {
    config: LinkConfig,
    mark_bound: Option<Bound>,
    queue: Queue<P>,
    transit: Transit<P>,
    /// When the transmitter is free for the next packet.
    free_at: Instant,
    /// The latest arrival so far, for links that keep order.
    last_due: Instant,
    now: Instant,
    loss: LossProcess,
    stalls: StallProcess,
    bucket: Bucket,
    dice: Dice,
    stats: LinkStats,
    /// One more than the highest serial number delivered.
    delivered_below: u64,
}

/// A generator per feature, so that one does not disturb the draws of another.
#[derive(Clone, Debug)]
struct Dice {
    jitter: Rng,
    mark: Rng,
    duplicate: Rng,
    corrupt: Rng,
    /// For the seeds of queues.
    queue: Rng,
}

impl<P: Payload> Link<P> {
    /// A link at rest, at time zero.
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        let stream = |number| Rng::new(seed, number);
        let mut queue_dice = stream(6);
        Self {
            mark_bound: mark_bound(&config),
            queue: new_queue(&config, &mut queue_dice),
            transit: Transit::new(),
            free_at: Instant::ZERO,
            last_due: Instant::ZERO,
            now: Instant::ZERO,
            loss: LossProcess::new(config.loss.clone(), stream(1)),
            stalls: StallProcess::new(config.stalls.clone(), stream(7)),
            bucket: Bucket::default(),
            dice: Dice {
                jitter: stream(2),
                mark: stream(3),
                duplicate: stream(4),
                corrupt: stream(5),
                queue: queue_dice,
            },
            stats: LinkStats::default(),
            delivered_below: 0,
            config,
        }
    }

    /// Hands a packet to the link.
    pub fn send(&mut self, now: Instant, mut packet: P) {
        let now = self.catch_up(now);
        let bytes = packet.wire_bytes();
        self.stats.offered.add(bytes);
        if self.config.mtu_bytes.is_some_and(|mtu| bytes > mtu) {
            return self.stats.oversize.add(bytes);
        }
        if self.config.loss_place == LossPlace::BeforeQueue && self.loss.is_lost(now) {
            return self.stats.lost.add(bytes);
        }
        if let Some(policer) = &self.config.policer
            && !self.bucket.admits(policer, now, bytes)
        {
            return self.stats.policed.add(bytes);
        }
        if self.mark_bound.is_some_and(|bound| !bound.admits(self.queue.backlog(), 0)) {
            try_mark(&mut packet, bytes, &mut self.stats);
        }
        self.queue.push(Queued { arrived: now, bytes, packet }, &mut self.stats);
        self.stats.backlog_bytes_max = self.stats.backlog_bytes_max.max(self.queue.backlog().bytes);
        self.free_at = self.free_at.max(now);
        self.transmit_until(now);
    }

    /// When [`Self::poll_deliver`] should be called next; `None` if nothing is under way.
    ///
    /// Something happens at that time and nothing before: a packet comes out, or a waiting packet is put on
    /// the wire.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.transit.next_due();
        let nothing_overtakes = self.config.order == Order::Kept && due.is_some();
        if self.queue.backlog().packets == 0 || nothing_overtakes {
            return due;
        }
        let start = self.config.rate.open_at(self.free_at);
        due.into_iter().chain(start).min()
    }

    /// The next packet that has arrived by `now`.
    pub fn poll_deliver(&mut self, now: Instant) -> Option<P> {
        self.poll_arrival(now).map(|(_, packet)| packet)
    }

    /// As [`Self::poll_deliver`], with the exact time of arrival.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<(Instant, P)> {
        let now = self.catch_up(now);
        let flight = self.transit.pop_due(now)?;
        self.stats.delivered.add(flight.bytes);
        if flight.serial < self.delivered_below {
            self.stats.reordered.add(flight.bytes);
        } else {
            self.delivered_below = flight.serial + 1;
        }
        Some((flight.due, flight.packet))
    }

    /// When the next packet that will have arrived by `now` does so.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<Instant> {
        let now = self.catch_up(now);
        self.transit.next_due().filter(|&due| due <= now)
    }

    /// Changes what the link does from `now` on. Packets on the wire keep their fate; packets in the queue
    /// stay, and go into the new queue if the discipline or its limit changes. A new loss model starts from
    /// its beginning.
    pub fn reconfigure(&mut self, now: Instant, config: LinkConfig) {
        let now = self.catch_up(now);
        self.loss.replace(config.loss.clone());
        self.stalls.replace(now, config.stalls.clone());
        self.mark_bound = mark_bound(&config);
        let shape = |config: &LinkConfig| (config.queue.clone(), config.rate.peak(), config.delay);
        if shape(&config) != shape(&self.config) {
            let waiting = self.queue.drain();
            self.queue = new_queue(&config, &mut self.dice.queue);
            for item in waiting {
                self.queue.push(item, &mut self.stats);
            }
        }
        self.config = config;
        self.free_at = self.free_at.max(now);
        self.transmit_until(now);
    }

    /// What the link does to packets.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What it did, up to the time of the last call.
    pub const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// What waits in the queue, at the time of the last call.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// What is in the queue, in the transmitter and on the wire, at the time of the last call.
    pub fn inside(&self) -> Count {
        let mut inside = self.queue.backlog();
        inside += Count { packets: self.transit.packets() as u64, bytes: self.transit.bytes() };
        inside
    }

    fn catch_up(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.transmit_until(self.now);
        self.now
    }

    /// Starts every transmission that starts by `now`.
    fn transmit_until(&mut self, now: Instant) {
        while self.free_at <= now && self.queue.backlog().packets > 0 {
            let Some(start) = self.config.rate.open_at(self.free_at).filter(|&start| start <= now) else {
                return;
            };
            let Some(item) = self.queue.pop(start, &mut self.stats) else { return };
            self.stats.queue_delay.record(start - item.arrived);
            self.free_at = self.config.rate.finish(start, item.bytes);
            self.stats.busy += self.free_at - start;
            self.pass_wire(self.free_at, item.packet, item.bytes);
        }
    }

    /// Decides what becomes of a packet whose last byte leaves the transmitter at `at`.
    fn pass_wire(&mut self, at: Instant, mut packet: P, bytes: u32) {
        if self.dice.mark.chance(self.config.mark) {
            try_mark(&mut packet, bytes, &mut self.stats);
        }
        if self.config.blackouts.contains(at) {
            return self.stats.blacked_out.add(bytes);
        }
        if self.config.loss_place == LossPlace::Wire && self.loss.is_lost(at) {
            return self.stats.lost.add(bytes);
        }
        if self.dice.corrupt.chance(self.config.corrupt) {
            packet.corrupt(self.dice.corrupt.draw());
            self.stats.corrupted.add(bytes);
        }
        let copy = self.dice.duplicate.chance(self.config.duplicate).then(|| packet.clone());
        self.fly(at, packet, bytes);
        if let Some(copy) = copy {
            self.stats.duplicated.add(bytes);
            self.fly(at, copy, bytes);
        }
    }

    /// Puts a packet on the wire at `at`.
    fn fly(&mut self, at: Instant, packet: P, bytes: u32) {
        let added = self.config.added_delay.as_ref().map_or(Duration::ZERO, |delay| delay.at(at));
        let mut due = self.stalls.release(at + self.config.delay + added) + self.draw_jitter();
        if self.config.order == Order::Kept {
            due = due.max(self.last_due);
        }
        self.last_due = self.last_due.max(due);
        self.transit.push(due, bytes, packet);
    }

    fn draw_jitter(&mut self) -> Duration {
        match self.config.jitter {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform(max) => self.dice.jitter.up_to(max),
            Jitter::Exponential(mean) => self.dice.jitter.exponential(mean),
            Jitter::Some { probability, extra } => {
                if self.dice.jitter.chance(probability) {
                    extra
                } else {
                    Duration::ZERO
                }
            }
        }
    }
}

fn new_queue<P: Payload>(config: &LinkConfig, dice: &mut Rng) -> Queue<P> {
    Queue::new(&config.queue, &config.rate, config.delay, Rng::new(dice.draw(), 0))
}

fn mark_bound(config: &LinkConfig) -> Option<Bound> {
    config.mark_threshold.map(|limit| limit.resolve(&config.rate, config.delay))
}
