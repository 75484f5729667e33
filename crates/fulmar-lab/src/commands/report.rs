//! `fulmar-lab report`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::experiment::{Experiment, Results, plain_name};
use crate::report::verdicts::Register;
use crate::report::{self, Chapter};

/// Make tables, plots, pages and the table of verdicts of all results there are
///
/// CSV, JSON and SVG for each experiment, one static HTML page, a page for each source, and README.md: every
/// published table and figure with its verdict, and what the five systems must do. Of cells without new
/// results, or with fewer runs of this engine, the table (CSV) in the output folder counts. Results of
/// another engine (the commit of what decides its runs differs) are stale: they are shown, and no claim is
/// judged by them.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folder of results
    #[arg(default_value = "results", value_name = "DIR")]
    results: PathBuf,
    /// Where the report goes [default: DIR/report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of the experiment files, with register/ in it: what was published, and what must be there
    #[arg(long, default_value = "experiments", value_name = "DIR")]
    experiments: PathBuf,
    /// End with an error if a claim does not hold
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let out = args.out.clone().unwrap_or_else(|| args.results.join("report"));
    let files = experiment_files(&args.experiments);
    let mut chapters = from_results(args, &files, &out)?;
    chapters.extend(from_tables(&chapters, &files, &out)?);
    chapters.sort_by(|a, b| a.experiment.name.cmp(&b.experiment.name));
    chapters.iter_mut().for_each(Chapter::only_of_today);
    Chapter::judge_together(&mut chapters);
    if !chapters.iter().any(Chapter::is_measured) {
        return Err(format!(
            "there are no results in {}; `fulmar-lab run` makes them",
            args.results.display()
        ));
    }
    let register = register(&args.experiments)?;
    report::write(&chapters, &register, &out).map_err(|error| words(&out, error))?;
    println!("{}", out.join("index.html").display());
    let outside: Vec<String> = chapters.iter().flat_map(Chapter::outside_bounds).collect();
    outside.iter().for_each(|line| println!("outside its bounds: {line}"));
    if args.strict && !outside.is_empty() {
        Err(format!("{} claims do not hold", outside.len()))
    } else {
        Ok(())
    }
}

fn words(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Folders beside the experiments whose files are none: programs, other transports, what was published.
const OTHERS: [&str; 3] = ["applications", "peers", "register"];

/// The experiment files, in this folder and the folders in it.
fn experiment_files(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let has_experiments = |path: &PathBuf| path.is_dir() && !OTHERS.iter().any(|name| path.ends_with(name));
    let folders = list(folder).into_iter().filter(has_experiments);
    let all = folders.flat_map(|folder| list(&folder)).chain(list(folder));
    let is_experiment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let mut files: Vec<PathBuf> = all.filter(is_experiment).collect();
    files.sort();
    files
}

fn parse(file: &Path) -> Result<Experiment, String> {
    let text = fs::read_to_string(file).map_err(|error| words(file, error))?;
    Experiment::parse(&file.display().to_string(), &text).map_err(|mistake| mistake.to_string())
}

/// What stands in the folder of results. The experiment's file of today says what is claimed, if there still
/// is one.
fn from_results(args: &Args, files: &[PathBuf], out: &Path) -> Result<Vec<Chapter>, String> {
    let mut folders: Vec<PathBuf> = match fs::read_dir(&args.results) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(words(&args.results, error)),
    };
    folders.retain(|path| path.join("experiment.toml").is_file());
    folders.sort();
    let mut chapters = Vec::new();
    for folder in folders {
        let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let of_today =
            files.iter().find(|file| file.file_stem().is_some_and(|stem| *stem == *plain_name(&name)));
        let mut experiment = match of_today {
            Some(file) => parse(file)?,
            None => parse(&folder.join("experiment.toml"))?,
        };
        experiment.name = name;
        let results = Results::read(folder.clone()).map_err(|error| words(&folder, error))?;
        let mut chapter = Chapter::new(experiment.clone(), &results)?;
        if let Ok(table) = fs::read_to_string(table_of(out, &experiment)) {
            chapter.complete_by(Chapter::from_csv(experiment, &table)?);
        }
        // What was begun, and has no run yet, is for `from_tables`.
        if chapter.is_measured() || of_today.is_none() {
            chapters.push(chapter);
        }
    }
    Ok(chapters)
}

/// The table of an experiment that stays in the tree.
fn table_of(out: &Path, experiment: &Experiment) -> PathBuf {
    out.join(format!("{}.csv", experiment.name))
}

/// The experiments without results, from the tables that were kept; those without either have nothing to show
/// but their claims.
fn from_tables(known: &[Chapter], files: &[PathBuf], out: &Path) -> Result<Vec<Chapter>, String> {
    let mut chapters = Vec::new();
    for file in files {
        let experiment = parse(file)?;
        let has_results = |c: &Chapter| c.experiment.plain_name() == experiment.name && c.is_measured();
        if known.iter().any(has_results) {
            continue;
        }
        let text = fs::read_to_string(table_of(out, &experiment)).unwrap_or_default();
        chapters.push(Chapter::from_csv(experiment, &text)?);
    }
    Ok(chapters)
}

fn register(folder: &Path) -> Result<Register, String> {
    let mut register = Register::default();
    for name in ["published.toml", "systems.toml"] {
        let path = folder.join("register").join(name);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let part: Register =
            toml::from_str(&text).map_err(|error| format!("{}: {}", path.display(), error.message()))?;
        register.source.extend(part.source);
        register.row.extend(part.row);
    }
    Ok(register)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment that was begun, and has no run yet, is in the report once.
    #[test]
    fn what_has_no_run_yet_is_not_there_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "title = 't'\nduration = '1s'\n[[flow]]\nsender = 'cubic'\n";
        for place in ["experiments", "results/t"] {
            fs::create_dir_all(path(place)).unwrap();
        }
        fs::write(path("experiments/t.toml"), text).unwrap();
        fs::write(path("results/t/experiment.toml"), text).unwrap();
        let args =
            Args { results: path("results"), out: None, experiments: path("experiments"), strict: false };
        let files = experiment_files(&args.experiments);
        let mut chapters = from_results(&args, &files, &path("out")).unwrap();
        chapters.extend(from_tables(&chapters, &files, &path("out")).unwrap());
        assert_eq!(chapters.len(), 1);
    }

    /// Every file that the report takes for an experiment is one.
    #[test]
    fn the_experiments_of_the_project_are_found_and_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files = experiment_files(&folder);
        assert!(files.len() > 70, "{} files", files.len());
        let parsed: Vec<Experiment> =
            files.iter().map(|file| parse(file).unwrap_or_else(|error| panic!("{error}"))).collect();
        for claim in parsed.iter().flat_map(|experiment| &experiment.claims) {
            let Some(name) = &claim.over_in else { continue };
            let other = parsed.iter().find(|other| other.name == *name).expect(name);
            let has = |(key, value)| {
                other.sweep.get(key).is_some_and(|values: &Vec<String>| values.contains(value))
            };
            assert!(claim.over.iter().flatten().all(has), "{}: {:?}", claim.says, claim.over);
        }
    }
}
