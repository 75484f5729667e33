//! Kernels for x86-64: one loop, four instruction sets.
//!
//! [`Lanes`] is what differs between them, [`fused`] what they share. The entry points compile that loop once
//! per set of processor features; they are handed out only after the features were found ([`crate::kernel`]).
#![allow(unsafe_code)]

mod fused;
mod lanes;
mod tables;

use crate::kernel::{Entry, Kernel, check_dot};
use crate::{elimination, recurrence};
use fused::DotBlock;
use lanes::{Avx2, Avx512, Gfni, Ssse3};

/// Whether this processor has a feature: asked at run time with `std`, decided by the compiler's flags
/// without.
macro_rules! has {
    ($feature:tt) => {{
        #[cfg(feature = "std")]
        let has = std::arch::is_x86_feature_detected!($feature);
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = $feature);
        has
    }};
}

/// Defines one kernel: its type, its entry in the list, and its entry points with the features it needs.
macro_rules! kernel {
    ($entry:ident, $type:ident, $lanes:ty, $name:literal, $features:literal, $has:expr) => {
        /// The kernel of this name.
        pub(crate) const $entry: Entry = Entry { kernel: &$type, is_available: || $has };

        /// Handed out by [`crate::kernel`] only, and only where its features are present.
        #[derive(Debug)]
        struct $type;

        impl $type {
            /// # Safety
            /// The processor has the features named.
            #[target_feature(enable = $features)]
            unsafe fn dot_block(block: &mut DotBlock<'_, '_>) {
                // SAFETY: the features that the lanes need are enabled here, and the caller has found them
                // present.
                unsafe { fused::dot_block::<$lanes>(block) }
            }

            /// # Safety
            /// The processor has the features named.
            #[target_feature(enable = $features)]
            unsafe fn map(destination: &mut [u8], source: Option<&[u8]>, coefficient: u8) {
                // SAFETY: the features that the lanes need are enabled here, and the caller has found them
                // present.
                unsafe { fused::map::<$lanes>(destination, source, coefficient) }
            }

            /// # Safety
            /// The processor has the features named.
            #[target_feature(enable = $features)]
            unsafe fn eliminate(
                rows: &mut [u8],
                pivots: &[usize],
                row: &mut [u8],
                columns: &[usize],
            ) -> Option<usize> {
                let mul_add = |to: &mut [u8], from: &[u8], c: u8| {
                    // SAFETY: the features that the lanes need are enabled here, and the caller has found
                    // them present.
                    unsafe { fused::map::<$lanes>(to, Some(from), c) }
                };
                let scale = |to: &mut [u8], c: u8| {
                    // SAFETY: the same.
                    unsafe { fused::map::<$lanes>(to, None, c) }
                };
                elimination::eliminate(rows, pivots, row, columns, mul_add, scale)
            }

            /// # Safety
            /// The processor has the features named.
            #[target_feature(enable = $features)]
            unsafe fn recur(words: &mut [u32], known: usize, lags: &[usize]) {
                recurrence::recur(words, known, lags);
            }
        }

        impl Kernel for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn add(&self, destination: &mut [u8], source: &[u8]) {
                // SAFETY: values of this type are handed out only where the features are present.
                unsafe { Self::map(&mut destination[..source.len()], Some(source), 1) }
            }

            fn mul_add(&self, destination: &mut [u8], source: &[u8], coefficient: u8) {
                // SAFETY: values of this type are handed out only where the features are present.
                unsafe { Self::map(&mut destination[..source.len()], Some(source), coefficient) }
            }

            fn scale(&self, destination: &mut [u8], coefficient: u8) {
                // SAFETY: values of this type are handed out only where the features are present.
                unsafe { Self::map(destination, None, coefficient) }
            }

            fn dot_into(
                &self,
                outputs: &mut [&mut [u8]],
                inputs: &[&[u8]],
                coefficients: &[u8],
                is_sum: bool,
            ) {
                check_dot(outputs, inputs, coefficients);
                // SAFETY: values of this type are handed out only where the features are present.
                let dot = |block: &mut DotBlock<'_, '_>| unsafe { Self::dot_block(block) };
                let mul_add = |output: &mut [u8], input: &[u8], c: u8| self.mul_add(output, input, c);
                fused::for_each_block(outputs, inputs, coefficients, is_sum, dot, mul_add);
            }

            fn eliminate(
                &self,
                rows: &mut [u8],
                pivots: &[usize],
                row: &mut [u8],
                columns: &[usize],
            ) -> Option<usize> {
                // SAFETY: values of this type are handed out only where the features are present.
                unsafe { Self::eliminate(rows, pivots, row, columns) }
            }

            fn recur(&self, words: &mut [u32], known: usize, lags: &[usize]) {
                // SAFETY: values of this type are handed out only where the features are present.
                unsafe { Self::recur(words, known, lags) }
            }
        }
    };
}

kernel!(SSSE3, Ssse3Kernel, Ssse3, "ssse3", "ssse3", has!("ssse3"));
kernel!(AVX2, Avx2Kernel, Avx2, "avx2", "avx2", has!("avx2"));
kernel!(GFNI, GfniKernel, Gfni, "gfni", "avx2,gfni", has!("avx2") && has!("gfni"));
kernel!(
    AVX512,
    Avx512Kernel,
    Avx512,
    "avx512",
    "avx512f,avx512bw,avx512vl,gfni",
    has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("gfni")
);
