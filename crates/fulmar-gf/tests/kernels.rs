//! Every kernel against the definition of the field, over all lengths, alignments and coefficients.

use fulmar_gf::{Kernel, kernels, mul_by_definition};

/// Every length, coefficient and so on; under Miri, which is thousands of times slower, one in so many.
const fn step(of_miri: usize) -> usize {
    if cfg!(miri) { of_miri } else { 1 }
}

/// Deterministic bytes without structure.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// One row of the multiplication table, by definition.
fn table(coefficient: u8) -> [u8; 256] {
    core::array::from_fn(|b| mul_by_definition(coefficient, b as u8))
}

fn mul_add_by_definition(destination: &mut [u8], source: &[u8], coefficient: u8) {
    let table = table(coefficient);
    for (d, s) in destination.iter_mut().zip(source) {
        *d ^= table[usize::from(*s)];
    }
}

/// `destination` and `source` begin `d` and `s` bytes after a 64-byte boundary of their noise.
fn check_pair(kernel: &dyn Kernel, len: usize, (d, s): (usize, usize), coefficient: u8) {
    let source = noise(s + len, 1);
    let before = noise(d + len + 64, 2);
    let (mut expected, mut got) = (before.clone(), before.clone());
    mul_add_by_definition(&mut expected[d..], &source[s..], coefficient);
    kernel.mul_add(&mut got[d..], &source[s..], coefficient);
    assert!(got == expected, "{} mul_add len {len} at {d}, {s} by {coefficient}", kernel.name());

    let (mut expected, mut got) = (before.clone(), before.clone());
    mul_add_by_definition(&mut expected[d..], &source[s..], 1);
    kernel.add(&mut got[d..], &source[s..]);
    assert!(got == expected, "{} add len {len} at {d}, {s}", kernel.name());

    let (mut expected, mut got) = (before.clone(), before.clone());
    expected[d..d + len].fill(0);
    mul_add_by_definition(&mut expected[d..d + len], &before[d..], coefficient);
    kernel.scale(&mut got[d..d + len], coefficient);
    assert!(got == expected, "{} scale len {len} at {d} by {coefficient}", kernel.name());
}

#[test]
fn all_lengths() {
    for kernel in kernels() {
        for len in (0..=4096).step_by(step(1021)) {
            check_pair(kernel, len, (0, 0), 1 + (len % 255) as u8);
        }
    }
}

#[test]
fn all_alignments() {
    for kernel in kernels() {
        for d in (0..64).step_by(step(21)) {
            for s in (0..64).step_by(step(23)) {
                check_pair(kernel, 150 + (d * 64 + s) % 67, (d, s), 0x8E);
            }
        }
    }
}

#[test]
fn all_coefficients() {
    for kernel in kernels() {
        for coefficient in (0..=255).step_by(step(51)) {
            for len in [5, 64, 321] {
                check_pair(kernel, len, (1, 3), coefficient);
            }
        }
    }
}

/// `lens[j]` is the length of input j.
fn check_dot(kernel: &dyn Kernel, outputs: usize, output_len: usize, lens: &[usize]) {
    let inputs: Vec<Vec<u8>> = lens.iter().enumerate().map(|(j, len)| noise(*len, 3 + j as u64)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    check_dot_by(kernel, outputs, output_len, &inputs, &noise(outputs * inputs.len(), 99));
    check_dot_by(kernel, outputs, output_len, &inputs, &vec![1; outputs * inputs.len()]);
}

fn check_dot_by(
    kernel: &dyn Kernel,
    outputs: usize,
    output_len: usize,
    inputs: &[&[u8]],
    coefficients: &[u8],
) {
    let lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
    let expected: Vec<Vec<u8>> = (0..outputs).map(|i| noise(output_len, 1000 + i as u64)).collect();
    let mut got = expected.clone();
    let mut sums = expected.clone();
    for (i, output) in sums.iter_mut().enumerate() {
        for (j, input) in inputs.iter().enumerate() {
            mul_add_by_definition(output, input, coefficients[j * outputs + i]);
        }
    }
    let mut slices: Vec<&mut [u8]> = got.iter_mut().map(Vec::as_mut_slice).collect();
    kernel.dot_into(&mut slices, inputs, coefficients, true);
    assert!(got == sums, "{} dot added to {outputs} outputs of {output_len}, inputs {lens:?}", kernel.name());
    // Without what the outputs held before.
    for (sum, before) in sums.iter_mut().zip(&expected) {
        mul_add_by_definition(sum, before, 1);
    }
    let mut slices: Vec<&mut [u8]> = got.iter_mut().map(Vec::as_mut_slice).collect();
    kernel.dot_into(&mut slices, inputs, coefficients, false);
    assert!(got == sums, "{} dot into {outputs} outputs of {output_len}, inputs {lens:?}", kernel.name());
}

#[test]
fn dot_over_all_lengths() {
    for kernel in kernels() {
        let step = if matches!(kernel.name(), "scalar" | "portable") { 61 } else { 1 }.max(step(1361));
        for len in (0..=4096).step_by(step) {
            check_dot(kernel, 1 + len % 9, len, &[len, len, len]);
        }
    }
}

#[test]
fn dot_over_all_shapes() {
    for kernel in kernels() {
        for outputs in (0..=19).step_by(step(3)) {
            for inputs in [65, 0, 1, 2, 3, 7, 63, 64, 130].into_iter().step_by(step(4)) {
                check_dot(kernel, outputs, 71, &vec![71; inputs]);
            }
        }
    }
}

#[test]
fn an_output_that_is_a_plain_sum() {
    for kernel in kernels() {
        for (outputs, inputs, len) in
            [(8, 32, 1400), (9, 3, 64), (16, 5, 71), (20, 65, 130)].into_iter().skip(step(2) - 1)
        {
            let sources: Vec<Vec<u8>> = (0..inputs).map(|j| noise(len, j as u64)).collect();
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let coefficients: Vec<u8> = (0..inputs * outputs)
                .map(|i| if i % outputs % 8 == 0 { 1 } else { (i * 7 + 3) as u8 })
                .collect();
            check_dot_by(kernel, outputs, len, &sources, &coefficients);
        }
    }
}

#[test]
fn recurrences_of_all_lags() {
    for kernel in kernels() {
        for lags in [
            &[216, 232][..],
            &[48, 96, 144, 248],
            &[48, 49],
            &[1, 300],
            &[3, 50, 90],
            &[47, 48, 49, 50],
            &[7],
        ] {
            for len in [300, 301, 347, 348, 349, 2000].into_iter().step_by(step(3)) {
                let known = 300;
                let seed = noise(4 * len, 5);
                let mut got: Vec<u32> =
                    seed.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
                let mut expected = got.clone();
                kernel.recur(&mut got, known, lags);
                for t in known..len {
                    expected[t] = lags.iter().fold(0, |sum, lag| sum ^ expected[t - lag]);
                }
                assert!(got == expected, "{} words {len}, lags {lags:?}", kernel.name());
            }
        }
    }
}

#[test]
fn dot_pads_short_inputs_with_zeros() {
    for kernel in kernels() {
        for len in [1, 63, 64, 65, 300].into_iter().step_by(step(2)) {
            let lens: Vec<usize> = (0..70).map(|j| if j % 3 == 0 { len } else { j * len / 70 }).collect();
            check_dot(kernel, 5, len, &lens);
            check_dot(kernel, 5, len + 40, &lens);
            check_dot(kernel, 1, len + 40, &[len, 0, len / 2]);
        }
    }
}

#[test]
fn the_fastest_kernel_is_the_default() {
    let best = kernels().last().map(Kernel::name);
    let wanted = std::env::var("FULMAR_GF").ok();
    let expected = kernels().map(Kernel::name).find(|name| Some(*name) == wanted.as_deref()).or(best);
    assert_eq!(Some(fulmar_gf::kernel().name()), expected);
}

/// Rows of noise over a few columns, one of them the sum of others, enter a system by every kernel and by the
/// definition of Gauss-Jordan elimination: the pivots and all that is left must be the same, and rows that
/// depend must be told.
#[test]
fn elimination_is_that_of_the_definition() {
    for kernel in kernels() {
        for width in (1..200).step_by(step(67)) {
            check_elimination(kernel, width, 1 + width % 17);
        }
    }
}

fn check_elimination(kernel: &dyn Kernel, width: usize, count: usize) {
    let columns: Vec<usize> = (0..count).map(|i| i * 7 % width).filter(|c| c % 3 != 1).collect();
    let mut offered: Vec<Vec<u8>> = (0..count).map(|i| noise(width, 5 + (i * width) as u64)).collect();
    if let [first, second, third, ..] = &mut offered[..] {
        third.copy_from_slice(first);
        mul_add_by_definition(third, second, 9);
    }
    let (mut rows, mut pivots, mut expected) = (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new());
    for offered in offered {
        let mut plain = offered.clone();
        for (row, pivot) in expected.iter().zip(&pivots) {
            mul_add_by_definition(&mut plain, row, offered[columns[*pivot]]);
        }
        let pivot = columns.iter().position(|column| plain[*column] != 0);
        let mut row = offered;
        assert_eq!(kernel.eliminate(&mut rows, &pivots, &mut row, &columns), pivot, "{}", kernel.name());
        let Some(pivot) = pivot else { continue };
        let value = plain[columns[pivot]];
        let inverse = (1..=255).find(|i| mul_by_definition(*i, value) == 1).unwrap();
        plain.iter_mut().for_each(|c| *c = mul_by_definition(*c, inverse));
        for row in &mut expected {
            let factor = row[columns[pivot]];
            mul_add_by_definition(row, &plain, factor);
        }
        expected.push(plain);
        rows.extend(row);
        pivots.push(pivot);
        assert_eq!(rows, expected.concat(), "{} width {width}, {count} rows", kernel.name());
    }
}
