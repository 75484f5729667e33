//! One block of DFCP: from 63536 bytes to segments, and back.

use super::ldpc::{CHECK_BYTES, MESSAGE_BYTES, checks, for_each_message_byte};
use super::lt::{Associations, DEGREE_MAX, INPUTS, Visitor};
use super::peel::{Contradiction, Peeling};
use super::taus88::Taus88;
use fulmar_fec::CodeError;
use fulmar_fec::parts::Work;

/// A block ready to be sent: message, zeros up to 63536 bytes, and check bytes.
#[derive(Debug)]
pub struct DfcpBlock {
    inputs: Vec<u8>,
    associations: Associations,
}

impl DfcpBlock {
    /// Computes the check bytes over `message`, of at most 63536 bytes; `ldpc` is the generator's state for
    /// this block ([`super::ldpc_state`]).
    pub fn new(message: &[u8], ldpc: Taus88) -> Result<Self, CodeError> {
        if message.len() > MESSAGE_BYTES {
            return Err(CodeError::TooLong);
        }
        let mut inputs = vec![0; INPUTS];
        inputs[..message.len()].copy_from_slice(message);
        inputs[MESSAGE_BYTES..].copy_from_slice(&checks(ldpc, message));
        Ok(Self { inputs, associations: Associations::new() })
    }

    /// Fills a segment with coded bytes; `state` is the generator's state before it, which the segment's
    /// header carries.
    pub fn segment(&mut self, state: Taus88, out: &mut [u8]) {
        let Ok(inputs) = self.inputs.as_slice().try_into() else { return };
        let count = out.len();
        self.associations.each(state, count, &mut Encode { inputs, out });
    }
}

struct Encode<'a> {
    inputs: &'a [u8; INPUTS],
    out: &'a mut [u8],
}

impl Visitor for Encode<'_> {
    #[inline(always)]
    fn visit(&mut self, byte: usize, draws: &[u32]) {
        self.out[byte] = draws.iter().fold(0, |sum, draw| sum ^ self.inputs[usize::from(*draw as u16)]);
    }
}

/// A block being received. It never gives up: it keeps collecting until it is decoded.
#[derive(Debug)]
pub struct DfcpReceiver {
    ldpc: Taus88,
    peeling: Peeling,
    associations: Associations,
    waiting: Waiting,
    /// Those that need not wait any more, and how many of these indices have been taken.
    due: Vec<u16>,
    due_at: usize,
    is_ldpc_added: bool,
    coded_bytes: usize,
    coded_bytes_max: usize,
    work: Work,
}

/// Work for a coded byte, for one of the bytes it is the XOR of, for an edge of the graph, and for a byte
/// that the outer code covers. Measured: a block of 69,000 coded bytes takes some 6 ms, and 16 units are 1
/// ns.
const PER_CODED: usize = 512;
const PER_DRAW: usize = 32;
const PER_EDGE: usize = 48;
const PER_MESSAGE_BYTE: usize = 160;
/// Work for an index of a coded byte that has waited.
const PER_DUE: usize = 32;
/// Edges followed, and indices that were due entered, before the work is looked at again.
const STEP_EDGES: usize = 4096;
const STEP_DUE: usize = 4096;

impl DfcpReceiver {
    /// Of the message, only the first `message_bytes` may be other than zero. A receiver holds at most
    /// `coded_bytes_max` coded bytes; the expected need is 1.05 x 65536.
    pub fn new(message_bytes: usize, ldpc: Taus88, coded_bytes_max: usize) -> Self {
        Self {
            ldpc,
            peeling: Peeling::new(message_bytes.min(MESSAGE_BYTES)..MESSAGE_BYTES),
            associations: Associations::new(),
            waiting: Waiting::default(),
            due: Vec::new(),
            due_at: 0,
            is_ldpc_added: false,
            coded_bytes: 0,
            coded_bytes_max,
            work: Work::default(),
        }
    }

    /// A segment arrived. Returns whether it was taken, which it is not if there is no room for it.
    pub fn on_segment(&mut self, state: Taus88, coded: &[u8]) -> Result<bool, CodeError> {
        let is_taken = self.enter(state, coded)?;
        self.advance(u64::MAX, true)?;
        Ok(is_taken)
    }

    /// A segment arrived: its equations are entered, and nothing is concluded from them.
    pub(super) fn enter(&mut self, state: Taus88, coded: &[u8]) -> Result<bool, CodeError> {
        if self.is_full() || self.coded_bytes + coded.len() > self.coded_bytes_max {
            return Ok(false);
        }
        self.coded_bytes += coded.len();
        let Self { peeling, waiting, .. } = self;
        let mut collect = Collect { peeling, waiting, coded, draws: 0, result: Ok(()) };
        self.associations.each(state, coded.len(), &mut collect);
        let (draws, result) = (collect.draws, collect.result);
        self.work.add(coded.len() * PER_CODED + draws * PER_DRAW + self.peeling.take_followed() * PER_EDGE);
        result.map(|()| true).map_err(|Contradiction| CodeError::Inconsistent)
    }

    /// Whether it holds more than any block needs, which segments made at random do not lead to.
    fn is_full(&self) -> bool {
        self.peeling.is_full() || self.waiting.len() + self.due.len() > WAITING_MAX
    }

    /// Work done so far.
    pub(super) fn work(&self) -> u64 {
        self.work.total()
    }

    /// Whether all bytes of the message are known.
    pub fn is_decoded(&self) -> bool {
        self.peeling.unknown() == 0 || (0..MESSAGE_BYTES).all(|index| self.peeling.byte(index).is_some())
    }

    /// Bytes first..first + out.len() of the message, if all of them are known.
    pub fn read(&self, first: usize, out: &mut [u8]) -> bool {
        out.iter_mut().enumerate().all(|(i, out)| match self.peeling.byte(first + i) {
            Some(byte) => {
                *out = byte;
                true
            }
            None => false,
        })
    }

    /// Coded bytes taken so far.
    pub fn coded_bytes(&self) -> usize {
        self.coded_bytes
    }

    /// Bytes, of message and checks, that are not known yet.
    pub fn unknown_bytes(&self) -> usize {
        self.peeling.unknown()
    }

    /// Draws conclusions until there are none left, or about `work_max` is done. Returns whether none are
    /// left. High degrees and then LDPC join as soon as they have few unknown bytes each. All LDPC equations
    /// are entered at once, which is for a call that has done nothing else.
    pub(super) fn advance(&mut self, work_max: u64, is_first: bool) -> Result<bool, CodeError> {
        let begin = self.work.total();
        let end = begin.saturating_add(work_max);
        while self.work.total() < end {
            let may_enter_ldpc = work_max == u64::MAX || (is_first && self.work.total() == begin);
            if self.is_ldpc_next() && !may_enter_ldpc {
                return Ok(false);
            }
            if !self.step().map_err(|Contradiction| CodeError::Inconsistent)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A little of what there is to do; false if there is nothing.
    fn step(&mut self) -> Result<bool, Contradiction> {
        if !self.peeling.is_idle() {
            let result = self.peeling.run(STEP_EDGES);
            self.work.add(self.peeling.take_followed() * PER_EDGE);
            return result.map(|()| true);
        }
        if self.due_at == self.due.len() {
            (self.due, self.due_at) = (self.waiting.give_due(self.peeling.unknown()).unwrap_or_default(), 0);
        }
        if !self.due.is_empty() {
            return self.enter_due().map(|()| true);
        }
        if self.is_ldpc_next() {
            self.is_ldpc_added = true;
            self.work.add(MESSAGE_BYTES * PER_MESSAGE_BYTE);
            return self.add_ldpc().map(|()| true);
        }
        Ok(false)
    }

    /// Whether nothing is left to do but the outer code.
    fn is_ldpc_next(&self) -> bool {
        let is_idle = self.peeling.is_idle() && self.due_at == self.due.len();
        is_idle
            && !self.is_ldpc_added
            && self.peeling.unknown() < INPUTS / 16
            && !self.waiting.has_due(self.peeling.unknown())
    }

    /// Enters some of the coded bytes that are due.
    fn enter_due(&mut self) -> Result<(), Contradiction> {
        let begin = self.due_at;
        while self.due_at < self.due.len().min(begin + STEP_DUE)
            && let [value, degree, after @ ..] = &self.due[self.due_at..]
        {
            let indices = &after[..usize::from(*degree)];
            self.due_at += 2 + indices.len();
            self.peeling.add_mostly_known(indices, *value as u8)?;
        }
        self.work.add((self.due_at - begin) * PER_DUE + self.peeling.take_followed() * PER_EDGE);
        Ok(())
    }

    /// Every check byte is the XOR of its message bytes: one equation each, over what is unknown of them.
    fn add_ldpc(&mut self) -> Result<(), Contradiction> {
        let mut sums = [0u8; CHECK_BYTES];
        // Where the unknown bytes of each check begin, once they are sorted by check.
        let mut starts = [0u32; CHECK_BYTES + 1];
        let mut edges: Vec<(u16, u16)> = Vec::with_capacity(INPUTS / 4);
        for_each_message_byte(self.ldpc, |message, degree, checks| match self.peeling.byte(message) {
            Some(byte) => {
                sums[checks[0]] ^= byte;
                sums[checks[1]] ^= byte;
                sums[checks[2]] ^= if degree == 3 { byte } else { 0 };
            }
            None => edges.extend(checks[..degree].iter().map(|check| (*check as u16, message as u16))),
        });
        edges.iter().for_each(|(check, _)| starts[usize::from(*check) + 1] += 1);
        (0..CHECK_BYTES).for_each(|check| starts[check + 1] += starts[check]);
        let mut unknown = vec![0; edges.len()];
        let mut ends = starts;
        for (check, message) in edges {
            let end = &mut ends[usize::from(check)];
            unknown[*end as usize] = message;
            *end += 1;
        }
        for (check, sum) in sums.into_iter().enumerate() {
            let unknown = &unknown[starts[check] as usize..ends[check] as usize];
            // At most a sixteenth of the 80 or so bytes of a check are unknown. Should one have more than an
            // equation can count, the others have to do.
            if unknown.len() < 255 {
                let own = (MESSAGE_BYTES + check) as u16;
                self.peeling.add(unknown.iter().copied().chain([own]), sum)?;
            }
        }
        Ok(())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.peeling.memory_bytes()
            + self.associations.memory_bytes()
            + self.waiting.memory_bytes()
            + self.due.capacity() * 2
    }
}

/// Enters coded bytes as equations.
struct Collect<'a> {
    peeling: &'a mut Peeling,
    waiting: &'a mut Waiting,
    coded: &'a [u8],
    draws: usize,
    result: Result<(), Contradiction>,
}

impl Visitor for Collect<'_> {
    #[inline(always)]
    fn visit(&mut self, byte: usize, draws: &[u32]) {
        let value = self.coded[byte];
        self.draws += draws.len();
        if !self.waiting.take(value, draws, self.peeling.unknown()) {
            self.result = self.result.and(self.peeling.add(draws.iter().map(|draw| *draw as u16), value));
        }
    }
}

/// A coded byte of high degree waits until of its bytes only so many are still unknown on average: before, it
/// would only be carried along.
const UNKNOWN_EACH: usize = 8;
/// Kinds of coded bytes that wait: up to degree 19, up to 66. Those below 10 do not.
const WAITING: [std::ops::RangeInclusive<usize>; 2] = [10..=19, 20..=DEGREE_MAX];

/// Values, degrees and indices that wait, at most; 220,000 do before a block is decoded.
const WAITING_MAX: usize = 400_000;

/// Coded bytes that wait, by kind: value, degree, indices.
#[derive(Debug, Default)]
struct Waiting([Vec<u16>; 2]);

impl Waiting {
    /// Takes a coded byte if it has to wait; returns whether it was taken.
    #[inline(always)]
    fn take(&mut self, value: u8, draws: &[u32], unknown: usize) -> bool {
        let Some(kind) = WAITING.iter().position(|kind| kind.contains(&draws.len())) else { return false };
        if draws.len() * unknown <= UNKNOWN_EACH * INPUTS {
            return false;
        }
        self.0[kind].extend_from_slice(&[u16::from(value), draws.len() as u16]);
        self.0[kind].extend(draws.iter().map(|draw| *draw as u16));
        true
    }

    /// Which kind need not wait any more.
    fn due(&self, unknown: usize) -> Option<usize> {
        let is_due = |kind: usize| WAITING[kind].end() * unknown <= UNKNOWN_EACH * INPUTS;
        (0..WAITING.len()).find(|kind| !self.0[*kind].is_empty() && is_due(*kind))
    }

    fn has_due(&self, unknown: usize) -> bool {
        self.due(unknown).is_some()
    }

    /// Coded bytes that need not wait any more.
    fn give_due(&mut self, unknown: usize) -> Option<Vec<u16>> {
        self.due(unknown).map(|kind| std::mem::take(&mut self.0[kind]))
    }

    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.0.iter().map(|waiting| waiting.capacity() * 2).sum()
    }
}
