//! What every sending half of the coding layer can do, whatever its code.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use fulmar_control::{Choice, Opportunity};
use fulmar_fec::{Code, Geometry, SymbolId};
use fulmar_units::Instant;

use super::blocks::BlockSender;
use super::sliding::SlidingSender;
use super::stats::SenderStats;
use crate::TransportError;
use crate::recovery::Content;
use crate::wire::frame::CodingState;

/// What a packet was given to carry.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// For the record of the packet.
    pub content: Content,
    /// It repeats or repairs.
    pub is_repair: bool,
}

/// Packs a new symbol of at most the bytes given; leaves it empty if there is nothing to send.
pub type Fill<'a> = dyn FnMut(&mut Vec<u8>, usize) + 'a;

/// The sender's side of the coding layer: makes symbols arrive.
///
/// Decides nothing about time or rate. It is told which packets arrived and which were lost, counts what the receiver
/// lacks, shows that to the redundancy policy as an [`Opportunity`], and carries out its choice.
pub trait SymbolSender: Debug + Send {
    /// Counts so far.
    fn stats(&self) -> &SenderStats;

    /// Id of the next source symbol.
    fn next_id(&self) -> SymbolId;

    /// Everything sent has been decoded by the receiver.
    fn is_all_delivered(&self) -> bool;

    /// Bytes of symbols held for the case that they are needed again.
    fn held_bytes(&self) -> u64;

    /// Symbols between the oldest that is not delivered and the newest.
    fn span_symbols(&self) -> u64;

    /// How the next chance to send looks to a policy. `rtt` is the time after which what was sent has arrived or is lost.
    fn slot(&mut self, now: Instant, has_new_data: bool, rtt: Duration) -> Opportunity;

    /// When a symbol known missing is to be sent again, whatever the counts say.
    fn overdue_at(&self, rtt: Duration) -> Option<Instant>;

    /// A block begins with the next source symbol: it must be planned before a policy chooses one. Never where the code has
    /// no blocks.
    fn needs_plan(&self) -> bool {
        false
    }

    /// The next block is to have so many source symbols, as far as the code allows.
    fn plan_block(&mut self, _symbols: u32) {}

    /// Carries out `choice`: appends a frame of at most `space_bytes` to `packet`. `None`: there was nothing to carry.
    fn emit(
        &mut self,
        now: Instant,
        choice: Choice,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        fill: &mut Fill<'_>,
    ) -> Option<Emitted>;

    /// What the probe timeout sends, whatever policy and deficit say: what helps most if all that is under way was lost.
    fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted>;

    /// A packet arrived, which had been declared lost if `was_lost`. True if it added a degree of freedom at the receiver.
    fn on_acked(&mut self, content: Content, was_lost: bool) -> bool;

    /// A packet was lost.
    fn on_lost(&mut self, now: Instant, content: Content);

    /// The receiver reported its state, in the newest ACK so far. Returns the symbols that were lost and are now known
    /// to be repaired.
    fn on_peer_state(&mut self, now: Instant, state: CodingState) -> Result<u32, TransportError>;

    /// Symbols for which repair has to be asked, since this was last called: what was sent for them unasked does not suffice.
    fn take_unrepairable(&mut self, now: Instant, rtt: Duration) -> u32;
}

/// A sender that uses `code` for symbols of at most `symbol_bytes`, towards a receiver that retains `reach_symbols`.
pub fn symbol_sender(code: Arc<dyn Code>, symbol_bytes: usize, reach_symbols: u32) -> Box<dyn SymbolSender> {
    match code.shape().geometry {
        Geometry::Block { .. } => Box::new(BlockSender::new(code, symbol_bytes, reach_symbols)),
        Geometry::None | Geometry::Sliding { .. } => {
            Box::new(SlidingSender::new(code, symbol_bytes, reach_symbols))
        }
    }
}
