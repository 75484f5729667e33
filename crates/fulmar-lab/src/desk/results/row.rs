//! A row of the table of results: a published table or figure, and what was measured of it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::Summary;

/// Sources by the beginning of the experiments' names.
pub(in crate::desk) const SOURCES: [(&str, &str); 6] = [
    ("lt-tcp", "LT-TCP (Hourt, RPI 2014)"),
    ("dfcp", "DFCP (Solymos, BME 2014)"),
    ("tcp-fec", "TCP-FEC (Sato, Kitakyushu 2019)"),
    ("ctcp", "Coded TCP (Leith, Medard et al.)"),
    ("tcp-nc", "TCP/NC (Medina-Ruiz et al., NetCod 2012)"),
    ("fulmar", "Fulmar's own experiments"),
];
/// The source that an experiment's name begins with.
pub(in crate::desk) fn source(name: &str) -> &'static str {
    let of_name =
        SOURCES.iter().find(|(id, _)| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-')));
    of_name.map_or("fulmar", |(id, _)| id)
}

/// What is found of a published table or figure.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(in crate::desk) enum Verdict {
    #[serde(rename = "reproduced")]
    Reproduced,
    #[serde(rename = "in kind")]
    InKind,
    #[serde(rename = "open")]
    Open,
    #[serde(rename = "differs")]
    Differs,
    #[serde(rename = "not comparable")]
    NotComparable,
    #[serde(rename = "not measured")]
    NotMeasured,
}

#[derive(Clone, Debug, Serialize)]
pub(in crate::desk) struct ResultRow {
    pub(in crate::desk) id: String,
    pub(in crate::desk) source: &'static str,
    #[serde(rename = "where")]
    pub(in crate::desk) place: String,
    pub(in crate::desk) title: String,
    pub(in crate::desk) verdict: Verdict,
    /// False where the same runs and claims count with another row.
    pub(in crate::desk) counted: bool,
    pub(in crate::desk) unit: String,
    pub(in crate::desk) cells: Vec<ResultCell>,
    /// Claims that do not hold.
    pub(in crate::desk) not_held: Vec<String>,
    /// Claims that are neither held nor failed.
    pub(in crate::desk) undecided: Vec<String>,
    pub(in crate::desk) explanation: String,
    pub(in crate::desk) command: String,
}

#[derive(Clone, Debug, Serialize)]
pub(in crate::desk) struct ResultCell {
    pub(in crate::desk) at: BTreeMap<String, String>,
    pub(in crate::desk) published: Option<f64>,
    pub(in crate::desk) min: Option<f64>,
    pub(in crate::desk) max: Option<f64>,
    pub(in crate::desk) measured: Option<Summary>,
    pub(in crate::desk) ratio: Option<f64>,
    pub(in crate::desk) command: Option<String>,
}
