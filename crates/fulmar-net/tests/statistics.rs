//! Random features against theory: fixed seeds, tolerances of 4 standard deviations (a wrong alarm once in
//! 16,000 for a normal variable), so a failure means that the model is wrong.

mod common;

use common::*;
use fulmar_net::*;

const N: u64 = 200_000;

/// Which of `N` packets were lost.
fn losses(config: LinkConfig, seed: u64, gap: std::time::Duration) -> Vec<bool> {
    let (link, out) = run(config, seed, N, gap);
    let mut lost = vec![true; N as usize];
    for (_, probe) in &out {
        lost[probe.serial as usize] = false;
    }
    assert_conserved(&link);
    assert_eq!(link.stats().lost.packets, lost.iter().filter(|&&l| l).count() as u64);
    lost
}

fn loss_link(loss: Loss) -> LinkConfig {
    LinkConfig::default().with_loss(loss)
}

#[test]
fn bernoulli_has_its_rate_and_no_memory() {
    for (seed, percent) in [(1, 1), (2, 5), (3, 20), (4, 50)] {
        let p = f64::from(percent) / 100.0;
        let lost = losses(loss_link(Loss::bernoulli(Probability::from_percent(percent))), seed, us(1));
        let hits = lost.iter().filter(|&&l| l).count() as u64;
        assert_binomial(hits, N, p);
        let pairs = lost.windows(2).filter(|w| w[0]).count() as u64;
        let both = lost.windows(2).filter(|w| w[0] && w[1]).count() as u64;
        assert_binomial(both, pairs, p);
    }
}

#[test]
fn two_state_has_the_transition_probabilities_of_the_thesis() {
    for (seed, percent, burst) in [(1, 5, 2), (2, 5, 10), (3, 10, 5), (4, 20, 2), (5, 20, 10), (6, 1, 3)] {
        let (p, e) = (f64::from(percent) / 100.0, f64::from(burst));
        let chain = TwoState::new(Probability::from_percent(percent), burst * 1000).expect("possible");
        // systems.md L13.
        let a = 1.0 - 1.0 / (e * (1.0 - p));
        assert!((chain.after_loss().as_f64() - (a + (1.0 - a) * p)).abs() < 2e-9);
        assert!((chain.after_ok().as_f64() - (1.0 - a) * p).abs() < 2e-9);

        let lost = losses(loss_link(Loss::TwoState(chain)), seed, us(1));
        let after = |state: bool| {
            let from = lost.windows(2).filter(|w| w[0] == state).count() as u64;
            (lost.windows(2).filter(|w| w[0] == state && w[1]).count() as u64, from)
        };
        let (both, after_loss) = after(true);
        assert_binomial(both, after_loss, a + (1.0 - a) * p);
        let (begun, after_ok) = after(false);
        assert_binomial(begun, after_ok, (1.0 - a) * p);
        // The mean of N correlated trials: variance p (1 - p) / N times (1 + a) / (1 - a).
        let mean = lost.iter().filter(|&&l| l).count() as f64 / N as f64;
        let deviation = (p * (1.0 - p) / N as f64 * (1.0 + a) / (1.0 - a)).sqrt();
        assert!((mean - p).abs() < 4.0 * deviation, "p {percent} E {burst}: {mean} +- {deviation}");
    }
}

#[test]
fn two_state_bursts_are_geometric_with_mean_e() {
    let chain = TwoState::new(Probability::from_percent(10), 5000).expect("possible");
    let lost = losses(loss_link(Loss::TwoState(chain)), 9, us(1));
    let bursts: Vec<usize> = lost.split(|&l| !l).map(<[bool]>::len).filter(|&n| n > 0).collect();
    let count = bursts.len() as f64;
    let mean = bursts.iter().sum::<usize>() as f64 / count;
    // Geometric with mean E: variance E (E - 1).
    assert!((mean - 5.0).abs() < 4.0 * (20.0 / count).sqrt(), "{mean} over {count}");
    let singles = bursts.iter().filter(|&&n| n == 1).count() as u64;
    assert_binomial(singles, bursts.len() as u64, 0.2);
}

#[test]
fn impossible_chains_are_refused_and_the_limits_are_not() {
    let p = Probability::from_percent;
    assert_eq!(TwoState::new(p(5), 999), Err(InvalidTwoState::BurstBelowOne));
    assert_eq!(TwoState::new(p(51), 1000), Err(InvalidTwoState::BurstTooShortForLoss));
    assert_eq!(TwoState::new(p(100), 5000), Err(InvalidTwoState::BurstTooShortForLoss));
    let alternating = TwoState::new(p(50), 1000).expect("E / (E + 1)");
    assert_eq!((alternating.after_loss(), alternating.after_ok()), (p(0), p(100)));
    let independent = TwoState::new(p(20), 1250).expect("E = 1 / (1 - p)");
    assert_eq!((independent.after_loss(), independent.after_ok()), (p(20), p(20)));
}

#[test]
fn a_microwave_oven_takes_half_of_each_period() {
    let oven = Periodic { period: ms(20), on: ms(10), offset: ms(5), loss: Probability::from_percent(80) };
    let lost = losses(loss_link(Loss::Periodic(oven)), 7, us(100));
    let within = |index: usize| (index + 150) % 200 < 100;
    let hits = lost.iter().enumerate().filter(|(index, l)| within(*index) && **l).count() as u64;
    assert_binomial(hits, N / 2, 0.8);
    assert!(lost.iter().enumerate().all(|(index, l)| within(index) || !l));
}

#[test]
fn hidden_terminal_bursts_cover_their_share_of_time() {
    let bursts = PoissonBursts { interval_mean: ms(20), length: ms(5), loss: Probability::ONE };
    let lost = losses(loss_link(Loss::PoissonBursts(bursts)), 11, us(100));
    let share = lost.iter().filter(|&&l| l).count() as f64 / N as f64;
    // M/D/infinity: P(busy) = 1 - exp(-rho), rho = 5 / 20. 20 s hold 1000 burst starts; the covered share of
    // such a run has a standard deviation below sqrt(rho L / T) = 0.8 %.
    let expected = 1.0 - (-0.25f64).exp();
    assert!((share - expected).abs() < 4.0 * 0.008, "{share} instead of {expected}");
    // Free periods are exponential with mean 20 ms (memoryless): runs of 200 packets, each count rounded up
    // or down.
    let gaps: Vec<usize> = lost.split(|&l| l).map(<[bool]>::len).filter(|&n| n > 0).collect();
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    assert!(
        (mean - 200.0).abs() < 4.0 * 200.0 / (gaps.len() as f64).sqrt() + 1.0,
        "{mean} over {}",
        gaps.len()
    );
}

#[test]
fn a_pattern_is_repeated_to_the_letter() {
    let pattern = vec![false, true, true, false, false, true, false];
    let lost = losses(loss_link(Loss::Pattern(LossPattern::new(pattern.clone()))), 1, us(1));
    assert!(lost.iter().enumerate().all(|(index, &l)| l == pattern[index % pattern.len()]));
}

#[test]
fn marks_damage_and_copies_have_their_rates() {
    let percent = Probability::from_percent;
    let config =
        LinkConfig { mark: percent(2), corrupt: percent(3), duplicate: percent(4), ..LinkConfig::default() };
    let (link, out) = run(config, 5, N, us(1));
    assert_conserved(&link);
    let stats = link.stats();
    assert_binomial(stats.marked.packets, N, 0.02);
    assert_binomial(stats.corrupted.packets, N, 0.03);
    assert_binomial(stats.duplicated.packets, N, 0.04);
    assert_eq!(out.len() as u64, N + stats.duplicated.packets);
    let unique: std::collections::BTreeSet<u64> = out.iter().map(|(_, probe)| probe.serial).collect();
    assert_eq!(unique.len() as u64, N);
    // Damage comes before duplication: a copy shares it.
    let damaged: std::collections::BTreeSet<u64> =
        out.iter().filter(|(_, probe)| probe.damaged).map(|(_, probe)| probe.serial).collect();
    assert_eq!(damaged.len() as u64, stats.corrupted.packets);
}

#[test]
fn uniform_jitter_is_uniform_and_reorders_only_if_it_may() {
    for order in [Order::Free, Order::Kept] {
        let config =
            LinkConfig { delay: ms(5), ..LinkConfig::default() }.with_jitter(Jitter::Uniform(ms(10)), order);
        // One packet a millisecond: overtaking is common.
        let (link, out) = run(config, 3, N, ms(1));
        assert_eq!(out.len() as u64, N);
        let sorted = out.windows(2).all(|w| w[0].1.serial < w[1].1.serial);
        assert_eq!(sorted, order == Order::Kept);
        assert_eq!(link.stats().reordered.packets == 0, order == Order::Kept);
        assert!(out.iter().all(|(now, p)| *now - p.sent >= ms(5) && *now - p.sent <= ms(15)));
        if order == Order::Free {
            let mean = out.iter().map(|(now, p)| (*now - p.sent).as_secs_f64()).sum::<f64>() / N as f64;
            // Standard deviation of a uniform: width / sqrt 12.
            assert!((mean - 0.010).abs() < 4.0 * 0.010 / (12.0 * N as f64).sqrt(), "{mean}");
            let below = out.iter().filter(|(now, p)| *now - p.sent < us(7500)).count() as u64;
            assert_binomial(below, N, 0.25);
        }
    }
}

#[test]
fn exponential_jitter_has_its_tail() {
    let config = LinkConfig::default().with_jitter(Jitter::Exponential(ms(2)), Order::Free);
    let (_, out) = run(config, 3, N, us(100));
    for factor in [1u32, 2, 4] {
        let above = out.iter().filter(|(now, p)| *now - p.sent > ms(2) * factor).count() as u64;
        assert_binomial(above, N, (-f64::from(factor)).exp());
    }
}

#[test]
fn some_packets_are_late() {
    let jitter = Jitter::Some { probability: Probability::from_percent(10), extra: ms(4) };
    let (link, out) = run(LinkConfig::default().with_jitter(jitter, Order::Free), 3, N, ms(1));
    let late = out.iter().filter(|(now, p)| *now == p.sent + ms(4)).count() as u64;
    assert!(out.iter().all(|(now, p)| *now == p.sent || *now == p.sent + ms(4)));
    assert_binomial(late, N, 0.1);
    // A late packet is overtaken by four; it is out of order unless all of those are late too.
    assert_binomial(link.stats().reordered.packets, N, 0.1 * (1.0 - 0.1f64.powi(3)));
}

#[test]
fn one_feature_does_not_disturb_the_draws_of_another() {
    let plain = loss_link(Loss::bernoulli(Probability::from_percent(10)));
    let percent = Probability::from_percent;
    let rich = LinkConfig { mark: percent(50), corrupt: percent(50), ..plain.clone() }
        .with_jitter(Jitter::Uniform(us(10)), Order::Free);
    assert_eq!(losses(plain, 77, us(1)), losses(rich, 77, us(1)));
}
