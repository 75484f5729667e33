//! One page for each source, in Markdown: its experiments, what they claim, what was found, and the commit it
//! comes from.

use std::fmt::Write;
use std::path::Path;

use super::chapter::Chapter;
use super::charts;
use super::row::Row;
use super::words;
use crate::experiment::{Finding, digits, interval_digits};
use crate::outcome::{Better, better};
use crate::statistics::Summary;

/// Characters of the longest bar.
const BAR: f64 = 20.0;

/// The page of a source. Pictures over time that are in `folder` are shown.
pub(super) fn of(title: &str, chapters: &[&Chapter], folder: &Path) -> String {
    let mut page = format!(
        "# {title}\n\nMade by `fulmar-lab report` from the tables (CSV) beside this page; plots are drawn by `make results` (index.html). \
         Means over runs with different seeds, +- half of the 95 % interval. The bar is the first measure, relative to the largest.\n"
    );
    let missed: Vec<String> = chapters.iter().flat_map(|chapter| chapter.outside_bounds()).collect();
    if !missed.is_empty() {
        let _ = write!(page, "\nWhat does not hold, {} in all:\n\n", missed.len());
        missed.iter().for_each(|line| page.push_str(&format!("- {line}\n")));
    }
    glance(&mut page, chapters);
    for chapter in chapters {
        add(&mut page, chapter, folder);
    }
    page
}

/// A line for each experiment: how many claims hold, and the first measure from its worst run to its best
/// cell.
fn glance(page: &mut String, chapters: &[&Chapter]) {
    page.push_str("\n| experiment | claims that hold | measure | worst run | lowest mean | highest mean |\n|---|---|---|---|---|---|\n");
    for chapter in chapters {
        let e = &chapter.experiment;
        let count =
            |test: fn(&Finding) -> bool| chapter.findings.iter().filter(|(_, finding)| test(finding)).count();
        let holds = count(|finding| matches!(finding, Finding::Holds(..)));
        let judged = count(|finding| !matches!(finding, Finding::Unmeasured));
        let claims = if judged == 0 { "not run".into() } else { format!("{holds} of {judged}") };
        let found: Vec<Summary> =
            chapter.rows.iter().filter_map(|row| row.measured.first().copied().flatten()).collect();
        let over = |value: fn(&Summary) -> f64, pick: fn(f64, f64) -> f64| {
            found.iter().map(value).reduce(pick).map_or(String::new(), digits)
        };
        let worst = match better(&e.measures[0]) {
            Better::Smaller => over(|s| s.max, f64::max),
            Better::Larger | Better::Neither => over(|s| s.min, f64::min),
        };
        let (low, high) = (over(|s| s.mean, f64::min), over(|s| s.mean, f64::max));
        let measure = words::of(&e.measures[0]);
        let _ = writeln!(page, "| {} | {claims} | {measure} | {worst} | {low} | {high} |", cell(&e.title));
    }
}

fn add(page: &mut String, chapter: &Chapter, folder: &Path) {
    let e = &chapter.experiment;
    let _ = write!(page, "\n## {}\n\n", e.title);
    for text in [&e.source, &e.remark] {
        if !text.is_empty() {
            let _ = write!(page, "{text}\n\n");
        }
    }
    let commits = chapter.commits().join(", ");
    let commit = if commits.is_empty() { "not run".into() } else { format!("commit {commits}") };
    let stale =
        if chapter.is_stale() { " (**stale**: another engine's results, which count as absent)" } else { "" };
    let table_link = if chapter.is_measured() { format!(", [table]({}.csv)", e.name) } else { String::new() };
    let _ = write!(page, "`fulmar-lab run experiments/{}.toml`, {commit}{stale}{table_link}\n\n", e.place());
    claims(page, chapter);
    if chapter.is_measured() {
        table(page, chapter);
    }
    for &curve in &e.plot.over_time {
        let place = charts::place(e, curve);
        if folder.join(&place).is_file() {
            let _ = write!(page, "\n![{} over time]({place})\n", curve.name());
        }
    }
}

fn claims(page: &mut String, chapter: &Chapter) {
    if chapter.findings.is_empty() {
        return;
    }
    page.push_str("| claim | bound | found |\n|---|---|---|\n");
    for (claim, finding) in &chapter.findings {
        let found = match finding {
            Finding::Holds(low, high) => format!("holds: {}", span(*low, *high)),
            Finding::Partly(low, high, missing) => {
                format!(
                    "holds where it was measured: {}; not measured: {}",
                    span(*low, *high),
                    missing.join("; ")
                )
            }
            Finding::Open(places) => format!("*open*, a bound is within the interval: {}", places.join("; ")),
            Finding::Fails(places) => format!("**does not hold**: {}", places.join("; ")),
            Finding::Unmeasured => "not measured".into(),
        };
        let _ = writeln!(page, "| {} | {} | {} |", cell(&claim.says), claim.bounds_in_words(), cell(&found));
    }
    page.push('\n');
}

fn span(low: f64, high: f64) -> String {
    if low == high { digits(low) } else { format!("{} to {}", digits(low), digits(high)) }
}

fn table(page: &mut String, chapter: &Chapter) {
    let e = &chapter.experiment;
    let has_published = chapter.rows.iter().any(|row| row.published.is_some());
    let mut head: Vec<String> = e.sweep.keys().map(|key| words::of(key)).collect();
    head.extend(e.measures.iter().map(|measure| words::of(measure)));
    if has_published {
        head.push("published".into());
    }
    head.extend(["runs".into(), String::new()]);
    let _ = writeln!(page, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    let first = |row: &Row| row.measured.first().copied().flatten();
    let largest = chapter.rows.iter().filter_map(first).map(|s| s.mean).fold(0.0, f64::max);
    for row in chapter.rows.iter().filter(|row| row.measured.iter().any(Option::is_some)) {
        let mut line: Vec<String> = row.cell.values().map(|value| cell(value)).collect();
        line.extend((0..e.measures.len()).map(|index| value(row.measured.get(index).copied().flatten())));
        if has_published {
            line.push(row.published.map_or(String::new(), digits));
        }
        let (n, mean) = first(row).map_or((0, 0.0), |s| (s.n, s.mean));
        let length = if largest > 0.0 { (BAR * mean / largest).round().clamp(0.0, BAR) as usize } else { 0 };
        line.extend([n.to_string(), format!("`{}`", "#".repeat(length))]);
        let _ = writeln!(page, "| {} |", line.join(" | ").replace("``", ""));
    }
}

fn value(summary: Option<Summary>) -> String {
    match summary {
        Some(s) if s.n > 1 => format!("{} +- {}", digits(s.mean), interval_digits(s.ci95, s.mean)),
        Some(s) => digits(s.mean),
        None => String::new(),
    }
}

/// Text within a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
