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
/// Mark of a known byte, above its value.
const KNOWN: u16 = 0x100;

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
    /// By byte: the first of its edges.
    heads: Vec<u32>,
    /// Equation and next edge of the same byte.
    edges: Vec<(u32, u32)>,
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
            heads: vec![NONE; INPUTS],
            edges: Vec::with_capacity(INPUTS * 3),
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
                let head = &mut self.heads[usize::from(index)];
                self.edges.push((equation, *head));
                *head = self.edges.len() as u32 - 1;
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

    /// Takes known bytes out of equations until nothing follows any more.
    pub(super) fn run(&mut self) -> Result<(), Contradiction> {
        let mut is_consistent = true;
        while let Some(equation) = self.ripple.pop() {
            let state = self.equations[equation as usize];
            if state & 0xFF != 1 {
                continue;
            }
            let index = (state >> 16) as usize;
            self.bytes[index] = KNOWN | (state >> 8 & 0xFF) as u16;
            self.unknown -= 1;
            // What taking the byte out does to an equation, all three parts at once: no part borrows from another.
            let change = state & 0xFFFF_FF00;
            let mut edge = core::mem::replace(&mut self.heads[index], NONE);
            while edge != NONE {
                let (equation, next) = self.edges[edge as usize];
                let state = &mut self.equations[equation as usize];
                *state = (*state ^ change) - 1;
                match *state & 0xFF {
                    0 => is_consistent &= *state == 0,
                    1 => self.ripple.push(equation),
                    _ => {}
                }
                edge = next;
            }
        }
        if is_consistent { Ok(()) } else { Err(Contradiction) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() * 2
            + (self.equations.capacity() + self.heads.capacity() + self.ripple.capacity()) * 4
            + self.edges.capacity() * 8
    }
}
