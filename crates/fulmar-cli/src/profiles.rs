//! `fulmar profiles`: which there are, and what can be set.

use std::io::{self, Write};

use fulmar::ProfileBuilder;
use fulmar::profile::{FAMILIES, SETTINGS, Setting, Value};
use serde_json::json;

use crate::exit::Failure;

/// The command line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show what can be set in this one, as it is: a profile, with settings if wanted
    /// (lt-tcp:loss=oracle,p=0.05)
    profile: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the list of profiles, or the settings of one.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = match &args.profile {
        None if args.json => writeln!(out, "{}", all_json()),
        None => all(&mut out),
        Some(spec) => {
            let rows = settings(spec)?;
            if args.json { writeln!(out, "{}", settings_json(&rows)) } else { one(&mut out, &rows) }
        }
    };
    written.map_err(|e| Failure::Other(e.to_string()))
}

/// The settings that apply to `spec`, with their values.
fn settings(spec: &str) -> Result<Vec<(&'static Setting, Value)>, Failure> {
    let values = ProfileBuilder::parse(spec).and_then(|builder| builder.values());
    let values = values.map_err(|e| Failure::Usage(e.to_string()))?;
    Ok(SETTINGS.iter().filter_map(|setting| Some((setting, values.of(setting.name)?))).collect())
}

fn all(out: &mut impl Write) -> io::Result<()> {
    for family in &FAMILIES {
        writeln!(out, "{:<20}{}", family.name, family.summary)?;
    }
    writeln!(
        out,
        "\n`fulmar profiles NAME` shows what can be set: --profile NAME:setting=value,setting=value"
    )
}

fn one(out: &mut impl Write, rows: &[(&Setting, Value)]) -> io::Result<()> {
    writeln!(out, "{:<13}{:<16}what: range (source)", "setting", "value")?;
    for (setting, value) in rows {
        let Setting { name, kind, text, source, .. } = setting;
        // A value of its own does not know widths.
        writeln!(out, "{name:<13}{:<16}{text}: {kind} ({source})", value.to_string())?;
    }
    Ok(())
}

fn all_json() -> serde_json::Value {
    FAMILIES.iter().map(|family| json!({ "name": family.name, "summary": family.summary })).collect()
}

fn settings_json(rows: &[(&Setting, Value)]) -> serde_json::Value {
    let row = |(setting, value): &(&Setting, Value)| {
        json!({
            "name": setting.name,
            "value": value.to_string(),
            "range": setting.kind.to_string(),
            "what": setting.text,
            "source": setting.source,
        })
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_listed_and_has_settings() {
        let mut out = Vec::new();
        all(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for name in fulmar::PROFILE_NAMES {
            assert!(text.contains(name), "{name}");
            assert!(settings(name).unwrap().len() >= 9, "{name}");
        }
        assert!(settings("vegas").is_err());
    }

    #[test]
    fn settings_are_shown_with_the_values_given() {
        let mut out = Vec::new();
        one(&mut out, &settings("lt-tcp:loss=oracle,p=0.05").unwrap()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = text.lines().find(|line| line.starts_with("p ")).unwrap();
        assert!(line.contains("0.05") && line.contains("Hourt 2.3"), "{line}");
        assert!(!text.lines().any(|line| line.starts_with("alpha ")));
    }
}
