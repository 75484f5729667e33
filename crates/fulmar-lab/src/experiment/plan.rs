//! From an experiment to the runs it consists of.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_net::parse;
use fulmar_proto::Profile;

use super::cell::Cell;
use super::definition::{Experiment, FlowLine};
use super::limits;
use super::sender::is_real;
use super::task::Task;
use crate::link::LinkSpec;
use crate::scenario::{FlowSpec, Scenario, Topology};
use crate::traffic::Traffic;

/// All points of the sweep; one without settings if nothing is varied.
///
/// # Errors
/// If one of them cannot be run.
pub fn cells(experiment: &Experiment) -> Result<Vec<Cell>, String> {
    let count = limits::cells_of(experiment.sweep.values().map(Vec::len))?;
    limits::check_runs(count, flows_max(&experiment.flows, &experiment.sweep), experiment.repetitions)?;
    let mut cells = vec![Cell { settings: Vec::new() }];
    for (key, values) in &experiment.sweep {
        let grown = cells.iter().flat_map(|cell| {
            values.iter().map(|value| {
                let mut cell = cell.clone();
                cell.settings.push((key.clone(), value.clone()));
                cell
            })
        });
        cells = grown.collect();
    }
    for cell in &cells {
        task(experiment, cell, experiment.duration)
            .map_err(|reason| format!("{}: {reason}", cell.label()))?;
    }
    Ok(cells)
}

/// What a cell runs, for so long.
///
/// # Errors
/// If it cannot be run.
pub fn task(experiment: &Experiment, cell: &Cell, duration: Duration) -> Result<Task, String> {
    let mut links = vec![experiment.link.clone()];
    links.extend(experiment.more_links.iter().cloned());
    let mut flows = experiment.flows.clone();
    for (key, value) in &cell.settings {
        apply(key, value, &mut links, &mut flows)?;
    }
    let warm_up = experiment.warm_up;
    let count = flows.iter().fold(0, |sum: usize, flow| sum.saturating_add(flow.count));
    limits::check_runs(1, count, 1)?;
    limits::check_time(duration, experiment.series, count)?;
    let flows: Vec<FlowLine> = flows.iter().flat_map(FlowLine::flows).collect();
    limits::check_pieces(flows.iter().map(|flow| flow.traffic), duration)?;
    let real = flows.iter().filter(|flow| is_real(&flow.sender)).count();
    if real == 0 {
        return simulated(experiment, links, &flows, duration, warm_up)
            .map(|scenario| Task::Sim(Box::new(scenario)));
    }
    if real < flows.len() {
        return Err(
            "profiles run in virtual time, kernel TCP and peers in real time: they do not share a run".into(),
        );
    }
    super::real::task(experiment, &links, &flows, duration, warm_up)
}

fn apply(key: &str, value: &str, links: &mut [LinkSpec], all: &mut [FlowLine]) -> Result<(), String> {
    let mut flows: Vec<&mut FlowLine> = all.iter_mut().filter(|flow| !flow.is_apart).collect();
    match key {
        "sender" => flows.iter_mut().for_each(|flow| flow.sender = value.into()),
        "flows" => {
            let count = value.parse().map_err(|_| format!("'{value}' is not a number"))?;
            flows.iter_mut().for_each(|flow| flow.count = count);
        }
        // The first flow keeps the link's round-trip time.
        "flow_rtt" if flows.len() < 2 => {
            return Err("flow_rtt concerns the second [[flow]] and those after it".into());
        }
        "flow_rtt" => {
            let rtt = parse::duration(value).map_err(|e| e.to_string())?;
            flows.iter_mut().skip(1).for_each(|flow| flow.rtt = Some(rtt));
        }
        "traffic" => {
            let traffic: Traffic = value.parse()?;
            flows.iter_mut().for_each(|flow| flow.traffic = traffic);
        }
        _ => match of_bottleneck(key) {
            Some((number, key)) => {
                let count = links.len();
                let link = number.checked_sub(1).and_then(|index| links.get_mut(index));
                link.ok_or_else(|| format!("there are {count} bottlenecks, not {number}"))?
                    .set(key, value)?;
            }
            None => links.iter_mut().try_for_each(|link| link.set(key, value))?,
        },
    }
    Ok(())
}

/// Most flows that a cell has.
pub(super) fn flows_max(flows: &[FlowLine], swept: &BTreeMap<String, Vec<String>>) -> usize {
    let counts =
        swept.get("flows").map(|values| values.iter().filter_map(|n| n.parse().ok()).max().unwrap_or(1));
    let count = |flow: &FlowLine| counts.filter(|_| !flow.is_apart).unwrap_or(flow.count);
    flows.iter().map(count).fold(0, usize::saturating_add)
}

/// `bottleneck2.rtt`: a key that concerns one link of a parking lot, counted from one.
pub(super) fn of_bottleneck(key: &str) -> Option<(usize, &str)> {
    let (number, key) = key.strip_prefix("bottleneck")?.split_once('.')?;
    Some((number.parse().ok()?, key))
}

fn simulated(
    experiment: &Experiment,
    mut links: Vec<LinkSpec>,
    flows: &[FlowLine],
    duration: Duration,
    warm_up: Duration,
) -> Result<Scenario, String> {
    let flows = flows.iter().map(|line| {
        let profile = Profile::parse(&line.sender).map_err(|error| error.to_string())?;
        let FlowLine { traffic, start, stop, rtt, place, priority, is_reversed, start_within, .. } = *line;
        let (access, decoder_symbols) = (line.access.clone(), line.decoder_symbols);
        let times = FlowSpec { start, stop, rtt, start_within, ..FlowSpec::new(profile, traffic) };
        Ok(FlowSpec { place, priority, is_reversed, access, decoder_symbols, ..times })
    });
    let flows = flows.collect::<Result<Vec<_>, String>>()?;
    let topology =
        if links.len() > 1 { Topology::ParkingLot(links) } else { Topology::Dumbbell(links.remove(0)) };
    let loss_free_handshake = experiment.loss_free_handshake;
    let scenario = Scenario {
        topology,
        flows,
        duration,
        warm_up,
        loss_free_handshake,
        sample_interval: experiment.series,
    };
    scenario.check()?;
    Ok(scenario)
}

impl Task {
    /// Needs the machine for itself, and the right to make namespaces.
    pub fn is_real_time(&self) -> bool {
        !matches!(self, Self::Sim(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(sweep: &str, sender: &str) -> Result<Experiment, super::super::file::Mistake> {
        let text = format!("title = 't'\nduration = '2s'\n[[flow]]\nsender = '{sender}'\n[sweep]\n{sweep}\n");
        Experiment::parse("t.toml", &text)
    }

    #[test]
    fn a_sweep_is_every_combination_and_equal_runs_are_known() {
        let experiment = parse("loss = ['0%', '5%', '10%']\nburst = ['none', '5']", "auto").unwrap();
        let cells = cells(&experiment).unwrap();
        assert_eq!(cells.len(), 6);
        assert_eq!(cells[0].label(), "burst=none loss=0%");
        let words = |cell: &Cell| task(&experiment, cell, Duration::from_secs(1)).unwrap().content();
        let same = cells.iter().filter(|cell| words(cell) == words(&cells[0])).count();
        assert_eq!(same, 2, "without loss the burst length changes nothing");
    }

    /// Whatever differs in a run tells it apart, however little: what people read rounds a rate to a kilobit.
    #[test]
    fn runs_that_differ_by_little_are_not_taken_for_one() {
        for sweep in [
            "rate = ['64100', '64400']",
            "rtt = ['20ms', '20.000001ms']",
            "loss = ['0.0000001%', '0.0000002%']",
            "rate = ['64100,1s:1M', '64400,1s:1M']",
            "policer = ['64100/64kB', '64400/64kB']",
        ] {
            let experiment = parse(sweep, "auto").unwrap_or_else(|error| panic!("{sweep}: {}", error.reason));
            let cells = cells(&experiment).expect("cells");
            let hash = |cell: &Cell| task(&experiment, cell, Duration::from_secs(1)).expect("a task").hash();
            assert_ne!(hash(&cells[0]), hash(&cells[1]), "{sweep}");
        }
    }

    /// A key of results outlives the program that made it: it must not follow how something is shown.
    #[test]
    fn the_content_of_a_run_is_data() {
        let experiment = parse("loss = ['5%']", "auto").expect("an experiment");
        let cell = &cells(&experiment).expect("cells")[0];
        let content = task(&experiment, cell, Duration::from_secs(1)).expect("a task").content();
        let value: serde_json::Value = serde_json::from_str(&content).expect("JSON");
        assert_eq!(value["Sim"]["flows"][0]["profile"], "auto");
        assert_eq!(value["Sim"]["links"][0]["forward"]["Ok"]["loss"]["Bernoulli"], 50_000_000);
        assert_eq!(value["Sim"]["duration"]["secs"], 1);
    }

    /// Sato 5.4: "other links" have 1 to 5 ms.
    #[test]
    fn access_delays_spread_over_the_flows_of_a_line() {
        let text = "title = 't'\nduration = '2s'\n[[flow]]\nsender = 'newreno'\ncount = 5\naccess = '100M'\n\
            access_delay = '1ms-5ms'\ndecoder_symbols = '8bdp'\n";
        let experiment = Experiment::parse("t.toml", text).expect("an experiment");
        let cell = &cells(&experiment).expect("cells")[0];
        let Task::Sim(scenario) = task(&experiment, cell, experiment.duration).expect("a task") else {
            panic!("virtual time")
        };
        let delays: Vec<u128> = scenario.flows.iter().map(|flow| flow.access.delay.as_millis()).collect();
        assert_eq!(delays, [1, 2, 3, 4, 5]);
        let wrong =
            |line: &str| Experiment::parse("t.toml", &text.replace("count = 5", line)).unwrap_err().reason;
        assert!(wrong("access_queue = 'long'").contains("queue"), "{}", wrong("access_queue = 'long'"));
        let kernel = text.replace("newreno", "tcp-reno");
        assert!(Experiment::parse("t.toml", &kernel).unwrap_err().reason.contains("virtual time"));
    }

    #[test]
    fn what_counts_begins_where_the_file_says() {
        let text = "title = 't'\nduration = '16s'\nwarm_up = '11.5s'\n[[flow]]\nsender = 'auto'\n";
        let experiment = Experiment::parse("t.toml", text).unwrap();
        let cell = &cells(&experiment).unwrap()[0];
        let Task::Sim(scenario) = task(&experiment, cell, experiment.duration).unwrap() else {
            panic!("virtual time")
        };
        assert_eq!(scenario.warm_up, Duration::from_millis(11_500));
    }

    /// Two kilobytes of somebody's file are refused before they are multiplied out.
    #[test]
    fn what_would_take_all_memory_is_refused_at_once() {
        let values = |count: usize, word: &str| vec![format!("'{word}'"); count].join(",");
        let sixty = values(60, "1%");
        let keys = ["loss", "back_loss", "mark", "duplicate", "corrupt", "back_mark"];
        let sweep: String = keys.iter().map(|key| format!("{key} = [{sixty}]\n")).collect();
        assert!(parse(&sweep, "auto").unwrap_err().reason.contains("more than 10000 cells"));
        // Of which the product is 2^64.
        let two = values(2, "1%");
        let many: String = (1..=64).map(|i| format!("'bottleneck{i}.loss' = [{two}]\n")).collect();
        assert!(parse(&many, "auto").unwrap_err().reason.contains("more than 10000 cells"));
        let hundred = values(100, "1%");
        for (text, words) in [
            (
                "[[flow]]\nsender='auto'\ncount=9223372036854775807\n[[flow]]\nsender='auto'\ncount=9223372036854775807",
                "flow",
            ),
            ("[[flow]]\nsender='auto'\n[sweep]\nflows=['18446744073709551615']", "flows"),
            ("[[flow]]\nsender='auto'\n[sweep]\nflows=['0']", "flows"),
            (
                format!("[[flow]]\nsender='auto'\ncount=900\n[sweep]\nloss=[{hundred}]\nmark=[{hundred}]")
                    .as_str(),
                "flows in all",
            ),
            ("[[flow]]\nsender='auto'\n".repeat(1001).as_str(), "1000 [[flow]]"),
            (format!("{}[[flow]]\nsender='auto'", "[[bottleneck]]\n".repeat(40)).as_str(), "bottlenecks"),
            ("[[flow]]\nsender='auto'\ntraffic='messages:1/1ns'", "messages"),
            ("[[flow]]\nsender='auto'\ntraffic='web:1ns/1kB'", "transfers"),
            ("[[flow]]\nsender='auto'\nstart='500000h'", "a day"),
            ("[[flow]]\nsender='auto'\nstart_within='500000h'", "a day"),
            ("[[flow]]\nsender='auto'\nrtt='500000h'", "an hour"),
            ("[link]\nrtt='5000000h'\n[[flow]]\nsender='auto'", "an hour"),
            ("[link]\njitter='5000000h'\n[[flow]]\nsender='auto'", "an hour"),
            ("[[flow]]\nsender='auto'\n[sweep]\nflow_rtt=['5000000h']\nflows=['2']", ""),
        ] {
            let text = format!("title='t'\nduration='2s'\n{text}\n");
            let reason = Experiment::parse("t.toml", &text).unwrap_err().reason;
            assert!(reason.contains(words), "{words}: {reason}");
        }
        for (head, words) in [
            ("duration='25h'", "a day"),
            ("duration='2s'\nseries='1ns'", "values over time"),
            ("duration='2s'\nrepetitions=4000000000", "repetition"),
            ("duration='2s'\nat_once=100000", "at once"),
        ] {
            let text = format!("title='t'\n{head}\n[[flow]]\nsender='auto'\n");
            let reason = Experiment::parse("t.toml", &text).unwrap_err().reason;
            assert!(reason.contains(words), "{words}: {reason}");
        }
    }

    #[test]
    fn impossible_cells_are_found_before_anything_runs() {
        assert!(parse("loss = ['90%']\nburst = ['1']", "auto").unwrap_err().reason.contains("E / (E + 1)"));
        assert!(parse("sender = ['auto', 'tcp-bbr']", "auto").is_ok());
        assert!(parse("'bottleneck1.rtt' = ['10ms', '50ms']", "auto").is_ok());
        assert!(
            parse("'bottleneck2.rtt' = ['10ms']", "auto")
                .unwrap_err()
                .reason
                .contains("1 bottlenecks, not 2")
        );
        assert!(parse("'bottleneck1.hue' = ['10ms']", "auto").unwrap_err().reason.contains("no 'hue'"));
        assert!(
            parse("flow_rtt = ['30ms']\nflows = ['2']", "tcp-cubic")
                .unwrap_err()
                .reason
                .contains("second [[flow]]")
        );
    }
}
