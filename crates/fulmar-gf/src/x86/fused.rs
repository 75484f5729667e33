//! The loops, written once for all instruction sets.
//!
//! A tile is some vectors of some outputs, held in registers while every input is read once. Lengths that are no multiple
//! of a vector cost one more vector, never a byte loop: the last vector of a string is taken flush with its end, its sum is
//! computed before the loop changes the bytes it shares with the vector before, and stored after.

use super::lanes::Lanes;

/// Outputs handled in one pass over the inputs.
pub(super) const OUTPUTS: usize = 8;
/// Inputs handled in one pass over the outputs; their coefficients stay in the first-level cache.
pub(super) const INPUTS: usize = 64;

/// Some outputs and some inputs of equal length, and their coefficients.
pub(super) struct DotBlock<'a, 'b> {
    outputs: &'a mut [&'b mut [u8]],
    inputs: &'a [&'a [u8]],
    /// Row i belongs to output i.
    coefficients: &'a [[u8; INPUTS]; OUTPUTS],
    /// At most as long as the shortest output and the shortest input.
    len: usize,
}

/// The inputs of full length, at most `INPUTS` of them; short ones are added one by one.
pub(super) struct Gathered<'a> {
    inputs: [&'a [u8]; INPUTS],
    columns: [usize; INPUTS],
    count: usize,
}

impl<'a> Gathered<'a> {
    /// Cuts a product into blocks. `check_dot` holds for the arguments.
    #[inline(always)]
    pub(super) fn for_each_block(
        outputs: &mut [&mut [u8]],
        inputs: &'a [&'a [u8]],
        coefficients: &[u8],
        mut dot: impl FnMut(&mut DotBlock<'_, '_>),
        mut mul_add: impl FnMut(&mut [u8], &[u8], u8),
    ) {
        let len = inputs.iter().map(|input| input.len()).max().unwrap_or(0);
        let mut gathered = Gathered { inputs: [&[]; INPUTS], columns: [0; INPUTS], count: 0 };
        for (column, input) in inputs.iter().enumerate() {
            if input.len() == len {
                gathered.inputs[gathered.count] = input;
                gathered.columns[gathered.count] = column;
                gathered.count += 1;
            } else {
                for (i, output) in outputs.iter_mut().enumerate() {
                    mul_add(output, input, coefficients[i * inputs.len() + column]);
                }
            }
            if gathered.count == INPUTS {
                gathered.flush(outputs, coefficients, inputs.len(), &mut dot);
            }
        }
        gathered.flush(outputs, coefficients, inputs.len(), &mut dot);
    }

    fn flush(
        &mut self,
        outputs: &mut [&mut [u8]],
        coefficients: &[u8],
        stride: usize,
        dot: &mut impl FnMut(&mut DotBlock<'_, '_>),
    ) {
        let inputs = &self.inputs[..self.count];
        let Some(first) = inputs.first() else { return };
        let mut block_coefficients = [[0; INPUTS]; OUTPUTS];
        for (b, outputs) in outputs.chunks_mut(OUTPUTS).enumerate() {
            for (i, row) in block_coefficients[..outputs.len()].iter_mut().enumerate() {
                let from = &coefficients[(b * OUTPUTS + i) * stride..][..stride];
                for (c, column) in row.iter_mut().zip(&self.columns[..self.count]) {
                    *c = from[*column];
                }
            }
            dot(&mut DotBlock { outputs, inputs, coefficients: &block_coefficients, len: first.len() });
        }
        self.count = 0;
    }
}

/// Multiplies a block, a few outputs at a time.
///
/// # Safety
/// The processor has the features of `L`, and the caller enables them.
#[inline(always)]
pub(super) unsafe fn dot_block<L: Lanes>(block: &mut DotBlock<'_, '_>) {
    let mut from = 0;
    while from < block.outputs.len() {
        let left = block.outputs.len() - from;
        // SAFETY: the features are those the caller vouches for; `rows` outputs are there from `from` on.
        unsafe {
            from += match left.min(L::ROWS) {
                8.. => rows::<L, 8, 2>(block, from),
                6.. => rows::<L, 6, 2>(block, from),
                4.. => rows::<L, 4, 2>(block, from),
                3 => rows::<L, 3, 2>(block, from),
                2 => rows::<L, 2, 4>(block, from),
                _ => rows::<L, 1, 4>(block, from),
            };
        }
    }
}

/// Multiplies all inputs into the `R` outputs from `from` on, in tiles of `T` vectors. Returns `R`.
///
/// # Safety
/// As [`dot_block`]; `from + R` outputs are there.
#[inline(always)]
unsafe fn rows<L: Lanes, const R: usize, const T: usize>(block: &mut DotBlock<'_, '_>, from: usize) -> usize {
    let len = block.len;
    let outputs: [*mut u8; R] = core::array::from_fn(|r| block.outputs[from + r].as_mut_ptr());
    let factors: [&[u8; INPUTS]; R] = core::array::from_fn(|r| &block.coefficients[from + r]);
    let inputs = block.inputs;
    // SAFETY: every offset below is followed by at least as many bytes as are accessed, in each output and input, because
    // all of them are at least `len` long (`for_each_block` gathers only inputs of that length, `check_dot` compares the
    // outputs with the inputs). Outputs are `&mut`, so they overlap neither each other nor an input.
    unsafe {
        if len < L::WIDTH {
            let mut sums = [[L::zero(); 1]; R];
            for (sum, output) in sums.iter_mut().zip(outputs) {
                sum[0] = L::load_part(output, len);
            }
            accumulate::<L, R, 1>(&mut sums, inputs, &factors, |input| [L::load_part(input, len)]);
            for (sum, output) in sums.iter().zip(outputs) {
                L::store_part(output, sum[0], len);
            }
            return R;
        }
        let last = len - L::WIDTH;
        let mut tail = [[L::zero(); 1]; R];
        if !len.is_multiple_of(L::WIDTH) {
            tail = load_all::<L, R, 1>(&outputs, last);
            accumulate::<L, R, 1>(&mut tail, inputs, &factors, |input| [L::load(input.add(last))]);
        }
        let mut at = 0;
        while at + T * L::WIDTH <= len {
            let mut sums = load_all::<L, R, T>(&outputs, at);
            accumulate::<L, R, T>(&mut sums, inputs, &factors, |input| load::<L, T>(input.add(at)));
            store_all::<L, R, T>(&outputs, at, &sums);
            at += T * L::WIDTH;
        }
        while at + L::WIDTH <= len {
            let mut sums = load_all::<L, R, 1>(&outputs, at);
            accumulate::<L, R, 1>(&mut sums, inputs, &factors, |input| load::<L, 1>(input.add(at)));
            store_all::<L, R, 1>(&outputs, at, &sums);
            at += L::WIDTH;
        }
        if at < len {
            store_all::<L, R, 1>(&outputs, last, &tail);
        }
    }
    R
}

/// Adds the products of one tile of every input to the sums.
///
/// # Safety
/// As [`dot_block`]; `load` may be called with the start of every input.
#[inline(always)]
unsafe fn accumulate<L: Lanes, const R: usize, const T: usize>(
    sums: &mut [[L::V; T]; R],
    inputs: &[&[u8]],
    factors: &[&[u8; INPUTS]; R],
    load: impl Fn(*const u8) -> [L::V; T],
) {
    for (j, input) in inputs.iter().enumerate().take(INPUTS) {
        let tile = load(input.as_ptr());
        // SAFETY: only features, which the caller vouches for.
        unsafe {
            let ready: [L::Ready; T] = core::array::from_fn(|t| L::ready(tile[t]));
            for r in 0..R {
                let factor = L::factor(factors[r][j]);
                for t in 0..T {
                    sums[r][t] = L::xor(sums[r][t], L::mul(ready[t], factor));
                }
            }
        }
    }
}

/// destination = coefficient * destination, or destination += coefficient * source with a source of the same length.
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
    // SAFETY: every offset is followed by at least as many bytes as are accessed, because both strings are `len` long.
    // Without a source, `from` is derived from `to`, so reads and writes go through one borrow.
    unsafe {
        let factor = L::factor(coefficient);
        let old = |old: L::V| if is_sum { old } else { L::zero() };
        let new = |to: L::V, from: L::V| L::xor(old(to), L::mul(L::ready(from), factor));
        if len < L::WIDTH {
            return L::store_part(to, new(L::load_part(to, len), L::load_part(from, len)), len);
        }
        let last = len - L::WIDTH;
        let tail = new(L::load(to.add(last)), L::load(from.add(last)));
        let mut at = 0;
        while at + 2 * L::WIDTH <= len {
            let (a, b) = (at, at + L::WIDTH);
            let sums = (
                new(L::load(to.add(a)), L::load(from.add(a))),
                new(L::load(to.add(b)), L::load(from.add(b))),
            );
            L::store(to.add(a), sums.0);
            L::store(to.add(b), sums.1);
            at += 2 * L::WIDTH;
        }
        while at + L::WIDTH <= len {
            L::store(to.add(at), new(L::load(to.add(at)), L::load(from.add(at))));
            at += L::WIDTH;
        }
        L::store(to.add(last), tail);
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
/// As [`dot_block`]; `T` vectors are readable from `at` on in every output.
#[inline(always)]
unsafe fn load_all<L: Lanes, const R: usize, const T: usize>(
    outputs: &[*mut u8; R],
    at: usize,
) -> [[L::V; T]; R] {
    // SAFETY: as the caller vouches.
    core::array::from_fn(|r| unsafe { load::<L, T>(outputs[r].add(at)) })
}

/// # Safety
/// As [`dot_block`]; `T` vectors are writable from `at` on in every output.
#[inline(always)]
unsafe fn store_all<L: Lanes, const R: usize, const T: usize>(
    outputs: &[*mut u8; R],
    at: usize,
    sums: &[[L::V; T]; R],
) {
    for (output, sums) in outputs.iter().zip(sums) {
        for (t, sum) in sums.iter().enumerate() {
            // SAFETY: vector t starts within the `T` vectors that the caller vouches for.
            unsafe { L::store(output.add(at + t * L::WIDTH), *sum) };
        }
    }
}
