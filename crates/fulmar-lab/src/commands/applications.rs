//! `fulmar-lab applications`.

use std::path::PathBuf;
use std::time::Duration;

use fulmar_net::parse;

use super::progress::Bar;
use crate::applications::{self, Application, Book, Cell, Selection, Way, Workshop};
use crate::bridge;

/// Run unmodified programs over the link in real time: through Fulmar, over the kernel's TCP, through other
/// tunnels
///
/// What there is: experiments/applications and docs/lab.md. A run that was made is not made again; what
/// cannot run here is named and left out. Needs root or user namespaces.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab applications --list
  fulmar-lab applications --only curl,ssh --way fulmar,cubic --at loss=5% --at rtt=50ms
  fulmar-lab applications --quick --page /tmp/applications.md")]
pub(super) struct Args {
    /// These applications only, by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// These ways only, by commas: fulmar, cubic, bbr ..
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    way: Vec<String>,
    /// Links with this setting only, as loss=5%; may be given again, of one key as a choice
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    at: Vec<(String, String)>,
    /// 10 MB instead of 50, at 50 ms without loss and at 5 % only: does everything work?
    #[arg(long)]
    quick: bool,
    /// Seed of the link's draws; runs with another are added, and medians are shown
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder of the files that say what is run
    #[arg(long, default_value = "experiments/applications", value_name = "DIR")]
    files: PathBuf,
    /// Folder of results [default: results/applications, with --quick results/applications-quick]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the page of everything in the folder of results
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
    /// Make runs again that were made, failed or could not be carried by the machine
    #[arg(long)]
    again: bool,
    /// Run nothing: only what is there, and what is missing
    #[arg(long)]
    list: bool,
    /// Run nothing: only write the page
    #[arg(long, requires = "page")]
    page_only: bool,
    /// A run is doubtful, and tried once more, if 1 % of packets are later than this
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse::duration)]
    late_max: Duration,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a setting is KEY=VALUE, as loss=5%")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let (all, ways) = applications::read_folder(&args.files)?;
    let wanted = selection(args);
    wanted.check(&all, &ways)?;
    if args.list {
        list(&all, &ways);
        return Ok(());
    }
    let folder = if args.quick { "results/applications-quick" } else { "results/applications" };
    let folder = args.out.clone().unwrap_or_else(|| folder.into());
    let mut book = Book::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let workshop = Workshop {
        here: args.files.clone(),
        data: std::env::temp_dir().join("fulmar-lab-applications"),
        megabytes: if args.quick { 10 } else { 50 },
        lateness_p99_max: args.late_max,
        seed: args.seed,
    };
    if !args.page_only {
        let cells = applications::cells(&all, &ways, &wanted)?;
        if cells.is_empty() {
            return Err("no cell is as wanted: `--list` says what there is".into());
        }
        bridge::acquire_rights()?;
        workshop.furnish().map_err(|error| format!("the file that is carried: {error}"))?;
        sweep(args, &workshop, (&all, &ways), &cells, &mut book)?;
    }
    if let Some(path) = &args.page {
        let cells = applications::cells(&all, &ways, &Selection::default())?;
        let page = applications::page(&all, &ways, &cells, &book.records, workshop.megabytes);
        std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn selection(args: &Args) -> Selection {
    let mut link = args.at.clone();
    if args.quick && link.is_empty() {
        link = [("rtt", "50ms"), ("loss", "0%"), ("loss", "5%")].map(|(k, v)| (k.into(), v.into())).into();
    }
    Selection { applications: args.only.clone(), ways: args.way.clone(), link }
}

/// What there is, and what is missing.
fn list(all: &[Application], ways: &[Way]) {
    let missing = |reason: Option<String>| reason.map_or(String::new(), |reason| format!(" [{reason}]"));
    ways.iter().for_each(|way| println!("way {}: {}{}", way.name, way.title, missing(way.missing())));
    for application in all {
        let ways: Vec<&str> =
            ways.iter().filter(|way| application.goes_by(way)).map(|way| way.name.as_str()).collect();
        let missing = missing(application.missing());
        println!("{}: {} ({}){missing}", application.name, application.title, ways.join(", "));
    }
}

/// Runs the cells that have no result yet; says of each what came of it.
fn sweep(
    args: &Args,
    workshop: &Workshop,
    (all, ways): (&[Application], &[Way]),
    cells: &[Cell],
    book: &mut Book,
) -> Result<(), String> {
    let mut bar = Bar::new("applications");
    let mut told = std::collections::BTreeSet::new();
    for (done, cell) in cells.iter().enumerate() {
        let application = all.iter().find(|a| a.name == cell.application).ok_or("no such application")?;
        let way = ways.iter().find(|way| way.name == cell.way).ok_or("no such way")?;
        if let Some(reason) = application.missing().or_else(|| way.missing()) {
            if told.insert(reason.clone()) {
                eprintln!("{} by {}: left out, {reason}", cell.application, cell.way);
            }
            continue;
        }
        let key = workshop.key(application, way, cell);
        if book.has(&key) && !(args.again && book.forget_doubtful(&key)) {
            continue;
        }
        bar.show(done as u64, cells.len() as u64, &format!("{} by {}", cell.application, cell.way));
        let record = applications::run(workshop, application, way, cell)?;
        let words: Vec<String> =
            record.measures.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let doubt = if record.valid { "" } else { " (late)" };
        println!(
            "{} by {}, {}: {}{}{doubt}",
            cell.application,
            cell.way,
            cell.link_label(),
            words.join(", "),
            record.failed
        );
        book.add(record).map_err(|error| format!("the result cannot be kept: {error}"))?;
    }
    bar.end();
    Ok(())
}
