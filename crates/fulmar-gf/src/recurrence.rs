//! Linear recurrences over GF(2), on words: 32 sequences of bits side by side, as shift-register generators
//! have them.

/// Words computed together; lags below this are taken one word at a time.
const RUN: usize = 48;
/// Words in the registers at a time.
const PART: usize = 16;

/// See [`crate::Kernel::recur`]. Written so that the compiler makes vectors of it, of whatever size its
/// caller may use.
#[inline(always)]
pub(crate) fn recur(words: &mut [u32], known: usize, lags: &[usize]) {
    assert!(lags.iter().all(|lag| (1..=known).contains(lag)), "lags reach known words only");
    let mut at = known;
    if lags.iter().all(|lag| *lag >= RUN) {
        while at + RUN <= words.len() {
            match *lags {
                [a, b] => run(words, at, [a, b]),
                [a, b, c, d] => run(words, at, [a, b, c, d]),
                _ => break,
            }
            at += RUN;
        }
    }
    for at in at..words.len() {
        words[at] = lags.iter().fold(0, |sum, lag| sum ^ words[at - lag]);
    }
}

/// The words from `at` on, of which there are `RUN`. A part is summed up before it is stored, which makes it
/// plain to the compiler that no sum depends on another.
#[inline(always)]
fn run<const N: usize>(words: &mut [u32], at: usize, lags: [usize; N]) {
    let (before, new) = words.split_at_mut(at);
    let mut back: [&[[u32; PART]]; N] = [&[]; N];
    for (back, lag) in back.iter_mut().zip(lags) {
        *back = before[at - lag..][..RUN].as_chunks().0;
    }
    for (part, new) in new[..RUN].as_chunks_mut::<PART>().0.iter_mut().enumerate() {
        let mut sum = back[0][part];
        for back in &back[1..] {
            for i in 0..PART {
                sum[i] ^= back[part][i];
            }
        }
        *new = sum;
    }
}
