//! All codes by name, as profiles and command lines give them.

use alloc::sync::Arc;

use crate::{Code, CodeError, CodeId, Density, NoCode, ReedSolomon, RlcBlock, RlcWindow, XorGroups};

/// The names that [`by_name`] knows, in the order of their numbers on the wire. Number 5 is DFCP's, which is
/// in `fulmar-systems`.
pub const NAMES: [&str; 6] = ["none", "xor", "reed-solomon", "rlc-block", "rlc-window", "raptorq"];

/// A code for blocks or windows of at most `len_max` symbols, with its usual parameters: XOR in groups of at
/// most `len_max`, Reed-Solomon with a quarter of repair symbols. `raptorq` is there
/// with the feature of that name.
pub fn by_name(name: &str, len_max: u32) -> Result<Arc<dyn Code>, CodeError> {
    let sources = usize::try_from(len_max).map_err(|_| CodeError::BadParameters)?;
    Ok(match name {
        "none" => Arc::new(NoCode),
        "xor" => Arc::new(XorGroups::new(64, len_max)?),
        "reed-solomon" => Arc::new(ReedSolomon::new(sources, sources.div_ceil(4))?),
        "rlc-block" => Arc::new(RlcBlock::new(len_max)?),
        "rlc-window" => Arc::new(RlcWindow::new(len_max)?),
        #[cfg(feature = "raptorq")]
        "raptorq" => Arc::new(crate::RaptorQ::new(len_max)?),
        _ => return Err(CodeError::BadParameters),
    })
}

/// The code of that number with [`Code::parameters`]; an error if they make no sense or this build does not
/// have it.
pub fn from_parameters(id: CodeId, parameters: &[u32]) -> Result<Arc<dyn Code>, CodeError> {
    let density = |share: u32| u16::try_from(share).ok().and_then(Density::of_256);
    Ok(match (id, parameters) {
        (NoCode::ID, []) => Arc::new(NoCode),
        (XorGroups::ID, &[groups, len]) => {
            Arc::new(XorGroups::new(u16::try_from(groups).map_err(|_| CodeError::BadParameters)?, len)?)
        }
        (ReedSolomon::ID, &[sources, repairs]) => {
            Arc::new(ReedSolomon::new(sources as usize, repairs as usize)?)
        }
        (RlcBlock::ID, &[len, share, is_systematic @ 0..=1]) => {
            let share = density(share).ok_or(CodeError::BadParameters)?;
            let code = RlcBlock::new(len)?.with_density(share);
            Arc::new(if is_systematic == 1 { code } else { code.not_systematic() })
        }
        (RlcWindow::ID, &[len, share]) => {
            let share = density(share).ok_or(CodeError::BadParameters)?;
            Arc::new(RlcWindow::new(len)?.with_density(share))
        }
        #[cfg(feature = "raptorq")]
        (crate::RaptorQ::ID, &[len]) => Arc::new(crate::RaptorQ::new(len)?),
        _ => return Err(CodeError::BadParameters),
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for (number, name) in [0, 1, 2, 3, 4, 6].into_iter().zip(NAMES) {
            match by_name(name, 32) {
                Ok(code) => assert_eq!(code.shape().id, CodeId(number)),
                Err(_) => assert!(name == "raptorq" && cfg!(not(feature = "raptorq"))),
            }
        }
        assert!(by_name("unheard of", 32).is_err());
    }

    #[test]
    fn every_code_is_made_again_from_its_parameters() {
        for code in NAMES.iter().filter_map(|name| by_name(name, 32).ok()) {
            let (id, parameters) = (code.shape().id, code.parameters());
            let again = from_parameters(id, &parameters).unwrap();
            assert_eq!((again.shape(), again.parameters()), (code.shape(), parameters.clone()));
            let longer: Vec<u32> = parameters.iter().copied().chain([7]).collect();
            assert!(from_parameters(id, &longer).is_err());
        }
        assert!(from_parameters(RlcBlock::ID, &[32, 257, 1]).is_err());
        assert!(from_parameters(RlcBlock::ID, &[32, 256, 2]).is_err());
        assert!(from_parameters(CodeId(200), &[]).is_err());
    }
}
