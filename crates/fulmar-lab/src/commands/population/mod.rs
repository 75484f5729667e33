//! `fulmar-lab population`.

mod cells;
mod compare;
mod grid;
mod line;
mod page;
mod paths;
mod plan;
mod traces;

use std::path::{Path, PathBuf};

use fulmar_cli::profile_names::ProfileParser;
use fulmar_proto::Profile;

use page::Page;

/// Where recorded traces are, if nothing else is said.
const TRACES: &str = "FULMAR_TRACES";

/// Run a profile over a whole population of paths, and make one page of it
///
/// Paths drawn at random, small imperfections of real networks, flows that share a link, rates that fall,
/// thin ways back, and recorded traces if there are some: everything that a change to a congestion controller
/// may harm, in one command. All in virtual time, so the page is a function of the program. `--against` says
/// what an older page had better, and what worse.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab population --quick --page before.md                # before a change: minutes
  fulmar-lab population --quick --page after.md --against before.md
  fulmar-lab population --read after.md --against before.md     # nothing is run
  FULMAR_TRACES=~/traces fulmar-lab population --page docs/results/population.md   # hours")]
pub(super) struct Args {
    /// Profile of the flows
    #[arg(long, default_value = "auto", value_parser = ProfileParser, hide_possible_values = true)]
    profile: String,
    /// Fewer paths, slow and short ones, and one seed of everything
    #[arg(long)]
    quick: bool,
    /// Only tables whose name has this in it
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Folder of recorded traces in mahimahi's format (*.down, *.up, *.bw) [default: the environment's
    /// FULMAR_TRACES; without one they are left out]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Write the tables to this page (Markdown)
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
    /// Compare with this page, which an earlier run wrote
    #[arg(long, value_name = "FILE.md")]
    against: Option<PathBuf>,
    /// Run nothing; take this page for what was found
    #[arg(long, value_name = "FILE.md", requires = "against")]
    read: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let text = match &args.read {
        Some(path) => read(path)?,
        None => {
            let text = measure(args)?.markdown();
            print!("{text}");
            text
        }
    };
    if let Some(path) = &args.page {
        std::fs::write(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &args.against {
        compare::lines(&read(path)?, &text).iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs all of it.
fn measure(args: &Args) -> Result<Page, String> {
    let profile = Profile::parse(&args.profile).map_err(|error| error.to_string())?;
    let is_wanted = |name: &str| args.only.as_ref().is_none_or(|word| name.contains(word.as_str()));
    let mut tables = Vec::new();
    if is_wanted(paths::NAME) {
        tables.push(paths::table(&profile, args.quick)?);
    }
    let mut plans = vec![grid::plan(args.quick)];
    plans.extend(cells::plans(args.quick));
    if let Some(folder) = args.traces.clone().or_else(|| std::env::var_os(TRACES).map(Into::into)) {
        plans.push(traces::plan(&folder, args.quick)?);
    }
    for plan in plans.into_iter().filter(|plan| is_wanted(&plan.name)) {
        tables.push(plan.run(&args.profile)?);
    }
    if tables.is_empty() {
        return Err("no table has such a name".into());
    }
    Ok(Page { profile: args.profile.clone(), is_quick: args.quick, tables })
}

#[cfg(test)]
mod tests {
    use super::line::Line;
    use super::plan::{Plan, Row};
    use super::*;

    fn of_one_second(flags: &str) -> Plan {
        let figures =
            vec![(line::Figure::Share, line::Over::Least), (line::Figure::Dropped, line::Over::Mean)];
        let line =
            Line { flags: format!("--profile {{profile}} --rate 5M --rtt 10ms -t 1 {flags}"), figures };
        Plan {
            name: "small".into(),
            about: "Nothing.".into(),
            columns: vec!["share".into(), "dropped, %".into()],
            rows: vec![
                Row { name: "one".into(), lines: vec![line.clone()] },
                Row { name: "two".into(), lines: vec![line] },
            ],
            seeds: 2,
        }
    }

    #[test]
    fn every_row_has_a_figure_for_every_column_and_runs_flags_that_exist() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a-link.down"), "1\n2\n3\n").expect("written");
        std::fs::write(folder.path().join("README.md"), "no trace").expect("written");
        for is_quick in [false, true] {
            let mut plans =
                vec![grid::plan(is_quick), traces::plan(folder.path(), is_quick).expect("a folder")];
            assert_eq!(plans[1].rows.len(), 2, "one file, two losses");
            plans.extend(cells::plans(is_quick));
            for plan in plans {
                for row in &plan.rows {
                    let figures: usize = row.lines.iter().map(|line| line.figures.len()).sum();
                    assert_eq!(figures, plan.columns.len(), "{}: {}", plan.name, row.name);
                    for line in &row.lines {
                        let scenario = line.parse("auto").expect("flags").scenario();
                        assert_eq!(scenario.check(), Ok(()), "{}", line.flags);
                    }
                }
            }
        }
        assert!(traces::plan(&folder.path().join("none"), true).is_err());
    }

    #[test]
    fn a_plan_is_run_and_runs_again_alike() {
        let table = of_one_second("").run("auto").expect("a table");
        assert_eq!(table.rows, of_one_second("").run("auto").expect("a table").rows);
        let [(one, values), (_, same)] = &table.rows[..] else { panic!("{:?}", table.rows) };
        assert!(one == "one" && values == same && values.len() == 2 && values[0] > 0.3, "{values:?}");
        // What loses half has less.
        let lossy = of_one_second("--loss 50%").run("cubic").expect("a table");
        assert!(lossy.rows[0].1[0] < values[0], "{:?}", lossy.rows);
        assert!(of_one_second("--loss 0.05").run("auto").is_err());
    }
}
