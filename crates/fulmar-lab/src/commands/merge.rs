//! `fulmar-lab merge`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::ending::Failure;
use crate::experiment::{self, Cell, Experiment, Mode, OurCode, Results, Shard};

/// Put results of several folders, or of the parts of one, together
///
/// Parts that ran with `run --shard` in one folder have files of their own in it; `merge DIR` makes one of
/// them. Folders of other machines
/// are added: `merge results from-a from-b`. What is there already is kept; what is there twice is kept once.
/// Results of several commits are not put together, and what lacks runs is not whole: both are said, and
/// nothing is changed, unless it is allowed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab merge results                                      # parts in one folder, on a shared disk
  fulmar-lab merge results node-*/results                       # folders of many machines")]
pub(super) struct Args {
    /// Where everything goes
    #[arg(value_name = "DIR")]
    into: PathBuf,
    /// Folders to add
    #[arg(value_name = "FROM")]
    from: Vec<PathBuf>,
    /// Put results of several commits together all the same: a report takes this program's, or the last
    #[arg(long)]
    mixed: bool,
    /// Some runs may be missing
    #[arg(long)]
    partial: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let folders = folders(args)?;
    for sources in folders.values() {
        check(args, sources)?;
    }
    let mut added = 0;
    for (name, sources) in &folders {
        for Source { folder, text } in sources {
            let target = args.into.join(name);
            added += merge(folder, &target, text).map_err(|error| words(folder, error))?;
        }
    }
    println!("{added} runs added to {}", args.into.display());
    Ok(())
}

fn words(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// A folder with results of one experiment, and the experiment.
struct Source {
    folder: PathBuf,
    text: String,
}

/// The folders of each experiment, by its name.
fn folders(args: &Args) -> Result<BTreeMap<OsString, Vec<Source>>, Failure> {
    let mut all: BTreeMap<OsString, Vec<Source>> = BTreeMap::new();
    for root in std::iter::once(&args.into).chain(&args.from) {
        let entries = fs::read_dir(root).map_err(|error| words(root, error))?;
        for folder in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Ok(text) = fs::read_to_string(folder.join("experiment.toml")) else { continue };
            let sources = all.entry(folder.file_name().unwrap_or_default().to_owned()).or_default();
            if let Some(other) = sources.iter().find(|other| other.text != text) {
                let (here, there) = (folder.display(), other.folder.display());
                return Err(Failure::Never(format!(
                    "{here}: another experiment of the same name is in {there}"
                )));
            }
            sources.push(Source { folder, text });
        }
    }
    Ok(all)
}

/// Whether the results of an experiment are of one commit, and whole.
fn check(args: &Args, sources: &[Source]) -> Result<(), Failure> {
    let Some(Source { folder, text }) = sources.first() else { return Ok(()) };
    let read = |source: &Source| Results::read(source.folder.clone()).map_err(|e| words(&source.folder, e));
    let parts = sources.iter().map(read).collect::<Result<Vec<_>, String>>()?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let experiment = Experiment::parse(&folder.join("experiment.toml").display().to_string(), text)
        .map_err(|mistake| Failure::Never(mistake.to_string()))?;
    let commits: BTreeSet<(OurCode, &str)> =
        parts.iter().flat_map(|part| part.commits(&experiment)).collect();
    let of = |ran: OurCode| commits.iter().filter(move |(code, _)| *code == ran).map(|(_, commit)| *commit);
    let several = OurCode::ALL.into_iter().find(|code| of(*code).count() > 1);
    if let Some(several) = several.filter(|_| !args.mixed) {
        let commits = of(several).collect::<Vec<_>>().join(", ");
        return Err(Failure::Never(format!(
            "{name}: results of several commits, {commits}: --mixed allows it"
        )));
    }
    if commits.is_empty() || args.partial || args.mixed {
        return Ok(());
    }
    // Where nothing has run yet, all is missing, whatever the commit.
    let commit = |cell: &Cell| of(experiment.our_code(cell)).next().unwrap_or_default();
    let keys = experiment::keys(&experiment, Mode::of_name(&name), commit).map_err(Failure::Never)?;
    let missing: Vec<_> = keys.iter().filter(|key| !parts.iter().any(|part| part.has(key))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let counts = parts.iter().map(Results::parts).collect::<Result<Vec<_>, _>>();
    let count = counts.map_err(|error| words(folder, error))?.into_iter().max().unwrap_or(1);
    let shards: BTreeSet<String> = missing
        .iter()
        .map(|key| Shard { index: key.shard(count), count })
        .map(|shard| shard.to_string())
        .collect();
    Err(Failure::Again(format!(
        "{name}: {} of {} runs are missing, of the parts {}: run them again, or --partial allows it",
        missing.len(),
        keys.len(),
        shards.into_iter().collect::<Vec<_>>().join(", ")
    )))
}

/// Adds what is new, and leaves one file in the target.
fn merge(folder: &Path, target: &Path, text: &str) -> std::io::Result<usize> {
    let parts = Results::read(folder.to_owned())?;
    let mut whole = Results::open(target.to_owned(), text)?;
    let mut added = 0;
    for record in parts.all() {
        if !whole.contains(record) {
            whole.add(record.clone())?;
            added += 1;
        }
    }
    added += whole.gather()?;
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run as run_experiment;

    const TEXT: &str = "title = 't'\nduration = '300ms'\nrepetitions = 4\n[link]\nrate = '5M'\nrtt = '10ms'\n\
        [[flow]]\nsender = 'cubic'\n[sweep]\nloss = ['0%', '2%']\n";

    #[test]
    fn parts_make_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse("t.toml", TEXT).unwrap();
        let part = |root: &str, index, count| {
            let place = folder.path().join(root).join("t");
            let shard = Shard { index, count };
            let mut results = Results::open(place, TEXT).unwrap().of_shard(shard).unwrap();
            run_experiment(&experiment, Mode::Full, shard, &mut results, &|_| {}).unwrap();
        };
        part("whole", 0, 1);
        part("a", 0, 3);
        part("a", 1, 3);
        part("b", 2, 3);
        let path = |name: &str| folder.path().join(name);
        // Twice: the second time nothing is new.
        let args = |from: &[&str]| Args {
            into: path("a"),
            from: from.iter().map(|name| path(name)).collect(),
            mixed: false,
            partial: false,
        };
        let files = || {
            let entries = std::fs::read_dir(path("a/t")).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
        };
        // Without the third part it is not whole, and stays as it is.
        let before = files();
        let Err(Failure::Again(reason)) = run(&args(&[])) else { panic!("a part is missing") };
        assert!(reason.contains("of the parts 2/3"), "{reason}");
        assert_eq!(files(), before);
        for _ in 0..2 {
            run(&args(&["b"])).unwrap();
        }
        let runs = |name: &str| {
            let results = Results::read(path(name).join("t")).unwrap();
            results.all().map(|record| (record.key.clone(), record.outcome.clone())).collect::<Vec<_>>()
        };
        assert_eq!(runs("a").len(), 8);
        assert_eq!(runs("a"), runs("whole"));
        assert_eq!(
            fs::read_dir(path("a").join("t")).unwrap().count(),
            2,
            "one file of runs, and the experiment"
        );
        // Of another program.
        let runs = path("b").join("t/runs-2-of-3.jsonl");
        let text = fs::read_to_string(&runs).unwrap();
        fs::write(&runs, text.replace(OurCode::Engine.commit(), "another")).unwrap();
        let Err(Failure::Never(reason)) = run(&args(&["b"])) else { panic!("two commits") };
        assert!(reason.contains("several commits"), "{reason}");
        run(&Args { mixed: true, ..args(&["b"]) }).unwrap();
        fs::write(path("b").join("t/experiment.toml"), "title = 'other'").unwrap();
        let Err(Failure::Never(reason)) = run(&args(&["b"])) else { panic!("two experiments") };
        assert!(reason.contains("another experiment"), "{reason}");
    }
}
