//! Arithmetic over GF(256) and XOR at the speed of memory, for erasure codes.
//!
//! The functions of this crate use the fastest [`Kernel`] of the processor at hand: GFNI with AVX-512 or
//! AVX2, byte shuffles (AVX2, SSSE3), or portable code. The choice is made once; the environment variable
//! `FULMAR_GF` = `scalar`, `portable`, `ssse3`, `avx2`, `gfni` or `avx512` overrides it.
//!
//! ```
//! let (a, b) = ([1u8, 2, 3], [7u8, 8, 9]);
//! let mut repair = [0u8; 3];
//! fulmar_gf::dot_add(&mut [&mut repair], &[&a, &b], &[5, 11]); // repair = 5 a + 11 b
//! fulmar_gf::mul_add(&mut repair, &a, 5); // repair - 5 a, for minus is plus
//! fulmar_gf::scale(&mut repair, fulmar_gf::inverse(11));
//! assert_eq!(repair, b);
//! ```
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

mod choice;
mod elimination;
mod field;
mod kernel;
mod portable;
mod recurrence;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use choice::{kernel, kernels};
pub use field::{exp, inverse, mul, mul_by_definition};
pub use kernel::Kernel;

/// destination += source, which is XOR. See [`Kernel`] for lengths.
#[inline]
pub fn add(destination: &mut [u8], source: &[u8]) {
    kernel().add(destination, source);
}

/// destination += coefficient * source. See [`Kernel`] for lengths.
#[inline]
pub fn mul_add(destination: &mut [u8], source: &[u8], coefficient: u8) {
    kernel().mul_add(destination, source, coefficient);
}

/// destination *= coefficient.
#[inline]
pub fn scale(destination: &mut [u8], coefficient: u8) {
    kernel().scale(destination, coefficient);
}

/// `outputs[i] += sum over j of coefficients[j * outputs.len() + i] * inputs[j]`. See [`Kernel::dot_into`].
#[inline]
pub fn dot_add(outputs: &mut [&mut [u8]], inputs: &[&[u8]], coefficients: &[u8]) {
    kernel().dot_into(outputs, inputs, coefficients, true);
}

/// `outputs[i] = sum over j of coefficients[j * outputs.len() + i] * inputs[j]`. See [`Kernel::dot_into`].
#[inline]
pub fn dot(outputs: &mut [&mut [u8]], inputs: &[&[u8]], coefficients: &[u8]) {
    kernel().dot_into(outputs, inputs, coefficients, false);
}

/// Takes one more row into a system in reduced row echelon form. See [`Kernel::eliminate`].
#[inline]
pub fn eliminate(rows: &mut [u8], pivots: &[usize], row: &mut [u8], columns: &[usize]) -> Option<usize> {
    kernel().eliminate(rows, pivots, row, columns)
}

/// From `known` on, `words[t]` = XOR of `words[t - lag]` over the lags. See [`Kernel::recur`].
#[inline]
pub fn recur(words: &mut [u32], known: usize, lags: &[usize]) {
    kernel().recur(words, known, lags);
}
