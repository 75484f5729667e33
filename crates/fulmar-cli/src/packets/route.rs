//! Which packets go through the tunnel. The packets of the tunnel itself must not.

use std::net::IpAddr;
use std::process::Command;

use serde_json::Value;

use crate::network::Network;
use crate::system::{self, Change};

/// What is to go through the tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Everything, IPv4 and IPv6.
    Default,
    /// A network.
    Network(Network),
}

impl std::str::FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "default" { Ok(Self::Default) } else { text.parse().map(Self::Network) }
    }
}

impl Route {
    /// The networks that are reached by it.
    pub fn networks(&self) -> Vec<Network> {
        let all = ["0.0.0.0/0", "::/0"];
        match self {
            Self::Default => all.iter().filter_map(|all| all.parse().ok()).collect(),
            Self::Network(network) => vec![*network],
        }
    }
}

/// Marks a route as one that a tunnel has put there (the number of its `proto` in `ip route`, which has names
/// for those below 64 and some above).
const OURS: &str = "70";

/// Halves of everything: they go before the default route that is there, which stays as it is.
const HALVES: [(&str, &str); 4] =
    [("-4", "0.0.0.0/1"), ("-4", "128.0.0.0/1"), ("-6", "::/1"), ("-6", "8000::/1")];

/// The changes that send `routes` through `device`, and the packets to `gateway` as before. Routes through a
/// device go with it, so that only the gateway's has to be undone.
pub fn changes(routes: &[Route], device: &str, gateway: IpAddr) -> Vec<Change> {
    let own = if routes.is_empty() { None } else { beside(gateway, device) };
    let through = |(family, network): (&str, &str)| {
        Change::new(&format!("ip {family} route add {network} dev {device}"), "")
    };
    let mut changes: Vec<_> = own.into_iter().collect();
    for route in routes {
        match route {
            Route::Default => changes.extend(HALVES.map(through)),
            Route::Network(network) => {
                let family = if network.is_v4() { "-4" } else { "-6" };
                changes.push(through((family, &network.to_string())));
            }
        }
    }
    changes
}

/// A route to the gateway alone, as its packets go now; `None` if there is one, or it is this machine.
fn beside(gateway: IpAddr, device: &str) -> Option<Change> {
    let family = if gateway.is_ipv4() { "-4" } else { "-6" };
    let ask = |arguments: &[&str]| {
        let address = gateway.to_string();
        let output =
            Command::new("ip").args(["-j", family, "route"]).args(arguments).arg(address).output().ok()?;
        serde_json::from_slice::<Value>(&output.stdout).ok()
    };
    // `ip -j route show exact ADDRESS` lists what is there for this address alone. What a tunnel has put
    // there was left by one that was killed with its guardian, unless there is another tunnel.
    let exact = ask(&["show", "exact"]).unwrap_or_default();
    let mut exact = exact.as_array().into_iter().flatten();
    let has_own = exact.any(|route| route["protocol"] != OURS || system::others_have("tun-", device));
    let now = ask(&["get"])?;
    let now = now.get(0)?;
    if has_own || now["type"] == "local" {
        return None;
    }
    let device = now["dev"].as_str()?;
    let via = now["gateway"].as_str().map_or(String::new(), |next| format!("via {next} "));
    let route = format!("{gateway} {via}dev {device} proto {OURS}");
    Some(Change::new(
        &format!("ip {family} route replace {route}"),
        &format!("ip {family} route del {route}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_through_the_device() {
        let routes: Vec<Route> =
            ["10.0.0.0/8", "2001:db8::/32", "default"].map(|r| r.parse().unwrap()).into();
        let loopback = "127.0.0.1".parse().unwrap();
        let lines: Vec<String> =
            changes(&routes, "fulmar0", loopback).iter().map(|c| c.apply.join(" ")).collect();
        assert_eq!(lines[0], "ip -4 route add 10.0.0.0/8 dev fulmar0");
        assert_eq!(lines[1], "ip -6 route add 2001:db8::/32 dev fulmar0");
        assert_eq!(lines[5], "ip -6 route add 8000::/1 dev fulmar0");
        assert_eq!(lines.len(), 6);
        assert!(changes(&[], "fulmar0", "192.0.2.1".parse().unwrap()).is_empty());
        assert!("defaults".parse::<Route>().is_err());
    }
}
