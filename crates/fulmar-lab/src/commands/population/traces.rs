//! Links that somebody recorded. They are not part of the project: docs/lab.md says where people get them.

use std::path::Path;

use super::line::{Figure, Line, Over};
use super::plan::{Plan, Row};

/// Names of files that are rates.
const ENDINGS: [&str; 3] = ["down", "up", "bw"];
/// BBR's is what there is to hold it against.
const BESIDES: &str = "bbr";
const LOSSES: [&str; 2] = ["none", "2%"];

/// The table of a folder's traces.
///
/// # Errors
/// If the folder cannot be read, or a name in it is no text without spaces.
pub(super) fn plan(folder: &Path, is_quick: bool) -> Result<Plan, String> {
    let complain = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(complain)? {
        let path = entry.map_err(complain)?.path();
        if path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending))
        {
            files.push(path);
        }
    }
    files.sort();
    let seconds = if is_quick { 20 } else { 60 };
    let mut rows = Vec::new();
    for path in &files {
        let text = path.to_str().filter(|text| !text.contains(char::is_whitespace));
        let text = text.ok_or_else(|| format!("{}: a space in its name", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        rows.extend(LOSSES.iter().map(|loss| row(&name, text, loss, seconds)));
    }
    let columns = ["Mb/s", "mean queue, ms", "of bbr Mb/s", "of bbr mean queue, ms"];
    Ok(Plan {
        name: "Recorded traces".into(),
        about: format!("60 ms, a queue of 200 packets, {seconds} s each; beside it what `{BESIDES}` has."),
        columns: columns.map(Into::into).into(),
        rows,
        seeds: 1,
    })
}

fn row(name: &str, path: &str, loss: &str, seconds: u32) -> Row {
    let line = |profile: &str| Line {
        flags: format!(
            "--profile {profile} --rate trace:{path} --rtt 60ms --queue droptail:200p --loss {loss} \
             -t {seconds}"
        ),
        figures: vec![(Figure::Goodput, Over::Mean), (Figure::QueueMs, Over::Mean)],
    };
    Row { name: format!("{name}, loss {loss}"), lines: vec![line("{profile}"), line(BESIDES)] }
}
