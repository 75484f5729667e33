//! ACKs that TCP-FEC's receiver would not have sent.
//!
//! Source: Sato 2019, sections 4.3 and 5.3. While its group may still restore a lost packet, the receiver
//! returns no duplicate ACK for it; it does once "another original packet or a redundant packet in a group is
//! lost", which shows by what arrives behind that. Fast retransmit then takes three. Meanwhile nothing opens
//! the window, and a silence that is too long ends in a timeout. Our receiver says at once what it has, and
//! knows no groups. So the sender, which knows them, takes no notice of ACKs that would not be there: the
//! next one says all that they said.
//!
//! Inputs: the first symbol that an ACK lacks, and what its packets brought that is not known yet. Symbols
//! leave in the order of their numbers, and the repair of a deal behind its last one.

use std::collections::VecDeque;

use fulmar_fec::SymbolId;

/// Duplicate ACKs that tell of a loss (RFC 5681 3.2).
const DUPLICATES: usize = 3;

/// Symbols dealt out to groups, and the repair that follows them.
#[derive(Copy, Clone, Debug)]
struct Deal {
    first: u64,
    end: u64,
    groups: u64,
    /// Number of the repair of the first group, if it has left.
    repairs_from: Option<u64>,
}

/// Where a packet stands in the order of sending: with which symbol, and behind it as which repair.
type Place = (u64, u64);

/// The deals that have symbols which are not delivered.
#[derive(Debug, Default)]
pub(super) struct Deals(VecDeque<Deal>);

/// What an ACK brings that the sender does not know, ascending.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// Numbers of source symbols.
    pub(super) symbols: Vec<u64>,
    /// Numbers of repair symbols.
    pub(super) repairs: Vec<u64>,
}

impl Deals {
    /// The repair of the first of `groups` leaves as number `repair`: the `symbols` below `end` are dealt
    /// out. All symbols below `delivered` are delivered.
    pub(super) fn close(
        &mut self,
        end: SymbolId,
        symbols: u32,
        groups: u16,
        repair: u64,
        delivered: SymbolId,
    ) {
        while self.0.front().is_some_and(|deal| deal.end <= delivered.0) {
            self.0.pop_front();
        }
        let (first, groups) = (end.0.saturating_sub(symbols.into()), groups.max(1).into());
        self.0.push_back(Deal { first, end: end.0, groups, repairs_from: Some(repair) });
    }

    /// The deal of a symbol. One that is not complete has as many groups as the last.
    fn of(&self, id: u64) -> Option<Deal> {
        let (first, groups) = self.0.back().map_or((0, 1), |newest| (newest.end, newest.groups));
        if id >= first {
            return Some(Deal { first, end: u64::MAX, groups, repairs_from: None });
        }
        let at = self.0.partition_point(|deal| deal.end <= id);
        self.0.get(at).filter(|deal| deal.first <= id).copied()
    }

    fn place_of_repair(&self, number: u64) -> Option<Place> {
        let at = self.0.partition_point(|deal| deal.repairs_from.is_some_and(|from| from <= number));
        let deal = self.0.get(at.checked_sub(1)?)?;
        Some((deal.end - 1, number - deal.repairs_from? + 1))
    }

    /// Whether the receiver would keep back an ACK that lacks `hole` and brings `arrived`. `has`: it has a
    /// symbol, by what was known before.
    pub(super) fn is_kept_back(&self, hole: u64, arrived: &Arrived, has: impl Fn(u64) -> bool) -> bool {
        let repairs = arrived.repairs.iter().filter_map(|&number| self.place_of_repair(number));
        let places: Vec<Place> = arrived.symbols.iter().map(|&id| (id, 0)).chain(repairs).collect();
        let behind = |place: Place| places.iter().filter(|other| **other > place).count();
        let Some(deal) = self.of(hole).filter(|_| behind((hole, 0)) > 0) else { return false };
        let newest = places.iter().map(|(id, _)| *id).max().unwrap_or(hole);
        let lacks = |id: &u64| arrived.symbols.binary_search(id).is_err() && !has(*id);
        let others = (hole..deal.end.min(newest + 1)).step_by(deal.groups as usize).skip(1);
        let other = others.into_iter().find(lacks).map(|id| (id, 0));
        let group = (hole - deal.first) % deal.groups;
        let repair = match deal.repairs_from {
            // The group is still open.
            None => Some((u64::MAX, 0)),
            Some(from) if arrived.repairs.binary_search(&(from + group)).is_ok() => None,
            Some(_) => Some((deal.end - 1, group + 1)),
        };
        other.or(repair).is_some_and(|second| behind(second) < DUPLICATES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What arrives after symbol 2 of the first deal was lost, as letters of the order of sending: two deals
    /// of six symbols in `groups` each, with the repair behind them. Capital: it is lost.
    fn kept_back(groups: u16, line: &str) -> bool {
        let (mut deals, mut arrived, mut id, mut repair) = (Deals::default(), Arrived::default(), 0, 0);
        for letter in line.chars() {
            let is_symbol = letter.eq_ignore_ascii_case(&'s');
            let (list, number) = match is_symbol {
                true => (&mut arrived.symbols, &mut id),
                false => (&mut arrived.repairs, &mut repair),
            };
            if letter.is_lowercase() {
                list.push(*number);
            }
            *number += 1;
            if !is_symbol && (repair - 1) % u64::from(groups) == 0 {
                deals.close(SymbolId(id), 6, groups, repair - 1, SymbolId(0));
            }
        }
        let hole = (0..).find(|id| arrived.symbols.binary_search(id).is_err()).expect("one is lacking");
        deals.is_kept_back(hole, &arrived, |_| false)
    }

    /// Section 4.3, Figure 4.3.
    #[test]
    fn a_group_that_may_repair_keeps_the_receiver_silent() {
        for (line, is_kept) in [
            // In order, nothing is kept back.
            ("ssssss", false),
            ("ssSsss", true),
            ("ssSsssr", false),
            // The redundant packet is lost: three packets behind it are three duplicate ACKs.
            ("ssSsssR", true),
            ("ssSsssRss", true),
            ("ssSsssRsss", false),
            // So they are behind another original packet.
            ("ssSsSs", true),
            ("ssSSss", true),
            ("ssSSsss", false),
            ("ssSSssr", false),
            ("ssSssSr", true),
        ] {
            assert_eq!(kept_back(1, line), is_kept, "{line}");
        }
    }

    /// Section 5.3: "interleaving elongates maximum ACK suppression time".
    #[test]
    fn a_loss_in_another_group_ends_no_silence() {
        for (line, is_kept) in [
            ("ssssssrrssSSss", true),
            ("ssssssrrssSSssRr", true),
            ("ssSsSsrrsss", false),
            ("ssSsssRr", true),
            ("ssSsssRrss", false),
            ("ssSsssRrs", true),
        ] {
            assert_eq!(kept_back(2, line), is_kept, "{line}");
        }
    }
}
