//! `fulmar-lab compare`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::progress::Bar;
use super::sim::seconds;
use crate::compare::{Difference, RandomPaths, Side, Verdict, Workshop, cache_folder, differences, sides};
use crate::experiment::{Experiment, Results};
use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::traffic::Traffic;

/// Compare two profiles, or two commits, seed by seed, with a paired test
///
/// Both meet the same losses packet by packet, so the test sees differences that means would hide. Two names
/// of profiles are compared in this program. Anything else is taken for commits (HEAD~3, a branch, a tag; `.`
/// is this program itself): each is built once and kept in a cache, and runs the same experiment with the
/// same seeds.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab compare auto cubic --loss 1% --seeds 10
  fulmar-lab compare main . --rate 20M --rtt 250ms --loss 5%/5 --profile auto
  fulmar-lab compare HEAD~1 HEAD --random 500
  fulmar-lab compare v0.1.0 HEAD --experiment experiments/profiles-loss.toml --seeds 5")]
pub(super) struct Args {
    /// A profile, or a commit
    a: String,
    /// The other
    b: String,
    /// Profile of the flow, when commits are compared
    #[arg(long, default_value = "auto")]
    profile: String,
    /// Traffic of the flow
    #[arg(long, default_value = "bulk")]
    traffic: Traffic,
    /// What is compared, by commas [default: goodput_mbps,wire_ratio,queue_delay_p99_ms, or what the
    /// experiment measures]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = measure)]
    measure: Vec<String>,
    /// Runs of each side, with seeds 1, 2 ..
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    seeds: u32,
    /// Length of each run [default: 10 s, or what the experiment says]
    #[arg(short = 't', long = "time", value_parser = seconds)]
    time: Option<Duration>,
    /// Every cell of this experiment instead of one flow over one link
    #[arg(long, value_name = "FILE.toml")]
    experiment: Option<PathBuf>,
    /// So many paths drawn at random instead (`fulmar-lab random`)
    #[arg(long, value_name = "PATHS", conflicts_with = "experiment")]
    random: Option<u64>,
    /// Seed of the paths drawn at random
    #[arg(long, default_value_t = 1, requires = "random")]
    random_seed: u64,
    /// Where programs of commits are built and kept [default: fulmar-lab in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    link: WordedLink,
}

/// A link with the words it was given in, so that another program can be given the same.
#[derive(Debug)]
struct WordedLink(BTreeMap<String, String>);

impl clap::FromArgMatches for WordedLink {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        // The same checks as for every other command.
        LinkSpec::from_arg_matches(matches)?;
        let word = |key: &&str| {
            let is_given = matches.value_source(key)? == clap::parser::ValueSource::CommandLine;
            let word = matches.get_raw(key).and_then(|mut values| values.next()?.to_str());
            is_given.then(|| ((*key).to_owned(), word.unwrap_or("true").to_owned()))
        };
        Ok(Self(LinkSpec::KEYS.iter().filter_map(word).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for WordedLink {
    fn augment_args(command: clap::Command) -> clap::Command {
        LinkSpec::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        LinkSpec::augment_args_for_update(command)
    }
}

/// A measure by its name.
fn measure(name: &str) -> Result<String, String> {
    let is_known = Outcome::MEASURES.contains(&name);
    is_known.then(|| name.to_owned()).ok_or_else(|| format!("there are {}", Outcome::MEASURES.join(", ")))
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let workshop = Workshop::new(here, args.cache.clone().unwrap_or_else(cache_folder));
    if let Some(paths) = args.random {
        return on_random_paths(args, &sides(&args.a, &args.b, &workshop)?, paths);
    }
    let experiment = args.experiment()?;
    let parsed = Experiment::parse("compare.toml", &experiment).map_err(|mistake| mistake.to_string())?;
    let measures = if args.measure.is_empty() { &parsed.measures } else { &args.measure };
    let sides = sides(&args.a, &args.b, &workshop)?;
    let folder = tempfile::tempdir().map_err(|error| format!("no room for results: {error}"))?;
    let mut results = Vec::new();
    for (side, place) in sides.iter().zip(["a", "b"]) {
        results.push(run_side(side, &experiment, &folder.path().join(place))?);
    }
    let lines = differences(&results[0], &results[1], measures);
    if lines.is_empty() {
        return Err(
            "the two have no pair of valid runs in common, or none that measures what was asked for".into()
        );
    }
    if args.json {
        let [a, b] = [&sides[0], &sides[1]].map(Side::name);
        let all = serde_json::json!({ "a": a, "b": b, "differences": lines });
        println!("{all:#}");
    } else {
        print(&sides, &lines);
    }
    Ok(())
}

/// Path by path, by kind and all together.
fn on_random_paths(args: &Args, sides: &[Side; 2], paths: u64) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no room for results: {error}"))?;
    let mut found = Vec::new();
    for (side, place) in sides.iter().zip(["a", "b"]) {
        let lot = RandomPaths { paths, seed: args.random_seed, profile: args.profile.clone() };
        found.push(side.run_random(&lot, &folder.path().join(place))?);
    }
    let measures = if args.measure.is_empty() {
        ["fraction_of_limit", "queue_drops", "connect_seconds"].map(String::from).to_vec()
    } else {
        args.measure.clone()
    };
    let mut lines = differences(&found[0], &found[1], &measures);
    let [a, b] = [&found[0], &found[1]].map(Results::without_cells);
    lines.splice(0..0, differences(&a, &b, &measures));
    print(sides, &lines);
    Ok(())
}

fn run_side(side: &Side, experiment: &str, folder: &Path) -> Result<Results, String> {
    let bar = Mutex::new(Bar::new(side.name()));
    let lock = || bar.lock().unwrap_or_else(PoisonError::into_inner);
    let results = side.run(experiment, folder.to_owned(), &|progress| {
        lock().show(progress.done as u64, progress.total as u64, &progress.label);
    });
    lock().end();
    results
}

impl Args {
    /// What both sides run, as an experiment file.
    fn experiment(&self) -> Result<String, String> {
        let mut table = match &self.experiment {
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                // Mistakes are told in the words and with the lines of the file.
                Experiment::parse(&path.display().to_string(), &text)
                    .map_err(|mistake| mistake.to_string())?;
                toml::from_str::<toml::Table>(&text).map_err(|error| error.to_string())?
            }
            None => self.one_flow(),
        };
        // What was published and claimed is not what is asked, and an older program may not understand it.
        ["published", "claim", "reference"].iter().for_each(|key| _ = table.remove(*key));
        table.insert("repetitions".into(), i64::from(self.seeds).into());
        table.insert("seed".into(), 1.into());
        if let Some(time) = self.time {
            table.insert("duration".into(), format!("{}ns", time.as_nanos()).into());
        }
        toml::to_string(&table).map_err(|error| error.to_string())
    }

    fn one_flow(&self) -> toml::Table {
        let text = |words: &str| toml::Value::from(words);
        let flow =
            [("sender".into(), text(&self.profile)), ("traffic".into(), text(&self.traffic.to_string()))];
        let measures = ["goodput_mbps", "wire_ratio", "queue_delay_p99_ms"].map(text).to_vec();
        let link: toml::Table = self.link.0.iter().map(|(key, value)| (key.clone(), text(value))).collect();
        let flow: toml::Table = flow.into_iter().collect();
        [
            ("title".into(), text("A comparison")),
            ("duration".into(), text("10s")),
            ("measures".into(), measures.into()),
            ("link".into(), link.into()),
            ("flow".into(), vec![toml::Value::from(flow)].into()),
        ]
        .into_iter()
        .collect()
    }
}

fn print(sides: &[Side; 2], lines: &[Difference]) {
    let [a, b] = [&sides[0], &sides[1]].map(|side| side.name());
    let width = a.chars().count().max(b.chars().count()).max(12);
    println!("{:22} {a:>width$} {b:>width$}   difference, 95 % interval               p", "");
    let mut cell = "";
    for line in lines {
        if line.cell != cell {
            println!("{}", line.cell);
            cell = &line.cell;
        }
        let percent =
            if line.a == 0.0 { String::new() } else { format!("{:+.1} %", 100.0 * line.difference / line.a) };
        println!(
            "{:22} {:width$.4} {:width$.4} {:+12.4} +- {:<9.4} {percent:>9} {:>8}  {}",
            line.measure,
            line.a,
            line.b,
            line.difference,
            line.ci95,
            if line.p < 0.001 { "< 0.001".into() } else { format!("{:.3}", line.p) },
            words(line.verdict)
        );
    }
    println!("\n{}", summary(b, a, lines));
}

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Differs => "differs",
        Verdict::NotShown => "no difference shown",
    }
}

/// One sentence for those who read one sentence.
fn summary(b: &str, a: &str, lines: &[Difference]) -> String {
    let count = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
    let pairs = lines.iter().map(|line| line.pairs).max().unwrap_or(0);
    if count(Verdict::Equal) == lines.len() {
        return format!("Verdict: {b} and {a} are equal in all {pairs} pairs of runs.");
    }
    let said: Vec<String> =
        [Verdict::Better, Verdict::Worse, Verdict::Differs, Verdict::NotShown, Verdict::Equal]
            .into_iter()
            .filter(|&verdict| count(verdict) > 0)
            .map(|verdict| format!("{} {}", words(verdict), count(verdict)))
            .collect();
    format!(
        "Verdict on {b}, against {a}: {} (of {} comparisons, {pairs} pairs each; false alarms among all of them at most 5 %, after Holm).",
        said.join(", "),
        lines.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        Line::parse_from(std::iter::once("compare").chain(line.split_whitespace())).args
    }

    #[test]
    fn flags_become_an_experiment() {
        let text = args("a b --rate 20M --loss 5% --fwd-only --seeds 4 -t 3 --traffic messages:1200/5ms")
            .experiment()
            .unwrap();
        let experiment = Experiment::parse("x.toml", &text).unwrap();
        assert_eq!((experiment.repetitions, experiment.duration), (4, Duration::from_secs(3)));
        let mut link = LinkSpec::default();
        for (key, value) in [("rate", "20M"), ("loss", "5%"), ("fwd_only", "true")] {
            link.set(key, value).unwrap();
        }
        assert_eq!(experiment.link, link);
        assert_eq!(experiment.flows[0].traffic, "messages:1200/5ms".parse().unwrap());
    }

    #[test]
    fn two_profiles_are_run_and_told_apart() {
        run(&args("auto cubic --rate 5M --loss 5% --seeds 2 -t 1")).unwrap();
        assert!(run(&args("auto nothing")).unwrap_err().contains("'auto' is a profile"));
    }

    #[test]
    fn the_verdict_counts() {
        let line = |verdict| Difference {
            cell: String::new(),
            measure: "goodput_mbps".into(),
            pairs: 5,
            a: 1.0,
            b: 2.0,
            difference: 1.0,
            ci95: 0.1,
            p: 0.01,
            verdict,
        };
        let mixed =
            summary("new", "old", &[line(Verdict::Better), line(Verdict::NotShown), line(Verdict::Better)]);
        assert!(mixed.contains("new, against old: better 2, no difference shown 1"), "{mixed}");
        assert!(summary("new", "old", &[line(Verdict::Equal)]).contains("are equal in all 5 pairs"));
    }
}
