//! The outer code: 2000 check bytes over 63536 message bytes (thesis, section 3.7.2).
//!
//! For each message byte a degree is drawn, then as many distinct check bytes, into which the message byte is XORed. The
//! thesis says "according to the given probability distribution" and does not give it. Here it is that of the pre-code in the
//! paper its Omega comes from (Shokrollahi, "Raptor codes", 2006, section VI): edge degrees (2 x + 3 x^2) / 5, which means
//! that half of the bytes have degree 2 and half have degree 3. The highest bit of a draw decides, a repeated check is
//! dropped and drawn again, and a draw means the check `draw mod 2000`.

use super::taus88::{Draws, Taus88};

/// User bytes of a block.
pub const MESSAGE_BYTES: usize = 63536;
/// Check bytes of a block.
pub const CHECK_BYTES: usize = 2000;

/// Calls `edge` with every message byte and every check byte it goes into.
pub(super) fn for_each_edge(state: Taus88, mut edge: impl FnMut(usize, usize)) {
    let mut draws = Draws::new(state);
    let mut check = || (draws.draw(), ());
    for message in 0..MESSAGE_BYTES {
        let degree = 2 + (check().0 >> 31);
        let a = check().0 % CHECK_BYTES as u32;
        let mut b = a;
        while b == a {
            b = check().0 % CHECK_BYTES as u32;
        }
        edge(message, a as usize);
        edge(message, b as usize);
        if degree == 3 {
            let mut c = a;
            while c == a || c == b {
                c = check().0 % CHECK_BYTES as u32;
            }
            edge(message, c as usize);
        }
    }
}

/// The check bytes of a message, which may be shorter than a block: the rest is zero.
pub(super) fn checks(state: Taus88, message: &[u8]) -> [u8; CHECK_BYTES] {
    let mut checks = [0; CHECK_BYTES];
    for_each_edge(state, |byte, check| checks[check] ^= message.get(byte).copied().unwrap_or(0));
    checks
}
