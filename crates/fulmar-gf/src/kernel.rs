//! The cut between arithmetic and its users: what a kernel does.

use core::fmt::Debug;

use crate::{elimination, recurrence};

/// Arithmetic on byte strings, each byte an element of GF(256).
///
/// All variants compute the same function; they differ in speed only. A source shorter than its destination
/// counts as padded with zeros. A source longer than its destination is a mistake of the caller and panics.
pub trait Kernel: Debug + Send + Sync {
    /// Its name, as the environment variable `FULMAR_GF` takes it.
    fn name(&self) -> &'static str;

    /// destination += source, which is XOR.
    fn add(&self, destination: &mut [u8], source: &[u8]) {
        self.mul_add(destination, source, 1);
    }

    /// destination += coefficient * source.
    fn mul_add(&self, destination: &mut [u8], source: &[u8], coefficient: u8);

    /// destination *= coefficient.
    fn scale(&self, destination: &mut [u8], coefficient: u8);

    /// `outputs[i] = sum over j of coefficients[j * outputs.len() + i] * inputs[j]`, reading every input once
    /// for several outputs and writing every output once for several inputs. With `is_sum`, what the outputs
    /// hold is added.
    ///
    /// The outputs are of equal length, and there is one coefficient for each output and input.
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

    /// Takes one more row into a system in reduced row echelon form, by Gauss-Jordan elimination.
    ///
    /// `rows` are those there are, one after the other, each as long as `row`; row i has a 1 in the column
    /// `columns[pivots[i]]`, in which the others have 0. Returns such a pivot for `row`: the first of
    /// `columns`, by its index, in which it is not 0 once the others are taken out. `None` if there is none:
    /// then it depends on them, as far as these columns go, and they are as they were.
    fn eliminate(
        &self,
        rows: &mut [u8],
        pivots: &[usize],
        row: &mut [u8],
        columns: &[usize],
    ) -> Option<usize> {
        let mul_add = |to: &mut [u8], from: &[u8], c| self.mul_add(to, from, c);
        elimination::eliminate(rows, pivots, row, columns, mul_add, |to, c| self.scale(to, c))
    }

    /// Goes on with a linear recurrence: from `known` on, `words[t]` = XOR of `words[t - lag]` over the lags,
    /// which are at least 1 and at most `known`. Fast for two or four lags of at least 48.
    fn recur(&self, words: &mut [u32], known: usize, lags: &[usize]) {
        recurrence::recur(words, known, lags);
    }
}

/// Checks what every kernel demands of [`Kernel::dot_into`]; the unsafe ones rest on it.
pub(crate) fn check_dot(outputs: &[&mut [u8]], inputs: &[&[u8]], coefficients: &[u8]) {
    assert_eq!(coefficients.len(), outputs.len() * inputs.len(), "one coefficient for each output and input");
    let Some(first) = outputs.first() else { return };
    assert!(outputs.iter().all(|output| output.len() == first.len()), "outputs of equal length");
    assert!(inputs.iter().all(|input| input.len() <= first.len()), "no input longer than the outputs");
}

/// A kernel and the question whether it runs here. Only what answers "yes" is ever handed out.
pub(crate) struct Entry {
    pub(crate) kernel: &'static dyn Kernel,
    pub(crate) is_available: fn() -> bool,
}
