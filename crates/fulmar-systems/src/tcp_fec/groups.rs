//! TCP-FEC's redundancy: one XOR packet per group, the group following the congestion window.
//!
//! Source: Sato 2019. Section 3.3: one redundant packet for the cwnd packets before it, redundancy 1 / cwnd,
//! and static variants of one for every 1, 10 or 40. Section 4.2: redundancy 1 / min(cwnd - 1, fmax). Section
//! 5.3: g groups per cwnd, dealt out round robin, group size limited by l (0: no limit), and g = 1 when cwnd
//! < 2 g. The size is settled anew at the end of each group, so it is up to one round trip old, as there.
//!
//! Figure 5.7, which shows how the size of interleaved groups is calculated, is lost. Here it is floor(cwnd /
//! g) - 1: a redundant packet is one of the cwnd packets, as in section 4.2, which it equals for g = 1; and
//! it is at least 1 exactly if cwnd >= 2 g, which is the source's bound.
//!
//! A group ends early when data end, or a loss in it would wait for a timeout. What a group cannot repair is
//! asked for and sent before anything else ("through the original TCP operation"). Invariant: a repair symbol
//! covers only symbols sent since the last one of its kind.

use fulmar_units::Instant;

use fulmar_control::redundancy::Pace;
use fulmar_control::{Choice, Feedback, Opportunity, PathView, RedundancyPolicy, Retransmissions};

use crate::block_repair::ended_at;

/// How long a group is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// Section 3.3: as long as the congestion window.
    Window,
    /// Section 4.2: min(cwnd - 1, fmax).
    Bounded {
        /// Upper limit; 0 for none.
        fmax: u32,
    },
    /// Section 3.4: always so many source symbols, at least 1.
    Static(u32),
    /// Section 5.3: g groups per window of floor(cwnd / g) - 1 each.
    Interleaved {
        /// Number of groups, the source's g, at least 1.
        groups: u16,
        /// Upper limit of a group's size, the source's l; 0 for none.
        limit: u32,
    },
}

/// Some symbols and the groups they are dealt out to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Deal {
    groups: u16,
    symbols: u32,
}

impl Deal {
    /// With so many symbols the groups are complete.
    fn complete(self, opportunity: &Opportunity) -> u32 {
        self.symbols.min(opportunity.window_max.max(1))
    }
}

impl GroupSize {
    fn deal(self, window_packets: u32) -> Deal {
        let limited = |size: u32, limit: u32| if limit == 0 { size } else { size.min(limit) };
        let (groups, size) = match self {
            Self::Window => (1, window_packets),
            Self::Bounded { fmax } => (1, limited(window_packets.saturating_sub(1), fmax)),
            Self::Static(size) => (1, size),
            Self::Interleaved { groups, limit } => {
                let wanted = u32::from(groups.max(1));
                let groups = if window_packets < 2 * wanted { 1 } else { wanted };
                (groups, limited((window_packets / groups).saturating_sub(1), limit))
            }
        };
        Deal { groups: groups as u16, symbols: groups.saturating_mul(size.max(1)) }
    }
}

/// One repair symbol per group.
#[derive(Clone, Debug)]
pub struct TcpFecGroups {
    size: GroupSize,
    /// Source symbols sent before the groups in progress.
    begun_at: u64,
    /// The groups in progress, settled with their first symbol.
    deal: Option<Deal>,
    /// Of groups that are complete: how many symbols, and which repair symbol is next.
    due: Option<(Deal, u16)>,
    ratio: f64,
    /// What a group may still repair is not asked for (section 4.3).
    suppresses: bool,
    pace: Pace,
}

impl TcpFecGroups {
    /// The policy.
    pub fn new(size: GroupSize) -> Self {
        let pace = Pace::default();
        Self { size, begun_at: 0, deal: None, due: None, ratio: 0.0, suppresses: true, pace }
    }

    /// The same, which asks for every hole at once unless it `suppresses` what a group may repair (the
    /// source's "fec-dup" does not), and fills those it asks for so fast.
    pub fn asking(self, suppresses: bool, retransmissions: Retransmissions) -> Self {
        Self { suppresses, pace: Pace::new(retransmissions), ..self }
    }

    /// Holes that duplicate ACKs tell of.
    fn asked(&self, opportunity: &Opportunity) -> u32 {
        let holes = if self.suppresses { 0 } else { opportunity.missing_symbols };
        opportunity.missing.max(holes)
    }

    /// Symbols of the groups in progress that have been sent.
    fn sent(&self, opportunity: &Opportunity) -> u32 {
        u32::try_from(opportunity.sources_sent.saturating_sub(self.begun_at)).unwrap_or(u32::MAX)
    }

    /// The groups in progress, as they are settled or would be now.
    fn deal(&self, path: &PathView) -> Deal {
        let window_packets = path.window_bytes / u64::from(path.mtu_bytes.max(1));
        self.deal.unwrap_or_else(|| self.size.deal(u32::try_from(window_packets).unwrap_or(u32::MAX)))
    }

    /// What is due if the groups in progress end here.
    fn ended(&self, opportunity: &Opportunity, path: &PathView) -> (Deal, u16) {
        let deal = self.deal(path);
        let symbols = self.sent(opportunity).min(deal.complete(opportunity));
        let groups = deal.groups.min(u16::try_from(symbols).unwrap_or(u16::MAX));
        (Deal { groups, symbols }, 0)
    }
}

/// The repair symbol of one group. A group of one has one too: it recovers what it covers like any other,
/// where a copy would only deliver it again.
fn repair((deal, group): (Deal, u16)) -> Choice {
    Choice::Group { symbols: deal.symbols, groups: deal.groups, group }
}

impl RedundancyPolicy for TcpFecGroups {
    fn name(&self) -> &'static str {
        "tcp-fec"
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
        let held_until = self.pace.held_until(opportunity, path).filter(|_| self.asked(opportunity) > 0);
        if self.asked(opportunity) > 0 && held_until.is_none() {
            return Choice::Recover;
        }
        if let Some(due) = self.due {
            return repair(due);
        }
        let sent = self.sent(opportunity);
        if sent == 0 {
            return if has_new_data { Choice::Source } else { Choice::Wait(held_until) };
        }
        let complete = self.deal(path).complete(opportunity);
        if sent < complete && has_new_data {
            return Choice::Source;
        }
        let ended_at = ended_at(opportunity, path);
        if sent < complete && ended_at > opportunity.now {
            return Choice::Wait(held_until.into_iter().chain([ended_at]).min());
        }
        repair(self.ended(opportunity, path))
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, path: &PathView) {
        self.pace.on_emitted(choice, opportunity);
        let deal = self.deal(path);
        match choice {
            Choice::Source => {
                self.deal = Some(deal);
                self.ratio = f64::from(deal.groups) / f64::from(deal.symbols);
            }
            Choice::Group { .. } => {
                let (due, group) = self.due.unwrap_or_else(|| {
                    let ended = self.ended(opportunity, path);
                    (self.begun_at, self.deal) = (opportunity.sources_sent, None);
                    ended
                });
                self.due = (group + 1 < due.groups).then_some((due, group + 1));
            }
            _ => {}
        }
    }

    fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fulmar_units::Instant;

    use super::*;

    fn path(window_packets: u64) -> PathView {
        let mut path = PathView::unknown(1000);
        path.window_bytes = 1000 * window_packets;
        path.rtt_smoothed = Duration::from_millis(80);
        path
    }

    /// What leaves in `packets` chances: s for a source, digits for the repair of a group.
    fn line(size: GroupSize, window_packets: u64, packets: u32) -> String {
        let (mut policy, path) = (TcpFecGroups::new(size), path(window_packets));
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.has_new_data, opportunity.window_max) = (true, 256);
        let mut line = String::new();
        for _ in 0..packets {
            let choice = policy.choose(&opportunity, &path);
            policy.on_emitted(choice, &opportunity, &path);
            match choice {
                Choice::Source => {
                    opportunity.sources_sent += 1;
                    line.push('s');
                }
                Choice::Group { symbols, groups, group } => {
                    assert!(group < groups && (groups > 1 || line.ends_with(&"s".repeat(symbols as usize))));
                    line.push(char::from_digit(group.into(), 10).unwrap());
                }
                other => panic!("{other:?}"),
            }
        }
        line
    }

    /// Section 4.2: "redundancy is 1 when cwnd is 2"; 1 / min(cwnd - 1, fmax).
    #[test]
    fn the_group_follows_the_window_up_to_fmax() {
        let bounded = |fmax| GroupSize::Bounded { fmax };
        assert_eq!(line(bounded(10), 2, 6), "s0s0s0");
        assert_eq!(line(bounded(10), 5, 10), "ssss0ssss0");
        assert_eq!(line(bounded(3), 50, 8), "sss0sss0");
        assert_eq!(line(bounded(0), 12, 12), "sssssssssss0");
        assert_eq!(line(GroupSize::Window, 5, 12), "sssss0sssss0", "section 3.3: 1 / cwnd");
        assert_eq!(line(GroupSize::Static(1), 50, 4), "s0s0");
    }

    /// Section 5.3: cwnd 12, g 3: groups of 12 / 3 - 1 = 3; cwnd 5 < 2 * 3: one group of 4.
    #[test]
    fn interleaved_groups_share_the_window() {
        let interleaved = |groups, limit| GroupSize::Interleaved { groups, limit };
        assert_eq!(line(interleaved(3, 0), 12, 24), "sssssssss012sssssssss012");
        assert_eq!(line(interleaved(3, 2), 12, 18), "ssssss012ssssss012");
        assert_eq!(line(interleaved(3, 0), 5, 10), "ssss0ssss0");
        assert_eq!(line(interleaved(3, 0), 6, 6), "sss012");
        assert_eq!(line(interleaved(1, 30), 9, 9), "ssssssss0");
    }

    #[test]
    fn a_group_ends_when_data_end() {
        let (mut policy, path) =
            (TcpFecGroups::new(GroupSize::Interleaved { groups: 3, limit: 0 }), path(60));
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.sources_sent, opportunity.window_max, opportunity.newest_source) =
            (2, 64, Some(Instant::ZERO));
        let after = Instant::ZERO + Duration::from_millis(10);
        assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(Some(after)));
        opportunity.now = after;
        for (missing, expected) in [
            (0, Choice::Group { symbols: 2, groups: 2, group: 0 }),
            (1, Choice::Recover),
            (0, Choice::Group { symbols: 2, groups: 2, group: 1 }),
        ] {
            opportunity.missing = missing;
            assert_eq!(policy.choose(&opportunity, &path), expected);
            policy.on_emitted(expected, &opportunity, &path);
        }
        assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(None));
    }

    /// Section 3.4: "fec-dup" is FEC without suppression of duplicate ACKs.
    #[test]
    fn without_suppression_a_hole_is_asked_for_that_its_group_may_repair() {
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.has_new_data, opportunity.window_max, opportunity.missing_symbols) = (true, 64, 1);
        let policy = |suppresses| {
            let size = GroupSize::Bounded { fmax: 10 };
            TcpFecGroups::new(size).asking(suppresses, Retransmissions::default())
        };
        assert_eq!(policy(true).choose(&opportunity, &path(40)), Choice::Source);
        assert_eq!(policy(false).choose(&opportunity, &path(40)), Choice::Recover);
    }

    #[test]
    fn the_size_is_settled_with_the_first_symbol_of_a_group() {
        let mut policy = TcpFecGroups::new(GroupSize::Bounded { fmax: 0 });
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.has_new_data, opportunity.window_max) = (true, 64);
        assert_eq!(policy.choose(&opportunity, &path(4)), Choice::Source);
        policy.on_emitted(Choice::Source, &opportunity, &path(4));
        opportunity.sources_sent = 3;
        let expected = Choice::Group { symbols: 3, groups: 1, group: 0 };
        assert_eq!(policy.choose(&opportunity, &path(40)), expected);
    }
}
