//! The page of all applications: for each a table of every number, link by link and way by way, and whether
//! its bounds hold.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Application, Bound, Cell, Measure, Record, Way};
use crate::experiment::digits;
use crate::statistics::Summary;

/// What is shown of what was found.
#[derive(Debug)]
struct Found<'a> {
    records: &'a [Record],
}

impl Found<'_> {
    fn of(&self, cell: &Cell) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.is_of(cell))
    }

    /// The median of all runs that came to an end.
    fn number(&self, cell: &Cell, measure: &str) -> Option<f64> {
        let runs: Vec<f64> =
            self.of(cell).filter_map(|record| record.measures.get(measure)).copied().collect();
        Summary::of(&runs).map(|summary| summary.median)
    }

    fn word(&self, cell: &Cell, measure: &Measure) -> String {
        let Some(number) = self.number(cell, &measure.name) else {
            return if self.of(cell).any(|record| !record.failed.is_empty()) { "failed" } else { "" }.into();
        };
        let is_doubtful = self.of(cell).any(|record| !record.valid);
        let is_cut = self.of(cell).any(|record| record.measures.get("complete") == Some(&0.0));
        format!(
            "{}{}{}",
            digits(number),
            if is_cut { " (cut off)" } else { "" },
            if is_doubtful { " *" } else { "" }
        )
    }
}

/// Writes the page.
pub fn page(
    applications: &[Application],
    ways: &[Way],
    cells: &[Cell],
    records: &[Record],
    megabytes: u32,
) -> String {
    let found = Found { records };
    let mut page = head(ways, records, megabytes);
    bounds_at_a_glance(&mut page, applications, cells, &found);
    for application in applications {
        let own: Vec<Cell> =
            cells.iter().filter(|cell| cell.application == application.name).cloned().collect();
        if own.iter().any(|cell| found.of(cell).next().is_some()) {
            chapter(&mut page, application, ways, &own, &found);
        }
    }
    left_out(&mut page, applications, ways, cells, &found);
    page
}

fn head(ways: &[Way], records: &[Record], megabytes: u32) -> String {
    let mut commits: Vec<&str> = records.iter().map(|record| record.commit.as_str()).collect();
    commits.sort_unstable();
    commits.dedup();
    let mut page = format!(
        "# Programs as they are, over Fulmar and over others\n\nMade by `make applications`; what each cell ran is in \
         experiments/applications, commit {}. Two network namespaces with the laboratory's link between them: 50 Mb/s, a \
         drop-tail queue of one bandwidth-delay product, loss in both directions, {megabytes} MB where a file is carried. \
         `cut off`: it was not done at the time limit, and the number is what it had reached. `*`: the machine was late to move \
         packets (more than 1 % later than the bound), so the number is an indication only. One run unless said otherwise; of \
         several, the median.\n\n| way | what it is | how it is set |\n|---|---|---|\n",
        commits.join(", ")
    );
    for way in ways {
        let _ = writeln!(page, "| {} | {} | {} |", way.name, way.title, way.configured);
    }
    page
}

fn bounds_at_a_glance(page: &mut String, applications: &[Application], cells: &[Cell], found: &Found<'_>) {
    page.push_str("\n## What is to hold\n\n| application | bound | | found |\n|---|---|---|---|\n");
    for application in applications {
        let own: Vec<Cell> =
            cells.iter().filter(|cell| cell.application == application.name).cloned().collect();
        for bound in &application.bounds {
            let findings = bound.judge(&own, |cell, measure| found.number(cell, measure));
            let verdict = if findings.is_empty() {
                "not measured".to_owned()
            } else {
                let words = findings.iter().map(|f| {
                    format!(
                        "{}{} ({})",
                        if f.holds { "" } else { "**does not hold**: " },
                        digits(f.value),
                        f.link
                    )
                });
                words.collect::<Vec<_>>().join("; ")
            };
            let _ =
                writeln!(page, "| {} | {} | {} | {verdict} |", application.name, bound.says, limits(bound));
        }
    }
}

fn limits(bound: &Bound) -> String {
    let words = [("at least", bound.min), ("at most", bound.max)];
    let words =
        words.iter().filter_map(|(word, value)| value.map(|value| format!("{word} {}", digits(value))));
    words.collect::<Vec<_>>().join(", ")
}

fn chapter(page: &mut String, application: &Application, ways: &[Way], cells: &[Cell], found: &Found<'_>) {
    let _ = write!(page, "\n## {}\n\n{}\n", application.title, application.does.trim());
    let ways: Vec<&Way> = (ways.iter())
        .filter(|way| cells.iter().any(|cell| cell.way == way.name && found.of(cell).next().is_some()))
        .collect();
    let mut links: Vec<&Cell> = Vec::new();
    for cell in cells {
        let is_new = links.iter().all(|known| known.link != cell.link);
        let is_measured = cells.iter().any(|c| c.link == cell.link && found.of(c).next().is_some());
        if is_new && is_measured {
            links.push(cell);
        }
    }
    for measure in &application.measures {
        let _ = write!(page, "\n| {} ", measure.title);
        page.extend(ways.iter().map(|way| format!("| {} ", way.name)));
        let _ = write!(page, "|\n|{}\n", "---|".repeat(ways.len() + 1));
        for link in &links {
            let _ = write!(page, "| {} ", link.link_label());
            for way in &ways {
                let cell = Cell { way: way.name.clone(), ..(*link).clone() };
                let _ = write!(page, "| {} ", found.word(&cell, measure));
            }
            page.push_str("|\n");
        }
    }
    failures(page, cells, found);
}

/// What failed, and how, each kind once.
fn failures(page: &mut String, cells: &[Cell], found: &Found<'_>) {
    let mut reasons: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for cell in cells {
        for record in found.of(cell).filter(|record| !record.failed.is_empty()) {
            reasons.entry((&record.way, &record.failed)).or_default().push(cell.link_label());
        }
    }
    for ((way, reason), links) in reasons {
        let _ = write!(page, "\n{way} failed at {}: {reason}\n", links.join("; "));
    }
}

/// What was not run, and why.
fn left_out(
    page: &mut String,
    applications: &[Application],
    ways: &[Way],
    cells: &[Cell],
    found: &Found<'_>,
) {
    page.push_str("\n## What is not here\n\n");
    for way in ways {
        if let Some(reason) = way.missing() {
            let _ = writeln!(page, "- the way {}: {reason}", way.name);
        }
    }
    for application in applications {
        let own: Vec<&Cell> = cells.iter().filter(|cell| cell.application == application.name).collect();
        let measured = own.iter().filter(|cell| found.of(cell).next().is_some()).count();
        let reason = application.missing().map_or(String::new(), |reason| format!(": {reason}"));
        if measured < own.len() {
            let _ =
                writeln!(page, "- {}: {measured} of {} cells measured{reason}", application.name, own.len());
        }
    }
}
