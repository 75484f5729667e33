//! From many paths to a verdict: the distribution of the share, by kind of path.

use std::time::Duration;

use super::draw::Drawn;
use super::rough::Fault;
use crate::experiment::{COMMIT, Cell, Record, ScenarioHash};
use crate::outcome::Outcome;

/// How a flow fared on a path.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The path.
    pub path: Drawn,
    /// Goodput over the limit.
    pub share: f64,
    /// How long the handshake took; `None`: it was never complete.
    pub connect_seconds: Option<f64>,
    /// Of the packets that reached the queue, how many it dropped.
    pub queue_drop_share: f64,
    /// All of it, with the number of the path as its seed.
    pub outcome: Outcome,
}

impl Judged {
    /// As a record of results, so that two commits can be compared path by path.
    pub fn record(&self, profile: &str) -> Record {
        let cell = Cell { settings: vec![("kind".into(), class(&self.path).into())] };
        Record::new(COMMIT, ScenarioHash::of(&self.path.command(profile)), &cell, self.outcome.clone())
    }
}

/// A kind of path: kinds overlap.
type Test = (&'static str, fn(&Drawn) -> bool);

const KINDS: &[Test] = &[
    ("all", |_| true),
    ("no loss", |path| path.loss_ppm == 0),
    ("independent, p <= 2 %", |path| {
        path.loss_ppm > 0 && path.loss_ppm <= 20_000 && path.burst_milli == 1000
    }),
    ("independent, p > 2 %", |path| path.loss_ppm > 20_000 && path.burst_milli == 1000),
    ("bursts, p <= 2 %", |path| path.loss_ppm <= 20_000 && path.burst_milli > 1000),
    ("bursts below 8, p > 2 %", |path| path.loss_ppm > 20_000 && (1001..8000).contains(&path.burst_milli)),
    ("bursts from 8, p 2-15 %", |path| {
        (20_001..150_000).contains(&path.loss_ppm) && path.burst_milli >= 8000
    }),
    ("bursts from 8, p >= 15 %", |path| path.loss_ppm >= 150_000 && path.burst_milli >= 8000),
    ("one way only", |path| path.is_one_way),
    ("RTT > 300 ms", |path| path.link.rtt > Duration::from_millis(300)),
    ("RTT < 5 ms", |path| path.link.rtt < Duration::from_millis(5)),
    ("BDP > 1000 packets", |path| path.bdp_packets > 1000),
    ("jitter", |path| !path.jitter.is_zero()),
    ("traffic beside", |path| path.cross_kbps.is_some()),
];

/// The share over the paths of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// What they have in common.
    pub name: &'static str,
    /// How many.
    pub paths: usize,
    /// Half have less.
    pub median: f64,
    /// A tenth has less.
    pub tenth: f64,
    /// A hundredth has less.
    pub hundredth: f64,
    /// How many never connected.
    pub unconnected: usize,
    /// On how many the queue dropped more than 2 %.
    pub dropping: usize,
}

/// Less of the limit says nothing of who has more.
const WORTH_COMPARING: f64 = 0.05;

/// The queue may drop so much before a path counts as one that floods it.
const DROPS_MAX: f64 = 0.02;

/// The share, by kind; kinds without a path are left out.
pub fn kinds(all: &[Judged]) -> Vec<Kind> {
    let of = |name: &'static str, test: &dyn Fn(&Drawn) -> bool| {
        let members: Vec<&Judged> = all.iter().filter(|judged| test(&judged.path)).collect();
        let mut shares: Vec<f64> = members.iter().map(|judged| judged.share).collect();
        shares.sort_by(f64::total_cmp);
        let at =
            |q: f64| *shares.get(((shares.len() as f64 * q) as usize).min(shares.len() - 1)).unwrap_or(&0.0);
        (!members.is_empty()).then(|| Kind {
            name,
            paths: members.len(),
            median: at(0.5),
            tenth: at(0.1),
            hundredth: at(0.01),
            unconnected: members.iter().filter(|judged| judged.connect_seconds.is_none()).count(),
            dropping: members.iter().filter(|judged| judged.queue_drop_share > DROPS_MAX).count(),
        })
    };
    let by_loss = KINDS.iter().filter_map(|(name, test)| of(name, test));
    let by_fault =
        Fault::ALL.iter().filter_map(|fault| of(fault.name(), &|path| path.faults.contains(fault)));
    by_loss.chain(by_fault).collect()
}

/// What a flow had on each path, of the most that another one had there: the path's place, and the share of
/// that share. Where no other has a twentieth of the limit there is nothing to compare.
pub fn against(own: &[Judged], others: &[Vec<Judged>]) -> Vec<(usize, f64)> {
    let best = |index: usize| others.iter().map(|other| other[index].share).fold(0.0, f64::max);
    let of_best = |(index, judged): (usize, &Judged)| {
        let best = best(index);
        (best >= WORTH_COMPARING).then(|| (index, judged.share / best))
    };
    own.iter().enumerate().filter_map(of_best).collect()
}

/// The one kind by its losses that a path belongs to.
pub(super) fn class(path: &Drawn) -> &'static str {
    KINDS[1..8].iter().find(|(_, test)| test(path)).map_or("other", |(name, _)| name)
}

/// What a transport must reach.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Median share of all paths.
    pub median: f64,
    /// Share that nine in ten reach.
    pub tenth: f64,
    /// Share that ninety-nine in a hundred reach.
    pub hundredth: f64,
    /// Share of paths whose queue may drop more than 2 %.
    pub drops: f64,
}

impl Default for Bounds {
    /// What is aimed at.
    fn default() -> Self {
        Self { median: 0.96, tenth: 0.92, hundredth: 0.80, drops: 0.0 }
    }
}

/// What is below the bounds, in words.
pub fn outside(all: &[Judged], bounds: &Bounds) -> Vec<String> {
    let Some(whole) = kinds(all).into_iter().next() else { return vec!["there is no path".into()] };
    let mut complaints = Vec::new();
    for (name, found, least) in [
        ("median", whole.median, bounds.median),
        ("10th percentile", whole.tenth, bounds.tenth),
        ("1st percentile", whole.hundredth, bounds.hundredth),
    ] {
        if found < least {
            complaints.push(format!("{name} {found:.3} of the limit, at least {least:.2} is due"));
        }
    }
    if whole.unconnected > 0 {
        complaints.push(format!("{} of {} paths: never connected", whole.unconnected, whole.paths));
    }
    if whole.dropping as f64 > bounds.drops * whole.paths as f64 {
        complaints
            .push(format!("{} of {} paths: the queue dropped more than 2 %", whole.dropping, whole.paths));
    }
    complaints
}
