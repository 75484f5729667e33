//! The rules of nftables beside a tunnel: which flows begin at which end.

use crate::network::Network;
use crate::system::Change;

/// Devices of a gateway's tunnels: the kernel puts a number in the place of `%d`.
pub const GATEWAY_DEVICE: &str = "fulmargw%d";

/// The same, as nft writes it.
const GATEWAY_DEVICES: &str = "\"fulmargw*\"";

/// Name of the changes at a gateway.
pub const GATEWAY_NAME: &str = "gateway";

/// A gateway's table. There is one at a time in a network namespace, as the name of its changes is taken.
const GATEWAY_TABLE: &str = "inet fulmar_tun";

/// Families: as nft names them, and what switches forwarding on.
const FAMILIES: [(&str, &str); 2] =
    [("ipv4", "/proc/sys/net/ipv4/ip_forward"), ("ipv6", "/proc/sys/net/ipv6/conf/all/forwarding")];

/// A client's rules: nothing begins at the far end. What comes is an answer, or lost.
pub fn no_inbound(device: &str) -> Change {
    let table = format!("inet fulmar_tun_{device}");
    let chain = |name: &str| {
        format!(
            "  chain {name} {{\n    type filter hook {name} priority filter; policy accept;\n    \
             iifname \"{device}\" ct state established,related accept\n    iifname \"{device}\" drop\n  }}\n"
        )
    };
    let text = format!("table {table} {{\n{}{}}}\n", chain("input"), chain("forward"));
    Change::new("nft -f -", &format!("nft delete table {table}")).with_input(text).ours()
}

/// Lets packets of tunnels leave the gateway for elsewhere, with its own address, and answers come back; the
/// machine forwards nothing else that it did not forward before.
pub fn masquerade(network: &Network, networks_v6: &str, has_inbound: bool) -> Vec<Change> {
    // A table that is there was left by a gateway that was killed with its guardian, and says how it was
    // before.
    let left =
        std::process::Command::new("nft").args(["list", "table"]).args(GATEWAY_TABLE.split(' ')).output();
    let left = left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let was_off = |family: &str, path: &str| {
        let is_off = std::fs::read_to_string(path).is_ok_and(|value| value.trim() == "0");
        is_off || left.contains(&mark(family))
    };
    let off: Vec<_> = FAMILIES.into_iter().filter(|(family, path)| was_off(family, path)).collect();
    let families: Vec<_> = off.iter().map(|(family, _)| *family).collect();
    let text = gateway_table(network, networks_v6, has_inbound, &families);
    let table = Change::new("nft -f -", &format!("nft delete table {GATEWAY_TABLE}"));
    // The table first and last: as long as forwarding is on because of us, it says so.
    let mut changes = vec![table.with_input(text).ours()];
    changes.extend(off.iter().map(|(_, path)| Change::of_setting(path, 1, 0)));
    changes
}

/// An empty chain that tells, as long as the table is there, that a family was not forwarded before.
fn mark(family: &str) -> String {
    format!("chain {family}_was_off {{")
}

fn gateway_table(network: &Network, networks_v6: &str, has_inbound: bool, off: &[&str]) -> String {
    let devices = GATEWAY_DEVICES;
    let mut lines = vec![format!("table {GATEWAY_TABLE} {{")];
    lines.extend(off.iter().map(|family| format!("  {}\n  }}", mark(family))));
    lines.extend([
        "  chain postrouting {".into(),
        "    type nat hook postrouting priority srcnat; policy accept;".into(),
        format!("    ip saddr {network} oifname != {devices} masquerade"),
        format!("    ip6 saddr {networks_v6} oifname != {devices} masquerade"),
        "  }".into(),
        "  chain forward {".into(),
        "    type filter hook forward priority filter; policy accept;".into(),
        format!("    iifname {devices} oifname {devices} drop"),
        format!("    iifname {devices} accept"),
    ]);
    let inbound = if has_inbound { "" } else { "ct state established,related " };
    lines.push(format!("    oifname {devices} {inbound}accept"));
    lines.push(format!("    oifname {devices} drop"));
    // What this machine forwarded before it goes on to forward.
    lines.extend(off.iter().map(|family| format!("    meta nfproto {family} drop")));
    lines.extend(["  }".into(), "}".into(), String::new()]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_forwards_for_tunnels_and_nobody_else() {
        let network = "10.97.0.0/16".parse().unwrap();
        let text = gateway_table(&network, "fd00::/48", false, &["ipv4"]);
        for line in [
            "ip saddr 10.97.0.0/16 oifname != \"fulmargw*\" masquerade",
            "iifname \"fulmargw*\" oifname \"fulmargw*\" drop",
            "oifname \"fulmargw*\" ct state established,related accept\n    oifname \"fulmargw*\" drop",
            "meta nfproto ipv4 drop",
            "chain ipv4_was_off {",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("nfproto ipv6 drop"), "it was forwarded before");
        assert!(gateway_table(&network, "fd00::/48", true, &[]).contains("oifname \"fulmargw*\" accept"));
    }

    #[test]
    fn a_client_takes_answers_only() {
        let change = no_inbound("far-1.x");
        assert_eq!(change.undo.join(" "), "nft delete table inet fulmar_tun_far-1.x");
        assert_eq!(change.input.matches("iifname \"far-1.x\" drop").count(), 2);
    }
}
