//! `fulmar profiles`: which there are, and what can be set.

use fulmar::ProfileBuilder;
use fulmar::modules::{self, Setting, Value};
use serde_json::json;

use crate::exit::Failure;
use crate::profile_names::ProfileParser;

/// List the profiles (ways to send) and their settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar profiles
    fulmar profiles auto
    fulmar cp --profile auto:favor=latency report.pdf server.example.org:")]
pub struct Args {
    /// Show the settings of this profile, with their values: a name, with settings if you want
    /// (lt-tcp:loss=oracle,p=0.05)
    #[arg(value_parser = ProfileParser, hide_possible_values = true)]
    profile: Option<String>,
    /// Print in JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the list of profiles, or the settings of one.
pub fn run(args: &Args) -> Result<(), Failure> {
    let text = match &args.profile {
        None if args.json => all_json().to_string(),
        None => all(),
        Some(spec) => {
            let rows = settings(spec)?;
            if args.json { settings_json(&rows).to_string() } else { one(&rows) }
        }
    };
    println!("{text}");
    Ok(())
}

/// The settings that apply to `spec`, with their values.
fn settings(spec: &str) -> Result<Vec<(&'static Setting, Value)>, Failure> {
    let values = ProfileBuilder::parse(spec).and_then(|builder| builder.values());
    let values = values.map_err(|e| Failure::Usage(e.to_string()))?;
    Ok(modules::settings().iter().filter_map(|setting| Some((setting, values.of(setting.name)?))).collect())
}

fn all() -> String {
    let families: String =
        modules::families().map(|family| format!("{:<20}{}\n", family.name, family.summary)).collect();
    format!(
        "{families}\n`fulmar profiles NAME` shows what can be set: --profile NAME:setting=value,setting=value"
    )
}

fn one(rows: &[(&Setting, Value)]) -> String {
    let mut text = format!("{:<13}{:<16}what: range (source)", "setting", "value");
    for (setting, value) in rows {
        let Setting { name, kind, text: what, source, .. } = setting;
        // A value of its own does not know widths.
        text += &format!("\n{name:<13}{:<16}{what}: {kind} ({source})", value.to_string());
    }
    text
}

fn all_json() -> serde_json::Value {
    modules::families().map(|family| json!({ "name": family.name, "summary": family.summary })).collect()
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
        let text = all();
        for name in fulmar::profile_names() {
            assert!(text.contains(name), "{name}");
            assert!(settings(name).unwrap().len() >= 9, "{name}");
        }
        assert!(settings("vegas").is_err());
    }

    #[test]
    fn settings_are_shown_with_the_values_given() {
        let text = one(&settings("lt-tcp:loss=oracle,p=0.05").unwrap());
        let line = text.lines().find(|line| line.starts_with("p ")).unwrap();
        assert!(line.contains("0.05") && line.contains("Hourt 2.3"), "{line}");
        assert!(!text.lines().any(|line| line.starts_with("alpha ")));
    }
}
