//! One block of DFCP: from 63536 bytes to segments, and back.

use alloc::vec;
use alloc::vec::Vec;

use super::ldpc::{CHECK_BYTES, MESSAGE_BYTES, checks, for_each_message_byte};
use super::lt::{Associations, DEGREE_MAX, INPUTS, Visitor};
use super::peel::{Contradiction, Peeling};
use super::taus88::Taus88;
use crate::CodeError;

/// A block ready to be sent: message, zeros up to 63536 bytes, and check bytes.
#[derive(Debug)]
pub struct DfcpBlock {
    inputs: Vec<u8>,
    associations: Associations,
}

impl DfcpBlock {
    /// Computes the check bytes over `message`, of at most 63536 bytes; `ldpc` is the generator's state for this block
    /// ([`super::ldpc_state`]).
    pub fn new(message: &[u8], ldpc: Taus88) -> Result<Self, CodeError> {
        if message.len() > MESSAGE_BYTES {
            return Err(CodeError::TooLong);
        }
        let mut inputs = vec![0; INPUTS];
        inputs[..message.len()].copy_from_slice(message);
        inputs[MESSAGE_BYTES..].copy_from_slice(&checks(ldpc, message));
        Ok(Self { inputs, associations: Associations::new() })
    }

    /// Fills a segment with coded bytes; `state` is the generator's state before it, which the segment's header carries.
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
    is_ldpc_added: bool,
    coded_bytes: usize,
    coded_bytes_max: usize,
}

impl DfcpReceiver {
    /// Of the message, only the first `message_bytes` may be other than zero. A receiver holds at most `coded_bytes_max`
    /// coded bytes; the expected need is 1.05 x 65536.
    pub fn new(message_bytes: usize, ldpc: Taus88, coded_bytes_max: usize) -> Self {
        Self {
            ldpc,
            peeling: Peeling::new(message_bytes.min(MESSAGE_BYTES)..MESSAGE_BYTES),
            associations: Associations::new(),
            waiting: Waiting::default(),
            is_ldpc_added: false,
            coded_bytes: 0,
            coded_bytes_max,
        }
    }

    /// A segment arrived. Returns whether it was taken, which it is not if there is no room for it.
    pub fn on_segment(&mut self, state: Taus88, coded: &[u8]) -> Result<bool, CodeError> {
        if self.coded_bytes + coded.len() > self.coded_bytes_max {
            return Ok(false);
        }
        self.coded_bytes += coded.len();
        self.collect(state, coded)
            .and_then(|()| self.decode())
            .map_err(|Contradiction| CodeError::Inconsistent)?;
        Ok(true)
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

    fn collect(&mut self, state: Taus88, coded: &[u8]) -> Result<(), Contradiction> {
        let Self { peeling, waiting, .. } = self;
        let mut collect = Collect { peeling, waiting, coded, result: Ok(()) };
        self.associations.each(state, coded.len(), &mut collect);
        collect.result?;
        self.peeling.run()
    }

    /// The rest of what the thesis iterates: high degrees, then LDPC, as soon as they have few unknown bytes each.
    fn decode(&mut self) -> Result<(), Contradiction> {
        while let Some(coded) = self.waiting.give_due(self.peeling.unknown()) {
            let mut rest = coded.as_slice();
            while let [value, degree, after @ ..] = rest {
                let (indices, after) = after.split_at(usize::from(*degree));
                self.peeling.add_mostly_known(indices, *value as u8)?;
                rest = after;
            }
            self.peeling.run()?;
        }
        if !self.is_ldpc_added && self.peeling.unknown() < INPUTS / 16 {
            self.is_ldpc_added = true;
            self.add_ldpc()?;
            self.peeling.run()?;
        }
        Ok(())
    }

    /// Every check byte is the XOR of its message bytes: one equation each, over what is unknown of them.
    fn add_ldpc(&mut self) -> Result<(), Contradiction> {
        let mut sums = [0u8; CHECK_BYTES];
        let mut unknown: Vec<Vec<u16>> = (0..CHECK_BYTES).map(|_| Vec::with_capacity(16)).collect();
        for_each_message_byte(self.ldpc, |message, degree, checks| match self.peeling.byte(message) {
            Some(byte) => {
                sums[checks[0]] ^= byte;
                sums[checks[1]] ^= byte;
                sums[checks[2]] ^= if degree == 3 { byte } else { 0 };
            }
            None => checks[..degree].iter().for_each(|check| unknown[*check].push(message as u16)),
        });
        for (check, (sum, mut unknown)) in sums.into_iter().zip(unknown).enumerate() {
            unknown.push((MESSAGE_BYTES + check) as u16);
            // At most a sixteenth of the 80 or so bytes of a check are unknown. Should one have more than an equation can
            // count, the others have to do.
            if unknown.len() <= 255 {
                self.peeling.add(unknown, sum)?;
            }
        }
        Ok(())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.peeling.memory_bytes() + self.associations.memory_bytes() + self.waiting.memory_bytes()
    }
}

/// Enters coded bytes as equations.
struct Collect<'a> {
    peeling: &'a mut Peeling,
    waiting: &'a mut Waiting,
    coded: &'a [u8],
    result: Result<(), Contradiction>,
}

impl Visitor for Collect<'_> {
    #[inline(always)]
    fn visit(&mut self, byte: usize, draws: &[u32]) {
        let value = self.coded[byte];
        if !self.waiting.take(value, draws, self.peeling.unknown()) {
            self.result = self.result.and(self.peeling.add(draws.iter().map(|draw| *draw as u16), value));
        }
    }
}

/// A coded byte of high degree waits until of its bytes only so many are still unknown on average: before, it would only be
/// carried along.
const UNKNOWN_EACH: usize = 8;
/// Kinds of coded bytes that wait: up to degree 19, up to 66. Those below 10 do not.
const WAITING: [core::ops::RangeInclusive<usize>; 2] = [10..=19, 20..=DEGREE_MAX];

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

    /// Coded bytes that need not wait any more.
    fn give_due(&mut self, unknown: usize) -> Option<Vec<u16>> {
        let is_due = |degree: usize| degree * unknown <= UNKNOWN_EACH * INPUTS;
        let mut kinds = self.0.iter_mut().zip(WAITING);
        let (due, _) = kinds.find(|(waiting, kind)| !waiting.is_empty() && is_due(*kind.end()))?;
        Some(core::mem::take(due))
    }

    fn memory_bytes(&self) -> usize {
        self.0.iter().map(|waiting| waiting.capacity() * 2).sum()
    }
}
