//! `fulmar-lab merge`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::experiment::Results;

/// Put results of several folders, or of the parts of one, together
///
/// Parts that ran with `run --shard` in one folder have files of their own in it; `merge DIR` makes one of them. Folders of other machines
/// are added: `merge results from-a from-b`. What is there already is kept; what is there twice is kept once.
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
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let words = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut added = 0;
    for root in std::iter::once(&args.into).chain(&args.from) {
        let entries = fs::read_dir(root).map_err(|error| words(root, error))?;
        for folder in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let experiment = folder.join("experiment.toml");
            let Ok(text) = fs::read_to_string(&experiment) else { continue };
            let target = args.into.join(folder.file_name().unwrap_or_default());
            if fs::read_to_string(target.join("experiment.toml")).is_ok_and(|other| other != text) {
                return Err(format!(
                    "{}: another experiment of the same name is in {}",
                    folder.display(),
                    target.display()
                ));
            }
            added += merge(&folder, &target, &text).map_err(|error| words(&folder, error))?;
        }
    }
    println!("{added} runs added to {}", args.into.display());
    Ok(())
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
    use crate::experiment::{Experiment, Mode, Shard, run as run_experiment};

    const TEXT: &str = "title = 't'\nduration = '300ms'\nrepetitions = 4\n[link]\nrate = '5M'\nrtt = '10ms'\n\
        [[flow]]\nsender = 'cubic'\n[sweep]\nloss = ['0%', '2%']\n";

    #[test]
    fn parts_make_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse("t.toml", TEXT).unwrap();
        let part = |root: &str, index, count| {
            let place = folder.path().join(root).join("t");
            let shard = Shard { index, count };
            let mut results = Results::open(place, TEXT).unwrap().of_shard(shard);
            run_experiment(&experiment, Mode::Full, shard, &mut results, &|_| {}).unwrap();
        };
        part("whole", 0, 1);
        part("a", 0, 3);
        part("a", 1, 3);
        part("b", 2, 3);
        let path = |name: &str| folder.path().join(name);
        // Twice: the second time nothing is new.
        for _ in 0..2 {
            run(&Args { into: path("a"), from: vec![path("b")] }).unwrap();
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
        fs::write(path("b").join("t/experiment.toml"), "title = 'other'").unwrap();
        assert!(
            run(&Args { into: path("a"), from: vec![path("b")] }).unwrap_err().contains("another experiment")
        );
    }
}
