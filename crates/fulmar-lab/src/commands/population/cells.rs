//! Single cells: flows that share a link and whom they take for company, rates that fall, thin links and
//! ways back, a microwave oven.

use fulmar_proto::control::Company;

use super::line::{Figure, Line, Over};
use super::plan::{Plan, Row};

/// Flows of our own kind on one link, and beside others. Flags stand for themselves.
const SHARING: &[&str] = &[
    "--rate 100M --rtt 20ms --flows 2 --stagger 2s -t 20 --warm-up 8s",
    "--rate 100M --rtt 20ms --flows 2 --flow-rtt 20ms,100ms --loss 2% -t 40 --warm-up 15s",
    "--rate 100M --rtt 20ms --flows 4 --queue-bdp 0.25 --loss 10% -t 20 --warm-up 5s",
    "--rate 100M --rtt 20ms --flows 10 --stagger 200ms -t 20 --warm-up 8s",
    "--rate 100M --rtt 20ms --flows 10 --stagger 200ms --loss 2% -t 20 --warm-up 8s",
    "--rate 100M --rtt 20ms --flows 10 --stagger 100ms --queue-bdp 0.25 --jitter 300us -t 20",
    "--rate 100M --rtt 20ms --flows 20 --stagger 100ms -t 20",
    "--rate 100M --rtt 20ms --flows 20 --stagger 100ms --loss 20% --jitter 200us -t 20",
    "--rate 100M --rtt 20ms --flows 50 --stagger 100ms -t 20",
    "--rate 100M --rtt 250ms --flows 4 --stagger 5s -t 40",
    "--rate 100M --rtt 20ms --policer 20M/64kB -t 20",
    "--rate 100M --rtt 40ms --policer 30M/100kB --flows 3 --stagger 1s -t 20",
    "--rate 100M --rtt 20ms --policer 50M/200kB --flows 8 --stagger 1s -t 30",
    "--rate 50M --rtt 30ms --loss 30% --jitter 200us --flows 3 --stagger 1s -t 20",
    "--rate 50M --rtt 30ms --queue-bdp 0.2 --flows 5 --stagger 300ms --jitter 1ms -t 20",
];
const BESIDE: [&str; 6] = [
    "--profile {profile},cubic --rate 50M --rtt 20ms -t 20",
    "--profile {profile},cubic --rate 50M --rtt 20ms --queue-bdp 4 -t 20",
    "--profile {profile},cubic --rate 50M --rtt 20ms --queue-bdp 0.25 -t 20",
    "--profile {profile},bbr --rate 50M --rtt 20ms -t 20",
    "--profile {profile},bbr --rate 100M --rtt 20ms --queue-bdp 1 --stagger 5s -t 40 --warm-up 10s",
    "--profile {profile},bbr --rate 50M --rtt 20ms --loss 2% -t 20",
];

/// Rates that fall at 10 s; the worst second from the third after it on.
const FALLS: [&str; 8] = [
    "--rate 100M,10s:10M --rtt 600ms --queue-bdp 1 -t 40",
    "--rate 50M,10s:2M --rtt 80ms --queue-bdp 2 -t 30",
    "--rate 100M,10s:1M --rtt 50ms --queue-bdp 1 -t 30",
    "--rate 100M,10s:30M --rtt 50ms --queue-bdp 1 -t 20",
    "--rate 50M,10s:15M --rtt 80ms --queue-bdp 2 -t 20",
    "--rate 100M,10s:50M --rtt 100ms --queue-bdp 1 -t 20",
    "--rate 50M,10s:5M --rtt 50ms --queue-bdp 1 --jitter 5ms -t 20",
    "--rate 50M,10s:15M --rtt 50ms --queue-bdp 1 --jitter 5ms -t 20",
];

const THIN: &[&str] = &[
    "--rate 10M --back-rate 100k --rtt 20ms -t 20",
    "--rate 10M --back-rate 200k --rtt 20ms -t 20",
    "--rate 10M --back-rate 400k --rtt 20ms -t 20",
    "--rate 10M --back-rate 200k --back-queue 20p --rtt 20ms -t 20",
    "--rate 10M --back-rate 100k --loss 2% --rtt 20ms -t 20",
    "--rate 20M --back-rate 500k --rtt 30ms --loss 2% -t 20",
    "--rate 64k --rtt 300ms --queue droptail:20p -t 20",
    "--rate 128k --rtt 300ms --queue droptail:20p -t 20",
    "--rate 256k --rtt 300ms --queue droptail:20p -t 20",
    "--rate 20M --rtt 40ms --loss bursts:10ms/10ms -t 20",
    "--rate 10M --rtt 20ms --loss periodic:16ms/8ms -t 20",
    "--rate 100M --rtt 20ms --loss 50% --jitter 200us -t 10",
    "--rate 100M --rtt 20ms --loss 25% --jitter 200us -t 10",
];

/// Who shares the path with the first flow, and how.
const COMPANY: &[(Company, &[&str])] = &[
    (
        Company::Nobody,
        &[
            "--rate 50M --rtt 30ms",
            "--rate 50M --rtt 30ms --loss 5%",
            "--rate 50M --rtt 30ms --loss 20%",
            "--rate 50M --rtt 30ms --loss 2% --jitter 2ms",
            "--rate 20M --rtt 100ms --loss 5% --burst 8",
            "--rate 10M --rtt 20ms --queue-bdp 0.3 --loss 1%",
            "--rate 10M --rtt 80ms --jitter 20ms --loss 5%",
            "--rate 5M --rtt 50ms --back-jitter 5ms --mark 0.1%",
        ],
    ),
    (
        Company::Kin,
        &[
            "--rate 50M --rtt 30ms --flows 2 --stagger 1s",
            "--rate 50M --rtt 30ms --flows 4 --loss 2%",
            "--rate 50M --rtt 30ms --flows 10 --stagger 200ms",
            "--rate 50M --rtt 30ms --flows 4 --queue-bdp 0.25 --loss 10%",
        ],
    ),
    (
        Company::Yielding,
        &[
            "--profile {profile},cubic --rate 50M --rtt 30ms",
            "--profile {profile},cubic --rate 50M --rtt 30ms --queue-bdp 4",
            "--profile {profile},cubic --rate 20M --rtt 80ms --loss 0.1%",
            "--profile {profile},cubic,cubic --rate 50M --rtt 30ms --stagger 1s",
        ],
    ),
    (
        Company::Insisting,
        &[
            "--profile {profile},bbr --rate 50M --rtt 30ms",
            "--profile {profile},bbr --rate 50M --rtt 30ms --queue-bdp 2 --loss 2%",
            "--profile {profile},bbr --rate 20M --rtt 80ms --stagger 2s",
            "--profile {profile},bbr,bbr --rate 50M --rtt 30ms --stagger 1s",
        ],
    ),
    (
        Company::Policer,
        &[
            "--rate 100M --rtt 30ms --policer 20M/64kB",
            "--rate 100M --rtt 30ms --policer 50M/200kB --flows 4 --stagger 500ms",
            "--rate 100M --rtt 80ms --policer 10M/100kB --loss 1%",
        ],
    ),
];

/// The tables that are to be filled.
pub(super) fn plans(is_quick: bool) -> Vec<Plan> {
    let seeds = if is_quick { 1 } else { 6 };
    let least = |figure| (figure, Over::Least);
    let mean = |figure| (figure, Over::Mean);
    vec![
        Plan {
            name: "Flows that share a link".into(),
            about: "All of the profile: the share of (1 - p) x capacity x 0.955 that they have together, \
                    Jain's index, per cent dropped; means of the seeds."
                .into(),
            columns: ["share", "Jain", "dropped, %"].map(Into::into).into(),
            rows: rows(SHARING, &[mean(Figure::Share), mean(Figure::Jain), mean(Figure::Dropped)]),
            seeds,
        },
        Plan {
            name: "Beside others".into(),
            about: "One flow of the profile and one of another: what the first has, and both.".into(),
            columns: ["first, Mb/s", "both, Mb/s", "dropped, %"].map(Into::into).into(),
            rows: rows(&BESIDE, &[mean(Figure::First), mean(Figure::Goodput), mean(Figure::Dropped)]),
            seeds,
        },
        Plan {
            name: "A rate that falls".into(),
            about: "After ten seconds: the worst second from the third after it on, of all seeds; \
                    per cent dropped of all that was offered."
                .into(),
            columns: ["worst second, Mb/s", "dropped, %"].map(Into::into).into(),
            rows: falls(),
            seeds,
        },
        company(if is_quick { 2 } else { 10 }),
        Plan {
            name: "Thin links and ways back, and heavy losses".into(),
            about: "The least of the seeds and their mean.".into(),
            columns: ["least, Mb/s", "mean, Mb/s", "dropped, %"].map(Into::into).into(),
            rows: rows(THIN, &[least(Figure::Goodput), mean(Figure::Goodput), mean(Figure::Dropped)]),
            seeds: if is_quick { 3 } else { 20 },
        },
    ]
}

fn rows(cells: &[&str], figures: &[(Figure, Over)]) -> Vec<Row> {
    rows_with(cells, "", figures)
}

/// The same with flags that all have, and their names do not show.
fn rows_with(cells: &[&str], more: &str, figures: &[(Figure, Over)]) -> Vec<Row> {
    let row = |flags: &&str| {
        let profile = if flags.contains("--profile") { "" } else { "--profile {profile} " };
        let line = Line { flags: format!("{profile}{flags}{more}"), figures: figures.to_vec() };
        Row { name: format!("`{flags}`"), lines: vec![line] }
    };
    cells.iter().map(row).collect()
}

/// A confusion matrix: who is there, and who is taken to be.
fn company(seeds: u64) -> Plan {
    let who = || COMPANY.iter().map(|(who, _)| *who);
    let figures: Vec<_> =
        who().map(Some).chain([None]).map(|who| (Figure::Company(who), Over::Mean)).collect();
    let rows = COMPANY.iter().flat_map(|(who, cells)| {
        let mut rows = rows_with(cells, " -t 25 --series 100ms", &figures);
        rows.iter_mut().for_each(|row| row.name = format!("{}: {}", who.name(), row.name));
        rows
    });
    Plan {
        name: "Who shares the path".into(),
        about:
            "Who is there, and the share of the time from 5 to 25 s (`-t 25 --series 100ms`) in which the \
                first flow takes nobody, flows of its kind, flows that yield to loss (CUBIC), flows that do \
                not (BBR) or a policer to be there, or cannot tell."
                .into(),
        columns: who().map(Company::name).chain(["open"]).map(Into::into).collect(),
        rows: rows.collect(),
        seeds,
    }
}

fn falls() -> Vec<Row> {
    let figures = [(Figure::WorstSecond(13), Over::Least), (Figure::Dropped, Over::Mean)];
    rows_with(&FALLS, " --series 1s", &figures)
}
