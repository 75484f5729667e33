//! What an ACK, or the lack of one, sets going: recovery finds out what became of packets, coding what that
//! means for symbols, and both learn from the one record that comes of it.

use super::Connection;
use crate::coding::Content;
use crate::recovery::{Fate, Findings};
use crate::wire::frame::Ack;
use crate::{Instant, PacketNumber, TransportError};

/// What a 1-RTT packet carried that this end wants to hear of again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    /// For coding.
    pub(super) content: Option<Content>,
    /// The largest packet number that an ACK in it acknowledged.
    pub(super) largest_acked: Option<PacketNumber>,
}

impl Connection {
    /// An ACK of 1-RTT packets.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>) -> Result<(), TransportError> {
        let findings = self.path.recovery.on_ack(now, ack)?;
        self.stats.acks_received += 1;
        let state = ack.coding.as_ref().filter(|_| findings.is_newest);
        if !findings.has_news {
            self.path.recovery.drop_findings(findings);
            return state.map_or(Ok(()), |state| self.coding.on_report(now, state));
        }
        self.on_confirmed();
        if let Some(keys) = &mut self.keys {
            keys.on_acked(ack.largest);
        }
        for fate in &findings.fates {
            if let Fate::Arrived(carried) | Fate::Returned(carried) = fate
                && let Some(largest) = carried.largest_acked
            {
                self.received.on_ack_acked(largest);
            }
        }
        let rtt = self.path.recovery.rtt().smoothed();
        let news = self.coding.settle(now, rtt, contents(&findings), state)?;
        let (feedback, view) = self.path.recovery.finish(findings, news);
        self.coding.on_feedback(&feedback, &view);
        if self.coding.is_all_delivered() && self.streams.is_idle() {
            self.streams.release_sending_memory();
        }
        self.trace_recovery(now);
        Ok(())
    }

    /// The timers of recovery: losses by time, silence, the pacer.
    pub(super) fn on_recovery_timers(&mut self, now: Instant) -> Result<(), TransportError> {
        let recovery = &mut self.path.recovery;
        if let Some(findings) = recovery.on_loss_timer(now) {
            let rtt = recovery.rtt().smoothed();
            let news = self.coding.settle(now, rtt, contents(&findings), None)?;
            let (feedback, view) = recovery.finish(findings, news);
            self.coding.on_feedback(&feedback, &view);
            self.trace_recovery(now);
        }
        let recovery = &mut self.path.recovery;
        let is_awaiting = !self.coding.is_all_delivered();
        if let Some(findings) = recovery.on_probe_timer(now, is_awaiting) {
            self.coding.on_silence(now, contents(&findings));
            recovery.drop_findings(findings);
            self.trace_recovery(now);
        }
        self.path.recovery.on_pacer_timer(now);
        Ok(())
    }
}

/// What the packets carried for coding.
fn contents(findings: &Findings<Carried>) -> impl Iterator<Item = Fate<Content>> + '_ {
    findings.fates.iter().filter_map(|fate| match *fate {
        Fate::Arrived(carried) => carried.content.map(Fate::Arrived),
        Fate::Returned(carried) => carried.content.map(Fate::Returned),
        Fate::Lost(carried) => carried.content.map(Fate::Lost),
    })
}
