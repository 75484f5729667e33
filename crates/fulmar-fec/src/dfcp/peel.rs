//! Belief propagation over erasures: an equation with one unknown byte gives that byte, which leaves its other equations.
//!
//! The thesis (section 3.10) keeps a list for each degree, walks all lists until nothing changes, then does the LDPC step, and
//! so on. That ends where this ends, at the point where no equation has exactly one unknown byte, but walks the lists many
//! times. Here each byte knows its equations, and each equation is 32 bits: the XOR of the indices of its unknown bytes, the
//! XOR of the values, and their number. A known byte is taken out without looking at the others.

use alloc::vec;
use alloc::vec::Vec;

use super::lt::INPUTS;

/// A list's end.
const NONE: u32 = u32::MAX;
/// Equations of a byte that are found in one place. It has 3.1 on average when a block is decoded, more than this in 4 %.
const NEAR: usize = 6;
/// Mark of a known byte, above its value.
const KNOWN: u16 = 0x100;

/// Bytes taken out of their equations together.
const BATCH: usize = 16;

/// A byte just determined, and where it occurs.
#[derive(Copy, Clone, Default)]
struct Determined {
    /// What taking it out does to an equation, in all its parts but the number.
    change: u32,
    near: [u32; NEAR],
    near_count: u8,
    head: u32,
}

/// An equation contradicts others.
#[derive(Debug)]
pub(super) struct Contradiction;

/// The system.
#[derive(Debug)]
pub(super) struct Peeling {
    /// By byte: `KNOWN` and the value, or 0.
    bytes: Vec<u16>,
    unknown: usize,
    /// XOR of indices << 16 | XOR of values << 8 | number of unknown bytes.
    equations: Vec<u32>,
    /// By byte: how many of its equations are near.
    counts: Vec<u8>,
    /// By byte: its first equations, in one piece. Entering one reads nothing but the count, so that the processor need not
    /// wait for memory: that made the difference between 75 and 30 ns for a coded byte.
    near: Vec<[u32; NEAR]>,
    /// By byte: the first of its further edges.
    heads: Vec<u32>,
    /// Further edges: equation, and next edge of the same byte.
    far: Vec<(u32, u32)>,
    /// Equations with one unknown byte.
    ripple: Vec<u32>,
}

impl Peeling {
    /// All bytes are unknown but those in `zeros`.
    pub(super) fn new(zeros: core::ops::Range<usize>) -> Self {
        let mut bytes = vec![0; INPUTS];
        bytes[zeros.clone()].fill(KNOWN);
        Self {
            bytes,
            unknown: INPUTS - zeros.len(),
            equations: Vec::with_capacity(INPUTS + INPUTS / 8),
            counts: vec![0; INPUTS],
            near: vec![[0; NEAR]; INPUTS],
            heads: vec![NONE; INPUTS],
            far: Vec::with_capacity(INPUTS),
            ripple: Vec::new(),
        }
    }

    pub(super) fn unknown(&self) -> usize {
        self.unknown
    }

    /// The value of a byte that is known.
    pub(super) fn byte(&self, index: usize) -> Option<u8> {
        let byte = self.bytes[index];
        (byte & KNOWN != 0).then_some(byte as u8)
    }

    /// `value` is the XOR of the bytes `indices`, which are distinct and at most 255.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        indices: impl IntoIterator<Item = u16>,
        value: u8,
    ) -> Result<(), Contradiction> {
        let equation = self.equations.len() as u32;
        let (mut xor, mut value, mut count) = (0, u16::from(value), 0);
        for index in indices {
            let byte = self.bytes[usize::from(index)];
            if byte & KNOWN != 0 {
                value ^= byte;
            } else {
                xor ^= index;
                count += 1;
                self.connect(usize::from(index), equation);
            }
        }
        match count {
            0 if value & 0xFF != 0 => return Err(Contradiction),
            0 => return Ok(()),
            1 => self.ripple.push(equation),
            _ => {}
        }
        self.equations.push(u32::from(xor) << 16 | u32::from(value & 0xFF) << 8 | count);
        Ok(())
    }

    #[inline(always)]
    fn connect(&mut self, byte: usize, equation: u32) {
        let count = usize::from(self.counts[byte]);
        if let Some(place) = self.near[byte].get_mut(count) {
            *place = equation;
            self.counts[byte] += 1;
        } else {
            self.far.push((equation, self.heads[byte]));
            self.heads[byte] = self.far.len() as u32 - 1;
        }
    }

    /// Takes known bytes out of equations until nothing follows any more.
    ///
    /// A byte at a time would wait for memory three times in a row: equation, byte, its equations. So bytes are taken in
    /// batches, whose accesses do not wait for each other.
    pub(super) fn run(&mut self) -> Result<(), Contradiction> {
        let mut is_consistent = true;
        while !self.ripple.is_empty() {
            let (mut batch, mut count) = ([Determined::default(); BATCH], 0);
            while count < BATCH {
                let Some(equation) = self.ripple.pop() else { break };
                if let Some(determined) = self.determine(equation) {
                    batch[count] = determined;
                    count += 1;
                }
            }
            for Determined { change, near, near_count, head } in &batch[..count] {
                for equation in &near[..usize::from(*near_count).min(NEAR)] {
                    is_consistent &= self.take_out(*equation, *change);
                }
                let mut edge = *head;
                while edge != NONE {
                    let (equation, next) = self.far[edge as usize];
                    is_consistent &= self.take_out(equation, *change);
                    edge = next;
                }
            }
        }
        if is_consistent { Ok(()) } else { Err(Contradiction) }
    }

    /// Enters the byte that an equation gives, unless another equation of the batch has given it.
    #[inline(always)]
    fn determine(&mut self, equation: u32) -> Option<Determined> {
        let state = self.equations[equation as usize];
        let index = (state >> 16) as usize;
        if state & 0xFF != 1 || self.bytes[index] & KNOWN != 0 {
            return None;
        }
        self.bytes[index] = KNOWN | (state >> 8 & 0xFF) as u16;
        self.unknown -= 1;
        let change = state & 0xFFFF_FF00;
        Some(Determined {
            change,
            near: self.near[index],
            near_count: self.counts[index],
            head: self.heads[index],
        })
    }

    /// Takes a known byte out of one of its equations; returns whether what is left makes sense.
    #[inline(always)]
    fn take_out(&mut self, equation: u32, change: u32) -> bool {
        let state = &mut self.equations[equation as usize];
        *state = (*state ^ change) - 1;
        match *state & 0xFF {
            0 => *state == 0,
            1 => {
                self.ripple.push(equation);
                true
            }
            _ => true,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() * 2
            + self.counts.capacity()
            + (self.equations.capacity() + self.heads.capacity() + self.ripple.capacity()) * 4
            + self.near.capacity() * size_of::<[u32; NEAR]>()
            + self.far.capacity() * 8
    }
}
