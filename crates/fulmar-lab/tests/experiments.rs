//! The experiments that come with Fulmar: every file names its claim, everything that was published is
//! listed, every row of the benchmark runs.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_lab::experiment::{Experiment, Mode, Task, task};
use fulmar_lab::report::verdicts::Register;
use fulmar_lab::sim;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn experiments_in(folder: &Path) -> Vec<Experiment> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    let parse = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        Experiment::parse(&path.display().to_string(), &text).unwrap_or_else(|mistake| panic!("{mistake}"))
    };
    files.iter().map(parse).collect()
}

fn all() -> Vec<Experiment> {
    let mut all = experiments_in(&folder());
    all.extend(experiments_in(&folder().join("auto")));
    all
}

fn register(name: &str) -> Register {
    toml::from_str(&fs::read_to_string(folder().join("register").join(name)).unwrap()).unwrap()
}

#[test]
fn every_experiment_names_its_claim() {
    for experiment in all() {
        assert!(
            !experiment.claims.is_empty(),
            "{} claims nothing: a bound on what it is about",
            experiment.name
        );
        let has_published = experiment.published.iter().any(|published| published.value.is_some());
        let is_two_sided = |claim: &fulmar_lab::experiment::Claim| {
            claim.within.is_some() || claim.min.is_some() && claim.max.is_some()
        };
        assert!(
            !has_published || experiment.claims.iter().any(is_two_sided),
            "{} has figures of its source and no claim with two sides",
            experiment.name
        );
    }
}

#[test]
fn everything_published_is_listed_with_experiments_that_exist() {
    let names: BTreeSet<String> = all().into_iter().map(|experiment| experiment.name).collect();
    let published = register("published.toml");
    let systems = register("systems.toml");
    let items = published.source.iter().flat_map(|source| &source.item);
    let used =
        items.flat_map(|item| &item.experiments).chain(systems.row.iter().flat_map(|row| &row.experiments));
    for name in used {
        assert!(names.contains(name), "there is no experiment {name}");
    }
    // Claims about an item belong to an experiment of that item.
    for experiment in all() {
        let names = experiment.claims.iter().filter_map(|claim| claim.of.as_ref());
        for of in names.flat_map(|names| names.split(" and ")) {
            let items = published.source.iter().flat_map(|source| &source.item);
            let is_listed =
                items.filter(|item| item.name == *of).any(|i| i.experiments.contains(&experiment.name));
            assert!(is_listed, "{} claims something of {of}, which does not name it", experiment.name);
        }
    }
    let ids: BTreeSet<&str> = systems.row.iter().map(|row| row.id.as_str()).collect();
    assert_eq!((systems.row.len(), ids.len()), (54, 54));
    // What counts once with another item has the same experiments as that item.
    for source in &published.source {
        for item in &source.item {
            let Some(other) = &item.counted_with else { continue };
            let other = source.item.iter().find(|i| i.name == *other).expect("another item of the source");
            assert!(other.counted_with.is_none() && other.experiments == item.experiments, "{}", item.name);
        }
    }
}

/// The cells of each row's first claim for a moment of virtual time: everything that is measured has a value.
#[test]
fn every_row_of_the_benchmark_runs() {
    for experiment in experiments_in(&folder().join("auto")) {
        let cells = Mode::Sample.cells(&experiment).unwrap();
        assert!(!cells.is_empty(), "{}: its first claim speaks of no cell", experiment.name);
        let short = (experiment.warm_up * 2).max(Duration::from_secs(2)).min(experiment.duration);
        let Task::Sim(scenario) = task(&experiment, &cells[0], short).unwrap() else { continue };
        let (outcome, _) = sim::run(&scenario, experiment.seed).unwrap();
        let is_missing = |name: &&String| outcome.measure(name).is_none();
        // A connection that is not there yet has no time, nor has a transfer that is under way.
        let missing: Vec<&String> = experiment
            .measures
            .iter()
            .filter(is_missing)
            .filter(|name| !name.ends_with("_seconds"))
            .collect();
        assert!(missing.is_empty(), "{}: {missing:?} of {outcome:?}", experiment.name);
    }
}
