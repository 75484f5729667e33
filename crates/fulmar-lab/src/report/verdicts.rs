//! The table of verdicts: every published table and figure, and every row of what the five systems must do,
//! with the evidence.
//!
//! What was published stands in `experiments/register/published.toml`, what must be there in `systems.toml`
//! beside it. A verdict follows from the
//! claims of the experiments named there; nobody writes it by hand.

use std::fmt::Write;

use serde::Deserialize;

use super::chapter::Chapter;
use super::page::cell;
use crate::experiment::{Claim, Experiment, Finding};

/// All sources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// One for each.
    #[serde(default)]
    pub source: Vec<Source>,
    /// What the systems must do.
    #[serde(default)]
    pub row: Vec<Requirement>,
}

impl Register {
    /// The source an experiment belongs to: the one whose key its name begins with; what belongs to none is
    /// the last one's.
    pub fn source_of(&self, experiment: &Experiment) -> Option<&String> {
        let keys = || self.source.iter().map(|source| &source.key);
        let own =
            keys().filter(|key| experiment.name == **key || experiment.name.starts_with(&format!("{key}-")));
        own.max_by_key(|key| key.len()).or_else(|| keys().next_back())
    }
}

/// A paper or thesis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// What the names of its experiments begin with, and its page.
    pub key: String,
    /// Author, kind, year.
    pub title: String,
    /// Its results.
    #[serde(default)]
    pub item: Vec<Item>,
}

/// A published table or figure with results in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// `Table 2.1`.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// The experiments that repeat it.
    #[serde(default)]
    pub experiments: Vec<String>,
    /// Why it differs, as measured, or why it is absent.
    #[serde(default)]
    pub why: String,
}

/// One row of what the five systems must do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// `L1`.
    pub id: String,
    /// In a few words.
    pub what: String,
    /// As far as code and tests go.
    pub state: State,
    /// Where to look.
    pub evidence: String,
    /// Experiments whose claims must hold for it.
    #[serde(default)]
    pub experiments: Vec<String>,
}

/// Whether something is there.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is.
    Yes,
    /// In part.
    Partly,
    /// It is not.
    No,
}

/// What became of a published result.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every claim that was measured holds, each in all of its cells.
    Reproduced,
    /// A claim does not hold, or was not measured in some of its cells.
    Differs,
    /// There is no result.
    Absent,
}

impl Verdict {
    /// The one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Differs => "differs",
            Self::Absent => "absent",
        }
    }
}

/// How what was published fared, in short; the figures stand in the page of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// In a word.
    pub verdict: Verdict,
    /// How many claims were measured, and how many of them hold.
    claims: usize,
    holds: usize,
    /// What those say that do not hold.
    fails: Vec<String>,
}

impl Judgement {
    /// How many claims hold, and which do not.
    fn in_words(&self) -> String {
        match (self.claims, &self.fails[..]) {
            (0, _) => String::new(),
            (1, []) => "its claim holds".into(),
            (claims, []) => format!("all {claims} claims hold"),
            (claims, fails) => {
                format!("{} of {claims} claims hold, not: {}", self.holds, fails.join("; "))
            }
        }
    }
}

/// Judges by the claims of experiments, those about the item or about nothing in particular.
pub fn judge(item: Option<&str>, experiments: &[String], chapters: &[Chapter]) -> Judgement {
    let is_named =
        |chapter: &&Chapter| experiments.iter().any(|name| *name == chapter.experiment.plain_name());
    let findings = chapters.iter().filter(is_named).flat_map(|chapter| &chapter.findings);
    let is_about = |claim: &Claim| item.is_none_or(|item| claim.is_about(item));
    let judged = findings.filter(|(claim, finding)| is_about(claim) && *finding != Finding::Unmeasured);
    let (mut claims, mut holds, mut fails) = (0, 0, Vec::new());
    for (claim, finding) in judged {
        claims += 1;
        let fail = match finding {
            Finding::Fails(_) => claim.says.clone(),
            Finding::Open(_, _, open) => format!("{} (cells not measured: {})", claim.says, open.len()),
            _ => {
                holds += 1;
                continue;
            }
        };
        if !fails.contains(&fail) {
            fails.push(fail);
        }
    }
    let verdict = match (claims, fails.is_empty()) {
        (0, _) => Verdict::Absent,
        (_, true) => Verdict::Reproduced,
        (_, false) => Verdict::Differs,
    };
    Judgement { verdict, claims, holds, fails }
}

/// The page of verdicts.
pub fn page(register: &Register, chapters: &[Chapter]) -> String {
    let mut page = String::from(
        "# Results\n\nMade by `fulmar-lab report`. Every table and figure with results in the five sources, and what came of it here: \
         *reproduced* if every claim of its experiments that was measured holds in all of its cells, *differs* if one does not, *absent* if there is no result. \
         The claims are bounds in the experiment files, on the quantity the source speaks of; what was found for each of them stands in the pages: ",
    );
    let links = register.source.iter().map(|source| format!("[{0}]({0}.md)", source.key));
    page.push_str(&links.collect::<Vec<_>>().join(", "));
    page.push_str(".\n\n## Published tables and figures\n\n");
    page.push_str("| source | published | verdict | what it shows | evidence |\n|---|---|---|---|---|\n");
    let mut counts = [0; 3];
    for source in &register.source {
        for item in &source.item {
            let judgement = judge(Some(&item.name), &item.experiments, chapters);
            let verdict = judgement.verdict;
            counts[verdict as usize] += 1;
            let reason = if verdict == Verdict::Reproduced { "" } else { item.why.as_str() };
            let found = judgement.in_words();
            let parts: Vec<&str> =
                [found.as_str(), reason].into_iter().filter(|part| !part.is_empty()).collect();
            let evidence = match (parts.is_empty(), item.experiments.is_empty()) {
                (false, _) => parts.join(". "),
                (true, false) => "has an experiment, was not run".into(),
                (true, true) => "has no experiment".into(),
            };
            let experiments = item.experiments.iter().map(|name| format!("`{name}`"));
            let experiments = experiments.collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                page,
                "| [{0}]({0}.md) | {1} | {2} | {3} | {4} {5} |",
                source.key,
                item.name,
                verdict.word(),
                cell(&item.about),
                experiments,
                cell(&evidence)
            );
        }
    }
    let [reproduced, differs, absent] = counts;
    let _ = write!(page, "\n{reproduced} reproduced, {differs} differ, {absent} absent.\n");
    rows(&mut page, register, chapters);
    page
}

fn rows(page: &mut String, register: &Register, chapters: &[Chapter]) {
    page.push_str("\n## What the five systems must do\n\n");
    page.push_str("| row | what | is there | evidence |\n|---|---|---|---|\n");
    let mut yes = 0;
    for row in &register.row {
        let judgement = judge(None, &row.experiments, chapters);
        let verdict = judgement.verdict;
        // Code alone does not make a claim true.
        let state = match (row.state, verdict) {
            (State::Yes, Verdict::Differs) => State::Partly,
            (State::Yes, Verdict::Absent) if !row.experiments.is_empty() => State::Partly,
            (state, _) => state,
        };
        yes += usize::from(state == State::Yes);
        let experiments =
            row.experiments.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let claims = match verdict {
            Verdict::Differs | Verdict::Reproduced => cell(&judgement.in_words()),
            Verdict::Absent if row.experiments.is_empty() => String::new(),
            Verdict::Absent => "not run".into(),
        };
        let parts = [cell(&row.evidence), experiments, claims];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        let word = match state {
            State::Yes => "yes",
            State::Partly => "partly",
            State::No => "no",
        };
        let _ = writeln!(page, "| {} | {} | {word} | {} |", row.id, cell(&row.what), parts.join("; "));
    }
    let _ = write!(page, "\n{yes} of {} rows: yes.\n", register.row.len());
}
