//! What went wrong, in words, where no handle is left to ask.

use std::ffi::c_char;

use crate::memory::{self, SizedStruct};

/// Room for a text, its final zero included.
const TEXT_BYTES: usize = 512;

/// Why something could not be made. Set `size`; the rest is filled in when the function fails.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ful_error {
    /// sizeof(ful_error).
    pub size: usize,
    /// What the function returned.
    pub code: i32,
    /// Why, in English, with names and values; cut where it is longer than this.
    pub text: [c_char; 512],
}

// SAFETY: numbers only.
unsafe impl SizedStruct for ful_error {}

/// A code with a reason.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: i32, text: impl ToString) -> Self {
        Self { code, text: text.to_string() }
    }
}

/// Without more to say than the code does.
impl From<i32> for Failure {
    fn from(code: i32) -> Self {
        Self { code, text: String::new() }
    }
}

/// Tells the caller who wants to know, and gives the code.
pub(crate) unsafe fn tell(failure: Failure, out: *mut ful_error) -> i32 {
    if !out.is_null() {
        let mut text = [0; TEXT_BYTES];
        let whole = failure.text.len().min(TEXT_BYTES - 1);
        // No half a character at the end.
        let end = (0..=whole).rev().find(|&end| failure.text.is_char_boundary(end)).unwrap_or(0);
        for (to, from) in text.iter_mut().zip(&failure.text.as_bytes()[..end]) {
            *to = *from as c_char;
        }
        let error = ful_error { size: size_of::<ful_error>(), code: failure.code, text };
        // SAFETY: not NULL, so it is the caller's struct with its size in front. One that is too small is
        // left.
        let _ = unsafe { memory::write_sized(out, &error) };
    }
    failure.code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut error = ful_error { size: size_of::<ful_error>(), code: 0, text: [1; 512] };
        // SAFETY: a whole struct.
        let code = unsafe { tell(Failure::new(-3, "ä".repeat(300)), &mut error) };
        assert_eq!((code, error.code), (-3, -3));
        let end = error.text.iter().position(|byte| *byte == 0).expect("it ends");
        assert_eq!(end, 510);
    }
}
