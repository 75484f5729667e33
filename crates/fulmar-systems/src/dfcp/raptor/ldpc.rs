//! The outer code: 2000 check bytes over 63536 message bytes (thesis, section 3.7.2).
//!
//! For each message byte a degree is drawn, then as many distinct check bytes, into which the message byte is
//! XORed. The thesis says "according to the given probability distribution" and does not give it. Here it is
//! that of the pre-code in the paper its Omega comes from (Shokrollahi, "Raptor codes", 2006, section VI):
//! edge degrees (2 x + 3 x^2) / 5, which means that half of the bytes have degree 2 and half have degree 3.
//! The highest bit of a draw decides, a repeated check is dropped and drawn again, and a draw means the check
//! `draw mod 2000`.

use super::taus88::{Draws, Taus88};

/// User bytes of a block.
pub const MESSAGE_BYTES: usize = 63536;
/// Check bytes of a block.
pub const CHECK_BYTES: usize = 2000;

/// Calls `edges` with every message byte, its degree of 2 or 3, and three check bytes, of which the first so
/// many count.
///
/// There are always three, so that a caller can do the same for both degrees: the processor cannot guess
/// which it will be.
#[inline(always)]
pub(super) fn for_each_message_byte(state: Taus88, mut edges: impl FnMut(usize, usize, [usize; 3])) {
    let mut draws = Draws::new(state);
    let mut message = 0;
    while message < MESSAGE_BYTES {
        let ready = draws.ready::<4>();
        let mut rest = ready;
        while let [first, a, b, c, ..] = rest
            && message < MESSAGE_BYTES
        {
            let (degree, [a, b, c]) = (degree(*first), [a, b, c].map(|draw| check(*draw)));
            if (a == b) | ((degree == 3) & ((a == c) | (b == c))) {
                break;
            }
            edges(message, degree, [a, b, c]);
            rest = &rest[1 + degree..];
            message += 1;
        }
        let taken = ready.len() - rest.len();
        draws.take(taken);
        if message < MESSAGE_BYTES {
            let degree = degree(draws.draw());
            edges(message, degree, distinct(&mut draws, degree));
            message += 1;
        }
    }
}

/// The degree that a draw means.
#[inline(always)]
fn degree(draw: u32) -> usize {
    2 + (draw >> 31) as usize
}

/// The check byte that a draw means.
#[inline(always)]
fn check(draw: u32) -> usize {
    (draw % CHECK_BYTES as u32) as usize
}

/// The usual description: repeated ones are dropped and drawn again.
fn distinct(draws: &mut Draws, degree: usize) -> [usize; 3] {
    let (mut checks, mut count) = ([0; 3], 0);
    while count < degree {
        let next = check(draws.draw());
        if !checks[..count].contains(&next) {
            checks[count] = next;
            count += 1;
        }
    }
    checks
}

/// The check bytes of a message, which may be shorter than a block: the rest is zero.
pub(super) fn checks(state: Taus88, message: &[u8]) -> [u8; CHECK_BYTES] {
    let mut sums = [0; CHECK_BYTES];
    for_each_message_byte(state, |byte, degree, [a, b, c]| {
        let value = message.get(byte).copied().unwrap_or(0);
        sums[a] ^= value;
        sums[b] ^= value;
        sums[c] ^= if degree == 3 { value } else { 0 };
    });
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_those_of_the_plain_description() {
        let mut state = Taus88::seeded(3);
        let mut edges = 0;
        for_each_message_byte(state, |_, degree, checks| {
            let expected = 2 + (state.draw() >> 31) as usize;
            let mut plain = Vec::new();
            while plain.len() < expected {
                let check = state.draw() as usize % CHECK_BYTES;
                if !plain.contains(&check) {
                    plain.push(check);
                }
            }
            assert_eq!((degree, &checks[..degree]), (expected, &plain[..]));
            edges += degree;
        });
        assert!((edges as f64 / MESSAGE_BYTES as f64 - 2.5).abs() < 0.01);
    }
}
