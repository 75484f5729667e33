//! How symbols lie in DFCP's blocks, and from which states its generators begin.

use super::ldpc::MESSAGE_BYTES;
use super::taus88::Taus88;
use fulmar_fec::parts::check_cover;
use fulmar_fec::{CodeError, Cover, RepairKey, Window};

/// Coded bytes with which nearly every block decodes; measured, see `docs/internals/codes.md`.
pub(super) const CODED_BYTES_EXPECTED: usize = 69_000;
/// The longest segment that is coded: a receiver enters all of one at once.
const SEGMENT_BYTES_MAX: usize = 2048;
/// Most symbols in a block, however short they are.
const SYMBOLS_MAX: u32 = 1024;

/// Most symbols in a block: none where they are longer than a receiver takes at once.
pub(super) fn len_max(symbol_bytes: usize) -> u32 {
    if symbol_bytes > SEGMENT_BYTES_MAX {
        return 0;
    }
    SYMBOLS_MAX.min((MESSAGE_BYTES / symbol_bytes.max(1)) as u32)
}

/// The window of a cover that is a block of this code.
pub(super) fn block_of(cover: Cover<'_>, symbol_bytes: usize) -> Result<Window, CodeError> {
    check_cover(cover)?;
    match cover {
        Cover::Window(window) if window.len <= len_max(symbol_bytes) => Ok(window),
        _ => Err(CodeError::BadCover),
    }
}

/// The generator's state before the segment of this key.
pub(super) fn segment_state(key: RepairKey) -> Taus88 {
    Taus88::seeded(key.0)
}

/// The generator's state for the LDPC code of a block: a function of the state exchanged when connecting, and
/// the block's number (thesis, section 3.8.3). The thesis does not give the function; here the number is
/// mixed into all three components, and six draws follow.
pub fn ldpc_state(initial: Taus88, block: u32) -> Taus88 {
    let (s1, s2, s3) = initial.parts();
    let mixed = [1, 2, 3].map(|i| block.wrapping_mul(69069).wrapping_add(i).wrapping_mul(69069));
    let mut state = Taus88::from_parts(s1 ^ mixed[0], s2 ^ mixed[1], s3 ^ mixed[2]);
    (0..6).for_each(|_| {
        state.draw();
    });
    state
}
