//! For processors without a kernel of their own: no lookups and no branches on data, written so that the
//! compiler turns it into whatever vectors the target has (SSE2, NEON, wasm SIMD).
//!
//! c * s is the sum of c * 2^i over the bits i that are set in s. For each bit, its lane becomes a mask of
//! zeros or ones.

use crate::field::mul;
use crate::kernel::Kernel;

/// Bytes handled together; two vectors of most targets, and all of it stays in registers.
const BLOCK: usize = 32;

#[derive(Debug)]
pub(crate) struct Portable;

impl Kernel for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn add(&self, destination: &mut [u8], source: &[u8]) {
        for (d, s) in destination[..source.len()].iter_mut().zip(source) {
            *d ^= s;
        }
    }

    fn mul_add(&self, destination: &mut [u8], source: &[u8], coefficient: u8) {
        if coefficient == 1 {
            return self.add(destination, source);
        }
        let products = products(coefficient);
        let (to, to_rest) = destination[..source.len()].as_chunks_mut::<BLOCK>();
        let (from, from_rest) = source.as_chunks::<BLOCK>();
        for (d, s) in to.iter_mut().zip(from) {
            let product = mul_block(s, &products);
            for (d, p) in d.iter_mut().zip(product) {
                *d ^= p;
            }
        }
        for (d, s) in to_rest.iter_mut().zip(from_rest) {
            *d ^= mul(coefficient, *s);
        }
    }

    fn scale(&self, destination: &mut [u8], coefficient: u8) {
        let products = products(coefficient);
        let (blocks, rest) = destination.as_chunks_mut::<BLOCK>();
        for block in blocks {
            *block = mul_block(block, &products);
        }
        for d in rest {
            *d = mul(coefficient, *d);
        }
    }
}

/// coefficient * 2^i for each bit i.
fn products(coefficient: u8) -> [u8; 8] {
    core::array::from_fn(|bit| mul(coefficient, 1 << bit))
}

#[inline(always)]
fn mul_block(source: &[u8; BLOCK], products: &[u8; 8]) -> [u8; BLOCK] {
    let mut product = [0; BLOCK];
    for (bit, term) in products.iter().enumerate() {
        for (p, s) in product.iter_mut().zip(source) {
            *p ^= 0u8.wrapping_sub(s >> bit & 1) & term;
        }
    }
    product
}
