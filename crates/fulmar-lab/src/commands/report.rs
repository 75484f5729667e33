//! `fulmar-lab report`.

use std::path::{Path, PathBuf};

use crate::experiment::{Experiment, Results};
use crate::report::{self, Chapter};

/// Make tables, plots and one page of all results there are
///
/// CSV, JSON and SVG for each experiment, and one static HTML page with published and measured values side by side and the
/// command that repeats each.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folder of results
    #[arg(default_value = "results", value_name = "DIR")]
    results: PathBuf,
    /// Where the report goes [default: DIR/report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// End with an error if a result is outside the bounds its experiment sets
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let words = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&args.results)
        .map_err(|error| words(&args.results, error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("experiment.toml").is_file())
        .collect();
    folders.sort();
    let mut chapters = Vec::new();
    for folder in folders {
        let file = folder.join("experiment.toml");
        let text = std::fs::read_to_string(&file).map_err(|error| words(&file, error))?;
        let mut experiment =
            Experiment::parse(&file.display().to_string(), &text).map_err(|mistake| mistake.to_string())?;
        experiment.name =
            folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let results = Results::read(folder.clone()).map_err(|error| words(&folder, error))?;
        chapters.push(Chapter::new(experiment, results)?);
    }
    if chapters.is_empty() {
        return Err(format!(
            "there are no results in {}; `fulmar-lab run` makes them",
            args.results.display()
        ));
    }
    let out = args.out.clone().unwrap_or_else(|| args.results.join("report"));
    report::write(&chapters, &out).map_err(|error| words(&out, error))?;
    println!("{}", out.join("index.html").display());
    let outside: Vec<String> = chapters.iter().flat_map(Chapter::outside_bounds).collect();
    outside.iter().for_each(|line| println!("outside its bounds: {line}"));
    if args.strict && !outside.is_empty() {
        Err(format!("{} results are outside their bounds", outside.len()))
    } else {
        Ok(())
    }
}
