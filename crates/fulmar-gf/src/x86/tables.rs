//! What the kernels look up for a coefficient, computed by the compiler.

use crate::field::mul_by_definition;

/// `NIBBLES[c]` = the products c * 0..16, then c * (0..16 << 4): what a byte shuffle looks up (Plank,
/// Greenan, Miller, "Screaming fast Galois field arithmetic using Intel SIMD instructions", FAST 2013).
pub(super) static NIBBLES: [Nibbles; 256] = nibbles();

/// One coefficient's two 16-byte tables.
#[derive(Copy, Clone)]
#[repr(C, align(32))]
pub(super) struct Nibbles {
    pub(super) low: [u8; 16],
    pub(super) high: [u8; 16],
}

const fn nibbles() -> [Nibbles; 256] {
    let mut tables = [Nibbles { low: [0; 16], high: [0; 16] }; 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            tables[c].low[n] = mul_by_definition(c as u8, n as u8);
            tables[c].high[n] = mul_by_definition(c as u8, (n << 4) as u8);
            n += 1;
        }
        c += 1;
    }
    tables
}

/// `MATRICES[c]` = multiplication by c as the 8x8 bit matrix that GF2P8AFFINEQB takes: byte 7 - i holds the
/// row that gives bit i of the product (Intel SDM, "GF2P8AFFINEQB"). Unlike GF2P8MULB it is not tied to the
/// AES polynomial.
pub(super) static MATRICES: [u64; 256] = matrices();

const fn matrices() -> [u64; 256] {
    let mut all = [0u64; 256];
    let mut c = 0;
    while c < 256 {
        let mut column = 0;
        while column < 8 {
            let product = mul_by_definition(c as u8, 1 << column);
            let mut bit = 0;
            while bit < 8 {
                if product >> bit & 1 != 0 {
                    all[c] |= 1 << (8 * (7 - bit) + column);
                }
                bit += 1;
            }
            column += 1;
        }
        c += 1;
    }
    all
}
