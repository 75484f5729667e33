//! A cell: one program, one way, one link.

use std::collections::BTreeMap;

use crate::link::LinkSpec;

/// Rate of every link that does not say another.
pub(super) const RATE: &str = "50M";

/// One program, one way, one link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The application.
    pub application: String,
    /// The way.
    pub way: String,
    /// Settings of the link, in the words of experiments.
    pub link: BTreeMap<String, String>,
}

impl Cell {
    /// Its link in words, the round-trip time first.
    pub fn link_label(&self) -> String {
        let named = |key: &str| self.link.get(key).map(|value| format!("{key} {value}"));
        let first = ["rtt", "loss"];
        let others = self.link.keys().filter(|key| !first.contains(&key.as_str()) && *key != "rate");
        let words = first.into_iter().chain(others.map(String::as_str)).filter_map(named);
        let rate = self.link.get("rate").filter(|rate| *rate != RATE).map(|rate| format!("rate {rate}"));
        words.chain(rate).collect::<Vec<_>>().join(", ")
    }

    /// The link.
    ///
    /// # Errors
    /// Which setting is none.
    pub fn link(&self) -> Result<LinkSpec, String> {
        let mut link = LinkSpec::default();
        self.link.iter().try_for_each(|(key, value)| link.set(key, value))?;
        link.forward().and(link.backward())?;
        Ok(link)
    }
}
