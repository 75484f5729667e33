//! The rules by which Linux hands connections over: nftables, and for TPROXY a routing table.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::network::Network;
use crate::system::Change;

/// How connections reach us.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Redirect connections of this machine's own programs (NAT)
    #[default]
    Redirect,
    /// Also redirect those that it forwards for other machines (TPROXY)
    Tproxy,
}

/// The port of loopback where connections come by default.
pub const PORT: u16 = 1081;

/// What is to be handed over, and where.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Rules {
    /// How connections are redirected
    #[arg(long, value_enum, default_value = "redirect")]
    pub mode: Mode,
    /// Port on loopback to redirect them to
    #[arg(long, default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Only connections to this network; can be repeated
    #[arg(long, value_name = "NETWORK")]
    pub only: Vec<Network>,
    /// Not connections to this network; can be repeated
    #[arg(long, value_name = "NETWORK")]
    pub except: Vec<Network>,
    /// Only connections of programs of this user
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    pub user: Option<String>,
}

/// A user's name or number: nothing that means something to nft.
pub fn parse_user(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.is_empty() || !text.chars().all(is_plain) {
        return Err(format!("`{text}` is no user"));
    }
    Ok(text.to_owned())
}

impl Rules {
    /// The changes that put the rules in force.
    pub fn changes(&self) -> Vec<Change> {
        let table = self.table();
        let nft = Change::new("nft -f -", &format!("nft delete table inet {table}"));
        let mut changes = vec![nft.with_input(self.nft()).ours()];
        if self.mode == Mode::Tproxy {
            let mark = self.mark();
            for family in ["-4", "-6"] {
                changes.push(
                    Change::new(
                        &format!("ip {family} route add local default dev lo table {mark}"),
                        &format!("ip {family} route del local default dev lo table {mark}"),
                    )
                    .ours(),
                );
                changes.push(
                    Change::new(
                        &format!("ip {family} rule add fwmark {mark} lookup {mark}"),
                        &format!("ip {family} rule del fwmark {mark} lookup {mark}"),
                    )
                    .ours(),
                );
            }
        }
        changes
    }

    /// What the changes are called: nobody else has the port.
    pub fn name(&self) -> String {
        format!("transparent-{}", self.port)
    }

    fn table(&self) -> String {
        format!("fulmar_{}", self.port)
    }

    /// Mark of packets and number of the routing table: one for each port, out of others' way.
    fn mark(&self) -> u32 {
        0x464c_0000 + u32::from(self.port)
    }

    fn nft(&self) -> String {
        let (port, mark) = (self.port, self.mark());
        let mut text = format!("table inet {} {{\n", self.table());
        let mut chain = |name: &str, kind: &str, verdicts: &[(&str, String)], is_own: bool| {
            let _ = writeln!(text, "  chain {name} {{\n    type {kind}; policy accept;");
            for line in self.exceptions(is_own) {
                let _ = writeln!(text, "    {line}");
            }
            for (family, verdict) in verdicts {
                for target in self.targets(family) {
                    let _ = writeln!(text, "    meta nfproto {family} {target}{verdict}");
                }
            }
            text.push_str("  }\n");
        };
        let both = |verdict: String| [("ipv4", verdict.clone()), ("ipv6", verdict)];
        match self.mode {
            Mode::Redirect => {
                let verdicts = both(format!("meta l4proto tcp redirect to :{port}"));
                chain("output", "nat hook output priority -100", &verdicts, true);
            }
            Mode::Tproxy => {
                let tproxy = |family, address| {
                    format!(
                        "meta l4proto tcp tproxy {family} to {address}:{port} meta mark set {mark} accept"
                    )
                };
                let verdicts = [("ipv4", tproxy("ip", "127.0.0.1")), ("ipv6", tproxy("ip6", "[::1]"))];
                chain("prerouting", "filter hook prerouting priority mangle", &verdicts, false);
                let verdicts = both(format!("meta l4proto tcp meta mark set {mark}"));
                chain("output", "route hook output priority mangle", &verdicts, true);
            }
        }
        text.push_str("}\n");
        text
    }

    /// What is left alone, in lines of a chain; `is_own` for the one that sees only this machine's own
    /// packets.
    fn exceptions(&self, is_own: bool) -> Vec<String> {
        let mut lines = vec!["meta l4proto != tcp return".to_owned()];
        // What stays on this machine, or goes to no single one. Our own answers go back as they came.
        lines.push("fib daddr type != unicast return".into());
        if is_own {
            lines.push("ct direction reply return".into());
        }
        if let (Some(user), true) = (&self.user, is_own) {
            lines.push(format!("meta skuid != {user} return"));
        } else if self.user.is_some() {
            // A user's packets come here by way of the other chain, which has marked them.
            lines.push(format!("meta mark != {} return", self.mark()));
        }
        let line = |network: &Network| {
            let family = if network.is_v4() { "ip" } else { "ip6" };
            format!("{family} daddr {network} return")
        };
        lines.extend(self.except.iter().map(line));
        lines
    }

    /// Conditions on the target, one for each line.
    fn targets(&self, family: &str) -> Vec<String> {
        if self.only.is_empty() {
            return vec![String::new()];
        }
        let of_family = self.only.iter().filter(|network| network.is_v4() == (family == "ipv4"));
        let keyword = if family == "ipv4" { "ip" } else { "ip6" };
        of_family.map(|network| format!("{keyword} daddr {network} ")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(mode: Mode) -> Rules {
        Rules { mode, port: 1081, only: Vec::new(), except: Vec::new(), user: None }
    }

    #[test]
    fn redirect_is_one_chain_and_undone_by_one_command() {
        let changes = rules(Mode::Redirect).changes();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].undo.join(" "), "nft delete table inet fulmar_1081");
        assert!(changes[0].input.contains("meta nfproto ipv4 meta l4proto tcp redirect to :1081"));
    }

    #[test]
    fn tproxy_undoes_all_it_does() {
        let changes = rules(Mode::Tproxy).changes();
        assert_eq!(changes.len(), 5);
        assert!(changes.iter().all(|change| !change.undo.is_empty()));
        assert!(changes[0].input.contains("tproxy ip6 to [::1]:1081"));
    }

    #[test]
    fn networks_and_users_choose() {
        let only = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let except = vec!["10.1.0.1".parse().unwrap()];
        let rules = Rules { only, except, user: Some("nobody".into()), ..rules(Mode::Redirect) };
        let text = rules.nft();
        for line in [
            "meta nfproto ipv4 ip daddr 10.0.0.0/8 meta l4proto tcp redirect to :1081",
            "meta nfproto ipv6 ip6 daddr 2001:db8::/32 meta l4proto tcp redirect to :1081",
            "ip daddr 10.1.0.1 return",
            "meta skuid != nobody return",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert_eq!(text.matches("redirect").count(), 2);
        for wrong in ["", "ten", "10.0.0.1/8", "::/129", "10.0.0.1; flush ruleset"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        assert!(parse_user("0; flush ruleset").is_err() && parse_user("www-data").is_ok());
    }
}
