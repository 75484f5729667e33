//! Programs as they are over the bridge: the files that come with Fulmar are sound, and one run goes through
//! all of it.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_lab::applications::{Book, Cell, Record, Selection, Workshop, cells, page, read_folder, run};
use fulmar_lab::bridge;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/applications")
}

fn record(cell: &Cell, seed: u64, mbps: f64) -> Record {
    Record {
        key: format!("{cell:?}{seed}"),
        application: cell.application.clone(),
        way: cell.way.clone(),
        link: cell.link.clone(),
        seed,
        measures: BTreeMap::from([("mbps".into(), mbps)]),
        failed: String::new(),
        valid: true,
        lateness_p99_ms: 0.1,
        commit: "abc".into(),
    }
}

#[test]
fn every_file_is_sound_and_every_application_can_go_some_way() {
    let (applications, ways) = read_folder(&folder()).unwrap();
    let all = cells(&applications, &ways, &Selection::default()).unwrap();
    for application in &applications {
        assert!(!application.measures.is_empty(), "{}", application.name);
        let of: Vec<&Cell> = all.iter().filter(|cell| cell.application == application.name).collect();
        assert!(of.iter().any(|cell| cell.way.starts_with("fulmar")), "{}", application.name);
        let is_compared = application.ways.is_empty() || application.ways.len() > 1;
        assert!(!is_compared || of.iter().any(|cell| cell.way == "cubic"), "{}", application.name);
    }
    let wrong = Selection { applications: vec!["netscape".into()], ..Selection::default() };
    assert!(wrong.check(&applications, &ways).unwrap_err().contains("curl"));
}

#[test]
fn cells_are_chosen_by_name_and_by_link() {
    let (applications, ways) = read_folder(&folder()).unwrap();
    let link = |loss: &str| vec![("rtt".into(), "50ms".into()), ("loss".into(), loss.into())];
    let wanted = Selection {
        applications: vec!["curl".into()],
        ways: vec!["fulmar".into(), "cubic".into()],
        link: [link("5%"), link("0%")].concat(),
    };
    let chosen = cells(&applications, &ways, &wanted).unwrap();
    assert_eq!(chosen.len(), 4, "{chosen:?}");
}

#[test]
fn a_page_judges_what_is_to_hold() {
    let (applications, ways) = read_folder(&folder()).unwrap();
    let wanted = Selection {
        applications: vec!["curl".into()],
        link: vec![("rtt".into(), "50ms".into()), ("loss".into(), "5%".into())],
        ..Selection::default()
    };
    let chosen = cells(&applications, &ways, &wanted).unwrap();
    let mbps = |way: &str| match way {
        "fulmar" => 30.0,
        "bbr" => 40.0,
        _ => 1.0,
    };
    let records: Vec<Record> = chosen.iter().map(|cell| record(cell, 1, mbps(&cell.way))).collect();
    let text = page(&applications, &ways, &chosen, &records, 50);
    assert!(text.contains("at least 10 | 30 (rtt 50ms, loss 5%)"), "{text}");
    assert!(text.contains("**does not hold**: 0.75 (rtt 50ms, loss 5%)"), "{text}");
}

#[test]
fn a_book_goes_on_where_it_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let cell = Cell { application: "a".into(), way: "b".into(), link: BTreeMap::new() };
    let mut book = Book::open(folder.path()).unwrap();
    book.add(record(&cell, 1, 5.0)).unwrap();
    let path = folder.path().join("runs.jsonl");
    let half = std::fs::read_to_string(&path).unwrap() + "{\"key\": \"x";
    std::fs::write(&path, half).unwrap();
    let mut book = Book::open(folder.path()).unwrap();
    book.add(record(&cell, 2, 6.0)).unwrap();
    // The same run again replaces the one before.
    book.add(record(&cell, 1, 7.0)).unwrap();
    let book = Book::open(folder.path()).unwrap();
    let found: Vec<f64> = book.records.iter().map(|record| record.measures["mbps"]).collect();
    assert_eq!(found, [6.0, 7.0]);
}

/// nginx and curl, a small file, on the kernel's TCP: programs start, numbers come, a program that fails is a
/// record that says why.
#[test]
fn a_cell_is_run() {
    if bridge::acquire_rights().is_err() || !Path::new("/dev/net/tun").exists() {
        eprintln!("not run: it needs namespaces and /dev/net/tun");
        return;
    }
    let (applications, ways) = read_folder(&folder()).unwrap();
    let mut curl = applications.into_iter().find(|application| application.name == "curl").unwrap();
    let way = ways.into_iter().find(|way| way.name == "cubic").unwrap();
    assert_eq!(curl.missing(), None, "scripts/test-programs installs them");
    let data = tempfile::tempdir().unwrap();
    let workshop = Workshop {
        here: folder(),
        data: data.path().into(),
        megabytes: 1,
        lateness_p99_max: Duration::from_secs(1),
        seed: 1,
    };
    workshop.furnish().unwrap();
    let link = [("rtt", "10ms"), ("loss", "0%"), ("rate", "50M")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let cell = Cell { application: "curl".into(), way: "cubic".into(), link: link.into() };
    let record = run(&workshop, &curl, &way, &cell).unwrap();
    assert_eq!((record.failed.as_str(), record.measures.get("complete")), ("", Some(&1.0)), "{record:?}");
    assert!(record.measures["mbps"] > 0.1);
    curl.client = "echo 'no such luck' >&2; exit 3".into();
    let record = run(&workshop, &curl, &way, &cell).unwrap();
    assert_eq!(record.failed, "ended by status 3: no such luck");
}
