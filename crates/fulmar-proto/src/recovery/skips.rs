//! Packet numbers that are left out, so that nobody acknowledges what has not arrived (RFC 9000 21.4).
//!
//! A peer that acknowledges ahead of what it receives opens the window for a flood at whoever holds its
//! address. It cannot know which numbers are missing, and an ACK for one of those ends the connection.

use std::collections::VecDeque;

use rand_core::RngCore;

use crate::PacketNumber;
use crate::chance::Chance;
use crate::wire::frame::Ack;

/// At first a number is skipped among so many: a flood ends early.
const SPACING_FIRST_PACKETS: u32 = 32;
/// Later among so many: what a gap costs, an ACK at once, is not to be noticed.
const SPACING_MAX_PACKETS: u32 = 1024;
/// So many are kept in mind, of several windows.
const RECENT_MAX: usize = 16;

/// The mean distance between two, once it has grown.
const SPACING_MEAN_PACKETS: f32 = (SPACING_MAX_PACKETS as f32 + 1.0) / 2.0;

/// How many numbers are skipped per packet that elicits an ACK, on average, after so many of them. The
/// distance doubles each time, so the k-th comes after some 16 (2^k - 1) packets: at first it is the
/// derivative of that.
pub(super) fn share(eliciting_packets: u32) -> f32 {
    let packets = eliciting_packets as f32 + SPACING_FIRST_PACKETS as f32 / 2.0;
    (1.0 / (packets * core::f32::consts::LN_2)).max(1.0 / SPACING_MEAN_PACKETS)
}

/// When the next number is skipped, and which were.
#[derive(Debug)]
pub(super) struct Skips {
    rng: Chance,
    spacing_packets: u32,
    packets_left: u32,
    recent: VecDeque<PacketNumber>,
}

impl Skips {
    pub(super) fn new(rng: Chance) -> Self {
        let recent = VecDeque::new();
        let mut skips = Self { rng, spacing_packets: SPACING_FIRST_PACKETS, packets_left: 0, recent };
        skips.draw();
        skips
    }

    fn draw(&mut self) {
        self.packets_left = 1 + self.rng.next_u32() % self.spacing_packets;
        self.spacing_packets = (self.spacing_packets * 2).min(SPACING_MAX_PACKETS);
    }

    /// A packet left. True if the number after it is not to be used.
    pub(super) fn on_sent(&mut self) -> bool {
        self.packets_left -= 1;
        self.packets_left == 0
    }

    /// That is this one.
    pub(super) fn on_skipped(&mut self, number: PacketNumber) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(number);
        self.draw();
    }

    /// `ack` names a number that no packet had.
    pub(super) fn is_named_in(&self, ack: &Ack<'_>) -> bool {
        ack.ranges().any(|(low, high)| self.recent.iter().any(|number| (low..=high).contains(number)))
    }
}
