//! The reference: one byte at a time, by the definition of each operation.

use crate::field::mul;
use crate::kernel::Kernel;

#[derive(Debug)]
pub(crate) struct Scalar;

impl Kernel for Scalar {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn mul_add(&self, destination: &mut [u8], source: &[u8], coefficient: u8) {
        for (d, s) in destination[..source.len()].iter_mut().zip(source) {
            *d ^= mul(coefficient, *s);
        }
    }

    fn scale(&self, destination: &mut [u8], coefficient: u8) {
        for d in destination {
            *d = mul(coefficient, *d);
        }
    }
}
