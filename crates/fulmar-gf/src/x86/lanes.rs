//! What differs between the instruction sets: a vector, and its product with a coefficient.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::tables::{MATRICES, NIBBLES, Nibbles};

/// A vector of bytes.
///
/// # Safety
/// Every method requires that the processor has the features of the set, and that it is inlined into a
/// function that enables them. Pointers must be valid for `WIDTH` bytes, or for the `n` given; no alignment
/// is needed.
pub(super) trait Lanes {
    /// The vector.
    type V: Copy;
    /// A vector made ready to be multiplied by many coefficients.
    type Ready: Copy;
    /// A coefficient as it is looked up most easily; 0 is coefficient 0.
    type Index: Copy + Default;
    /// A coefficient made ready to multiply many vectors.
    type Factor: Copy;
    /// Bytes in a vector.
    const WIDTH: usize;
    /// Vector registers.
    const REGISTERS: usize;
    /// Whether a vector made ready is two, its low and its high halves of bytes. Making it so should serve
    /// many outputs.
    const IS_SPLIT: bool;
    /// Whether the XOR of three vectors is one instruction.
    const HAS_XOR3: bool;

    unsafe fn zero() -> Self::V;
    unsafe fn load(from: *const u8) -> Self::V;
    unsafe fn store(to: *mut u8, v: Self::V);
    /// The first `n` < `WIDTH` bytes, the others zero.
    unsafe fn load_part(from: *const u8, n: usize) -> Self::V;
    /// Only the first `n` < `WIDTH` bytes.
    unsafe fn store_part(to: *mut u8, v: Self::V, n: usize);
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn ready(v: Self::V) -> Self::Ready;
    fn index(coefficient: u8) -> Self::Index;
    /// The coefficients of `R` outputs from `from` on, of every input: they are in `coefficients`, `stride`
    /// for each input.
    #[inline(always)]
    fn indices<'a, const R: usize>(
        coefficients: &'a [u8],
        stride: usize,
        from: usize,
        space: &'a mut [[Self::Index; R]],
    ) -> &'a [[Self::Index; R]] {
        gather(coefficients, stride, from, space, Self::index)
    }

    /// `index` is one that [`Lanes::index`] gave.
    unsafe fn factor(index: Self::Index) -> Self::Factor;
    unsafe fn mul(v: Self::Ready, factor: Self::Factor) -> Self::V;
}

/// See [`Lanes::indices`].
#[inline(always)]
fn gather<'a, I, const R: usize>(
    coefficients: &[u8],
    stride: usize,
    from: usize,
    space: &'a mut [[I; R]],
    index: impl Fn(u8) -> I,
) -> &'a [[I; R]] {
    let inputs = coefficients.len() / stride;
    for (to, of_input) in space.iter_mut().zip(coefficients.chunks_exact(stride)) {
        for (to, c) in to.iter_mut().zip(&of_input[from..from + R]) {
            *to = index(*c);
        }
    }
    &space[..inputs]
}

/// Coefficients as offsets into the tables of nibbles: to multiply by the size of a table takes a port that
/// the shuffles and XORs of the loop need.
macro_rules! nibble_offsets {
    () => {
        type Index = u16;

        #[inline(always)]
        fn index(coefficient: u8) -> u16 {
            u16::from(coefficient) * size_of::<Nibbles>() as u16
        }
    };
}

/// Coefficients as they are: the processor multiplies by 8 when it addresses a matrix.
macro_rules! matrix_numbers {
    () => {
        type Index = u8;

        #[inline(always)]
        fn index(coefficient: u8) -> u8 {
            coefficient
        }

        #[inline(always)]
        fn indices<'a, const R: usize>(
            coefficients: &'a [u8],
            stride: usize,
            from: usize,
            space: &'a mut [[u8; R]],
        ) -> &'a [[u8; R]] {
            if stride == R {
                return coefficients.as_chunks().0;
            }
            gather(coefficients, stride, from, space, |c| c)
        }
    };
}

/// 16-byte shuffles.
pub(super) struct Ssse3;

impl Lanes for Ssse3 {
    type V = __m128i;
    type Ready = (__m128i, __m128i);
    type Factor = (__m128i, __m128i);
    const WIDTH: usize = 16;
    const REGISTERS: usize = 16;
    const IS_SPLIT: bool = true;
    const HAS_XOR3: bool = false;

    #[inline(always)]
    unsafe fn zero() -> __m128i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m128i {
        // SAFETY: 16 bytes are readable, by the contract of `Lanes`.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: __m128i) {
        // SAFETY: 16 bytes are writable, by the contract of `Lanes`.
        unsafe { _mm_storeu_si128(to.cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> __m128i {
        let mut bytes = [0u8; 16];
        // SAFETY: n < 16 bytes are readable, and `bytes` has room for them.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), n);
            Self::load(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: __m128i, n: usize) {
        let mut bytes = [0u8; 16];
        // SAFETY: n < 16 bytes are writable, and `bytes` holds a whole vector.
        unsafe {
            Self::store(bytes.as_mut_ptr(), v);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, n);
        }
    }

    #[inline(always)]
    unsafe fn xor(a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    unsafe fn ready(v: __m128i) -> (__m128i, __m128i) {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe {
            let mask = _mm_set1_epi8(0x0F);
            (_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi64::<4>(v), mask))
        }
    }

    nibble_offsets!();

    #[inline(always)]
    unsafe fn factor(offset: u16) -> (__m128i, __m128i) {
        // SAFETY: both tables are 16 bytes long, and there are some at every offset that `index` gives.
        unsafe {
            let table = NIBBLES.as_ptr().byte_add(usize::from(offset));
            (Self::load((*table).low.as_ptr()), Self::load((*table).high.as_ptr()))
        }
    }

    #[inline(always)]
    unsafe fn mul(v: (__m128i, __m128i), factor: (__m128i, __m128i)) -> __m128i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm_xor_si128(_mm_shuffle_epi8(factor.0, v.0), _mm_shuffle_epi8(factor.1, v.1)) }
    }
}

/// What the two 32-byte sets share: everything but the product.
macro_rules! ymm {
    () => {
        type V = __m256i;
        const WIDTH: usize = 32;

        #[inline(always)]
        unsafe fn zero() -> __m256i {
            // SAFETY: the feature is present, by the contract of `Lanes`.
            unsafe { _mm256_setzero_si256() }
        }

        #[inline(always)]
        unsafe fn load(from: *const u8) -> __m256i {
            // SAFETY: 32 bytes are readable, by the contract of `Lanes`.
            unsafe { _mm256_loadu_si256(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut u8, v: __m256i) {
            // SAFETY: 32 bytes are writable, by the contract of `Lanes`.
            unsafe { _mm256_storeu_si256(to.cast(), v) }
        }

        #[inline(always)]
        unsafe fn load_part(from: *const u8, n: usize) -> __m256i {
            let mut bytes = [0u8; 32];
            // SAFETY: n < 32 bytes are readable, and `bytes` has room for them.
            unsafe {
                core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), n);
                Self::load(bytes.as_ptr())
            }
        }

        #[inline(always)]
        unsafe fn store_part(to: *mut u8, v: __m256i, n: usize) {
            let mut bytes = [0u8; 32];
            // SAFETY: n < 32 bytes are writable, and `bytes` holds a whole vector.
            unsafe {
                Self::store(bytes.as_mut_ptr(), v);
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, n);
            }
        }

        #[inline(always)]
        unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: the feature is present, by the contract of `Lanes`.
            unsafe { _mm256_xor_si256(a, b) }
        }
    };
}

/// 32-byte shuffles.
pub(super) struct Avx2;

impl Lanes for Avx2 {
    type Ready = (__m256i, __m256i);
    type Factor = (__m256i, __m256i);
    const REGISTERS: usize = 16;
    const IS_SPLIT: bool = true;
    const HAS_XOR3: bool = false;
    ymm!();

    #[inline(always)]
    unsafe fn ready(v: __m256i) -> (__m256i, __m256i) {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe {
            let mask = _mm256_set1_epi8(0x0F);
            (_mm256_and_si256(v, mask), _mm256_and_si256(_mm256_srli_epi64::<4>(v), mask))
        }
    }

    nibble_offsets!();

    #[inline(always)]
    unsafe fn factor(offset: u16) -> (__m256i, __m256i) {
        // SAFETY: both tables are 16 bytes long, and there are some at every offset that `index` gives.
        unsafe {
            let table = NIBBLES.as_ptr().byte_add(usize::from(offset));
            let low = _mm_loadu_si128((*table).low.as_ptr().cast());
            let high = _mm_loadu_si128((*table).high.as_ptr().cast());
            (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
        }
    }

    #[inline(always)]
    unsafe fn mul(v: (__m256i, __m256i), factor: (__m256i, __m256i)) -> __m256i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm256_xor_si256(_mm256_shuffle_epi8(factor.0, v.0), _mm256_shuffle_epi8(factor.1, v.1)) }
    }
}

/// 32-byte bit-matrix products.
pub(super) struct Gfni;

impl Lanes for Gfni {
    type Ready = __m256i;
    type Factor = __m256i;
    const REGISTERS: usize = 16;
    const IS_SPLIT: bool = false;
    const HAS_XOR3: bool = false;
    ymm!();

    #[inline(always)]
    unsafe fn ready(v: __m256i) -> __m256i {
        v
    }

    matrix_numbers!();

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> __m256i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(coefficient)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn mul(v: __m256i, factor: __m256i) -> __m256i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(v, factor) }
    }
}

/// 64-byte bit-matrix products; parts of a vector by masks.
pub(super) struct Avx512;

impl Lanes for Avx512 {
    type V = __m512i;
    type Ready = __m512i;
    type Factor = __m512i;
    const WIDTH: usize = 64;
    const REGISTERS: usize = 32;
    const IS_SPLIT: bool = false;
    const HAS_XOR3: bool = true;

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: 64 bytes are readable, by the contract of `Lanes`.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: __m512i) {
        // SAFETY: 64 bytes are writable, by the contract of `Lanes`.
        unsafe { _mm512_storeu_si512(to.cast(), v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> __m512i {
        // SAFETY: n < 64 bytes are readable; the others are masked out, and masked bytes are not accessed.
        unsafe { _mm512_maskz_loadu_epi8((1u64 << n) - 1, from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: __m512i, n: usize) {
        // SAFETY: n < 64 bytes are writable; the others are masked out, and masked bytes are not accessed.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1u64 << n) - 1, v) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn ready(v: __m512i) -> __m512i {
        v
    }

    matrix_numbers!();

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> __m512i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(coefficient)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn mul(v: __m512i, factor: __m512i) -> __m512i {
        // SAFETY: the feature is present, by the contract of `Lanes`.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(v, factor) }
    }
}

/// The vectors of `L` without coefficients: every product is the vector itself, so that sums of products are
/// plain XOR.
pub(super) struct Plain<L>(PhantomData<L>);

impl<L: Lanes> Lanes for Plain<L> {
    type V = L::V;
    type Ready = L::V;
    type Index = ();
    type Factor = ();
    const WIDTH: usize = L::WIDTH;
    const REGISTERS: usize = L::REGISTERS;
    const IS_SPLIT: bool = false;
    const HAS_XOR3: bool = L::HAS_XOR3;

    #[inline(always)]
    unsafe fn zero() -> L::V {
        // SAFETY: the same contract.
        unsafe { L::zero() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> L::V {
        // SAFETY: the same contract.
        unsafe { L::load(from) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, v: L::V) {
        // SAFETY: the same contract.
        unsafe { L::store(to, v) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, n: usize) -> L::V {
        // SAFETY: the same contract.
        unsafe { L::load_part(from, n) }
    }

    #[inline(always)]
    unsafe fn store_part(to: *mut u8, v: L::V, n: usize) {
        // SAFETY: the same contract.
        unsafe { L::store_part(to, v, n) }
    }

    #[inline(always)]
    unsafe fn xor(a: L::V, b: L::V) -> L::V {
        // SAFETY: the same contract.
        unsafe { L::xor(a, b) }
    }

    #[inline(always)]
    unsafe fn ready(v: L::V) -> L::V {
        v
    }

    #[inline(always)]
    fn index(_coefficient: u8) {}

    #[inline(always)]
    unsafe fn factor((): ()) {}

    #[inline(always)]
    unsafe fn mul(v: L::V, (): ()) -> L::V {
        v
    }
}
