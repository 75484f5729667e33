//! What a packet carries for the coding layer.

use fulmar_fec::SymbolId;

use super::parts::Piece;

/// What a packet was given to carry, and what the coding layer wants to hear of again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A source symbol, for the first time.
    Source(SymbolId),
    /// A combination that brings this source symbol for the first time.
    Combined(SymbolId),
    /// A copy of a source symbol sent before.
    Copy(SymbolId),
    /// A piece of a source symbol that no longer fits a packet.
    Part(Piece),
    /// A repair symbol; the sender's number for it, or for its block.
    Repair(u64),
}

impl Content {
    /// What it is, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Source(_) => "source",
            Self::Combined(_) => "combined",
            Self::Copy(_) => "copy",
            Self::Part(_) => "part",
            Self::Repair(_) => "repair",
        }
    }

    /// The symbol's number among those of its kind: copies and parts have that of their source symbol.
    pub fn number(&self) -> u64 {
        match *self {
            Self::Source(id) | Self::Combined(id) | Self::Copy(id) | Self::Part(Piece { id, .. }) => id.0,
            Self::Repair(number) => number,
        }
    }
}
