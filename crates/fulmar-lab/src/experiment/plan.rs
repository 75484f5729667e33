//! From an experiment to the runs it consists of.

use std::time::Duration;

use fulmar_net::parse;
use fulmar_proto::Profile;

use super::ScenarioHash;
use super::cell::Cell;
use super::definition::{Experiment, FlowLine};
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
    let flows: Vec<FlowLine> =
        flows.iter().flat_map(|flow| std::iter::repeat_n(flow.clone(), flow.count)).collect();
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
        Ok(FlowSpec { profile, traffic, start, stop, rtt, place, priority, is_reversed, start_within })
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

    /// What tells runs apart: two tasks of the same content are the same run, whatever the cell is called (a
    /// burst length without loss changes nothing).
    pub fn hash(&self) -> ScenarioHash {
        ScenarioHash::of(&self.words())
    }

    fn words(&self) -> String {
        let of_link = |link: &LinkSpec| {
            format!(
                "{:?} {:?} {:?} {:?}",
                link.forward(),
                link.backward(),
                link.stall_sender,
                link.stall_receiver
            )
        };
        match self {
            Self::Sim(s) => {
                let links: Vec<String> = match &s.topology {
                    Topology::Dumbbell(link) => vec![of_link(link)],
                    Topology::ParkingLot(links) => links.iter().map(of_link).collect(),
                };
                let flow = |f: &FlowSpec| {
                    format!(
                        "{} {} {:?} {:?} {:?} {} {} {} {:?}",
                        f.profile.name,
                        f.traffic,
                        f.start,
                        f.stop,
                        f.rtt,
                        f.place,
                        f.priority,
                        f.is_reversed,
                        f.start_within
                    )
                };
                let flows: Vec<String> = s.flows.iter().map(flow).collect();
                format!(
                    "{links:?} {flows:?} {:?} {:?} {} {:?}",
                    s.duration, s.warm_up, s.loss_free_handshake, s.sample_interval
                )
            }
            #[cfg(target_os = "linux")]
            Self::Tcp(s) => {
                let link = of_link(&s.link);
                format!(
                    "{link} {:?} {:?} {:?} {} {:?} {:?}",
                    s.flows, s.duration, s.warm_up, s.loss_free_handshake, s.sample_interval, s.settings
                )
            }
            #[cfg(target_os = "linux")]
            Self::Peer(s) => format!("{} {} {:?}", of_link(&s.link), s.words(), s.settings),
        }
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
        let words = |cell: &Cell| task(&experiment, cell, Duration::from_secs(1)).unwrap().words();
        let same = cells.iter().filter(|cell| words(cell) == words(&cells[0])).count();
        assert_eq!(same, 2, "without loss the burst length changes nothing");
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
