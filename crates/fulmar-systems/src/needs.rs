//! What policies of several systems need of their codes, in words.

/// Of LT-TCP and CTCP.
pub(crate) const BLOCKS: &str =
    "a code over blocks that sends its source symbols: reed-solomon, rlc-block or raptorq";
