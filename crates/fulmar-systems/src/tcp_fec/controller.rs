//! TCP-FEC's congestion control: a loss that was repaired is congestion too, but is answered gently.
//!
//! Source: Sato 2019, section 5.2. The receiver returns ECN-echo when it repairs a loss, and the sender then
//! does cwnd = r * cwnd (5.1), 0 < r <= 1: 0.5 is NewReno's answer, 0.8 CUBIC's, 1 none; 0.7 served best. A
//! loss that cannot be repaired is what duplicate ACKs announce there (section 4.3), and costs what it costs
//! NewReno.
//!
//! The notice is our ACK's count of symbols repaired. As an ECN-echo (RFC 3168 6.1.2) it is obeyed once per
//! window, and not if that window was reduced for a loss already: it counts from when the lost packet was
//! sent, for in a recovery of many rounds each may bring a repair. So is a real mark, which a TCP-FEC sender
//! could not tell from it. Slow start ends with it, as
//! with any ECN-echo, also with r = 1, which reduces nothing: where it went on, the first queue that
//! overflows took hundreds of packets, and Table 5.3 had 0.6 instead of 24 Mb/s. Chapters 3 and 4 have no
//! notice at all ([`Gently::unnotified`]). Losses that wait for their group's repair are not answered: that
//! is the suppression of duplicate ACKs. Nothing is undone: reordering has no effect here unless repair had
//! to be asked for.
//!
//! Inputs: packets repaired and not repairable, marks. Invariant: window >= 2 packets.

use fulmar_control::congestion::{Aimd, REDUCTION, Response, WindowController};
use fulmar_control::{Feedback, PathView, WindowConfig};

/// NewReno below an erasure code that reports what it repaired.
pub type TcpFec = WindowController<Gently>;

/// Multiplies the window by the source's r on what was repaired, and halves it on what was not.
#[derive(Clone, Debug)]
pub struct Gently {
    /// The source's r; `None` where nobody tells the sender of repaired losses.
    reduction: Option<f64>,
}

impl Gently {
    /// A controller for a path of `mtu_bytes` with reduction factor `reduction`, the source's r, above 0 and
    /// at most 1.
    pub fn controller(mtu_bytes: u32, config: WindowConfig, reduction: f64) -> TcpFec {
        let is_sound = reduction.is_finite() && reduction > 0.0;
        let reduction = if is_sound { reduction.min(1.0) } else { REDUCTION };
        WindowController::with_response(mtu_bytes, config, Gently { reduction: Some(reduction) })
    }

    /// TCP-FEC of chapters 3 and 4: a repaired loss is not seen.
    pub fn unnotified(mtu_bytes: u32, config: WindowConfig) -> TcpFec {
        WindowController::with_response(mtu_bytes, config, Gently { reduction: None })
    }
}

impl Response for Gently {
    const NAME: &'static str = "tcp-fec";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, _path: &PathView) {
        let is_notice = window.is_new_repair(feedback) || window.is_new_mark(feedback);
        if window.is_new_unrepairable(feedback) {
            window.reduce(feedback, REDUCTION, false);
            window.enter_recovery();
        } else if let Some(reduction) = self.reduction.filter(|_| is_notice) {
            window.reduce(feedback, reduction, false);
        } else {
            window.grow(feedback);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_control::CongestionController;
    use fulmar_control::congestion::told::{MTU, acked, at, forty_packets, lost, path, window};

    fn controller(reduction: f64) -> TcpFec {
        Gently::controller(MTU, forty_packets(), reduction)
    }

    fn repaired(now: u64, sent: u64) -> Feedback {
        let mut feedback = acked(now, sent, 1_000);
        feedback.coding.repaired_packets = 1;
        feedback
    }

    /// (5.1) with the factors of section 5.2.
    #[test]
    fn a_repaired_loss_multiplies_the_window_by_r_once_per_window() {
        for (reduction, expected) in [(0.5, 20_000), (0.7, 28_000), (0.8, 32_000)] {
            let mut controller = controller(reduction);
            controller.on_feedback(&lost(190, 150, 1), &path());
            assert_eq!(window(&controller), 40_000, "suppressed until it is known to be unrepairable");
            controller.on_feedback(&repaired(200, 150), &path());
            assert_eq!(window(&controller), expected);
            controller.on_feedback(&repaired(210, 160), &path());
            assert_eq!(window(&controller), expected);
        }
    }

    /// RFC 3168 6.1.2: no second reduction for one window of data. A recovery takes many rounds, and what its
    /// retransmissions let groups restore was lost before it.
    #[test]
    fn what_is_repaired_late_belongs_to_the_window_in_which_it_was_lost() {
        let mut controller = controller(0.7);
        let mut feedback = lost(200, 150, 2);
        feedback.coding.unrepairable_packets = 2;
        controller.on_feedback(&feedback, &path());
        for (now, sent, expected) in [(400, 180, 20_000), (600, 190, 20_000), (800, 300, 14_000)] {
            let mut feedback = acked(now, now - 50, 0);
            feedback.coding.repaired_packets = 1;
            feedback.coding.repaired_sent_at = Some(at(sent));
            controller.on_feedback(&feedback, &path());
            assert_eq!(window(&controller), expected, "{now}");
        }
    }

    /// RFC 6582 3.2 (4): `recover` is what had been sent at the timeout; no loss from before it counts anew.
    #[test]
    fn what_was_lost_before_a_timeout_costs_no_more_than_the_timeout() {
        let mut config = forty_packets();
        config.is_timeout_final = true;
        let mut controller = Gently::controller(MTU, config, 0.7);
        controller.on_timeout(at(500), 1, &path());
        for (now, sent, expected) in [(600, 450, 2_000), (700, 550, 2_000)] {
            let mut feedback = acked(now, now - 50, 0);
            feedback.coding.unrepairable_packets = 1;
            feedback.coding.unrepairable_sent_at = Some(at(sent));
            controller.on_feedback(&feedback, &path());
            assert_eq!(window(&controller), expected, "{now}");
            assert_eq!(controller.recoveries(), Some(u64::from(sent > 500)));
        }
    }

    #[test]
    fn r_of_one_does_not_decrease_but_ends_slow_start() {
        let mut controller = controller(1.0);
        controller.on_feedback(&repaired(200, 150), &path());
        assert_eq!((window(&controller), controller.phase()), (40_000, "congestion avoidance"));
    }

    #[test]
    fn without_notice_a_repaired_loss_is_not_seen() {
        let config = forty_packets();
        let mut controller = Gently::unnotified(MTU, config);
        controller.on_feedback(&repaired(200, 150), &path());
        assert_eq!((window(&controller), controller.phase()), (41_000, "slow start"));
    }

    #[test]
    fn an_unrepaired_loss_is_newrenos_half() {
        let mut controller = controller(0.7);
        let mut feedback = lost(200, 150, 2);
        feedback.coding.unrepairable_packets = 2;
        controller.on_feedback(&feedback, &path());
        assert_eq!(window(&controller), 20_000);
        feedback.lost.newest_sent_at = Some(fulmar_units::Instant::ZERO);
        controller.on_feedback(&feedback, &path());
        assert_eq!(window(&controller), 20_000, "the same window");
    }

    /// The verdict may wait for a group to close: a packet sent before the last halving costs no other.
    #[test]
    fn a_late_verdict_belongs_to_the_window_in_which_its_packet_was_sent() {
        let mut controller = controller(0.7);
        for (now, sent, expected) in [(200, 150, 20_000), (400, 180, 20_000), (600, 201, 10_000)] {
            // Acknowledged is what was sent a round trip ago, after the last halving.
            let mut feedback = acked(now, now - 100, 0);
            feedback.coding.unrepairable_packets = 1;
            feedback.coding.unrepairable_sent_at = Some(at(sent));
            controller.on_feedback(&feedback, &path());
            assert_eq!(window(&controller), expected, "{now}");
        }
    }

    #[test]
    fn fast_recovery_is_entered_for_what_was_not_repaired() {
        let mut controller = controller(0.7);
        controller.on_feedback(&lost(200, 150, 3), &path());
        controller.on_feedback(&repaired(300, 250), &path());
        assert_eq!(controller.recoveries(), Some(0));
        let mut feedback = lost(400, 350, 1);
        feedback.coding.unrepairable_packets = 1;
        controller.on_feedback(&feedback, &path());
        controller.on_feedback(&feedback, &path());
        assert_eq!(controller.recoveries(), Some(1));
    }

    #[test]
    fn a_factor_out_of_range_is_newrenos() {
        let mut controller = controller(f64::NAN);
        controller.on_feedback(&repaired(200, 150), &path());
        assert_eq!(window(&controller), 20_000);
    }
}
