//! `fulmar demo`: a file crosses a path that loses packets, on this machine, before your eyes.
//!
//! A server, a client and a relay between them run in one program. The relay moves `fulmar-net`'s links in
//! real time, so it needs no privileges. After the copy with one profile, a second one gets the same path for
//! as long. `fulmar-lab demo` shows the same beside the kernel's TCP, over bridges, which need root.

mod back;
pub mod course;
pub mod display;
mod loss;
pub mod race;
pub mod test_path;

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::exit::Failure;
use crate::units;
use course::{Course, PathArgs};
use display::Display;
use race::Run;
use test_path::TestPath;

/// IP packets of 1500 bytes carry about this share of payload (20 + 8 bytes of IP and UDP, some 40 of
/// Fulmar).
const PAYLOAD_SHARE: f64 = 0.955;

/// Show a copy over an emulated lossy path on this machine, beside CUBIC.
///
/// It needs no setup: server, client and the path between them run in this one program, with temporary keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar demo
    fulmar demo --loss 20 --rtt 250
    fulmar demo --file holiday.mp4 --against bbr")]
pub struct Args {
    /// The path, the file, and how to say it.
    #[command(flatten)]
    pub show: ShowArgs,
    /// Profile to compare with, on the same path for the same time; `none` for no comparison
    #[arg(long, default_value = "cubic", value_parser = parse_rival)]
    against: String,
    /// Where the kernel's TCP is shown beside it now.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "cubic")]
    tcp: Option<String>,
}

/// What is shown.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    path: PathArgs,
    /// File to copy instead of a generated one
    #[arg(long)]
    file: Option<PathBuf>,
    /// Size of the generated file
    #[arg(long, default_value = "100M", value_parser = units::parse_size, conflicts_with = "file")]
    size: u64,
    /// How to send
    #[arg(long, default_value = "auto", value_parser = crate::profile_names::ProfileParser, hide_possible_values = true)]
    pub profile: String,
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Failure> {
    if let Some(congestion) = &args.tcp {
        return Err(Failure::Usage(format!(
            "the kernel's TCP is shown by the laboratory: `fulmar-lab demo --tcp={congestion}` (`make lab` \
             builds it), or `make demo-tcp` in Fulmar's sources"
        )));
    }
    let (profile, against) = (&args.show.profile, &args.against);
    show(&args.show, async |course, display, folder| {
        let first =
            course.run(TestPath::relayed(course)?, profile, None, display, &folder.join("first")).await?;
        if against == "none" {
            return Ok(vec![first]);
        }
        let (path, time_max) = (TestPath::relayed(course)?, Some(first.time));
        let second = course.run(path, against, time_max, display, &folder.join("second")).await?;
        Ok(vec![first, second])
    })
    .await
}

/// Lets those run whom `race` starts, of whom the first is Fulmar, and says what came of it.
pub async fn show(
    args: &ShowArgs,
    race: impl AsyncFnOnce(&Course, &Display, &Path) -> Result<Vec<Run>, Failure>,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(|e| Failure::File(format!("no room for the demo: {e}")))?;
    let file = match &args.file {
        Some(file) => file.clone(),
        None => make_up(folder.path(), args.size)?,
    };
    let course = Course::new(args.path.clone(), &file)?;
    let display = Display::new(args.json);
    display.say(&format!("Path:  {}", course.describe()));
    display.say(&format!("File:  {} ({})", file.display(), units::bytes(course.file_bytes)));

    let runs = race(&course, &display, folder.path()).await?;
    let verdict = Verdict { course: &course, runs: &runs };
    if args.json {
        println!("{:#}", verdict.json());
    } else {
        verdict.print(&display);
    }
    Ok(())
}

/// Writes a file of bytes that nothing compresses.
fn make_up(folder: &Path, size: u64) -> Result<PathBuf, Failure> {
    let path = folder.join("made-up.bin");
    let write = || {
        let mut file = std::fs::File::create(&path)?;
        let source = blake3::Hasher::new().update(b"fulmar demo").finalize_xof();
        std::io::copy(&mut std::io::Read::take(source, size), &mut file)
    };
    write().map_err(|e| Failure::File(format!("{}: {e}", path.display())))?;
    Ok(path)
}

/// What it comes down to.
#[derive(Debug)]
struct Verdict<'a> {
    course: &'a Course,
    /// The first is the one that is shown.
    runs: &'a [Run],
}

impl Verdict<'_> {
    /// (1 - p) x capacity, as payload.
    fn limit_mbps(&self) -> f64 {
        self.course.rate_mbps() * (1.0 - self.course.loss()) * PAYLOAD_SHARE
    }

    fn print(&self, display: &Display) {
        let limit = self.limit_mbps();
        display.say("");
        display.say(&format!("{:<9} {:>12} {:>10} {:>12}   of the limit", "", "delivered", "in", "goodput"));
        for run in self.runs {
            let share = run.goodput_mbps() / limit;
            display.say(&format!(
                "{:<9} {:>12} {:>10} {:>12}   {} {:.0} %",
                run.profile,
                units::bytes(run.bytes),
                units::duration(run.time),
                units::rate(run.goodput_mbps()),
                display::gauge(share, 24),
                share * 100.0
            ));
        }
        display.say(&format!(
            "The limit is (1 - loss) x capacity: {}, less headers {}.",
            units::rate(self.course.rate_mbps() * (1.0 - self.course.loss())),
            units::rate(limit)
        ));
        if let Some(hash) = self.runs.first().and_then(|run| run.blake3.as_ref()) {
            display.say(&format!("Verified: both sides have BLAKE3 {hash}"));
        }
        for run in self.runs.iter().filter(|run| run.bytes < self.course.file_bytes && run.bytes > 0) {
            let whole = run.time.mul_f64(self.course.file_bytes as f64 / run.bytes as f64);
            display.say(&format!(
                "For the whole file {} would need {}.",
                run.profile,
                units::duration(whole)
            ));
        }
    }

    fn json(&self) -> serde_json::Value {
        let runs = self.runs.iter().map(|run| run.json(self.limit_mbps()));
        json!({
            "ok": true,
            "path": self.course.json(),
            "file_bytes": self.course.file_bytes,
            "limit_mbps": self.limit_mbps(),
            "runs": runs.collect::<Vec<_>>(),
        })
    }
}

fn parse_rival(text: &str) -> Result<String, String> {
    if text == "none" {
        Ok(text.into())
    } else {
        crate::profile_names::parse_profile(text).map_err(|e| e.to_string())
    }
}
