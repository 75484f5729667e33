//! Flow queueing with controlled delay: hashed flows, served in turn, each under CoDel.
//!
//! Source: RFC 8290, sections 4.1 (enqueueing, new and old flows), 4.2 (dequeueing) and 5.2 (parameters).
//! Differs in one point: when the whole queue is full, one packet is dropped from the head of the longest
//! flow for each packet that arrives (RFC 8290 section 4.1); Linux drops up to 64 at once to save time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::Instant;

use super::codel::{Control, Law};
use super::discipline::{Discipline, Queued, hash_flow};
use super::fifo::Fifo;
use super::limit::{Bound, QueueLimit};
use crate::Payload;
use crate::stats::{Backlog, LinkStats};

/// More lists than this are a mistake that would cost memory.
const BUCKETS_MAX: u32 = 1 << 16;

/// Parameters of FQ-CoDel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FqCodelConfig {
    /// What all flows together can hold.
    pub limit: QueueLimit,
    /// As for CoDel.
    pub target: Duration,
    /// As for CoDel.
    pub interval: Duration,
    /// Mark packets that can be marked instead of dropping them.
    pub ecn: bool,
    /// Bytes a flow may send per round.
    pub quantum_bytes: u32,
    /// Into how many lists flows are hashed: 1 to 65,536.
    pub buckets: u32,
}

impl Default for FqCodelConfig {
    /// RFC 8290 section 5.2: 5 ms, 100 ms, 10,240 packets, 1514 bytes, 1024 lists, with ECN.
    fn default() -> Self {
        Self {
            limit: QueueLimit::Packets(10_240),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: true,
            quantum_bytes: 1514,
            buckets: 1024,
        }
    }
}

/// Where a flow stands in line.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Line {
    None,
    New,
    Old,
}

#[derive(Clone, Debug)]
struct Flow<P> {
    waiting: Fifo<P>,
    control: Control,
    credits: i64,
    line: Line,
}

#[derive(Clone, Debug)]
pub(crate) struct FqCodel<P> {
    flows: Vec<Flow<P>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    total: Backlog,
    bound: Bound,
    law: Law,
    quantum: i64,
    hash_key: u64,
}

impl<P> FqCodel<P> {
    pub(crate) fn new(config: &FqCodelConfig, bound: Bound, hash_key: u64) -> Self {
        let flow =
            || Flow { waiting: Fifo::new(), control: Control::default(), credits: 0, line: Line::None };
        Self {
            flows: (0..config.buckets.clamp(1, BUCKETS_MAX)).map(|_| flow()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            total: Backlog::default(),
            bound,
            law: Law::new(config.target, config.interval, config.ecn),
            quantum: i64::from(config.quantum_bytes.max(1)),
            hash_key,
        }
    }

    /// Drops from the head of the flow with most bytes until the bound holds.
    fn shed(&mut self, stats: &mut LinkStats) {
        while !self.bound.holds(self.total) {
            let lined_up = self.new.iter().chain(&self.old);
            let Some(&longest) = lined_up.max_by_key(|&&index| self.flows[index].waiting.bytes()) else {
                return;
            };
            let Some(item) = self.flows[longest].waiting.pop() else { return };
            self.total.remove(item.bytes);
            stats.dropped.add(item.bytes);
        }
    }

    /// The flow whose turn it is: new flows before old ones, those out of credit to the end of the old.
    fn turn(&mut self) -> Option<usize> {
        loop {
            let index = *self.new.front().or(self.old.front())?;
            let flow = &mut self.flows[index];
            if flow.credits > 0 {
                return Some(index);
            }
            flow.credits += self.quantum;
            self.leave_line(index);
            self.flows[index].line = Line::Old;
            self.old.push_back(index);
        }
    }

    /// Takes the flow at the head of its line out of it.
    fn leave_line(&mut self, index: usize) {
        match self.flows[index].line {
            Line::New => self.new.pop_front(),
            Line::Old => self.old.pop_front(),
            Line::None => None,
        };
    }
}

impl<P: Payload> Discipline<P> for FqCodel<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        self.law.longest_bytes = self.law.longest_bytes.max(item.bytes);
        self.total.add(item.bytes);
        let index = hash_flow(item.packet.flow(), self.hash_key, self.flows.len());
        let flow = &mut self.flows[index];
        flow.waiting.push(item);
        if flow.line == Line::None {
            flow.line = Line::New;
            flow.credits = self.quantum;
            self.new.push_back(index);
        }
        self.shed(stats);
    }

    fn pop(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Queued<P>> {
        while let Some(index) = self.turn() {
            let flow = &mut self.flows[index];
            let before = flow.waiting.backlog();
            let item = flow.control.pop(self.law, now, &mut flow.waiting, stats);
            let after = flow.waiting.backlog();
            self.total.packets -= before.packets - after.packets;
            self.total.bytes -= before.bytes - after.bytes;
            if let Some(item) = item {
                flow.credits -= i64::from(item.bytes);
                return Some(item);
            }
            // RFC 8290 section 4.2: an empty new flow first goes to the old ones, so that it cannot jump the
            // line again.
            let was_new = flow.line == Line::New;
            self.leave_line(index);
            if was_new && !self.old.is_empty() {
                self.flows[index].line = Line::Old;
                self.old.push_back(index);
            } else {
                self.flows[index].line = Line::None;
            }
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.total
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.new.clear();
        self.old.clear();
        self.total = Backlog::default();
        for flow in &mut self.flows {
            (flow.line, flow.credits, flow.control) = (Line::None, 0, Control::default());
        }
        self.flows.iter_mut().flat_map(|flow| flow.waiting.drain()).collect()
    }
}
