//! From the values of all settings to what the engine sends with.

use std::sync::Arc;
use std::time::Duration;

use fulmar_control as control;
use fulmar_control::CongestionController;
use fulmar_profile::{Make, Table, Values, keeps_duplicates_back, misses_by_packets};

use super::engine::{TIMEOUTS, VARIATIONS};
use crate::recovery::{AckPolicy, RecoveryConfig, Timeout};

/// A window that neither begins larger nor stays larger whatever happens is one that obeys (RFC 6928).
const OBEYING_PACKETS_MAX: u64 = 10;

/// Whether what `values` describe sends less when packets are lost or delayed, so that a stranger may choose
/// it.
pub(super) fn obeys(table: &Table, values: &Values) -> bool {
    let windows = [values.integer("iw"), values.integer("wmin")];
    table.controller(values).obeys && windows.into_iter().all(|packets| packets <= OBEYING_PACKETS_MAX)
}

/// The congestion controller, and what stands between it and the path.
pub(super) fn congestion(table: &Table, values: &Values) -> Make<dyn CongestionController> {
    let inner = (table.controller(values).make)(values);
    let (is_masked, window_bytes) = (values.flag("masked"), values.integer("rwnd"));
    if !is_masked && window_bytes == 0 {
        return inner;
    }
    let by_duplicate_acks = (table.policy(values).is_asked_by_tcp)(values);
    Arc::new(move |context| {
        let mut controller = inner(context);
        if is_masked {
            controller = Box::new(if by_duplicate_acks {
                control::AboveCode::by_duplicate_acks(controller)
            } else {
                control::AboveCode::new(controller)
            });
        }
        if window_bytes > 0 {
            controller = Box::new(control::ReceiveWindow::new(context.mtu_bytes, controller, window_bytes));
        }
        controller
    })
}

/// Loss detection and timeouts.
pub(super) fn recovery(values: &Values) -> RecoveryConfig {
    let seconds = |name| Duration::from_secs_f64(values.number(name));
    let timeout = if values.word("timeout") == TIMEOUTS[0] {
        Timeout::Probe
    } else {
        Timeout::Retransmission {
            initial: seconds("rto_initial"),
            min: seconds("rto_min"),
            max: seconds("rto_max"),
        }
    };
    let variation = VARIATIONS.into_iter().find(|(word, _)| *word == values.word("rtt"));
    let (_, variation) = variation.unwrap_or(VARIATIONS[0]);
    let packet_bytes_max = u16::try_from(values.integer("packet")).ok().filter(|bytes| *bytes > 0);
    let reordering_packets = values.integer_u32("reordering");
    let acks = (values.integer("acks") > 0).then(|| AckPolicy {
        every_packets: values.integer_u32("acks"),
        delay: seconds("ack_delay"),
        repeats: 0,
    });
    RecoveryConfig {
        reordering_packets,
        is_by_packets_alone: misses_by_packets(values),
        keeps_duplicates_back: keeps_duplicates_back(values),
        timeout,
        variation,
        packet_bytes_max,
        acks,
    }
}
