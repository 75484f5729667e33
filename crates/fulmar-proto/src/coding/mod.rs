//! The coding layer: makes source symbols arrive.
//!
//! Above it, frames are packed into symbols and taken out of them; below it, packets are lost. A sender keeps a ring
//! of symbols and, at each chance to send, turns a policy's choice into a packet: a new symbol, a copy, a combination. There
//! are two: `sliding` for windows of symbols, `blocks` for blocks.
//! The receiver decodes, delivers each symbol once, the moment it is known, and reports what it lacks.

mod blocks;
mod combiner;
mod parts;
mod receiver;
mod ring;
mod sender;
mod sets;
mod sliding;
mod stats;

pub use parts::Piece;
pub(crate) use receiver::SYMBOLS_AHEAD_MAX;
pub use receiver::{ReceiverStats, SymbolReceiver};
pub use sender::{Emitted, Fill, SymbolSender, symbol_sender};
pub use stats::SenderStats;

#[cfg(test)]
mod tests;
