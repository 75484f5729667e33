//! What an ACK, or the lack of one, sets going: recovery finds out what became of packets, coding what that
//! means for symbols, and both learn from the one record that comes of it.

use super::Connection;
use super::rest_of_ack::RestOfAck;
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
        if self.is_kept_back(ack) {
            return Ok(());
        }
        if self.rest_of_ack.as_ref().is_some_and(|rest| ack.largest <= rest.largest) {
            // It tells nothing that the other does not.
            return Ok(());
        }
        // An ACK repeats what those before it told.
        self.rest_of_ack = None;
        self.counts.wire.acks_received += 1;
        let is_newest = self.path.recovery.largest_acked().is_none_or(|largest| ack.largest > largest);
        if let Some(upto) = self.settle_ack(now, ack, ack.largest, is_newest)? {
            self.rest_of_ack = Some(RestOfAck::new(ack, upto, is_newest));
        }
        Ok(())
    }

    /// The other end stands for one that would not have sent this ACK: it is as if it had been lost.
    fn is_kept_back(&self, ack: &Ack<'_>) -> bool {
        let recovery = &self.path.recovery;
        let Some(state) = ack.coding.as_ref().filter(|_| recovery.keeps_duplicates_back()) else {
            return false;
        };
        self.coding.is_kept_back(state, recovery.news(ack).filter_map(|carried| carried.content))
    }

    /// What packets led to and was not done at once is due at once, a part at a time.
    pub(super) fn look_for_unsettled(&mut self, now: Instant) {
        let is_unsettled = self.rest_of_ack.is_some() || self.coding.is_behind() || self.symbols_in.is_busy();
        self.unsettled_at = is_unsettled.then_some(now);
    }

    /// Goes on with it. True if there is more, before which nothing else should be concluded.
    fn settle_more(&mut self, now: Instant) -> Result<bool, TransportError> {
        if self.unsettled_at.is_none_or(|at| at > now) {
            return Ok(false);
        }
        if let Some(mut rest) = self.rest_of_ack.take() {
            let left = match rest.ack() {
                Some(ack) => self.settle_ack(now, &ack, rest.upto, rest.is_newest)?,
                None => None,
            };
            if let Some(upto) = left {
                rest.upto = upto;
                self.rest_of_ack = Some(rest);
            }
        } else if self.coding.is_behind() {
            self.coding.catch_up();
        } else {
            self.decode_more()?;
        }
        self.look_for_unsettled(now);
        self.close_if_delivered(now);
        Ok(self.rest_of_ack.is_some())
    }

    /// Settles what is known of the packets of `ack` up to `upto`, as many as go at once. Returns up to which
    /// packet it is still to be looked at.
    fn settle_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        upto: PacketNumber,
        is_newest: bool,
    ) -> Result<Option<PacketNumber>, TransportError> {
        let findings = self.path.recovery.on_rest_of_ack(now, ack, upto)?;
        let rest = findings.rest;
        // It says what the receiver has of all these packets.
        let state = ack.coding.as_ref().filter(|_| is_newest && rest.is_none());
        if !findings.has_news {
            self.path.recovery.drop_findings(findings);
            state.map_or(Ok(()), |state| self.coding.on_report(now, state))?;
            return Ok(rest);
        }
        self.on_confirmed();
        if let Some(keys) = &mut self.keys {
            keys.on_acked(ack.largest);
            if self.release_at.is_some() {
                keys.prepare_update();
            }
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
        Ok(rest)
    }

    /// The timers of recovery: losses by time, silence, the pacer.
    pub(super) fn on_recovery_timers(&mut self, now: Instant) -> Result<(), TransportError> {
        if self.settle_more(now)? {
            return Ok(());
        }
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
        if self.path.recovery.on_impatience_timer(now) {
            self.coding.on_silence(now, core::iter::empty());
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
