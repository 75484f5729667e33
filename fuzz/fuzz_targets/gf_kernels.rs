//! Every kernel against the first, which is the reference.
#![no_main]

use fulmar_gf::kernels;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [outputs, inputs, rest @ ..] = data else { return };
    let (outputs, inputs) = (usize::from(outputs % 12), usize::from(inputs % 80));
    let Some((coefficients, bytes)) = rest.split_at_checked(outputs * inputs) else { return };
    // Inputs of unequal lengths: each as long as its index allows.
    let inputs: Vec<&[u8]> = (0..inputs).map(|j| &bytes[..bytes.len() - bytes.len() * (j % 3) / 4]).collect();
    let results = kernels().map(|kernel| {
        let mut result = vec![bytes.to_vec(); outputs];
        let mut slices: Vec<&mut [u8]> = result.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.dot_into(&mut slices, &inputs, coefficients, bytes.len() % 2 == 0);
        result
    });
    let results: Vec<_> = results.collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
});
