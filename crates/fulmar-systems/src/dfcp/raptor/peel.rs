//! Belief propagation over erasures: an equation with one unknown byte gives that byte, which leaves its
//! other equations.
//!
//! The thesis (section 3.10) keeps a list for each degree, walks all lists until nothing changes, then does
//! the LDPC step, and so on. That ends where this ends, at the point where no equation has exactly one
//! unknown byte, but walks the lists many times. Here each byte knows its equations, and each equation is 32
//! bits: the XOR of the indices of its unknown bytes, the XOR of the values, and their number. A known byte
//! is taken out without looking at the others.

use super::lt::INPUTS;

/// A list's end.
const NONE: u32 = u32::MAX;
/// Equations of a byte that are found in one place: it has 3.1 on average when a block is decoded, more than
/// this in 1 %.
const NEAR: usize = 8;
/// Equations that can be found there: 16 bits number them. A block is decoded with hardly more.
const NEAR_EQUATIONS: usize = 1 << 16;
/// Edges of a block that are entered: 260,000 when one is decoded.
const EDGES_MAX: usize = 400_000;
/// Of these, further ones: a few thousand when one is decoded, 35,000 where it takes a tenth more than usual.
const FAR_MAX: usize = 1 << 16;
/// Mark of a known byte, above its value.
const KNOWN: u16 = 0x8000;
/// Mark of an unknown byte that has further edges, above the number of its near equations.
const HAS_FAR: u16 = 0x4000;

/// What following a further edge costs, in near ones.
const FAR_EDGES: usize = 4;

/// Bytes taken out of their equations together.
const BATCH: usize = 32;

/// An equation contradicts others.
#[derive(Copy, Clone, Debug)]
pub(super) struct Contradiction;

/// The system.
#[derive(Debug)]
pub(super) struct Peeling {
    /// By byte: `KNOWN` and the value; or how many of its equations are near, and perhaps `HAS_FAR`.
    bytes: Vec<u16>,
    unknown: usize,
    /// XOR of indices << 16 | XOR of values << 8 | number of unknown bytes.
    equations: Vec<u32>,
    /// By byte: its first equations, in one piece. Entering one reads nothing but the count, so that the
    /// processor need not wait for memory.
    near: Vec<[u16; NEAR]>,
    /// By byte: the first of its further edges.
    heads: Vec<u32>,
    /// Further edges: equation, and next edge of the same byte.
    far: Vec<(u32, u32)>,
    /// Equations with one unknown byte are the first `ripple_len`. There is room for one more than there are
    /// equations.
    ripple: Vec<u32>,
    ripple_len: usize,
    /// Edges entered so far, and edges followed since they were last asked for.
    edges: usize,
    followed: usize,
}

/// What taking the bytes of a batch out of their equations comes to: equations, and what changes in each but
/// the number.
struct Edges {
    equations: [u16; (BATCH + 1) * NEAR],
    changes: [u32; (BATCH + 1) * NEAR],
    count: usize,
}

impl Peeling {
    /// All bytes are unknown but those in `zeros`.
    pub(super) fn new(zeros: std::ops::Range<usize>) -> Self {
        let mut bytes = vec![0; INPUTS];
        bytes[zeros.clone()].fill(KNOWN);
        Self {
            bytes,
            unknown: INPUTS - zeros.len(),
            equations: Vec::with_capacity(INPUTS + INPUTS / 8),
            near: vec![[0; NEAR]; INPUTS],
            heads: vec![NONE; INPUTS],
            far: Vec::new(),
            ripple: vec![0; INPUTS],
            ripple_len: 0,
            edges: 0,
            followed: 0,
        }
    }

    /// Whether there are more edges than a block needs to be decoded, by half. Then it is of no use to go on.
    pub(super) fn is_full(&self) -> bool {
        self.edges > EDGES_MAX || self.far.len() > FAR_MAX
    }

    /// Edges entered or taken out since the last call.
    pub(super) fn take_followed(&mut self) -> usize {
        std::mem::take(&mut self.followed)
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
        let equation = self.equations.len();
        let (mut xor, mut value, mut count) = (0, u16::from(value), 0);
        for index in indices {
            let byte = self.bytes[usize::from(index)];
            if byte & KNOWN != 0 {
                value ^= byte;
            } else {
                xor ^= index;
                count += 1;
                self.connect(index, usize::from(byte & !HAS_FAR), equation);
            }
        }
        if count == 0 {
            return if value & 0xFF == 0 { Ok(()) } else { Err(Contradiction) };
        }
        self.edges += count as usize;
        self.followed += count as usize;
        self.equations.push(u32::from(xor) << 16 | u32::from(value & 0xFF) << 8 | count);
        if self.equations.len() >= self.ripple.len() {
            self.ripple.resize(2 * self.ripple.len(), 0);
        }
        self.ripple[self.ripple_len] = equation as u32;
        self.ripple_len += usize::from(count == 1);
        Ok(())
    }

    /// As [`Peeling::add`], of many bytes of which a few are unknown: the known ones are taken out first,
    /// without a guess at any.
    pub(super) fn add_mostly_known(&mut self, indices: &[u16], value: u8) -> Result<(), Contradiction> {
        let (mut unknown, mut count, mut value) = ([0; 256], 0u8, u16::from(value));
        for index in indices {
            let byte = self.bytes[usize::from(*index)];
            let is_known = byte >> 15;
            value ^= byte & 0u16.wrapping_sub(is_known);
            unknown[usize::from(count)] = *index;
            count += 1 - is_known as u8;
        }
        self.add(unknown.into_iter().take(usize::from(count)), value as u8)
    }

    #[inline(always)]
    fn connect(&mut self, byte: u16, count: usize, equation: usize) {
        let byte = usize::from(byte);
        match self.near[byte].get_mut(count) {
            Some(place) if equation < NEAR_EQUATIONS => {
                *place = equation as u16;
                self.bytes[byte] += 1;
            }
            _ => self.connect_far(byte, equation as u32),
        }
    }

    #[cold]
    fn connect_far(&mut self, byte: usize, equation: u32) {
        self.bytes[byte] |= HAS_FAR;
        self.far.push((equation, self.heads[byte]));
        self.heads[byte] = self.far.len() as u32 - 1;
    }

    /// Takes known bytes out of equations until nothing follows any more, or `edges_max` edges or so have
    /// been followed.
    ///
    /// A byte at a time would wait for memory three times in a row: equation, byte, its equations. So bytes
    /// are taken in batches, whose accesses do not wait for each other, and no step depends on a guess.
    pub(super) fn run(&mut self, edges_max: usize) -> Result<(), Contradiction> {
        let mut is_consistent = true;
        let mut edges =
            Edges { equations: [0; (BATCH + 1) * NEAR], changes: [0; (BATCH + 1) * NEAR], count: 0 };
        let end = self.followed.saturating_add(edges_max);
        while self.ripple_len > 0 && self.followed < end {
            edges.count = 0;
            let first = self.ripple_len.saturating_sub(BATCH);
            let mut batch = [0; BATCH];
            let batch = &mut batch[..self.ripple_len - first];
            batch.copy_from_slice(&self.ripple[first..self.ripple_len]);
            self.ripple_len = first;
            for equation in batch.iter() {
                is_consistent &= self.determine(*equation, &mut edges);
            }
            self.followed += edges.count + batch.len();
            for (equation, change) in edges.equations.iter().zip(&edges.changes).take(edges.count) {
                is_consistent &= self.take_out(usize::from(*equation), *change);
            }
        }
        if is_consistent { Ok(()) } else { Err(Contradiction) }
    }

    /// Whether nothing follows from what is known.
    pub(super) fn is_idle(&self) -> bool {
        self.ripple_len == 0
    }

    /// Enters the byte that an equation gives, unless another equation of the batch has given it. Near
    /// equations are noted, far ones changed at once.
    #[inline(always)]
    fn determine(&mut self, equation: u32, edges: &mut Edges) -> bool {
        let state = self.equations[equation as usize];
        let index = (state >> 16) as usize;
        let count = self.bytes[index];
        if state & 0xFF != 1 || count & KNOWN != 0 {
            return true;
        }
        self.bytes[index] = KNOWN | (state >> 8 & 0xFF) as u16;
        self.unknown -= 1;
        let change = state & 0xFFFF_FF00;
        if let Some(equations) = edges.equations[edges.count..].first_chunk_mut::<NEAR>()
            && let Some(changes) = edges.changes[edges.count..].first_chunk_mut::<NEAR>()
        {
            (*equations, *changes) = (self.near[index], [change; NEAR]);
        }
        edges.count += usize::from(count & !HAS_FAR);
        count & HAS_FAR == 0 || self.take_out_of_far(index, change)
    }

    #[cold]
    fn take_out_of_far(&mut self, index: usize, change: u32) -> bool {
        let (mut edge, mut is_consistent) = (self.heads[index], true);
        while edge != NONE {
            let (equation, next) = self.far[edge as usize];
            is_consistent &= self.take_out(equation as usize, change);
            self.followed += FAR_EDGES;
            edge = next;
        }
        is_consistent
    }

    /// Takes a known byte out of one of its equations; returns whether what is left makes sense.
    #[inline(always)]
    fn take_out(&mut self, equation: usize, change: u32) -> bool {
        let state = (self.equations[equation] ^ change).wrapping_sub(1);
        self.equations[equation] = state;
        self.ripple[self.ripple_len] = equation as u32;
        self.ripple_len += usize::from(state & 0xFF == 1);
        (state & 0xFF != 0) | (state == 0)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() * 2
            + (self.equations.capacity() + self.heads.capacity() + self.ripple.capacity()) * 4
            + self.near.capacity() * size_of::<[u16; NEAR]>()
            + self.far.capacity() * 8
    }
}
