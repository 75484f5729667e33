//! A transport over paths drawn at random, and how its share of what they could carry is distributed.
//!
//! The share is goodput over L = (1 - p) x capacity x [`PAYLOAD_SHARE`], start-up included; where traffic
//! goes beside, capacity is what that leaves. A path over which no connection comes to be has share 0.

mod dice;
mod draw;
mod judge;
mod rough;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fulmar_proto::Profile;

use crate::experiment::on_all_cores;
use crate::outcome::PAYLOAD_SHARE;
use crate::sim;

pub use draw::{Drawn, QUEUE_PACKETS_MIN, Ranges};
pub use judge::{Bounds, Judged, Kind, against, kinds, outside};
pub use rough::Fault;

/// Runs so many paths of a seed with a profile, on all cores; calls `tell` after each with how many are done.
///
/// # Errors
/// If a path cannot be run.
pub fn run(
    profile: &Profile,
    seed: u64,
    paths: u64,
    ranges: &Ranges,
    tell: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Judged>, String> {
    let numbers: Vec<u64> = (0..paths).collect();
    let (done, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    on_all_cores(&numbers, |&number| {
        let judged = run_one(Drawn::new(seed, number, ranges)?, profile)?;
        all.lock().unwrap_or_else(PoisonError::into_inner).push(judged);
        tell(done.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(())
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|judged| judged.path.number);
    Ok(all)
}

fn run_one(path: Drawn, profile: &Profile) -> Result<Judged, String> {
    let (mut outcome, _) = sim::run(&path.scenario(profile)?, path.seed)?;
    let flow = &outcome.flows[0];
    // What goes beside takes from the capacity what it delivers, its headers, and what the wire loses of it.
    let lost = path.link.mean_loss();
    let beside = outcome.flows.get(1).map_or(0.0, |flow| flow.goodput_mbps / PAYLOAD_SHARE / (1.0 - lost));
    let duration = path.duration();
    let capacity = path.link.capacity_bps(Default::default(), duration).ok_or("a path without limit")? / 1e6;
    let limit = (1.0 - lost) * (capacity - beside).max(0.0) * PAYLOAD_SHARE;
    let share = if limit > 0.0 { flow.goodput_mbps / limit } else { 0.0 };
    let connect_seconds = flow.connect_seconds.filter(|_| flow.received_bytes > 0);
    let queue = &outcome.links[0];
    let queue_drop_share = queue.share_of_offered(queue.dropped);
    outcome.seed = path.number;
    outcome.goodput_mbps = flow.goodput_mbps;
    outcome.fraction_of_limit = Some(share);
    Ok(Judged { path, share, connect_seconds, queue_drop_share, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile that takes every loss for congestion must stand out; so must one that connects nowhere.
    #[test]
    fn a_bad_transport_is_noticed() {
        let newreno = Profile::parse("newreno").unwrap();
        let runs = run(&newreno, 3, 12, &Ranges::quick(), &|_| {}).unwrap();
        assert_eq!(runs.len(), 12);
        let complaints = outside(&runs, &Bounds::default());
        assert!(complaints.iter().any(|line| line.contains("median")), "{complaints:?}");
        let mut dead = runs.clone();
        dead[4].connect_seconds = None;
        let complaints = outside(&dead, &Bounds { median: 0.0, tenth: 0.0, hundredth: 0.0, drops: 1.0 });
        assert!(complaints.iter().any(|line| line.contains("never connected")), "{complaints:?}");
        let again = run(&newreno, 3, 12, &Ranges::quick(), &|_| {}).unwrap();
        assert!(
            runs.iter().zip(&again).all(|(a, b)| a.outcome == b.outcome),
            "a run is a function of its seed"
        );
    }

    #[test]
    fn what_others_have_on_the_same_paths_is_the_measure() {
        let of = |profile| run(&Profile::parse(profile).unwrap(), 3, 8, &Ranges::rough(), &|_| {}).unwrap();
        let (newreno, auto) = (of("newreno"), of("auto"));
        let same = against(&auto, std::slice::from_ref(&auto));
        assert!(same.len() >= 7 && same.iter().all(|(_, share)| *share == 1.0), "{same:?}");
        let mut behind = against(&newreno, &[auto, newreno.clone()]);
        behind.sort_by(|a, b| a.1.total_cmp(&b.1));
        assert!(behind[0].1 < 0.7 && behind.iter().all(|(_, share)| *share <= 1.0), "{behind:?}");
    }
}
