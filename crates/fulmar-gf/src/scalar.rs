//! The reference: one byte at a time, by the definition of each operation.

use crate::field::mul;
use crate::kernel::{Kernel, check_dot};

#[derive(Debug)]
pub(crate) struct Scalar;

impl Kernel for Scalar {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn add(&self, destination: &mut [u8], source: &[u8]) {
        self.mul_add(destination, source, 1);
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

    fn dot_into(&self, outputs: &mut [&mut [u8]], inputs: &[&[u8]], coefficients: &[u8], is_sum: bool) {
        check_dot(outputs, inputs, coefficients);
        if !is_sum {
            outputs.iter_mut().for_each(|output| output.fill(0));
        }
        let count = outputs.len();
        for (i, output) in outputs.iter_mut().enumerate() {
            for (j, input) in inputs.iter().enumerate() {
                self.mul_add(output, input, coefficients[j * count + i]);
            }
        }
    }
}
