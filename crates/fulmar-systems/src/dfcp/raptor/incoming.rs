//! A block of DFCP on its way in: its segments as they came, and, once it is its turn, the receiver that
//! decodes them.

use std::collections::VecDeque;

use super::block::DfcpReceiver;
use super::layout::segment_state;
use super::ldpc::CHECK_BYTES;
use super::taus88::Taus88;
use fulmar_fec::{CodeError, RepairKey};

/// Coded bytes that a block may collect. The most that one of a thousand needed is 71,500; one that needs
/// more begins again.
const CODED_BYTES_MAX: usize = 65536 + 65536 / 4;
/// Step in which segments that wait get memory.
const WAITING_STEP_BYTES: usize = 8 << 10;

/// A block on its way in.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) len: u32,
    symbol_bytes: usize,
    /// Keys of the segments that came, ascending.
    keys: Vec<u32>,
    /// Segments that no receiver has taken yet: keys, and coded bytes one after the other.
    waiting_keys: VecDeque<u32>,
    waiting: VecDeque<u8>,
    receiver: Option<Box<DfcpReceiver>>,
    /// The receiver has drawn all conclusions from what it has.
    is_concluded: bool,
}

impl Incoming {
    pub(super) fn new(len: u32, symbol_bytes: usize) -> Self {
        Self {
            len,
            symbol_bytes,
            keys: Vec::new(),
            waiting_keys: VecDeque::new(),
            waiting: VecDeque::new(),
            receiver: None,
            is_concluded: true,
        }
    }

    /// Coded bytes that came.
    pub(super) fn coded_bytes(&self) -> usize {
        self.keys.len() * self.symbol_bytes
    }

    /// Whether it holds as much as it may and is not decoded.
    pub(super) fn is_full(&self) -> bool {
        self.coded_bytes() + self.symbol_bytes > CODED_BYTES_MAX
    }

    /// Whether a receiver should begin with it: hardly any block decodes from fewer bytes than it has.
    pub(super) fn needs_receiver(&self) -> bool {
        self.receiver.is_none() && self.coded_bytes() >= self.message_bytes() + CHECK_BYTES
    }

    pub(super) fn receiver(&self) -> Option<&DfcpReceiver> {
        self.receiver.as_deref()
    }

    fn message_bytes(&self) -> usize {
        self.len as usize * self.symbol_bytes
    }

    /// Begins to decode.
    pub(super) fn begin(&mut self, ldpc: Taus88) {
        self.receiver = Some(Box::new(DfcpReceiver::new(self.message_bytes(), ldpc, CODED_BYTES_MAX)));
    }

    /// Takes a segment in; returns whether it is a new one.
    pub(super) fn take(&mut self, key: RepairKey, segment: &[u8]) -> bool {
        let Err(at) = self.keys.binary_search(&key.0) else { return false };
        self.keys.insert(at, key.0);
        self.waiting_keys.push_back(key.0);
        if self.waiting.capacity() - self.waiting.len() < segment.len() {
            self.waiting.reserve_exact(segment.len().max(WAITING_STEP_BYTES));
        }
        self.waiting.extend(segment);
        true
    }

    /// Whether there is something to do for the receiver.
    pub(super) fn is_idle(&self) -> bool {
        self.receiver.is_none() || (self.is_concluded && self.waiting_keys.is_empty())
    }

    /// Whether the receiver has drawn all conclusions from what it has taken.
    pub(super) fn is_concluded(&self) -> bool {
        self.is_concluded
    }

    /// Lets the receiver draw conclusions, or else gives it one of the segments that wait. Returns what was
    /// done, and whether the receiver has room.
    pub(super) fn advance(
        &mut self,
        segment: &mut Vec<u8>,
        work_max: u64,
        is_first: bool,
    ) -> (u64, Result<bool, CodeError>) {
        let Some(receiver) = self.receiver.as_mut() else { return (0, Ok(true)) };
        let before = receiver.work();
        let result = if !self.is_concluded {
            receiver.advance(work_max, is_first).map(|is_concluded| {
                self.is_concluded = is_concluded;
                true
            })
        } else if let Some(key) = self.waiting_keys.pop_front() {
            segment.clear();
            segment.extend(self.waiting.drain(..self.symbol_bytes));
            if self.waiting_keys.is_empty() {
                (self.waiting_keys, self.waiting) = (VecDeque::new(), VecDeque::new());
            }
            self.is_concluded = false;
            receiver.enter(segment_state(RepairKey(key)), segment)
        } else {
            Ok(true)
        };
        (receiver.work() - before, result)
    }

    /// Memory without that of the receiver.
    pub(super) fn waiting_bytes(&self) -> usize {
        let keys = self.keys.capacity() + self.waiting_keys.capacity();
        size_of::<(u64, Self)>() + keys * size_of::<u32>() + self.waiting.capacity()
    }

    /// Memory of the receiver.
    pub(super) fn receiver_bytes(&self) -> usize {
        self.receiver().map_or(0, |receiver| size_of::<DfcpReceiver>() + receiver.memory_bytes())
    }
}
