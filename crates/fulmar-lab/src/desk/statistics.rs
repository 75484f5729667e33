//! What the transfers of a run say together.

use super::types::{Amount, Ending, Figures, Spec, Statistics, Transfer};
use crate::statistics::{Summary, without_outliers};

/// One of each transport, in their order.
pub(crate) fn of(spec: &Spec, transfers: &[Transfer]) -> Vec<Statistics> {
    (0..spec.transports.len()).map(|flow| of_flow(spec, flow, transfers)).collect()
}

fn of_flow(spec: &Spec, flow: usize, transfers: &[Transfer]) -> Statistics {
    let counting: Vec<&Transfer> = (transfers.iter())
        .filter(|t| t.flow == flow && matches!(t.status, Ending::Complete | Ending::Time | Ending::GaveUp))
        .collect();
    // The thesis' rule concerns the times of whole transfers; of equal times it can only concern what arrived
    // in them.
    let is_timed = matches!(spec.amount, Amount::Bytes(_));
    let value = |t: &Transfer| if is_timed { t.time_s } else { t.goodput_mbps };
    let ruled: Vec<&Transfer> =
        (counting.iter().copied()).filter(|t| !is_timed || t.status == Ending::Complete).collect();
    let kept_values = without_outliers(&ruled.iter().map(|t| value(t)).collect::<Vec<_>>());
    let mut free = kept_values;
    let is_kept = |t: &Transfer, free: &mut Vec<f64>| {
        let at = free.iter().position(|&kept| kept == value(t))?;
        Some(free.swap_remove(at))
    };
    let left_out: Vec<u32> =
        ruled.iter().filter(|t| is_kept(t, &mut free).is_none()).map(|t| t.transfer).collect();
    let kept: Vec<&Transfer> = counting.iter().copied().filter(|t| !left_out.contains(&t.transfer)).collect();
    Statistics { flow, all: figures(&counting), kept: figures(&kept), left_out }
}

fn figures(transfers: &[&Transfer]) -> Figures {
    let times: Vec<f64> = transfers.iter().filter(|t| t.status != Ending::GaveUp).map(|t| t.time_s).collect();
    let goodputs: Vec<f64> = transfers.iter().map(|t| t.goodput_mbps).collect();
    Figures { time_s: Summary::of(&times), goodput_mbps: Summary::of(&goodputs) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::spec::tests::spec;

    fn transfer(number: u32, time_s: f64, status: Ending) -> Transfer {
        Transfer {
            flow: 0,
            transfer: number,
            seed: 1,
            status,
            error: None,
            received_bytes: 1_000_000,
            time_s,
            goodput_mbps: 8.0 / time_s,
            wire_ratio: None,
            lost_packets: 0,
            offered_packets: 0,
            repair_packets: 0,
        }
    }

    #[test]
    fn the_rule_of_the_thesis_leaves_out_both_ends_and_says_which() {
        let mut transfers: Vec<_> =
            (0..19).map(|i| transfer(i, 10.0 + 0.01 * f64::from(i), Ending::Complete)).collect();
        transfers.push(transfer(19, 1000.0, Ending::Complete));
        let found = of(&spec(), &transfers).swap_remove(0);
        assert_eq!(found.left_out, [0, 19]);
        assert_eq!((found.all.time_s.unwrap().n, found.kept.time_s.unwrap().n), (20, 18));
        assert!(found.kept.time_s.unwrap().mean < 11.0);
    }

    #[test]
    fn what_was_given_up_has_no_time_and_what_failed_does_not_count() {
        let transfers = [
            transfer(0, 2.0, Ending::Complete),
            transfer(1, 60.0, Ending::GaveUp),
            transfer(2, 1.0, Ending::Failed),
            transfer(3, 1.0, Ending::Invalid),
            transfer(4, 1.0, Ending::Stopped),
        ];
        let found = of(&spec(), &transfers).swap_remove(0);
        assert_eq!((found.all.time_s.unwrap().n, found.all.goodput_mbps.unwrap().n), (1, 2));
    }
}
