//! Runs an experiment: cells in virtual time on all cores, cells in real time one after the other, or as many
//! at once as the file says.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Cell, Experiment, Record, Results, RunKey, ScenarioHash, Shard, Task, cells, task};
use crate::outcome::Outcome;
use crate::sim;

/// How thoroughly.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the file says.
    Full,
    /// A quarter of the time that counts (two seconds at least), one repetition: to see whether it works.
    Quick,
    /// A cell of the first claim and the one it is set against, once each in full length: whether results
    /// still are what they were. Of a file without a claim the first cell.
    Sample,
}

impl Mode {
    /// Length of a run.
    pub fn duration(self, experiment: &Experiment) -> Duration {
        match self {
            Self::Full | Self::Sample => experiment.duration,
            // What happens on a schedule happens in the warm-up: that stays as it is.
            Self::Quick => {
                let counted = (experiment.duration - experiment.warm_up) / 4;
                (experiment.warm_up + counted.max(Duration::from_secs(2))).min(experiment.duration)
            }
        }
    }

    /// What the folder of results is called, behind the name of the experiment.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Quick => "-quick",
            Self::Sample => "-sample",
        }
    }

    /// The mode that a folder of results is of.
    pub fn of_name(name: &str) -> Self {
        let is_of = |mode: &Self| name.ends_with(mode.suffix());
        [Self::Quick, Self::Sample].into_iter().find(is_of).unwrap_or(Self::Full)
    }

    /// The cells that are run.
    ///
    /// # Errors
    /// As [`cells`].
    pub fn cells(self, experiment: &Experiment) -> Result<Vec<Cell>, String> {
        let all = cells(experiment)?;
        if self != Self::Sample {
            return Ok(all);
        }
        let claim = experiment.claims.first();
        let first = all.into_iter().find(|cell| claim.is_none_or(|claim| claim.matches(cell)));
        let other = first.as_ref().and_then(|cell| claim?.against(cell));
        Ok(first.into_iter().chain(other).collect())
    }

    fn repetitions(self, experiment: &Experiment) -> u32 {
        if self == Self::Full { experiment.repetitions } else { 1 }
    }
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Runs that are done, those of earlier times included.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// The cell that was run last.
    pub label: String,
}

/// Runs in real time that go side by side begin so far apart: packets of all of them at the same moment are
/// more than the machine can move.
const APART: Duration = Duration::from_millis(25);
/// A run in real time that the machine could not carry is tried so often.
const ATTEMPTS_MAX: u32 = 3;

/// Why an experiment stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A run in virtual time cannot be made: it never can.
    #[error("{0}")]
    Impossible(String),
    /// A run in real time failed, as it need not do another time.
    #[error("{0}")]
    Failed(String),
    /// A result could not be written.
    #[error("{0}")]
    Disk(#[from] std::io::Error),
}

impl Stopped {
    /// Whether the same experiment may come further another time.
    pub fn may_go_on(&self) -> bool {
        !matches!(self, Self::Impossible(_))
    }
}

struct Job {
    cell: Cell,
    task: Task,
    hash: ScenarioHash,
    key: RunKey,
    seed: u64,
}

/// Runs what is missing in `results`.
///
/// # Errors
/// If a run cannot be made, or written.
pub fn run(
    experiment: &Experiment,
    mode: Mode,
    shard: Shard,
    results: &mut Results,
    tell: &(dyn Fn(&Progress) + Sync),
) -> Result<(), Stopped> {
    let commit = |cell: &Cell| experiment.commit(cell);
    let (mut jobs, total) = all(experiment, mode, shard, commit).map_err(Stopped::Impossible)?;
    jobs.retain(|job| !results.has(&job.key));
    let done = AtomicUsize::new(total - jobs.len());
    let report =
        |label: &str| tell(&Progress { done: done.load(Ordering::Relaxed), total, label: label.into() });
    report("");
    let (real, virtual_): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.task.is_real_time());
    let results = Mutex::new(results);
    let keep = |job: &Job, outcome: Outcome| {
        let record = Record::new(commit(&job.cell), job.hash.clone(), &job.cell, outcome);
        results.lock().unwrap_or_else(PoisonError::into_inner).add(record)?;
        done.fetch_add(1, Ordering::Relaxed);
        report(&job.cell.label());
        Ok(())
    };
    on_threads(cores(), Duration::ZERO, &virtual_, |job| keep(job, execute(job)?))?;
    on_threads(experiment.at_once, APART, &real, |job| keep(job, execute(job)?))
}

/// The keys of all runs of an experiment by a program, which has a commit for each cell.
///
/// # Errors
/// If one cannot be made.
pub fn keys<'a>(
    experiment: &Experiment,
    mode: Mode,
    commit: impl Fn(&Cell) -> &'a str,
) -> Result<Vec<RunKey>, String> {
    let (jobs, _) = all(experiment, mode, Shard::WHOLE, commit)?;
    Ok(jobs.into_iter().map(|job| job.key).collect())
}

/// The runs of a part, and how many there are. Equal runs are run once.
fn all<'a>(
    experiment: &Experiment,
    mode: Mode,
    shard: Shard,
    commit: impl Fn(&Cell) -> &'a str,
) -> Result<(Vec<Job>, usize), String> {
    let (mut jobs, mut known) = (Vec::new(), BTreeSet::new());
    for repetition in 0..mode.repetitions(experiment) {
        for cell in mode.cells(experiment)? {
            let task = task(experiment, &cell, mode.duration(experiment))?;
            let (hash, seed) = (task.hash(), experiment.seed + u64::from(repetition));
            let key = hash.with(commit(&cell), seed);
            if shard.contains(&key) && known.insert(key.clone()) {
                jobs.push(Job { cell, task, hash, key, seed });
            }
        }
    }
    Ok((jobs, known.len()))
}

/// Does every job, on all cores; stops at the first error.
pub(crate) fn on_all_cores<T: Sync>(
    jobs: &[T],
    work: impl Fn(&T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    on_threads(cores(), Duration::ZERO, jobs, work)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does every job, so many at once, the first of them begun `apart`; stops at the first error.
fn on_threads<T: Sync, E: Send>(
    threads: usize,
    apart: Duration,
    jobs: &[T],
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, error) = (&AtomicUsize::new(0), &Mutex::new(None));
    let work = &work;
    std::thread::scope(|scope| {
        for thread in 0..threads.min(jobs.len()) {
            let start = apart * thread as u32;
            scope.spawn(move || {
                std::thread::sleep(start);
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(reason) = work(job) {
                        next.store(jobs.len(), Ordering::Relaxed);
                        error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
                    }
                }
            });
        }
    });
    error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
}

fn execute(job: &Job) -> Result<Outcome, Stopped> {
    let words = |reason: String| format!("{}: {reason}", job.cell.label());
    match &job.task {
        Task::Sim(scenario) => sim::run(scenario, job.seed)
            .map(|(outcome, _)| outcome)
            .map_err(|reason| Stopped::Impossible(words(reason))),
        #[cfg(target_os = "linux")]
        Task::Tcp(scenario) => until_valid(|| crate::tcp::run(scenario, job.seed))
            .map_err(|reason| Stopped::Failed(words(reason))),
        #[cfg(target_os = "linux")]
        Task::Peer(scenario) => until_valid(|| crate::peer::run(scenario, job.seed))
            .map_err(|reason| Stopped::Failed(words(reason))),
    }
}

/// Tries again if the machine could not carry a run.
#[cfg(target_os = "linux")]
fn until_valid(run: impl Fn() -> Result<Outcome, String>) -> Result<Outcome, String> {
    let mut outcome = run()?;
    for _ in 1..ATTEMPTS_MAX {
        if outcome.valid {
            break;
        }
        outcome = run()?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = 't'\nduration = '400ms'\nrepetitions = 2\n[link]\nrate = '5M'\nrtt = '10ms'\n\
        [[flow]]\nsender = 'cubic'\n[sweep]\nloss = ['0%', '2%']\nburst = ['none', '3']\n";

    #[test]
    fn a_quick_run_keeps_its_warm_up() {
        let duration = |text: &str| {
            let text = format!("title = 't'\n{text}\n[[flow]]\nsender = 'cubic'\n");
            Mode::Quick.duration(&Experiment::parse("t.toml", &text).unwrap()).as_millis()
        };
        assert_eq!(duration("duration = '20s'"), 5000);
        assert_eq!(duration("duration = '20s'\nwarm_up = '12s'"), 14_000);
        assert_eq!(duration("duration = '1s'"), 1000);
    }

    #[test]
    fn an_interrupted_experiment_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse("t.toml", TEXT).unwrap();
        let mut results = Results::open(folder.path().join("t"), TEXT).unwrap();
        let seen = Mutex::new(Vec::new());
        let tell = |progress: &Progress| seen.lock().unwrap().push(progress.done);
        run(&experiment, Mode::Full, Shard::WHOLE, &mut results, &tell).unwrap();
        // Four cells, of which two are the same, twice.
        assert_eq!(seen.lock().unwrap().last(), Some(&6));
        let path = results.folder().join("runs.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let some: Vec<&str> = text.lines().skip(2).collect();
        std::fs::write(&path, some.join("\n") + "\n").unwrap();
        seen.lock().unwrap().clear();
        let mut again = Results::read(folder.path().join("t")).unwrap();
        run(&experiment, Mode::Full, Shard::WHOLE, &mut again, &tell).unwrap();
        assert_eq!(*seen.lock().unwrap(), [4, 5, 6]);
        let cell = &cells(&experiment).unwrap()[0];
        let hash = task(&experiment, cell, experiment.duration).unwrap().hash();
        assert_eq!(
            again.summary(&experiment, cell, &hash, "goodput_mbps"),
            results.summary(&experiment, cell, &hash, "goodput_mbps")
        );
    }
}
