//! Hosts on the command line: the shell's completion offers those of config.toml and of known_hosts.

use std::collections::BTreeSet;
use std::path::Path;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use fulmar::identity::Home;

use crate::reach::DEFAULT_PORT;
use crate::tunnel::config::Config;

/// Takes any text, and knows the hosts that this machine has names or keys of.
#[derive(Clone, Copy, Debug)]
pub struct HostParser;

impl TypedValueParser for HostParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let home = Home::locate().ok()?;
        Some(Box::new(known(home.path()).into_iter().map(PossibleValue::new)))
    }
}

/// Names of config.toml, and hosts of known_hosts, without the usual port.
fn known(home: &Path) -> BTreeSet<String> {
    let named = Config::read(&Config::path(home)).map(|config| config.hosts).unwrap_or_default();
    let met = std::fs::read_to_string(home.join("known_hosts")).unwrap_or_default();
    let met = met.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').next());
    let usual = format!(":{DEFAULT_PORT}");
    let met = met.filter(|host| !host.is_empty()).map(|host| host.strip_suffix(&usual).unwrap_or(host));
    named.into_keys().chain(met.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_of_both_files() {
        let home = tempfile::tempdir().unwrap();
        assert!(known(home.path()).is_empty());
        let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
        write("config.toml", "[hosts.home]\ngateways = [\"gw.example.org:443\"]\n");
        write(
            "known_hosts",
            "# met\na.example.org:4747 fulmar-ed25519 AAAA\nb.example.org:443 fulmar-ed25519 AAAA\n",
        );
        let found: Vec<_> = known(home.path()).into_iter().collect();
        assert_eq!(found, ["a.example.org", "b.example.org:443", "home"]);
    }
}
