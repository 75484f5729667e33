//! What a policy answers is a question's answer: credit is spent for what leaves, whatever was asked and
//! dropped before.

use core::time::Duration;

use fulmar_control::{
    Arq, AutoRedundancy, Choice, FixedRate, LossView, Opportunity, PathView, RedundancyPolicy,
};
use fulmar_systems::ctcp::CtcpHybrid;
use fulmar_systems::dfcp::{Fountain, FountainConfig};
use fulmar_systems::lt_tcp::LtTcp;
use fulmar_systems::tcp_fec::{GroupSize, TcpFecGroups};
use fulmar_systems::tcp_nc::{AdaptiveConfig, TcpNcCombinations, TcpNcConfig};
use fulmar_units::Instant;

const BLOCK_SYMBOLS: u32 = 8;

fn policies() -> Vec<Box<dyn RedundancyPolicy>> {
    let interleaved = GroupSize::Interleaved { groups: 3, limit: 0 };
    vec![
        Box::new(Arq::new()),
        Box::new(FixedRate::new(0.25, 32)),
        Box::new(AutoRedundancy::new()),
        Box::new(LtTcp::new(Default::default())),
        Box::new(CtcpHybrid::new(1.0)),
        Box::new(Fountain::new(FountainConfig::default())),
        Box::new(TcpFecGroups::new(GroupSize::Static(10))),
        Box::new(TcpFecGroups::new(interleaved)),
        Box::new(TcpNcCombinations::new(TcpNcConfig::default(), 1.4)),
        Box::new(TcpNcCombinations::adaptive(TcpNcConfig::default(), AdaptiveConfig::default())),
    ]
}

fn path() -> PathView {
    let mut path = PathView::unknown(1000);
    path.window_bytes = 24_000;
    (path.rtt_smoothed, path.has_rtt_sample) = (Duration::from_millis(50), true);
    path.loss = LossView { rate: 0.1, burst_packets: 1.5, weight_packets: 1000.0 };
    path
}

/// `choice` leaves.
fn carry_out(choice: Choice, opportunity: &mut Opportunity) {
    match choice {
        Choice::Source | Choice::Combine { .. } => {
            let block = &mut opportunity.block;
            if !block.is_open {
                (block.symbols, block.repairs) = (0, 0);
                block.undecoded = 1;
            }
            block.symbols += 1;
            block.is_open = block.symbols < BLOCK_SYMBOLS;
            opportunity.sources_sent += 1;
            opportunity.unacked_symbols += 1;
            opportunity.newest_source = Some(opportunity.now);
            opportunity.repairs_since_source = 0;
        }
        Choice::Repair { .. } | Choice::Group { .. } => {
            (opportunity.block.is_open, opportunity.block.repairs) = (false, opportunity.block.repairs + 1);
            opportunity.repairs_since_source += 1;
        }
        Choice::Recover => {
            opportunity.missing = opportunity.missing.saturating_sub(1);
            opportunity.recovering_symbols += 1;
        }
        Choice::Protect => opportunity.recovering_symbols = 0,
        Choice::ProtectAgain => opportunity.protected = None,
        Choice::SecondCopy => opportunity.out_of_reach_symbols = 0,
        Choice::CopyAgain => opportunity.often_lost = None,
        Choice::Wait(_) => {}
    }
}

/// All that leaves in 2000 chances, each of them offered `asked` times before it is taken; in between an ACK
/// takes its place.
fn sent(policy: &mut dyn RedundancyPolicy, asked: u32) -> Vec<Choice> {
    let (mut opportunity, path) = (Opportunity::idle(Instant::ZERO), path());
    opportunity.window_max = 64;
    let mut sent = Vec::new();
    for step in 0..2000_u64 {
        opportunity.now += Duration::from_millis(2);
        // Bursts of data, and pauses in which tails are protected.
        opportunity.has_new_data = step % 100 < 80;
        if step % 100 == 99 {
            (opportunity.unacked_symbols, opportunity.recovering_symbols) = (0, 0);
        }
        opportunity.missing += u32::from(step % 17 == 0);
        for _ in 1..asked {
            let _dropped = policy.choose(&opportunity, &path);
        }
        let choice = policy.choose(&opportunity, &path);
        if !matches!(choice, Choice::Wait(_)) {
            policy.on_emitted(choice, &opportunity, &path);
        }
        carry_out(choice, &mut opportunity);
        sent.push(choice);
    }
    sent
}

/// Sends repair before it is asked for.
fn has_repair(policy: &dyn RedundancyPolicy) -> bool {
    !matches!(policy.name(), "arq" | "fountain")
}

#[test]
fn what_is_asked_often_and_leaves_once_is_spent_once() {
    for (mut once, mut often) in policies().into_iter().zip(policies()) {
        let (expected, sent) = (sent(&mut *once, 1), sent(&mut *often, 3));
        assert_eq!(sent, expected, "{}", once.name());
        let is_repair = |choice: &&Choice| matches!(choice, Choice::Repair { .. } | Choice::Group { .. });
        assert_eq!(sent.iter().filter(is_repair).count() > 20, has_repair(&*once), "{}", once.name());
    }
}

/// A repair symbol that is due stays due for as long as something else leaves in its place.
#[test]
fn what_did_not_leave_stays_due() {
    for mut policy in policies() {
        let (mut opportunity, path) = (Opportunity::idle(Instant::ZERO), path());
        (opportunity.window_max, opportunity.has_new_data) = (64, true);
        let mut stayed = 0;
        for step in 0..400 {
            opportunity.now += Duration::from_millis(2);
            opportunity.has_new_data = step % 100 < 50;
            let choice = policy.choose(&opportunity, &path);
            if matches!(choice, Choice::Repair { .. } | Choice::Group { .. }) {
                stayed += 1;
                let asked = (0..10).map(|_| policy.choose(&opportunity, &path));
                assert!(asked.into_iter().all(|again| again == choice), "{}", policy.name());
            }
            if !matches!(choice, Choice::Wait(_)) {
                policy.on_emitted(choice, &opportunity, &path);
            }
            carry_out(choice, &mut opportunity);
        }
        assert_eq!(stayed > 0, has_repair(&*policy), "{}", policy.name());
    }
}
