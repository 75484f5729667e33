//! Policers: links that drop what comes faster than their rate, and let nothing wait.
//!
//! Their drops look like the path's losses, for nothing waits, and to make up for them is to lose more:
//! several flows that do lose half of what they send. But on a path that is ours to fill a probe makes a
//! queue, or finds more. A probe that did neither was dropped. After a few of them losses may be others'
//! doing, as where a queue hides.
//!
//! Source: Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016. BBR's long-term rate
//! (Linux, net/ipv4/tcp_bbr.c, `bbr_lt_bw_sampling`) takes a steady rate amid heavy loss for a policer's; a
//! path that loses a fifth by itself looks just so.

use core::time::Duration;

use fulmar_units::Rate;

use super::streak::Streak;
use super::tally::Tally;

/// Probes have found more, little by little, if so many times as much arrives as in the first of them.
const GROWTH: f64 = 1.5;
/// Of a probe a policer drops more than this, though it has eight flows.
const LOSS_MIN: f64 = 0.03;

/// Probes that neither made a queue nor found more.
#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    probes: Streak,
    /// What arrived in the first of them.
    rate: Rate,
    /// Mean round trip of the last round that was sent no faster than the rate.
    cruise_rtt: Option<Duration>,
    /// The round before was sent faster as well.
    is_probing: bool,
}

impl Policer {
    /// Losses are a policer's.
    pub(super) fn is_known(&self) -> bool {
        self.probes.is_known()
    }

    /// A round that was sent no faster than the rate, of this mean round trip. A queue that stands is no
    /// policer's.
    pub(super) fn on_cruise_round(&mut self, rtt: Duration, has_queue: bool) {
        self.cruise_rtt = Some(rtt);
        self.is_probing = false;
        if has_queue {
            self.probes = Streak::default();
        }
    }

    /// A round that was sent faster, which brought `tally`. A queue would have made its mean round trip `rtt`
    /// longer than before by `waited` at least.
    pub(super) fn on_probe_round(&mut self, rtt: Duration, waited: Duration, tally: &Tally) {
        if core::mem::replace(&mut self.is_probing, true) {
            return;
        }
        let Some(before) = self.cruise_rtt else { return };
        if tally.delivery_rate > self.rate.scaled(GROWTH) {
            (self.probes, self.rate) = (Streak::default(), tally.delivery_rate);
        }
        let has_waited = rtt >= before.saturating_add(waited);
        self.probes.on_round((has_waited || tally.lost_share() > LOSS_MIN).then_some(!has_waited));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// A probe after rounds of cruising: `rtt` millis while it lasts, so many packets of a hundred lost, and
    /// what arrived.
    fn probe(policer: &mut Policer, rtt: u64, lost_packets: u32, rate: u64) {
        policer.on_cruise_round(RTT, false);
        let mut tally = Tally::new();
        (tally.acked_packets, tally.lost_packets) = (100 - lost_packets, lost_packets);
        tally.delivery_rate = Rate::from_bytes_per_second(rate);
        policer.on_probe_round(Duration::from_millis(rtt), Duration::from_millis(1), &tally);
    }

    fn known() -> Policer {
        let mut policer = Policer::default();
        for _ in 0..3 {
            assert!(!policer.is_known());
            probe(&mut policer, 20, 20, 100);
        }
        assert!(policer.is_known());
        policer
    }

    #[test]
    fn three_probes_that_lose_and_leave_nothing_to_wait() {
        known();
    }

    #[test]
    fn a_queue_tells_of_a_link() {
        let mut policer = Policer::default();
        for _ in 0..9 {
            probe(&mut policer, 22, 20, 100);
        }
        assert!(!policer.is_known(), "its own");
        let mut policer = known();
        policer.on_cruise_round(RTT, true);
        assert!(!policer.is_known(), "one that stands");
    }

    #[test]
    fn so_does_what_probes_find() {
        let mut policer = Policer::default();
        for rate in [100, 125, 156, 195, 244, 305] {
            probe(&mut policer, 20, 20, rate);
            assert!(!policer.is_known(), "{rate}");
        }
        let mut policer = known();
        probe(&mut policer, 20, 0, 110);
        assert!(policer.is_known(), "nothing is lost where it was saved up");
        probe(&mut policer, 20, 0, 200);
        assert!(!policer.is_known(), "the policer is gone");
    }

    #[test]
    fn only_the_first_round_of_a_probe_counts() {
        let mut policer = Policer::default();
        probe(&mut policer, 20, 20, 100);
        let mut tally = Tally::new();
        (tally.acked_packets, tally.lost_packets) = (80, 20);
        for _ in 0..9 {
            policer.on_probe_round(RTT, Duration::from_millis(1), &tally);
        }
        assert!(!policer.is_known());
    }
}
