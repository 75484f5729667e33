//! The field itself: GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D), generator 2.
//!
//! The polynomial is that of RFC 5510 (Reed-Solomon), RFC 6330 (RaptorQ) and RFC 8681 (RLC), so symbols made
//! here agree with theirs. Everything is `const`, and every table below is computed by the compiler.

/// x^8 + x^4 + x^3 + x^2 + 1, without its highest term.
const POLYNOMIAL: u8 = 0x1D;

/// `EXP[i]` = 2^i, twice over, so that a sum of two logarithms needs no reduction modulo 255.
static EXP: [u8; 510] = tables().0;
/// `LOG[a]` = i with 2^i = a, for a != 0.
static LOG: [u8; 256] = tables().1;

const fn tables() -> ([u8; 510], [u8; 256]) {
    let (mut exp, mut log) = ([0; 510], [0; 256]);
    let (mut power, mut i) = (1u8, 0usize);
    while i < 255 {
        exp[i] = power;
        exp[i + 255] = power;
        log[power as usize] = i as u8;
        power = double(power);
        i += 1;
    }
    (exp, log)
}

/// a * 2.
const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 }
}

/// a * b by shifts: the definition, used to build tables and as the reference in tests.
pub const fn mul_by_definition(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// a * b.
#[inline]
pub fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        0
    } else {
        EXP[usize::from(LOG[usize::from(a)]) + usize::from(LOG[usize::from(b)])]
    }
}

/// 1 / a, and 0 for a = 0.
#[inline]
pub fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { EXP[255 - usize::from(LOG[usize::from(a)])] }
}

/// 2^exponent.
#[inline]
pub fn exp(exponent: u32) -> u8 {
    EXP[(exponent % 255) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_definition_and_inverses_invert() {
        // Miri is thousands of times slower.
        let step = if cfg!(miri) { 17 } else { 1 };
        for a in (0..=255).step_by(step) {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_by_definition(a, b), "{a} * {b}");
            }
            assert_eq!(mul(a, inverse(a)), u8::from(a != 0));
        }
    }

    #[test]
    fn two_generates_the_field() {
        // RFC 6330 5.7.3 lists OCT_EXP: 1, 2, 4, 8, 16, 32, 64, 128, 29, 58, ...
        assert_eq!([0, 1, 7, 8, 9, 254, 255].map(exp), [1, 2, 128, 29, 58, 142, 1]);
    }
}
