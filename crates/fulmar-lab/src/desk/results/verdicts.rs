//! The report's own verdicts, where it has made a table of them (docs/results/README.md): a row for each
//! published table or figure, with the experiments that repeat it.

use std::path::Path;

use super::row::{ResultRow, Verdict, source};
use crate::report::verdicts::COUNTED_WITH;

/// One line of that table.
struct Line<'a> {
    source: &'a str,
    place: &'a str,
    verdict: Verdict,
    about: &'a str,
    evidence: &'a str,
}

/// The rows of the table, with what the experiments named there have measured; `None` if there is no such
/// table.
pub(super) fn read(report: &Path, experiments: &[ResultRow]) -> Option<Vec<ResultRow>> {
    let text = std::fs::read_to_string(report.join("README.md")).ok()?;
    let rows: Vec<ResultRow> = text.lines().filter_map(line).map(|line| row(&line, experiments)).collect();
    (!rows.is_empty()).then_some(rows)
}

/// `| [lt-tcp](lt-tcp.md) | Table 2.1 | differs | what it shows | evidence |`
fn line(line: &str) -> Option<Line<'_>> {
    let mut columns = line.strip_prefix("| [")?.strip_suffix(" |")?.splitn(5, " | ");
    let source = columns.next()?.split(']').next()?;
    let (place, word) = (columns.next()?, columns.next()?);
    let (about, evidence) = (columns.next()?, columns.next()?);
    let verdict = match word {
        "reproduced" => Verdict::Reproduced,
        "in kind" => Verdict::InKind,
        "open" => Verdict::Open,
        "differs" => Verdict::Differs,
        // Nothing to run is another thing than something that was not run.
        "absent" if evidence.contains('`') => Verdict::NotMeasured,
        "absent" | "not judged" => Verdict::NotComparable,
        _ => return None,
    };
    Some(Line { source, place, verdict, about, evidence })
}

fn row(line: &Line<'_>, experiments: &[ResultRow]) -> ResultRow {
    // Names stand in backquotes: every second piece.
    let names: Vec<&str> = line.evidence.split('`').skip(1).step_by(2).collect();
    let named = || experiments.iter().filter(|row| names.contains(&row.id.as_str()));
    let files: Vec<String> = named().map(|row| format!("experiments/{}.toml", row.id)).collect();
    let evidence = line.evidence.rsplit('`').next().unwrap_or(line.evidence).trim_start_matches([',', ' ']);
    let remarks = named().map(|row| row.explanation.as_str()).filter(|remark| !remark.is_empty());
    let (count, not_held, undecided, why) = claims(evidence);
    let explanation: Vec<&str> =
        [count, why].into_iter().chain(remarks).filter(|part| !part.is_empty()).collect();
    ResultRow {
        id: format!("{}: {}", line.source, line.place),
        source: source(&format!("{}-", line.source)),
        place: line.place.to_owned(),
        title: line.about.replace("\\|", "|"),
        verdict: line.verdict,
        counted: !evidence.contains(COUNTED_WITH),
        unit: named().next().map(|row| row.unit.clone()).unwrap_or_default(),
        cells: named().flat_map(|row| row.cells.iter().cloned()).collect(),
        not_held,
        undecided,
        explanation: explanation.join("\n\n").replace("\\|", "|"),
        command: match files.is_empty() {
            true => String::new(),
            false => format!("fulmar-lab run {} && fulmar-lab report", files.join(" ")),
        },
    }
}

/// Takes `1 of 3 claims hold, not: this; that, open: a third. Because ..` apart: how many hold, those that do
/// not, the undecided, and why.
fn claims(evidence: &str) -> (&str, Vec<String>, Vec<String>, &str) {
    let (judged, why) = evidence.split_once(". ").unwrap_or((evidence, ""));
    let (rest, open) = judged.split_once(", open: ").unwrap_or((judged, ""));
    let (count, not) = rest.split_once(", not: ").unwrap_or((rest, ""));
    if (not, open) == ("", "") {
        return ("", Vec::new(), Vec::new(), evidence);
    }
    let list = |claims: &str| -> Vec<String> {
        let named = claims.split("; ").filter(|claim| !claim.is_empty());
        named.map(|claim| claim.replace("\\|", "|")).collect()
    };
    (count, list(not), list(open), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Results\n\n| source | published | verdict | what it shows | evidence |\n|---|---|---|---|---|\n\
        | [lt-tcp](lt-tcp.md) | Table 2.1 | differs | goodput \\| bursts | `lt-tcp-table-2.1`, `other` \
        0 of 2 claims hold, not: fast; r = 0.7 is best, open: light. It has no wings |\n\
        | [dfcp](dfcp.md) | Figure 4.14 | absent | fairness |  has no experiment. Counts once with 4.13 |\n\
        \n## What the five systems must do\n\n| L1 | what | yes | evidence |\n";

    #[test]
    fn the_reports_verdicts_count() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path(), &[]).is_none());
        std::fs::write(folder.path().join("README.md"), TABLE).unwrap();
        let known = ResultRow {
            id: "lt-tcp-table-2.1".into(),
            source: "lt-tcp",
            place: String::new(),
            title: String::new(),
            verdict: Verdict::Reproduced,
            counted: true,
            unit: "KiB/s".into(),
            cells: Vec::new(),
            not_held: Vec::new(),
            undecided: Vec::new(),
            explanation: "a remark".into(),
            command: String::new(),
        };
        let rows = read(folder.path(), &[known]).unwrap();
        let [first, second] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((first.verdict, first.source, first.unit.as_str()), (Verdict::Differs, "lt-tcp", "KiB/s"));
        assert_eq!((first.title.as_str(), first.place.as_str()), ("goodput | bursts", "Table 2.1"));
        assert_eq!(first.not_held, ["fast", "r = 0.7 is best"]);
        assert_eq!(first.undecided, ["light"]);
        assert_eq!(first.explanation, "0 of 2 claims hold\n\nIt has no wings\n\na remark");
        assert!(
            first.command.contains("experiments/lt-tcp-table-2.1.toml") && !first.command.contains("other")
        );
        assert_eq!((second.verdict, second.source), (Verdict::NotComparable, "dfcp"));
        assert!(first.counted && !second.counted);
    }
}
