//! The table of verdicts: every published table and figure, and every row of what the five systems must do,
//! with the evidence.
//!
//! What was published stands in `experiments/register/published.toml`, what must be there in `systems.toml`
//! beside it. A verdict follows from the claims of the experiments named there; nobody writes it by hand.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Deserialize;

use super::chapter::Chapter;
use super::page::cell;
use crate::experiment::{Claim, Experiment, Finding};

/// Claims that do not hold, or are open, that the table of verdicts has by name.
const NAMES: usize = 3;

/// What the evidence says of an item that counts with another, before its name; the desk reads it there.
pub(crate) const COUNTED_WITH: &str = "Counts once with ";

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
    /// Whether the source gives no number for it (a figure that is lost or has no scale): its bounds are
    /// ours, and it agrees in kind at best.
    #[serde(default)]
    pub in_kind: bool,
    /// Why there is nothing to judge: its claims hold by definition, or no bound can be had. Empty if there
    /// is.
    #[serde(default)]
    pub unjudged: String,
    /// What was set anew after an audit, and what it was before: a reader of older verdicts should know.
    #[serde(default)]
    pub moved: String,
    /// Another item of the same source that the same runs and claims serve: both count once.
    #[serde(default)]
    pub counted_with: Option<String>,
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
    /// Every claim holds, each in all of its cells.
    Reproduced,
    /// The same, where the source gives no number: the bounds are ours.
    InKind,
    /// No claim fails, but some is undecided: a bound lies within the 95 % interval, or a cell was not
    /// measured.
    Open,
    /// A claim does not hold.
    Differs,
    /// There is no result of this engine.
    Absent,
    /// There is nothing to judge.
    Unjudged,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 6] =
        [Self::Reproduced, Self::InKind, Self::Open, Self::Differs, Self::Absent, Self::Unjudged];

    /// The one word, or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::InKind => "in kind",
            Self::Open => "open",
            Self::Differs => "differs",
            Self::Absent => "absent",
            Self::Unjudged => "not judged",
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
    /// What those say that are undecided.
    open: Vec<String>,
}

impl Judgement {
    /// How many claims hold, and which do not: so many by name, for the page of the source has them all.
    fn in_words(&self, names: usize) -> String {
        let all = match (self.claims, self.holds) {
            (0, _) => return String::new(),
            (1, 1) => "its claim holds".into(),
            (claims, holds) if claims == holds => format!("all {claims} claims hold"),
            (claims, holds) => format!("{holds} of {claims} claims hold"),
        };
        let part = |word: &str, claims: &[String]| {
            // Several experiments may claim the same.
            let mut seen = BTreeSet::new();
            let claims: Vec<&str> =
                claims.iter().map(String::as_str).filter(|says| seen.insert(*says)).collect();
            match claims.len() {
                0 => String::new(),
                count if count > names + 1 => {
                    format!(", {word}: {}; and {} more", claims[..names].join("; "), count - names)
                }
                _ => format!(", {word}: {}", claims.join("; ")),
            }
        };
        all + &part("not", &self.fails) + &part("open", &self.open)
    }

    /// How many claims hold, do not, and are open.
    fn in_numbers(&self) -> String {
        let Self { claims, holds, .. } = self;
        let part = |words: &str, claims: &[String]| match claims.len() {
            0 => String::new(),
            count => format!(", {count} {words}"),
        };
        format!("{holds} of {claims} claims hold")
            + &part("do not", &self.fails)
            + &part("are open", &self.open)
    }
}

/// Judges by the claims of experiments, those about the item or about nothing in particular.
pub fn judge(item: Option<&str>, experiments: &[String], chapters: &[Chapter]) -> Judgement {
    let is_named =
        |chapter: &&Chapter| experiments.iter().any(|name| *name == chapter.experiment.plain_name());
    let findings = chapters.iter().filter(is_named).flat_map(|chapter| &chapter.findings);
    let is_about = |claim: &Claim| item.is_none_or(|item| claim.is_about(item));
    let judged: Vec<_> = findings.filter(|(claim, _)| is_about(claim)).collect();
    let mut all =
        Judgement { verdict: Verdict::Absent, claims: 0, holds: 0, fails: Vec::new(), open: Vec::new() };
    // Of nothing that was measured there is nothing to say; beside others what was not is undecided.
    let is_measured = judged.iter().any(|(_, finding)| *finding != Finding::Unmeasured);
    for (claim, finding) in judged.into_iter().filter(|_| is_measured) {
        all.claims += 1;
        let (list, words) = match finding {
            Finding::Fails(_) => (&mut all.fails, claim.says.clone()),
            Finding::Open(_) => (&mut all.open, claim.says.clone()),
            Finding::Partly(_, _, missing) => {
                (&mut all.open, format!("{} (cells not measured: {})", claim.says, missing.len()))
            }
            Finding::Unmeasured => (&mut all.open, format!("{} (not measured)", claim.says)),
            Finding::Holds(..) => {
                all.holds += 1;
                continue;
            }
        };
        list.push(words);
    }
    all.verdict = match (all.claims, all.fails.is_empty(), all.open.is_empty()) {
        (0, ..) => Verdict::Absent,
        (_, false, _) => Verdict::Differs,
        (_, true, false) => Verdict::Open,
        (_, true, true) => Verdict::Reproduced,
    };
    all
}

/// What became of an item: its claims judge, but for what the source leaves out.
fn verdict_of(item: &Item, judged: Verdict) -> Verdict {
    match judged {
        _ if !item.unjudged.is_empty() => Verdict::Unjudged,
        Verdict::Reproduced if item.in_kind => Verdict::InKind,
        other => other,
    }
}

/// The page of verdicts.
pub fn page(register: &Register, chapters: &[Chapter]) -> String {
    let mut page = String::from(
        "# Results\n\nMade by `fulmar-lab report`. Every table and figure with results in the five sources, and what came of it here: \
         *reproduced* if every claim of its experiments holds in all of its cells; *in kind* if so, but the source gives no number and the bounds are ours; \
         *open* if none fails but one is undecided, because a bound lies within the 95 % interval of the mean or a cell was not measured; \
         *differs* if a claim does not hold; *absent* if there is no result of this engine; *not judged* if the claims hold by definition or no bound can be had. \
         Items that the same runs and claims serve count once. The claims are bounds in the experiment files, on the quantity the source speaks of; what was found for each of them stands in the pages: ",
    );
    let links = register.source.iter().map(|source| format!("[{0}]({0}.md)", source.key));
    page.push_str(&links.collect::<Vec<_>>().join(", "));
    page.push_str(".\n\n## Published tables and figures\n\n");
    page.push_str("| source | published | verdict | what it shows | evidence |\n|---|---|---|---|---|\n");
    let mut counts = [0; Verdict::ALL.len()];
    for source in &register.source {
        for item in &source.item {
            let judgement = judge(Some(&item.name), &item.experiments, chapters);
            let verdict = verdict_of(item, judgement.verdict);
            let counted_with = item.counted_with.as_ref().map(|other| format!("{COUNTED_WITH}{other}"));
            if counted_with.is_none() {
                counts[verdict as usize] += 1;
            }
            let reason = if verdict == Verdict::Reproduced { "" } else { item.why.as_str() };
            let found = judgement.in_words(NAMES);
            let counted_with = counted_with.unwrap_or_default();
            let moved =
                if item.moved.is_empty() { String::new() } else { format!("Set anew: {}", item.moved) };
            let parts: Vec<&str> = [&found, &item.unjudged, &counted_with, &moved, reason]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
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
    let counted = Verdict::ALL.map(|verdict| format!("{} {}", counts[verdict as usize], verdict.word()));
    let _ = write!(page, "\n{}.\n", counted.join(", "));
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
            (State::Yes, Verdict::Differs | Verdict::Open) => State::Partly,
            (State::Yes, Verdict::Absent) if !row.experiments.is_empty() => State::Partly,
            (state, _) => state,
        };
        yes += usize::from(state == State::Yes);
        let experiments =
            row.experiments.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let claims = match verdict {
            Verdict::Absent if row.experiments.is_empty() => String::new(),
            Verdict::Absent => "not run".into(),
            _ => cell(&judgement.in_numbers()),
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
