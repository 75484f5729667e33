//! What can be chosen on the page.

use fulmar_proto::profile::families;
use serde::Serialize;

use super::types::{Amount, Driver, DriverName, Kind, Link, Order, Path, Spec};
use super::{path, spec};
use crate::link::LinkSpec;
use crate::peer::Peer;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Catalogue {
    transports: Vec<TransportChoice>,
    path_presets: Vec<PathPreset>,
    run_presets: Vec<RunPreset>,
    link_keys: Vec<LinkKey>,
    traces: Vec<Trace>,
}

#[derive(Clone, Debug, Serialize)]
struct TransportChoice {
    name: String,
    title: String,
    kind: &'static str,
    drivers: Vec<DriverName>,
    missing: String,
}

#[derive(Clone, Debug, Serialize)]
struct PathPreset {
    id: String,
    title: String,
    source: &'static str,
    path: Path,
}

#[derive(Clone, Debug, Serialize)]
struct RunPreset {
    id: &'static str,
    title: &'static str,
    source: &'static str,
    spec: Spec,
    published: Vec<PublishedValue>,
}

#[derive(Clone, Debug, Serialize)]
struct PublishedValue {
    transport: &'static str,
    value: f64,
    unit: &'static str,
    #[serde(rename = "where")]
    place: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct LinkKey {
    key: &'static str,
    title: &'static str,
    default: &'static str,
    example: &'static str,
    live: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Trace {
    name: String,
    title: String,
    rate: String,
    loss: String,
}

/// Everything, for the drivers that there are.
pub(crate) fn catalogue(drivers: &[Driver]) -> Catalogue {
    let has_kernel = drivers.iter().any(|driver| driver.kernel_tcp && driver.available);
    let transports = transports();
    let link_keys = path::KEYS.iter();
    Catalogue {
        transports,
        path_presets: path_presets(),
        run_presets: run_presets(has_kernel),
        link_keys: link_keys
            .map(|&(key, title, default, example, live)| LinkKey { key, title, default, example, live })
            .collect(),
        traces: traces(),
    }
}

fn transports() -> Vec<TransportChoice> {
    let all = vec![DriverName::Real, DriverName::Relay, DriverName::Virtual];
    // Those that are compared most come first.
    let first = ["auto", "lt-tcp"].map(str::to_owned);
    let controls = spec::kernel_controls();
    let kernel = controls.iter().map(|name| TransportChoice {
        name: format!("tcp-{name}"),
        title: format!("The kernel's TCP with {name}"),
        kind: "kernel",
        drivers: vec![DriverName::Real],
        missing: String::new(),
    });
    let profile = |name: &str| TransportChoice {
        name: name.to_owned(),
        title: families().find(|family| family.name == name).map_or("", |family| family.summary).into(),
        kind: "profile",
        drivers: all.clone(),
        missing: String::new(),
    };
    let mut choices: Vec<_> = first.iter().map(|name| profile(name)).collect();
    choices.extend(kernel);
    choices.extend(
        families().map(|family| family.name).filter(|name| !first.iter().any(|f| f == name)).map(profile),
    );
    for peer in Peer::all(&spec::peers_folder()).unwrap_or_default() {
        let missing = peer.check_installed().err().unwrap_or_default();
        let choice = peer.choices.first().map(|choice| format!(":{choice}")).unwrap_or_default();
        choices.push(TransportChoice {
            name: format!("peer-{}{choice}", peer.name),
            title: peer.title.clone(),
            kind: "peer",
            drivers: vec![DriverName::Real],
            missing,
        });
    }
    choices
}

/// Paths that change over time, where the laboratory knows them by name.
fn traces() -> Vec<Trace> {
    let known = [
        ("lte-walk", "A walk through a city on LTE"),
        ("wifi-edge", "At the edge of a Wi-Fi cell"),
        ("starlink", "Satellites that take turns"),
    ];
    let is_there = |words: &str| {
        let mut link = LinkSpec::default();
        link.set("rate", words).is_ok() && link.set("loss", words).is_ok()
    };
    let traces = known.map(|(name, title)| {
        let words = format!("trace:{name}");
        is_there(&words).then(|| Trace {
            name: name.into(),
            title: title.into(),
            rate: words.clone(),
            loss: words,
        })
    });
    traces.into_iter().flatten().collect()
}

fn link(words: &[(&str, &str)]) -> Link {
    words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn same(words: &[(&str, &str)]) -> Path {
    Path { forward: link(words), backward: None }
}

/// The path of the thesis: 1 Gb/s; its round trip is that of a LAN, or 250 ms.
fn thesis(delay: &str, loss: &str, burst: &str) -> Path {
    same(&[
        ("rate", "1G"),
        ("delay", delay),
        ("queue", "1000p"),
        ("loss", loss),
        ("burst", burst),
        ("mark_threshold", "200p"),
    ])
}

fn path_presets() -> Vec<PathPreset> {
    let preset = |id: &str, title: &str, path: Path| PathPreset {
        id: id.into(),
        title: title.into(),
        source: "",
        path,
    };
    let mut presets = vec![
        preset("clean", "100 Mb/s, 20 ms, no faults", same(&[("rate", "100M"), ("delay", "10ms")])),
        preset(
            "lossy",
            "100 Mb/s, 20 ms, 1 % loss",
            same(&[("rate", "100M"), ("delay", "10ms"), ("loss", "1%")]),
        ),
        preset(
            "wifi",
            "Wi-Fi at its edge: 30 Mb/s, 10 ms, 5 % in bursts of 3",
            same(&[("rate", "30M"), ("delay", "5ms"), ("loss", "5%"), ("burst", "3"), ("jitter", "3ms")]),
        ),
        preset(
            "satellite",
            "Satellite: 50 Mb/s down, 5 up, 550 ms, 1 % down",
            Path {
                forward: link(&[("rate", "50M"), ("delay", "275ms"), ("loss", "1%")]),
                backward: Some(link(&[("rate", "5M"), ("delay", "275ms")])),
            },
        ),
    ];
    for (delay, rtt) in [("500us", "1 ms"), ("125ms", "250 ms")] {
        for loss in ["0%", "5%", "10%", "20%"] {
            let bursts: &[&str] = if loss == "0%" { &["none"] } else { &["none", "2", "5", "10"] };
            for burst in bursts {
                let words = if *burst == "none" { String::new() } else { format!(", E={burst}") };
                presets.push(PathPreset {
                    id: format!("thesis-{}-{}-{burst}", rtt.replace(' ', ""), loss.trim_end_matches('%')),
                    title: format!("LT-TCP's thesis: RTT {rtt}, p={loss}{words}"),
                    source: if rtt == "1 ms" { "Tables 2.1 to 2.3" } else { "Tables 2.4 to 2.6" },
                    path: thesis(delay, loss, burst),
                });
            }
        }
    }
    for mark in ["5%", "10%", "20%"] {
        let mut path = thesis("500us", "0%", "none");
        path.forward.insert("mark".into(), mark.into());
        presets.push(PathPreset {
            id: format!("thesis-marks-{}", mark.trim_end_matches('%')),
            title: format!("LT-TCP's thesis: marks m={mark}"),
            source: "Table 2.7",
            path,
        });
    }
    presets
}

/// What is common to all that can be begun with one click.
fn base(kind: Kind, has_kernel: bool) -> Spec {
    Spec {
        kind,
        title: String::new(),
        preset: String::new(),
        driver: if has_kernel { DriverName::Real } else { DriverName::Relay },
        transports: Vec::new(),
        path: Path::default(),
        amount: Amount::Bytes(0),
        time_max_s: 120.0,
        transfers: 1,
        order: Order::Together,
        seed: 1,
        ecn: false,
        drops_outliers: false,
        loss_free_handshake: true,
        image: if kind == Kind::Demo { super::image::DRAWN.into() } else { String::new() },
    }
}

/// The kernel's TCP, or the nearest profile where that cannot run.
fn tcp(congestion: &str, has_kernel: bool) -> String {
    if has_kernel { format!("tcp-{congestion}") } else { congestion.into() }
}

fn run_presets(has_kernel: bool) -> Vec<RunPreset> {
    let wireless = same(&[("rate", "10M"), ("delay", "40ms"), ("loss", "5%"), ("burst", "2")]);
    // Where BBR falls as well: it takes a fifth of loss for congestion.
    let bad = same(&[("rate", "10M"), ("delay", "40ms"), ("loss", "20%")]);
    let demo =
        |id: &'static str, title: &'static str, source, path: &Path, transports: &[String]| RunPreset {
            id,
            title,
            source,
            spec: Spec {
                title: title.into(),
                preset: id.into(),
                transports: transports.to_vec(),
                path: path.clone(),
                ..base(Kind::Demo, has_kernel)
            },
            published: Vec::new(),
        };
    let (cubic, bbr) = (tcp("cubic", has_kernel), tcp("bbr", has_kernel));
    vec![
        demo("auto-and-tcp", "auto beside CUBIC and BBR", "", &bad, &["auto".into(), cubic.clone(), bbr]),
        demo(
            "lt-tcp-and-tcp",
            "LT-TCP beside TCP",
            "LT-TCP thesis, figure 2.3",
            &wireless,
            &["lt-tcp".into(), cubic],
        ),
        thesis_series(has_kernel),
    ]
}

/// A cell of the thesis' tables.
fn thesis_series(has_kernel: bool) -> RunPreset {
    let lt_tcp = "lt-tcp:rto_min=0.2,rto_max=5";
    let published = |transport, value, place| PublishedValue { transport, value, unit: "KiB/s", place };
    RunPreset {
        id: "thesis-5-5",
        title: "20 transfers of LT-TCP and TCP at 5 % in bursts of 5",
        source: "LT-TCP thesis, Tables 2.1 and 2.2",
        spec: Spec {
            preset: "thesis-5-5".into(),
            title: "LT-TCP and TCP at 5 % in bursts of 5, as in the thesis".into(),
            transports: vec![lt_tcp.into(), tcp("cubic", has_kernel)],
            path: thesis("500us", "5%", "5"),
            amount: Amount::Seconds(5.0),
            transfers: 20,
            order: Order::InTurn,
            drops_outliers: true,
            ..base(Kind::Test, has_kernel)
        },
        published: vec![published(lt_tcp, 9309.0, "Table 2.1"), published("tcp-cubic", 59.0, "Table 2.2")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_offered_can_be_run() {
        for preset in path_presets() {
            path::links(&preset.path).unwrap_or_else(|error| panic!("{}: {error}", preset.id));
        }
        for preset in run_presets(false) {
            assert_eq!(preset.spec.preset, preset.id);
            spec::checked(preset.spec).unwrap_or_else(|error| panic!("{}: {error}", preset.id));
        }
        let catalogue = catalogue(&[]);
        assert!(catalogue.transports.iter().all(|t| t.kind != "profile" || !t.title.is_empty()));
        assert_eq!(catalogue.transports[0].name, "auto");
    }
}
