//! A whole report in the small, right and wrong.

use super::verdicts::{State, Verdict, judge};
use super::*;
use crate::experiment::{COMMIT, Experiment, Finding, Mode, OurCode, Results, Shard, run};

const TEXT: &str = "title = 'A <test>'\nsource = 'nowhere'\nduration = '400ms'\nrepetitions = 2\nseries = '50ms'\n\
    measures = ['goodput_mbps', 'wire_ratio', 'performance_utilisation']\nreference = { loss = '0%' }\n\
    [link]\nrate = '5M'\nrtt = '10ms'\n[[flow]]\nsender = 'cubic'\n\
    [sweep]\nloss = ['0%', '2%']\nsender = ['cubic', 'auto']\n\
    [[published]]\nat = { loss = '0%', sender = 'cubic' }\nvalue = 4.5\n\
    [[claim]]\nsays = 'as published'\nof = 'Table 1'\nwithin = 1.5\n\
    [[claim]]\nsays = 'it flies'\nof = 'Table 2'\nat = { sender = 'auto' }\nover = { sender = 'cubic' }\nmin = 100\n";

const REGISTER: &str = "[[source]]\nkey = 't'\ntitle = 'A source'\n\
    [[source.item]]\nname = 'Table 1'\nabout = 'goodput'\nexperiments = ['t']\n\
    [[source.item]]\nname = 'Table 2'\nabout = 'flight'\nexperiments = ['t']\nwhy = 'It has no wings'\n\
    [[source.item]]\nname = 'Table 3'\nabout = 'nothing'\nwhy = 'There was no time'\n\
    [[row]]\nid = 'X1'\nwhat = 'flies'\nstate = 'yes'\nevidence = 'none'\nexperiments = ['t']\n\
    [[row]]\nid = 'X2'\nwhat = 'walks'\nstate = 'yes'\nevidence = 'legs'\n";

fn chapter(folder: &Path) -> Chapter {
    let experiment = Experiment::parse("t.toml", TEXT).unwrap();
    let mut results = Results::open(folder.join("t"), TEXT).unwrap();
    run(&experiment, Mode::Full, Shard::WHOLE, &mut results, &|_| {}).unwrap();
    Chapter::new(experiment, &results).unwrap()
}

#[test]
fn a_report_has_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let chapter = chapter(folder.path());
    assert_eq!(chapter.rows.len(), 4);
    assert_eq!(chapter.outside_bounds().count(), 1);
    let out = folder.path().join("report");
    let register: Register = toml::from_str(REGISTER).unwrap();
    write(&[chapter], &register, &out).unwrap();
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let csv = read("t.csv");
    assert_eq!(csv.lines().count(), 1 + 4);
    assert!(csv.starts_with("loss,sender,runs,goodput_mbps_mean,"), "{csv}");
    let html = read("index.html");
    for expected in [
        "A &lt;test&gt;",
        "nowhere",
        "<svg",
        "4.5",
        "fulmar-lab run experiments/t.toml",
        "fulmar-lab sim --rate 5M",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    assert!(!html.contains("<script"));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&read("t.json")).unwrap();
    assert_eq!(rows[0]["published"], 4.5);
    let page = read("t.md");
    assert!(page.contains("does not hold") && page.contains("holds: "), "{page}");
    assert!(page.contains(", commit ") && page.contains(COMMIT), "{page}");
    let verdicts = read("README.md");
    for expected in [
        "| Table 1 | reproduced |",
        "| Table 2 | differs |",
        "0 of 1 claims hold, not: it flies. It has no wings",
        "| Table 3 | absent |",
        "There was no time",
        "| X1 | flies | partly | none; `t`; 1 of 2 claims hold, 1 do not |",
        "| X2 | walks | yes |",
        "1 reproduced, 0 in kind, 0 open, 1 differs, 1 absent, 0 not judged.",
    ] {
        assert!(verdicts.contains(expected), "{expected} in {verdicts}");
    }
    assert_eq!(register.row[0].state, State::Yes);
}

/// A table is enough to judge by; and one in which a figure was tampered with is caught.
#[test]
fn a_wrong_result_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let chapter = chapter(folder.path());
    let csv = chapter.to_csv().unwrap();
    let experiment = || Experiment::parse("t.toml", TEXT).unwrap();
    let verdict = |csv: &str| {
        let chapter = Chapter::from_csv(experiment(), csv).unwrap();
        judge(Some("Table 1"), &["t".into()], &[chapter]).verdict
    };
    assert_eq!(verdict(&csv), Verdict::Reproduced);
    let again = Chapter::from_csv(experiment(), &csv).unwrap();
    // Of another engine nothing is judged.
    let of_today = |csv: &str| {
        let mut chapter = Chapter::from_csv(experiment(), csv).unwrap();
        chapter.only_of_today();
        chapter
    };
    let is_absent =
        |chapter: &Chapter| chapter.findings.iter().all(|(_, finding)| *finding == Finding::Unmeasured);
    let stale = of_today(&csv.replace(COMMIT, "another").replace(OurCode::Engine.commit(), "another"));
    assert!(stale.is_stale() && is_absent(&stale) && stale.is_measured());
    let good = of_today(&csv);
    assert!(!good.is_stale() && !is_absent(&good), "{:?}", good.commits());
    assert_eq!(again.to_csv().unwrap(), csv);
    let mean = chapter.rows[0].measured[0].unwrap().mean;
    for wrong in [mean / 2.0, mean * 2.0] {
        let planted = csv.replacen(&mean.to_string(), &wrong.to_string(), 1);
        assert_ne!(planted, csv);
        assert_eq!(verdict(&planted), Verdict::Differs, "{wrong}");
    }
    let none = csv.lines().next().unwrap();
    assert_eq!(verdict(none), Verdict::Absent);
}

/// Of two tables of the same runs the one with more of them counts; one of another scenario is stale, is shown
/// where there is nothing else, and counts for nothing.
#[test]
fn a_kept_table_counts_where_it_knows_more() {
    let folder = tempfile::tempdir().unwrap();
    let whole = chapter(folder.path()).to_csv().unwrap();
    let parse = |text: &str| Experiment::parse("t.toml", text).unwrap();
    let read = |text: &str, csv: &str| Chapter::from_csv(parse(text), csv).unwrap();
    let runs = |chapter: &Chapter| chapter.rows.iter().map(Row::runs).collect::<Vec<_>>();
    let mut begun = read(TEXT, &whole.lines().take(2).collect::<Vec<_>>().join("\n"));
    assert_eq!(runs(&begun), [2, 0, 0, 0]);
    begun.complete_by(read(TEXT, &whole));
    assert_eq!((runs(&begun), begun.to_csv().unwrap()), (vec![2; 4], whole.clone()));
    let other = TEXT.replace("rtt = '10ms'", "rtt = '11ms'");
    let mut changed = read(&other, "");
    changed.complete_by(read(&other, &whole));
    assert_eq!(runs(&changed), [2; 4]);
    changed.only_of_today();
    assert!(changed.is_stale() && changed.findings.iter().all(|(_, found)| *found == Finding::Unmeasured));
    let once = whole.replace(",2,", ",1,");
    let of_another = whole.replace(OurCode::Engine.commit(), "another").replace(COMMIT, "another");
    let mut fresh = read(TEXT, &once);
    fresh.complete_by(read(TEXT, &of_another));
    assert_eq!(fresh.to_csv().unwrap(), once, "a run of this engine is worth more than two of another");
}

/// A claim about another experiment's cell waits for that experiment, and fails by its figures.
#[test]
fn experiments_are_set_against_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let csv = chapter(folder.path()).to_csv().unwrap();
    let claim = "[[claim]]\nsays = 'as fast as there'\nover = { sender = 'cubic' }\nover_in = 't'\n\
        at = { loss = '0%', sender = 'cubic' }\nmin = 0.9\nmax = 1.1\n";
    let finding = |there: &str| {
        let parse = |name: &str, text: &str| Experiment::parse(name, text).unwrap();
        let text = format!("{}{claim}", TEXT.split("[[claim]]").next().unwrap());
        let chapters = [(parse("u.toml", &text), csv.as_str()), (parse("t.toml", TEXT), there)];
        let mut chapters = chapters.map(|(experiment, csv)| Chapter::from_csv(experiment, csv).unwrap());
        assert_eq!(chapters[0].findings[0].1, Finding::Unmeasured);
        Chapter::judge_together(&mut chapters);
        chapters[0].findings[0].1.clone()
    };
    assert_eq!(finding(&csv), Finding::Holds(1.0, 1.0));
    let line = csv.lines().find(|line| line.starts_with("0%,cubic")).unwrap();
    let mean = line.split(',').nth(3).unwrap();
    let faster = (mean.parse::<f64>().unwrap() * 1.3).to_string();
    assert!(matches!(finding(&csv.replacen(mean, &faster, 1)), Finding::Fails(_)));
    assert_eq!(finding(csv.lines().next().unwrap()), Finding::Unmeasured);
}

#[test]
fn utilisation_is_relative_to_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let chapter = chapter(folder.path());
    for row in &chapter.rows {
        let [goodput, _, relative] = &row.measured[..] else { panic!() };
        let is_reference = row.cell["loss"] == "0%";
        let relative = relative.unwrap().mean;
        assert!(
            // In so short a run start-up decides, and may end sooner where something is lost.
            goodput.unwrap().mean > 0.0 && relative <= 1.05 && (relative == 1.0) == is_reference,
            "{relative}"
        );
    }
}
