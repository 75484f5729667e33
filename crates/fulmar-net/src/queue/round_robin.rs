//! Flows in turn: deficit round robin (DRR) and stochastic fair queueing (SFQ).
//!
//! Sources: Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995: a flow
//! may send its quantum of bytes per round and carries over what it could not use. McKenney, "Stochastic
//! Fairness Queueing", INFOCOM 1990: flows are hashed into a fixed number of lists, which send one packet per
//! round. Both take from the longest list when the buffer is full. The hash of SFQ is fixed by the link's
//! seed; McKenney changes it now and then.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use fulmar_units::Instant;

use super::discipline::{Discipline, Queued, hash_flow};
use super::flows::Flows;
use super::limit::{Bound, QueueLimit};
use crate::Payload;
use crate::stats::{Backlog, LinkStats};

/// Parameters of deficit round robin.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DrrConfig {
    /// What all flows together can hold.
    pub limit: QueueLimit,
    /// Bytes a flow may send per round; at least the largest packet, or a round takes several turns.
    pub quantum_bytes: u32,
}

/// Parameters of stochastic fair queueing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SfqConfig {
    /// What all flows together can hold.
    pub limit: QueueLimit,
    /// Into how many lists flows are hashed.
    pub buckets: u32,
}

/// How flows are told apart and what each gets per round.
#[derive(Copy, Clone, Debug)]
enum Manner {
    /// DRR: by flow number, bytes.
    Deficit { quantum_bytes: u64 },
    /// SFQ: by hash, one packet.
    Stochastic { buckets: usize, hash_key: u64 },
}

#[derive(Clone, Debug, Default)]
struct Turn {
    /// Bytes the flow may still send in this turn.
    deficit: u64,
    /// Whether it has had its quantum in this turn.
    is_credited: bool,
}

/// Invariant: `line` holds each flow that has packets once.
#[derive(Clone, Debug)]
pub(crate) struct RoundRobin<P> {
    flows: Flows<P, Turn>,
    line: VecDeque<usize>,
    bound: Bound,
    manner: Manner,
}

impl<P> RoundRobin<P> {
    pub(crate) fn drr(config: &DrrConfig, bound: Bound) -> Self {
        Self::new(bound, Manner::Deficit { quantum_bytes: u64::from(config.quantum_bytes.max(1)) })
    }

    pub(crate) fn sfq(config: &SfqConfig, bound: Bound, hash_key: u64) -> Self {
        Self::new(bound, Manner::Stochastic { buckets: config.buckets.max(1) as usize, hash_key })
    }

    const fn new(bound: Bound, manner: Manner) -> Self {
        Self { flows: Flows::new(), line: VecDeque::new(), bound, manner }
    }

    /// Whether the flow at the head of the line may send now; otherwise its turn is over.
    fn may_send(&mut self, slot: usize) -> bool {
        let Manner::Deficit { quantum_bytes } = self.manner else { return true };
        let flow = self.flows.slot(slot);
        if !flow.state.is_credited {
            flow.state.deficit += quantum_bytes;
            flow.state.is_credited = true;
        }
        let head = flow.waiting.front().map_or(0, |item| u64::from(item.bytes));
        let may = head <= flow.state.deficit;
        if may {
            flow.state.deficit -= head;
        } else {
            flow.state.is_credited = false;
        }
        may
    }
}

impl<P: Payload> Discipline<P> for RoundRobin<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        let flow = item.packet.flow();
        let key = match self.manner {
            Manner::Deficit { .. } => flow,
            Manner::Stochastic { buckets, hash_key } => hash_flow(flow, hash_key, buckets) as u64,
        };
        let (slot, is_new) = self.flows.push(key, item);
        if is_new {
            self.line.push_back(slot);
        }
        let line = &mut self.line;
        self.flows.shed(self.bound, slot, stats, |shed| {
            if shed.is_last {
                line.retain(|&slot| slot != shed.slot);
            }
        });
    }

    fn pop(&mut self, _now: Instant, _stats: &mut LinkStats) -> Option<Queued<P>> {
        loop {
            let slot = *self.line.front()?;
            if !self.may_send(slot) {
                self.line.rotate_left(1);
                continue;
            }
            let (item, is_last) = self.flows.pop(slot)?;
            if is_last {
                self.line.pop_front();
            } else if matches!(self.manner, Manner::Stochastic { .. }) {
                self.line.rotate_left(1);
            }
            return Some(item);
        }
    }

    fn backlog(&self) -> Backlog {
        self.flows.total()
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.line.clear();
        self.flows.drain()
    }
}
