//! Which cells there are: which program goes which way over which link.

use std::collections::BTreeMap;
use std::path::Path;

use super::cell::{Cell, RATE};
use super::files::read;
use super::{Application, Way};

/// Loss on the way, in percent, and the mean length of its bursts.
const LOSSES: [&str; 7] = ["0%", "1%", "5%", "10%", "1%/5", "5%/5", "10%/5"];
const ROUND_TRIPS: [&str; 2] = ["50ms", "250ms"];

/// Which cells are wanted; an empty list means all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Applications by name.
    pub applications: Vec<String>,
    /// Ways by name.
    pub ways: Vec<String>,
    /// Settings that a link must have: of each key, any of its values.
    pub link: Vec<(String, String)>,
}

impl Selection {
    fn has(list: &[String], name: &str) -> bool {
        list.is_empty() || list.iter().any(|other| other == name)
    }

    fn has_link(&self, link: &BTreeMap<String, String>) -> bool {
        let allows = |key: &String| {
            let mut values = self.link.iter().filter(|(other, _)| other == key).map(|(_, value)| value);
            values.any(|value| link.get(key) == Some(value))
        };
        self.link.iter().all(|(key, _)| allows(key))
    }

    /// Says which of its names exist nowhere.
    ///
    /// # Errors
    /// The first of them, with those that do.
    pub fn check(&self, applications: &[Application], ways: &[Way]) -> Result<(), String> {
        let known: Vec<&str> = applications.iter().map(|a| a.name.as_str()).collect();
        let known_ways: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
        for (kind, wanted, known) in
            [("application", &self.applications, known), ("way", &self.ways, known_ways)]
        {
            if let Some(name) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
                return Err(format!("there is no {kind} '{name}'; there are {}", known.join(", ")));
            }
        }
        Ok(())
    }
}

/// The links of an application.
fn links(application: &Application) -> Result<Vec<BTreeMap<String, String>>, String> {
    let mut links = application.links.clone();
    if links.is_empty() {
        for rtt in ROUND_TRIPS {
            links.extend(LOSSES.map(|loss| {
                BTreeMap::from([("rtt".to_owned(), rtt.to_owned()), ("loss".to_owned(), loss.to_owned())])
            }));
        }
    }
    for link in &mut links {
        link.entry("rate".into()).or_insert_with(|| RATE.into());
        let cell = Cell { application: String::new(), way: String::new(), link: link.clone() };
        cell.link()?;
    }
    Ok(links)
}

/// Every cell that is wanted, in the order in which they are run: the ways over one link one after the other.
///
/// # Errors
/// If a link cannot be.
pub fn cells(applications: &[Application], ways: &[Way], wanted: &Selection) -> Result<Vec<Cell>, String> {
    let mut cells = Vec::new();
    for application in applications.iter().filter(|a| Selection::has(&wanted.applications, &a.name)) {
        for link in links(application)?.into_iter().filter(|link| wanted.has_link(link)) {
            let ways = ways.iter().filter(|way| application.goes_by(way));
            cells.extend(ways.filter(|way| Selection::has(&wanted.ways, &way.name)).map(|way| Cell {
                application: application.name.clone(),
                way: way.name.clone(),
                link: link.clone(),
            }));
        }
    }
    Ok(cells)
}

/// Every application and every way of a folder, by name.
///
/// # Errors
/// What is wrong with which file.
pub fn read_folder(folder: &Path) -> Result<(Vec<Application>, Vec<Way>), String> {
    let (applications, ways) = read(folder)?;
    applications.iter().try_for_each(|application| check(application, &ways))?;
    Ok((applications, ways))
}

/// What only shows when the files are put together.
fn check(application: &Application, ways: &[Way]) -> Result<(), String> {
    let words = |reason: String| Err(format!("application '{}': {reason}", application.name));
    let named = application.bounds.iter().flat_map(|bound| bound.ways()).chain(application.ways.iter());
    for name in named {
        if !ways.iter().any(|way| way.name == *name) {
            return words(format!("there is no way '{name}'"));
        }
    }
    for bound in &application.bounds {
        if !application.measures.iter().any(|measure| measure.name == bound.measure) {
            return words(format!("a bound is about '{}', which is not measured", bound.measure));
        }
    }
    links(application).map(drop).or_else(words)
}
