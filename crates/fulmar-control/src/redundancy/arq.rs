//! No redundancy beyond what was asked for: automatic repeat request.
//!
//! With the code `none` this is retransmission, with any other it repairs on demand. Repair goes before new
//! data, so that a hole is open for as short a time as the window allows.

use fulmar_units::Instant;

use super::retransmit::Pace;
use super::{Choice, Opportunity, RedundancyPolicy, Retransmissions};
use crate::{Feedback, PathView};

/// Repairs what is known missing, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Arq {
    pace: Pace,
}

impl Arq {
    /// The policy.
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of a sender that fills holes so fast.
    pub fn with(retransmissions: Retransmissions) -> Self {
        Self { pace: Pace::new(retransmissions) }
    }
}

impl RedundancyPolicy for Arq {
    fn name(&self) -> &'static str {
        "arq"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn on_timeout(&mut self) {
        self.pace.on_timeout();
    }

    fn impatient_since(&self) -> Option<Instant> {
        self.pace.impatient_since()
    }

    fn finds_lost_copies(&self) -> bool {
        self.pace.finds_lost_copies()
    }

    fn choose(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        let has_new_data = opportunity.has_new_data && self.pace.has_room(opportunity, path);
        match self.pace.held_until(opportunity, path) {
            Some(_) if has_new_data => Choice::Source,
            Some(at) if opportunity.missing > 0 => Choice::Wait(Some(at)),
            _ => asked_or_source(&Opportunity { has_new_data, ..*opportunity }),
        }
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, _path: &PathView) {
        self.pace.on_emitted(choice, opportunity);
    }
}

/// The order every policy keeps where it has nothing to add.
pub fn asked_or_source(opportunity: &Opportunity) -> Choice {
    if opportunity.missing > 0 {
        Choice::Recover
    } else if opportunity.has_new_data {
        Choice::Source
    } else {
        Choice::Wait(None)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use fulmar_units::Instant;

    use super::*;

    #[test]
    fn repair_before_data_before_waiting() {
        let path = PathView::unknown(1200);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Wait(None));
        opportunity.has_new_data = true;
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Source);
        (opportunity.missing, opportunity.missing_symbols) = (1, 3);
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Recover);
        // What is missing is already on its way.
        opportunity.missing = 0;
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Source);
    }

    /// Before RFC 8985: nothing tells of a lost retransmission but the timeout, and the receive window is
    /// full meanwhile.
    #[test]
    fn where_tcp_awaits_its_timeout_the_window_ends_ahead_of_the_hole() {
        let rules = Retransmissions { await_timeout: Some(12_000), ..Retransmissions::default() };
        let (policy, path) = (Arq::with(rules), PathView::unknown(1200));
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        opportunity.has_new_data = true;
        assert!(!policy.finds_lost_copies() && Arq::new().finds_lost_copies());
        for (unacked, missing, expected) in
            [(9, 0, Choice::Source), (10, 0, Choice::Wait(None)), (10, 1, Choice::Recover)]
        {
            (opportunity.unacked_symbols, opportunity.missing_symbols) = (unacked, missing);
            opportunity.missing = missing;
            assert_eq!(policy.choose(&opportunity, &path), expected);
        }
    }

    /// RFC 6582: a partial ACK, a round trip later, tells of the next hole; after a timeout all are filled.
    #[test]
    fn without_sack_one_hole_is_filled_each_round_trip() {
        let mut path = PathView::unknown(1200);
        path.rtt_smoothed = Duration::from_millis(100);
        let mut policy = Arq::with(Retransmissions { one_each_round: true, ..Retransmissions::default() });
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.missing, opportunity.missing_symbols) = (3, 3);
        let mut next = |policy: &mut Arq, millis: u64, has_new_data: bool| {
            opportunity.now = Instant::ZERO + Duration::from_millis(millis);
            opportunity.has_new_data = has_new_data;
            let choice = policy.choose(&opportunity, &path);
            policy.on_emitted(choice, &opportunity, &path);
            choice
        };
        assert_eq!(next(&mut policy, 0, true), Choice::Recover);
        assert_eq!(next(&mut policy, 1, true), Choice::Source);
        let later = Instant::ZERO + Duration::from_millis(100);
        assert_eq!(next(&mut policy, 2, false), Choice::Wait(Some(later)));
        assert_eq!(next(&mut policy, 100, true), Choice::Recover);
        // The timer runs from the first partial ACK, whatever comes after it, and once.
        assert_eq!(policy.impatient_since(), Some(later));
        assert_eq!(next(&mut policy, 200, true), Choice::Recover);
        assert_eq!(policy.impatient_since(), Some(later));
        policy.on_timeout();
        assert_eq!(policy.impatient_since(), None);
        assert_eq!(next(&mut policy, 201, true), Choice::Recover);
        assert_eq!(next(&mut policy, 201, true), Choice::Recover);
        assert_eq!(policy.impatient_since(), None);
    }
}
