//! What is seen of a round while it goes on: one flow's figures, ten times a second.

use crate::bridge::LaneView;
use crate::desk::control::SenderView;
use crate::desk::types::Sample;

/// What is known of a flow.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) view: SenderView,
    pub(crate) received_bytes: u64,
    last: Option<Sample>,
}

impl Watch {
    /// The next sample.
    pub(crate) fn sample(&mut self, flow: usize, transfer: u32, t: f64, lane: &LaneView) -> Sample {
        let link = &lane.forward;
        let before = self.last.take().unwrap_or_default();
        let mut sample = Sample {
            flow,
            transfer,
            t,
            received_bytes: self.received_bytes,
            sequence_bytes: self.view.sequence_bytes.max(self.received_bytes),
            window_bytes: self.view.window_bytes,
            in_flight_bytes: self.view.in_flight_bytes,
            rtt_ms: self.view.rtt_ms,
            pacing_mbps: self.view.pacing_mbps,
            queue_bytes: lane.backlog_bytes,
            lost_packets: link.lost.packets + link.blacked_out.packets,
            dropped_packets: link.dropped.packets,
            marked_packets: link.marked.packets,
            offered_packets: link.offered.packets,
            loss_estimate: self.view.loss_estimate,
            repair_packets: self.view.repair_packets,
            redundancy: self.view.redundancy,
            ..Sample::default()
        };
        since(&mut sample, &before);
        self.last = Some(sample.clone());
        sample
    }
}

/// Fills in what is per time and per packet, since the sample before.
pub(crate) fn since(sample: &mut Sample, before: &Sample) {
    let bytes = sample.received_bytes.saturating_sub(before.received_bytes);
    sample.goodput_mbps = super::transfer::mbps(bytes, sample.t - before.t);
    let gone = |s: &Sample| s.lost_packets + s.dropped_packets;
    let offered = sample.offered_packets.saturating_sub(before.offered_packets);
    let lost = gone(sample).saturating_sub(gone(before));
    sample.loss = if offered > 0 { (lost as f64 / offered as f64).min(1.0) } else { 0.0 };
}
