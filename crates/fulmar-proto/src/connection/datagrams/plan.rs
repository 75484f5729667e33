//! How many repair symbols datagrams need, and how many they may cost.
//!
//! The datagrams whose deadline has not passed are taken for a block: it needs as many repair symbols as are
//! lost of it and of them but for the probability [`RESIDUAL`], on the two-state channel of the loss
//! estimate (`fulmar_control::Channel::repairs_for`). In the steady state of a flow each datagram adds its
//! share of that. What is spent is bounded by tokens: each datagram earns what its bytes allow.

use fulmar_control::{Channel, LossView};

/// How probably a block may lose more than its repair: of datagrams fewer come too late.
const RESIDUAL: f64 = 0.002;
/// More repair symbols than this for each symbol are not worth planning.
const PER_SYMBOL_MAX: u32 = 4;
/// Loss assumed of a path that has not carried enough packets, and how many are enough.
const LOSS_UNKNOWN: f64 = 0.05;
const WEIGHT_KNOWN: f64 = 50.0;
/// Finer differences of loss rate and burst length change no plan.
const RATE_STEPS: f64 = 400.0;
const BURST_STEPS: f64 = 8.0;
/// Symbols beyond this are counted by eights.
const SYMBOLS_EXACT: u32 = 16;

/// Most repair symbols that may have been saved up.
const TOKENS_MAX: f64 = 4.0;

/// IPv4 and UDP.
const IP_BYTES: f64 = 28.0;
/// What a packet adds to the symbol in it: the short header and the tag, and the frame.
const PACKET_BYTES: f64 = 29.0;
const SYMBOL_FRAME_BYTES: f64 = 6.0;
const REPAIR_FRAME_BYTES: f64 = 10.0;
/// What the other end's ACKs take for each datagram.
const ACK_BYTES: f64 = 26.0;

/// The answer to the question asked last: it is asked for each datagram.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Plan {
    asked: (u32, u32, u32),
    repairs: u32,
}

impl Plan {
    /// How many repair symbols `symbols` datagrams need.
    pub(super) fn repairs_for(&mut self, symbols: u32, loss: &LossView) -> u32 {
        let symbols = if symbols > SYMBOLS_EXACT { symbols.next_multiple_of(8) } else { symbols.max(1) };
        let unknown = (WEIGHT_KNOWN - loss.weight_packets).max(0.0);
        let rate = (loss.rate * loss.weight_packets.max(0.0) + LOSS_UNKNOWN * unknown)
            / (loss.weight_packets.max(0.0) + unknown);
        // As u32 what is not a number is zero.
        let asked = (symbols, (rate * RATE_STEPS).ceil() as u32, (loss.burst_packets * BURST_STEPS) as u32);
        if asked != self.asked {
            let view = LossView {
                rate: f64::from(asked.1) / RATE_STEPS,
                burst_packets: f64::from(asked.2) / BURST_STEPS,
                weight_packets: loss.weight_packets,
            };
            self.asked = asked;
            self.repairs = match asked.1 {
                0 => 0,
                _ => Channel::new(&view).repairs_for(symbols, RESIDUAL, symbols * PER_SYMBOL_MAX),
            };
        }
        self.repairs
    }
}

/// Repair symbols that may be sent: each datagram earns its share.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Tokens(f64);

impl Tokens {
    /// A datagram of `bytes` is sent, which with its repair may cost `percent` of what it takes without us.
    pub(super) fn earn(&mut self, bytes: usize, percent: u16) {
        self.0 = (self.0 + share(bytes, percent)).min(TOKENS_MAX);
    }

    /// Takes at most `wanted`. How many it took.
    pub(super) fn take(&mut self, wanted: u32) -> u32 {
        // Whole ones, and never negative.
        let taken = wanted.min(self.0 as u32);
        self.0 -= f64::from(taken);
        taken
    }
}

/// Repair symbols that a datagram of `bytes` pays for.
fn share(bytes: usize, percent: u16) -> f64 {
    let bytes = bytes as f64;
    let allowed = (bytes + IP_BYTES) * f64::from(percent) / 100.0;
    let source = bytes + IP_BYTES + PACKET_BYTES + SYMBOL_FRAME_BYTES + ACK_BYTES;
    let repair = bytes + IP_BYTES + PACKET_BYTES + REPAIR_FRAME_BYTES;
    ((allowed - source) / repair).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(rate: f64, burst_packets: f64) -> LossView {
        LossView { rate, burst_packets, weight_packets: 1000.0 }
    }

    #[test]
    fn repair_follows_losses_and_bursts() {
        let mut plan = Plan::default();
        let mut repairs = |symbols, loss| plan.repairs_for(symbols, &loss);
        assert_eq!(repairs(3, loss(0.0, 1.0)), 0);
        // 3 symbols and 2 of repair: P(3 or more of 5 lost at 5 %) = 0.0012.
        assert_eq!(repairs(3, loss(0.05, 1.0)), 2);
        // P(4 or more of 7 lost at 10 %) = 0.0027, 5 or more of 8: 0.0004.
        assert_eq!(repairs(3, loss(0.1, 1.0)), 3);
        assert!(repairs(3, loss(0.1, 3.0)) > 5 && repairs(3, loss(0.28, 1.4)) > 4);
        // Of many symbols each needs less.
        assert!(repairs(100, loss(0.1, 1.0)) < 35);
        assert_eq!(repairs(3, loss(f64::NAN, f64::NAN)), 0);
    }

    #[test]
    fn little_is_known_at_first() {
        let unknown = LossView { rate: 0.0, burst_packets: 0.0, weight_packets: 0.0 };
        assert_eq!(Plan::default().repairs_for(3, &unknown), 2);
    }

    #[test]
    fn what_is_spent_is_bounded_by_what_datagrams_take_without_us() {
        // 148 bytes with headers: at three times that 444, of which its own packet and ACKs take 209.
        assert!((share(120, 300) - 235.0 / 187.0).abs() < 0.01);
        assert!((0.8..0.9).contains(&share(120, 250)));
        assert_eq!(share(0, 100), 0.0);
        let mut tokens = Tokens::default();
        (0..100).for_each(|_| tokens.earn(120, 250));
        assert_eq!((tokens.take(2), tokens.take(10), tokens.take(1)), (2, 2, 0));
    }
}
