//! Weighted fair queueing: the packet that would finish first if flows shared the link bit by bit.
//!
//! Source: Demers, Keshav and Shenker, SIGCOMM 1989, with the self-clocked virtual time of Golestani, "A
//! Self-Clocked Fair Queueing Scheme for Broadband Applications", INFOCOM 1994: virtual time is the finish
//! tag of the packet in service, so no fluid model has to be followed and the link's rate may change.
//! `F = max(V, F of the flow's previous packet) + bytes / weight`. When the buffer is full the longest list
//! loses its newest packet.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use fulmar_units::Instant;

use super::discipline::{Discipline, Queued};
use super::flows::Flows;
use super::limit::{Bound, QueueLimit};
use crate::Payload;
use crate::stats::{Backlog, LinkStats};

/// Parameters of weighted fair queueing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WfqConfig {
    /// What all flows together can hold.
    pub limit: QueueLimit,
    /// Weights by flow number; a flow that is not named has weight 1.
    pub weights: BTreeMap<u64, u32>,
}

/// Virtual time counts bytes per unit of weight, with 16 fractional bits. 128 bits never overflow.
const FRACTION_BITS: u32 = 16;

#[derive(Clone, Debug, Default)]
struct Tags {
    weight: u32,
    /// Finish tag of the oldest packet.
    head: u128,
    /// Finish tag of the newest.
    tail: u128,
}

impl Tags {
    fn span(&self, bytes: u32) -> u128 {
        (u128::from(bytes) << FRACTION_BITS) / u128::from(self.weight.max(1))
    }
}

/// Invariant: `order` holds `(head tag, slot)` of each flow that has packets.
#[derive(Clone, Debug)]
pub(crate) struct Wfq<P> {
    flows: Flows<P, Tags>,
    order: BTreeSet<(u128, usize)>,
    virtual_time: u128,
    bound: Bound,
    weights: BTreeMap<u64, u32>,
}

impl<P> Wfq<P> {
    pub(crate) fn new(config: &WfqConfig, bound: Bound) -> Self {
        let weights = config.weights.clone();
        Self { flows: Flows::new(), order: BTreeSet::new(), virtual_time: 0, bound, weights }
    }
}

impl<P: Payload> Discipline<P> for Wfq<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        let (key, bytes) = (item.packet.flow(), item.bytes);
        let (slot, is_new) = self.flows.push(key, item);
        let tags = &mut self.flows.slot(slot).state;
        if is_new {
            // A flow that had nothing waiting starts now: its last packet's tag is not above virtual time.
            tags.weight = self.weights.get(&key).copied().unwrap_or(1);
            tags.tail = self.virtual_time + tags.span(bytes);
            tags.head = tags.tail;
            self.order.insert((tags.head, slot));
        } else {
            tags.tail += tags.span(bytes);
        }
        let order = &mut self.order;
        self.flows.shed(self.bound, slot, stats, |shed| {
            if shed.is_last {
                order.remove(&(shed.state.head, shed.slot));
            }
            shed.state.tail -= shed.state.span(shed.bytes);
        });
    }

    fn pop(&mut self, _now: Instant, _stats: &mut LinkStats) -> Option<Queued<P>> {
        let (tag, slot) = self.order.pop_first()?;
        self.virtual_time = tag;
        let (item, is_last) = self.flows.pop(slot)?;
        if !is_last {
            let flow = self.flows.slot(slot);
            let next = flow.waiting.front().map_or(0, |item| item.bytes);
            flow.state.head = tag + flow.state.span(next);
            self.order.insert((flow.state.head, slot));
        }
        Some(item)
    }

    fn backlog(&self) -> Backlog {
        self.flows.total()
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.order.clear();
        self.flows.drain()
    }
}
