//! The loops, written once for all instruction sets.
//!
//! A tile is some vectors of some outputs, held in registers while every input is read once. Lengths that are
//! no multiple of a vector cost one more vector, never a byte loop: the last vector of a string is taken
//! flush with its end, its sum is computed before the loop changes the bytes it shares with the vector
//! before, and stored after.

use super::lanes::{Lanes, Plain};

/// Outputs of inputs of unequal length handled at once.
const OUTPUTS: usize = 8;
/// Inputs handled in one pass over the outputs: their tiles and their pages should be found in the
/// first-level caches.
const INPUTS: usize = 64;

/// Some outputs, some inputs, and their coefficients.
pub(super) struct DotBlock<'a, 'b> {
    outputs: &'a mut [&'b mut [u8]],
    inputs: &'a [&'a [u8]],
    /// For every input in turn, one for each output.
    coefficients: &'a [u8],
    /// At most as long as the shortest output and the shortest input.
    len: usize,
    /// Whether the products are added to the outputs or replace them.
    is_sum: bool,
}

/// Cuts a product into blocks. `check_dot` holds for the arguments.
#[inline(always)]
pub(super) fn for_each_block(
    outputs: &mut [&mut [u8]],
    inputs: &[&[u8]],
    coefficients: &[u8],
    is_sum: bool,
    mut dot: impl FnMut(&mut DotBlock<'_, '_>),
    mul_add: impl FnMut(&mut [u8], &[u8], u8),
) {
    let Some(output_len) = outputs.first().map(|output| output.len()) else { return };
    let len = inputs.iter().map(|input| input.len()).max().unwrap_or(0);
    if !is_sum && len < output_len {
        outputs.iter_mut().for_each(|output| output[len..].fill(0));
    }
    if inputs.iter().any(|input| input.len() != len) {
        return uneven(outputs, inputs, coefficients, is_sum, dot, mul_add);
    }
    let mut is_sum = is_sum;
    for (inputs, coefficients) in inputs.chunks(INPUTS).zip(coefficients.chunks(INPUTS * outputs.len())) {
        dot(&mut DotBlock { outputs, inputs, coefficients, len, is_sum });
        is_sum = true;
    }
}

/// As [`for_each_block`], of inputs that differ in length: the longest together, the others one by one.
#[cold]
fn uneven(
    outputs: &mut [&mut [u8]],
    inputs: &[&[u8]],
    coefficients: &[u8],
    is_sum: bool,
    mut dot: impl FnMut(&mut DotBlock<'_, '_>),
    mut mul_add: impl FnMut(&mut [u8], &[u8], u8),
) {
    let len = inputs.iter().map(|input| input.len()).max().unwrap_or(0);
    let count = outputs.len();
    for (block, outputs) in outputs.chunks_mut(OUTPUTS).enumerate() {
        let width = outputs.len();
        let of_input = |j: usize| &coefficients[j * count + block * OUTPUTS..][..width];
        let (mut longest, mut factors, mut n) = ([&[] as &[u8]; INPUTS], [0; INPUTS * OUTPUTS], 0);
        let mut is_sum = is_sum;
        for (j, input) in inputs.iter().enumerate().filter(|(_, input)| input.len() == len) {
            longest[n] = input;
            factors[n * width..][..width].copy_from_slice(of_input(j));
            n += 1;
            if n == INPUTS {
                dot(&mut DotBlock {
                    outputs,
                    inputs: &longest,
                    coefficients: &factors[..n * width],
                    len,
                    is_sum,
                });
                (n, is_sum) = (0, true);
            }
        }
        if n > 0 {
            dot(&mut DotBlock {
                outputs,
                inputs: &longest[..n],
                coefficients: &factors[..n * width],
                len,
                is_sum,
            });
        }
        for (j, input) in inputs.iter().enumerate().filter(|(_, input)| input.len() != len) {
            for (output, factor) in outputs.iter_mut().zip(of_input(j)) {
                mul_add(output, input, *factor);
            }
        }
    }
}

/// Multiplies a block, a few outputs at a time: as many as there are registers for their sums.
///
/// # Safety
/// The processor has the features of `L`, and the caller enables them.
#[inline(always)]
pub(super) unsafe fn dot_block<L: Lanes>(block: &mut DotBlock<'_, '_>) {
    let mut from = 0;
    if block.outputs.len() == 1 && block.coefficients.iter().all(|c| *c == 1) {
        // SAFETY: the features are those the caller vouches for, and there is one output.
        unsafe { rows::<Plain<L>, 1, 4, false>(block, 0) };
        return;
    }
    while from < block.outputs.len() {
        let left = block.outputs.len() - from;
        let stride = block.outputs.len();
        let is_plain = left >= 8 && block.coefficients[from..].iter().step_by(stride).all(|c| *c == 1);
        // SAFETY: the features are those the caller vouches for; as many outputs are left as the functions
        // take.
        unsafe {
            from += match (left, L::REGISTERS) {
                (8.., 32) if is_plain => rows::<L, 8, 2, true>(block, from),
                (8.., 16) if is_plain && L::IS_SPLIT => rows::<L, 8, 1, true>(block, from),
                (8.., 32) => rows::<L, 8, 2, false>(block, from),
                (8.., 16) if L::IS_SPLIT => rows::<L, 8, 1, false>(block, from),
                (6.., 32) => rows::<L, 6, 2, false>(block, from),
                (4.., 32) => rows::<L, 4, 4, false>(block, from),
                (3.., 32) => rows::<L, 3, 4, false>(block, from),
                (2.., 32) => rows::<L, 2, 4, false>(block, from),
                (6.., 16) => rows::<L, 6, 2, false>(block, from),
                (4.., _) => rows::<L, 4, 2, false>(block, from),
                (3, _) => rows::<L, 3, 2, false>(block, from),
                (2, _) => rows::<L, 2, 3, false>(block, from),
                _ => rows::<L, 1, 4, false>(block, from),
            };
        }
    }
}

/// Multiplies all inputs into the `R` outputs from `from` on, in tiles of `T` vectors. Returns `R`. With
/// `PLAIN`, all coefficients of the first of these outputs are 1.
///
/// # Safety
/// As [`dot_block`]; `from + R` outputs are there.
#[inline(always)]
unsafe fn rows<L: Lanes, const R: usize, const T: usize, const PLAIN: bool>(
    block: &mut DotBlock<'_, '_>,
    from: usize,
) -> usize {
    let stride = block.outputs.len();
    let mut space = [[L::Index::default(); R]; INPUTS];
    let rows = Rows::<L, R, PLAIN> {
        outputs: core::array::from_fn(|r| block.outputs[from + r].as_mut_ptr()),
        inputs: block.inputs,
        coefficients: L::indices(block.coefficients, stride, from, &mut space),
        len: block.len,
        is_sum: block.is_sum,
    };
    // SAFETY: all outputs and inputs are at least `len` long (`for_each_block` gathers only inputs of that
    // length, `check_dot` compares the outputs with the inputs). Outputs are `&mut`, so they overlap neither
    // each other nor an input.
    unsafe {
        if rows.len < L::WIDTH {
            rows.short();
        } else if rows.len % (T * L::WIDTH) > L::WIDTH && rows.len >= 2 * L::WIDTH {
            rows.tiles::<T, 2>();
        } else {
            rows.tiles::<T, 1>();
        }
    }
    R
}

/// `R` outputs and what goes into them.
struct Rows<'a, L: Lanes, const R: usize, const PLAIN: bool> {
    outputs: [*mut u8; R],
    inputs: &'a [&'a [u8]],
    /// For every input, one coefficient for each output.
    coefficients: &'a [[L::Index; R]],
    len: usize,
    is_sum: bool,
}

impl<L: Lanes, const R: usize, const PLAIN: bool> Rows<'_, L, R, PLAIN> {
    /// # Safety
    /// As [`dot_block`]; outputs and inputs are at least `len` long, and `len < WIDTH`.
    #[inline(always)]
    unsafe fn short(&self) {
        // SAFETY: `len` bytes are there, as the caller vouches.
        unsafe {
            let mut sums = [[L::zero(); 1]; R];
            if self.is_sum {
                sums = core::array::from_fn(|r| [L::load_part(self.outputs[r], self.len)]);
            }
            self.accumulate::<1>(&mut sums, |input| [L::load_part(input, self.len)]);
            for (output, sum) in self.outputs.iter().zip(sums) {
                L::store_part(*output, sum[0], self.len);
            }
        }
    }

    /// Tiles of `T` vectors, then single vectors, then a tile of `E` vectors flush with the end.
    ///
    /// # Safety
    /// As [`dot_block`]; outputs and inputs are at least `len` long, and `len >= E * WIDTH`.
    #[inline(always)]
    unsafe fn tiles<const T: usize, const E: usize>(&self) {
        let end = self.len - E * L::WIDTH;
        // SAFETY: every tile begins where at least its own size is left.
        unsafe {
            let is_even = self.len.is_multiple_of(L::WIDTH);
            let flush = if is_even { [[L::zero(); E]; R] } else { self.tile::<E>(end) };
            let mut at = 0;
            while at + T * L::WIDTH <= self.len {
                let sums = self.tile::<T>(at);
                self.store::<T>(at, &sums);
                at += T * L::WIDTH;
            }
            while at < end || (is_even && at < self.len) {
                let sums = self.tile::<1>(at);
                self.store::<1>(at, &sums);
                at += L::WIDTH;
            }
            if at < self.len {
                self.store::<E>(end, &flush);
            }
        }
    }

    /// What a tile of the outputs becomes.
    ///
    /// # Safety
    /// As [`dot_block`]; `T` vectors are there from `at` on.
    #[inline(always)]
    unsafe fn tile<const T: usize>(&self, at: usize) -> [[L::V; T]; R] {
        // SAFETY: as the caller vouches.
        unsafe {
            let mut sums = [[L::zero(); T]; R];
            if self.is_sum {
                sums = core::array::from_fn(|r| load::<L, T>(self.outputs[r].add(at)));
            }
            self.accumulate::<T>(&mut sums, |input| load::<L, T>(input.add(at)));
            sums
        }
    }

    /// Adds the products of one tile of every input to the sums.
    ///
    /// # Safety
    /// As [`dot_block`]; `load` may be called with the start of every input.
    #[inline(always)]
    unsafe fn accumulate<const T: usize>(
        &self,
        sums: &mut [[L::V; T]; R],
        load: impl Fn(*const u8) -> [L::V; T],
    ) {
        let (mut inputs, mut coefficients) = (self.inputs, self.coefficients);
        // SAFETY: only features are needed, which the caller vouches for, and indices that `index` gave.
        unsafe {
            if L::HAS_XOR3 {
                let (pairs, rest) = inputs.as_chunks::<2>();
                let (of_pairs, of_rest) = coefficients.as_chunks::<2>();
                for ([a, b], [of_a, of_b]) in pairs.iter().zip(of_pairs) {
                    let (plain_a, plain_b) = (load(a.as_ptr()), load(b.as_ptr()));
                    let (a, b) = (ready::<L, T>(plain_a), ready::<L, T>(plain_b));
                    for (r, sums) in sums.iter_mut().enumerate() {
                        if PLAIN && r == 0 {
                            for t in 0..T {
                                sums[t] = L::xor(sums[t], L::xor(plain_a[t], plain_b[t]));
                            }
                            continue;
                        }
                        let (of_a, of_b) = (L::factor(of_a[r]), L::factor(of_b[r]));
                        for t in 0..T {
                            sums[t] = L::xor(sums[t], L::xor(L::mul(a[t], of_a), L::mul(b[t], of_b)));
                        }
                    }
                }
                (inputs, coefficients) = (rest, of_rest);
            }
            for (input, of_input) in inputs.iter().zip(coefficients) {
                let plain = load(input.as_ptr());
                let input = ready::<L, T>(plain);
                for (r, sums) in sums.iter_mut().enumerate() {
                    if PLAIN && r == 0 {
                        for t in 0..T {
                            sums[t] = L::xor(sums[t], plain[t]);
                        }
                        continue;
                    }
                    let factor = L::factor(of_input[r]);
                    for t in 0..T {
                        sums[t] = L::xor(sums[t], L::mul(input[t], factor));
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`dot_block`]; `T` vectors are there from `at` on.
    #[inline(always)]
    unsafe fn store<const T: usize>(&self, at: usize, sums: &[[L::V; T]; R]) {
        for (output, sums) in self.outputs.iter().zip(sums) {
            for (t, sum) in sums.iter().enumerate() {
                // SAFETY: vector t lies within the `T` vectors that the caller vouches for.
                unsafe { L::store(output.add(at + t * L::WIDTH), *sum) };
            }
        }
    }
}

/// destination = coefficient * destination, or destination += coefficient * source with a source of the same
/// length.
///
/// # Safety
/// The processor has the features of `L`, and the caller enables them.
#[inline(always)]
pub(super) unsafe fn map<L: Lanes>(destination: &mut [u8], source: Option<&[u8]>, coefficient: u8) {
    let len = destination.len();
    let to = destination.as_mut_ptr();
    let from = match source {
        Some(source) => {
            assert_eq!(source.len(), len);
            source.as_ptr()
        }
        None => to.cast_const(),
    };
    let is_sum = source.is_some();
    // SAFETY: every offset is followed by at least as many bytes as are accessed, because both strings are
    // `len` long. Without a source, `from` is derived from `to`, so reads and writes go through one borrow.
    unsafe {
        let factor = L::factor(L::index(coefficient));
        if len < L::WIDTH {
            let (old, from) = (L::load_part(to, len), L::load_part(from, len));
            return L::store_part(to, mapped::<L>(old, from, factor, is_sum), len);
        }
        let last = len - L::WIDTH;
        let is_even = len.is_multiple_of(L::WIDTH);
        let mut tail = L::zero();
        if !is_even {
            tail = mapped::<L>(L::load(to.add(last)), L::load(from.add(last)), factor, is_sum);
        }
        let mut at = 0;
        while at + L::WIDTH <= len {
            let sum = mapped::<L>(L::load(to.add(at)), L::load(from.add(at)), factor, is_sum);
            L::store(to.add(at), sum);
            at += L::WIDTH;
        }
        if !is_even {
            L::store(to.add(last), tail);
        }
    }
}

/// What one vector of a destination becomes. A function and not a closure: it has to be inlined to have the
/// features.
///
/// # Safety
/// As [`map`].
#[inline(always)]
unsafe fn mapped<L: Lanes>(old: L::V, from: L::V, factor: L::Factor, is_sum: bool) -> L::V {
    // SAFETY: only features are needed, which the caller vouches for.
    unsafe {
        let product = L::mul(L::ready(from), factor);
        if is_sum { L::xor(old, product) } else { product }
    }
}

/// # Safety
/// As [`dot_block`]; `T` vectors are readable.
#[inline(always)]
unsafe fn load<L: Lanes, const T: usize>(from: *const u8) -> [L::V; T] {
    // SAFETY: vector t starts within the `T` vectors that the caller vouches for.
    core::array::from_fn(|t| unsafe { L::load(from.add(t * L::WIDTH)) })
}

/// # Safety
/// As [`dot_block`].
#[inline(always)]
unsafe fn ready<L: Lanes, const T: usize>(tile: [L::V; T]) -> [L::Ready; T] {
    // SAFETY: only features are needed, which the caller vouches for.
    core::array::from_fn(|t| unsafe { L::ready(tile[t]) })
}
