//! All codes by name, as profiles and command lines give them.

use alloc::sync::Arc;

use crate::{Code, CodeError, DfcpRaptor, NoCode, ReedSolomon, RlcBlock, RlcWindow, XorGroups, dfcp::Taus88};

/// The names that [`by_name`] knows, in the order of their numbers on the wire.
pub const NAMES: [&str; 7] = ["none", "xor", "reed-solomon", "rlc-block", "rlc-window", "dfcp", "raptorq"];

/// A code for blocks or windows of at most `len_max` symbols, with its usual parameters: XOR in groups of at most `len_max`,
/// Reed-Solomon with a quarter of repair symbols, DFCP from a fixed state. `raptorq` is there with the feature of that name.
pub fn by_name(name: &str, len_max: u32) -> Result<Arc<dyn Code>, CodeError> {
    let sources = usize::try_from(len_max).map_err(|_| CodeError::BadParameters)?;
    Ok(match name {
        "none" => Arc::new(NoCode),
        "xor" => Arc::new(XorGroups::new(64, len_max)?),
        "reed-solomon" => Arc::new(ReedSolomon::new(sources, sources.div_ceil(4))?),
        "rlc-block" => Arc::new(RlcBlock::new(len_max)?),
        "rlc-window" => Arc::new(RlcWindow::new(len_max)?),
        "dfcp" => Arc::new(DfcpRaptor::new(Taus88::seeded(0))),
        #[cfg(feature = "raptorq")]
        "raptorq" => Arc::new(crate::RaptorQ::new(len_max)?),
        _ => return Err(CodeError::BadParameters),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for (number, name) in NAMES.iter().enumerate() {
            match by_name(name, 32) {
                Ok(code) => assert_eq!(usize::from(code.shape().id.0), number),
                Err(_) => assert!(*name == "raptorq" && cfg!(not(feature = "raptorq"))),
            }
        }
        assert!(by_name("unheard of", 32).is_err());
    }
}
