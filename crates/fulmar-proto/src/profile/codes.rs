//! The erasure codes: one row each, with what it covers, how long it can be, and its maker.

use std::sync::Arc;

use fulmar_fec::{
    Code, CodeError, CodeId, DfcpRaptor, NAMES as CODES_BY_ID, NoCode, RaptorQ, ReedSolomon, RlcBlock,
    RlcWindow, XorGroups, dfcp::Taus88,
};

use super::choice::{Row, chosen, names, row};
use super::error::ProfileError;
use super::modules::block_symbols_max;
use super::values::Values;

/// Longest window that the sliding-window code of this implementation covers.
pub(crate) const WINDOW_SYMBOLS: u32 = 256;
/// Longest group of the XOR code.
const GROUP_SYMBOLS: u32 = 256;
/// Room that a Reed-Solomon block of the greatest length leaves to repair.
const REED_SOLOMON_REPAIRS_MIN: usize = 31;
/// A matrix of random coefficients is solved in cubic time.
const RLC_BLOCK_SYMBOLS_MAX: u32 = 1024;
/// Each connection draws its own state; until then any that is not degenerate will do.
const DFCP_SEED: u32 = 1;

/// What the repair symbols of a code are made of, as far as policies ask.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Cover {
    /// There are none.
    Nothing,
    /// Groups out of the window.
    Groups,
    /// Any stretch of the window.
    Window,
    /// A block, beside its source symbols.
    Block,
    /// A block, instead of its source symbols.
    Fountain,
}

/// A code that the setting `code` chooses.
pub(super) struct CodeRow {
    pub(super) cover: Cover,
    /// Longest block, and why there is a longest.
    pub(super) block_max: Option<(u32, &'static str)>,
    make: fn(&Values) -> Result<Arc<dyn Code>, CodeError>,
}

/// The name under which the registry of codes has it.
const fn code(
    id: CodeId,
    cover: Cover,
    block_max: Option<(u32, &'static str)>,
    make: fn(&Values) -> Result<Arc<dyn Code>, CodeError>,
) -> Row<CodeRow> {
    row(CODES_BY_ID[id.0 as usize], CodeRow { cover, block_max, make })
}

const CODES: [Row<CodeRow>; CODES_BY_ID.len()] = [
    code(NoCode::ID, Cover::Nothing, None, |_| Ok(Arc::new(NoCode))),
    code(XorGroups::ID, Cover::Groups, None, |values| {
        let groups = u16::try_from(values.integer("g").max(1)).unwrap_or(u16::MAX);
        Ok(Arc::new(XorGroups::new(groups, GROUP_SYMBOLS)?))
    }),
    code(
        ReedSolomon::ID,
        Cover::Block,
        Some((
            (ReedSolomon::SYMBOLS_MAX - REED_SOLOMON_REPAIRS_MIN) as u32,
            "it has 255 symbols in a block, repair included",
        )),
        |values| {
            let sources = block_symbols_max(values) as usize;
            Ok(Arc::new(ReedSolomon::new(sources, ReedSolomon::SYMBOLS_MAX.saturating_sub(sources))?))
        },
    ),
    code(RlcBlock::ID, Cover::Block, Some((RLC_BLOCK_SYMBOLS_MAX, "decoding takes cubic time")), |values| {
        Ok(Arc::new(RlcBlock::new(block_symbols_max(values))?))
    }),
    code(RlcWindow::ID, Cover::Window, None, |_| Ok(Arc::new(RlcWindow::new(WINDOW_SYMBOLS)?))),
    code(DfcpRaptor::ID, Cover::Fountain, None, |values| {
        if is_offline(values) {
            let sources = DfcpRaptor::len_max(DfcpRaptor::SEGMENT_BYTES);
            return Ok(Arc::new(RlcBlock::new(sources)?));
        }
        Ok(Arc::new(DfcpRaptor::new(Taus88::seeded(DFCP_SEED))))
    }),
    code(RaptorQ::ID, Cover::Block, None, |values| Ok(Arc::new(RaptorQ::new(block_symbols_max(values))?))),
];

/// The code of which the repair is bounded.
pub(super) const REED_SOLOMON: &str = CODES_BY_ID[ReedSolomon::ID.0 as usize];

/// The words of the setting `code`.
pub(super) const NAMES: [&str; CODES.len()] = names(&CODES);

/// DFCP's offline encoding, `coding=0,decoding=0` (Solymos 2014, section 3.12.1): a measurement without the
/// code's time. There every block carries the bytes of the first, and what comes is counted and dropped. Here
/// blocks of the same length go by a code that costs next to nothing as long as nothing is lost, so that the
/// data arrive.
fn is_offline(values: &Values) -> bool {
    values.word("policy") == "fountain" && !values.flag("coding")
}

/// The row that `values` choose.
pub(super) fn chosen_code(values: &Values) -> &'static CodeRow {
    chosen(const { &CODES }, values, "code")
}

/// The code that `values` choose.
pub(super) fn make(values: &Values) -> Result<Arc<dyn Code>, ProfileError> {
    let made = (chosen_code(values).make)(values);
    made.map_err(|error| ProfileError::Conflict(format!("code={}: {error}", values.word("code"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_numbers_on_the_wire() {
        assert_eq!(NAMES, CODES_BY_ID);
    }
}
