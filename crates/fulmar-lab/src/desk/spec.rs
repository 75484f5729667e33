//! Whether a run is possible, and what it is in full.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fulmar_proto::Profile;

use super::path;
use super::types::{Amount, DriverName, Kind, Order, Refusal, Spec};
use crate::experiment::{kernel_congestion, peer_name};

/// Transports side by side, at most: each has a path, a colour, and a line in every chart.
const TRANSPORTS_MAX: usize = 16;
const TRANSFERS_MAX: u32 = 1000;
const BYTES_MAX: u64 = 10 << 30;
const SECONDS_MAX: f64 = 3600.0;

/// What a transport is, by its name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transport<'a> {
    /// A profile of this protocol.
    Profile,
    /// The kernel's TCP with this congestion control.
    Kernel(&'a str),
    /// Another program.
    Peer(&'a str),
}

/// What a transport is.
pub(crate) fn transport(name: &str) -> Transport<'_> {
    match (peer_name(name), kernel_congestion(name)) {
        (Some(peer), _) => Transport::Peer(peer),
        (None, Some(congestion)) => Transport::Kernel(congestion),
        (None, None) => Transport::Profile,
    }
}

/// The spec with all defaults filled in, if it can be run.
pub(crate) fn checked(mut spec: Spec) -> Result<Spec, Refusal> {
    let count = spec.transports.len();
    if !(1..=TRANSPORTS_MAX).contains(&count) {
        let message = format!("choose 1 to {TRANSPORTS_MAX} transports, not {count}");
        return Err(Refusal::impossible("transports", message));
    }
    let mut seen = BTreeSet::new();
    for (index, name) in spec.transports.iter().enumerate() {
        let refuse = |message: String| Err(Refusal::impossible(format!("transports.{index}"), message));
        if let Err(reason) = check_transport(name, &spec) {
            return refuse(reason);
        }
        if !seen.insert(name) {
            return refuse(format!("'{name}' is there twice"));
        }
    }
    path::links(&spec.path)?;
    check_amount(&spec)?;
    if spec.kind == Kind::Demo {
        if spec.driver == DriverName::Virtual {
            let message = "a demonstration runs in real time: over the bridge, or through the relay";
            return Err(Refusal::impossible("driver", message));
        }
        spec.transfers = 1;
        spec.order = Order::Together;
        if spec.image.is_empty() {
            spec.image = super::image::DRAWN.into();
        }
    }
    if spec.title.trim().is_empty() {
        spec.title = format!("{}: {}", spec.transports.join(", "), path::summary(&spec.path));
    }
    spec.title.truncate(spec.title.char_indices().nth(200).map_or(spec.title.len(), |(at, _)| at));
    Ok(spec)
}

fn check_transport(name: &str, spec: &Spec) -> Result<(), String> {
    let is_real = spec.driver == DriverName::Real;
    match transport(name) {
        Transport::Profile => Profile::parse(name).map(drop).map_err(|error| error.to_string()),
        Transport::Kernel(_) | Transport::Peer(_) if !is_real => {
            Err(format!("'{name}' goes over the bridge only: choose the driver 'real'"))
        }
        Transport::Kernel(congestion) => {
            let known = kernel_controls();
            if known.iter().any(|known| known == congestion) {
                return Ok(());
            }
            Err(format!("this kernel has no congestion control '{congestion}'; it has {}", known.join(", ")))
        }
        Transport::Peer(peer) => {
            if spec.order == Order::Together
                || spec.kind == Kind::Demo
                || matches!(spec.amount, Amount::Bytes(_))
            {
                return Err(format!("'{peer}' sends by itself: alone, in turn, and for so many seconds"));
            }
            let chosen = crate::peer::ChosenPeer::find(&peers_folder(), peer)?;
            chosen.peer.check_installed()
        }
    }
}

fn check_amount(spec: &Spec) -> Result<(), Refusal> {
    let in_range = |seconds: f64| (0.1..=SECONDS_MAX).contains(&seconds);
    match spec.amount {
        // The picture's size counts.
        _ if spec.kind == Kind::Demo => {}
        Amount::Bytes(bytes) if (1..=BYTES_MAX).contains(&bytes) => {}
        Amount::Seconds(seconds) if in_range(seconds) => {}
        Amount::Bytes(_) => {
            return Err(Refusal::impossible("amount.bytes", "a transfer has 1 byte to 10 GiB"));
        }
        Amount::Seconds(_) => {
            return Err(Refusal::impossible("amount.seconds", "a transfer takes 0.1 s to an hour"));
        }
    }
    if !in_range(spec.time_max_s) {
        return Err(Refusal::impossible("time_max_s", "the limit is 0.1 s to an hour"));
    }
    if !(1..=TRANSFERS_MAX).contains(&spec.transfers) {
        return Err(Refusal::impossible("transfers", format!("1 to {TRANSFERS_MAX} transfers")));
    }
    Ok(())
}

/// Folder of the peers' files, where the program is run from a clone.
pub(crate) fn peers_folder() -> PathBuf {
    PathBuf::from("experiments/peers")
}

/// The kernel's congestion controls that may be chosen.
pub(crate) fn kernel_controls() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Seconds that a run takes, as far as can be told beforehand.
pub(crate) fn seconds(spec: &Spec) -> Option<f64> {
    // Handshake, and the end of connections.
    let around = 0.5;
    let Amount::Seconds(seconds) = spec.amount else { return None };
    if spec.driver == DriverName::Virtual || spec.kind == Kind::Demo {
        return None;
    }
    let rounds = match spec.order {
        Order::InTurn => spec.transports.len() as f64,
        Order::Together => 1.0,
    };
    Some(rounds * f64::from(spec.transfers) * (seconds + around))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small run in virtual time.
    pub(crate) fn spec() -> Spec {
        serde_json::from_value(serde_json::json!({
            "kind": "test", "driver": "virtual", "transports": ["auto", "cubic"],
            "path": { "forward": { "rate": "10M", "delay": "5ms", "loss": "2%" }, "backward": null },
            "amount": { "bytes": 200_000 }, "transfers": 3
        }))
        .unwrap()
    }

    #[test]
    fn what_cannot_be_run_is_told_with_its_field() {
        let refused = |change: &dyn Fn(&mut Spec)| {
            let mut spec = spec();
            change(&mut spec);
            checked(spec).unwrap_err().field.unwrap()
        };
        assert_eq!(refused(&|s| s.transports.clear()), "transports");
        assert_eq!(refused(&|s| s.transports[1] = "vegas".into()), "transports.1");
        assert_eq!(refused(&|s| s.transports[1] = "auto".into()), "transports.1");
        assert_eq!(refused(&|s| s.transports[0] = "tcp-cubic".into()), "transports.0");
        assert_eq!(refused(&|s| s.amount = Amount::Bytes(0)), "amount.bytes");
        assert_eq!(refused(&|s| s.amount = Amount::Seconds(f64::NAN)), "amount.seconds");
        assert_eq!(refused(&|s| s.time_max_s = -1.0), "time_max_s");
        assert_eq!(refused(&|s| s.transfers = 0), "transfers");
        assert_eq!(refused(&|s| s.kind = Kind::Demo), "driver");
        assert_eq!(
            refused(&|s| _ = s.path.forward.insert("loss".into(), "0.05".into())),
            "path.forward.loss"
        );
    }

    #[test]
    fn defaults_are_filled_in() {
        let spec = checked(spec()).unwrap();
        assert_eq!(spec.title, "auto, cubic: 10M, 5ms one way, loss 2%");
        assert_eq!((spec.seed, spec.order, spec.time_max_s), (1, Order::InTurn, 60.0));
        let demo = Spec { kind: Kind::Demo, driver: DriverName::Relay, amount: Amount::Bytes(0), ..spec };
        let demo = checked(demo).unwrap();
        assert_eq!((demo.transfers, demo.order, demo.image.as_str()), (1, Order::Together, "drawn"));
    }
}
