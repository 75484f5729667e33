//! What is left of an ACK that told too much to be settled at once.
//!
//! Whoever sends one that tells the fate of all there can be under way has its own connection wait for that,
//! a part at a time, and nobody else.

use crate::PacketNumber;
use crate::wire::frame::{self, Ack, Frame, Frames};

#[derive(Debug)]
pub(super) struct RestOfAck {
    /// The frame.
    bytes: Vec<u8>,
    pub(super) largest: PacketNumber,
    /// Of its packets these have not been looked at, and those below.
    pub(super) upto: PacketNumber,
    /// What it reports is the newest word, and not booked yet.
    pub(super) is_newest: bool,
}

impl RestOfAck {
    pub(super) fn new(ack: &Ack<'_>, upto: PacketNumber, is_newest: bool) -> Self {
        let mut bytes = Vec::new();
        frame::put_ack(&mut bytes, ack.ranges(), ack.delay_us, ack.ecn, ack.coding.as_ref(), usize::MAX);
        Self { bytes, largest: ack.largest, upto, is_newest }
    }

    pub(super) fn ack(&self) -> Option<Ack<'_>> {
        match Frames::new(&self.bytes).next() {
            Some(Ok(Frame::Ack(ack))) => Some(ack),
            _ => None,
        }
    }
}
