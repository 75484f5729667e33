//! What `fulmar cp` says at the end, to people and to programs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::job::Job;
use super::name;
use super::plan::{Direction, Item, NotCopied};
use super::progress::Progress;
use super::send::Outcome;
use crate::exit::Failure;
use crate::units;

/// What is said at the end.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was to be done.
    pub job: &'a Job,
    /// What was.
    pub progress: &'a Progress,
    /// How long it took.
    pub took: Duration,
    /// Which way.
    pub direction: Direction,
}

impl Report<'_> {
    fn moved_bytes(&self) -> u64 {
        self.progress.moved_bytes.load(Ordering::Relaxed)
    }

    /// A few of them, and how many more.
    fn names_of_waiting(&self) -> String {
        const SHOWN: usize = 10;
        let names: Vec<_> = self.job.waiting().take(SHOWN).map(Item::shown).collect();
        let more = self.job.waiting().len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names.join(", "))
    }

    /// For people: on standard error what is not as it should be, on standard output what was done.
    pub fn print(&self, failure: Option<&Failure>) {
        let job = self.job;
        let not_copied = job.failed.len() + job.left_out.len();
        // A single one is named by what the program says at its end.
        if not_copied > 1 || failure.is_none() {
            job.failed.iter().for_each(|failed| eprintln!("failed: {}", failed.error));
            job.left_out.iter().for_each(|left_out| eprintln!("left out: {}", left_out.error));
        }
        job.noted().for_each(|(_, note)| eprintln!("changed: {note}"));
        let count = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let counts = [
            count(job.failed.len(), "failed"),
            count(job.left_out.len(), "left out (neither file nor folder)"),
            count(job.noted().count(), "grew while they were read"),
        ];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        if !counts.is_empty() {
            eprintln!("{} copied, {}", job.done.len(), counts.join(", "));
        }
        if failure.is_some() && job.waiting().len() > 0 {
            eprintln!("not copied yet: {}", self.names_of_waiting());
        }
        if job.done.is_empty() {
            if matches!(failure, Some(Failure::Unreachable(_))) {
                eprintln!("What has arrived is kept: the same command goes on from there.");
            }
            return;
        }
        self.print_done();
    }

    fn print_done(&self) {
        let resumed: u64 = self.job.done.iter().map(|(_, outcome)| outcome.resumed_bytes).sum();
        let moved = self.moved_bytes();
        let rate = units::rate(units::mbps(moved, self.took));
        let what = match &self.job.done[..] {
            [(item, _)] => item.shown(),
            many => format!("{} files", many.len()),
        };
        let there_already =
            if resumed > 0 { format!(", {} there already", units::bytes(resumed)) } else { String::new() };
        println!(
            "{what}: {} in {} ({rate}){there_already}, verified with BLAKE3",
            units::bytes(moved),
            units::duration(self.took)
        );
    }

    /// For programs.
    pub fn json(&self, failure: Option<&Failure>) -> Value {
        let job = self.job;
        let not_copied = |list: &[NotCopied]| -> Vec<Value> { list.iter().map(not_copied).collect() };
        json!({
            "ok": failure.is_none(),
            "error": failure.map(Failure::json),
            "direction": match self.direction { Direction::Up => "up", Direction::Down => "down" },
            "bytes_moved": self.moved_bytes(),
            "seconds": self.took.as_secs_f64(),
            "goodput_mbps": units::mbps(self.moved_bytes(), self.took),
            "skipped": job.left_out.len(),
            "not_copied": job.failed.len() + job.left_out.len() + job.waiting().len(),
            "changed": job.noted().count(),
            "files": job.done.iter().map(|(item, outcome)| copied(item, outcome)).collect::<Vec<_>>(),
            "failed": not_copied(&job.failed),
            "left_out": not_copied(&job.left_out),
            "waiting": job.waiting().map(Item::shown).collect::<Vec<_>>(),
            "waiting_files": job.waiting().map(|item| named(&item.local, &item.remote)).collect::<Vec<_>>(),
        })
    }
}

fn named(local: &[u8], remote: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    name::put(&mut object, "name", local);
    name::put(&mut object, "remote", remote);
    object
}

fn copied(item: &Item, outcome: &Outcome) -> Value {
    let mut object = named(&item.local, &item.remote);
    object.insert("bytes".into(), outcome.size_bytes.into());
    object.insert("resumed_bytes".into(), outcome.resumed_bytes.into());
    object.insert("discarded_bytes".into(), outcome.discarded_bytes.into());
    object.insert("blake3".into(), blake3::Hash::from_bytes(outcome.hash).to_hex().as_str().into());
    if let Some(note) = &outcome.note {
        object.insert("changed".into(), note.text.clone().into());
    }
    object.into()
}

fn not_copied(NotCopied { local, remote, error }: &NotCopied) -> Value {
    let mut object = named(local, remote);
    object.insert("error".into(), error.to_string().into());
    object.into()
}
