//! All codes by name and by number, those of `fulmar-fec` and the one that lives here: what tests, fuzz
//! targets and the swarm draw from.

use std::sync::Arc;

use fulmar_fec::{Code, CodeError, CodeId};

use crate::dfcp::{DfcpRaptor, Taus88};

/// The names that [`by_name`] knows, in the order of their numbers on the wire.
pub const NAMES: [&str; 7] = ["none", "xor", "reed-solomon", "rlc-block", "rlc-window", "dfcp", "raptorq"];

/// As [`fulmar_fec::by_name`], with DFCP's code from a fixed state.
pub fn by_name(name: &str, len_max: u32) -> Result<Arc<dyn Code>, CodeError> {
    match name {
        "dfcp" => Ok(Arc::new(DfcpRaptor::new(Taus88::seeded(0)))),
        _ => fulmar_fec::by_name(name, len_max),
    }
}

/// As [`fulmar_fec::from_parameters`], with DFCP's code.
pub fn from_parameters(id: CodeId, parameters: &[u32]) -> Result<Arc<dyn Code>, CodeError> {
    if id == DfcpRaptor::ID {
        return Ok(Arc::new(DfcpRaptor::from_parameters(parameters)?));
    }
    fulmar_fec::from_parameters(id, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_and_every_code_is_made_again() {
        for (number, name) in NAMES.iter().enumerate() {
            let code = by_name(name, 32).expect("every code");
            assert_eq!(usize::from(code.shape().id.0), number);
            let again = from_parameters(code.shape().id, &code.parameters()).expect("its own");
            assert_eq!((again.shape(), again.parameters()), (code.shape(), code.parameters()));
            let longer: Vec<u32> = code.parameters().into_iter().chain([7]).collect();
            assert!(from_parameters(code.shape().id, &longer).is_err(), "{name}");
        }
        assert!(by_name("unheard of", 32).is_err() && from_parameters(CodeId(200), &[]).is_err());
    }
}
