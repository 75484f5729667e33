//! A path as the page says it, and as the model takes it.

use std::time::Duration;

use fulmar_net::{LinkConfig, parse};

use super::types::{Link, Path, PathChange, Refusal};
use crate::link::LinkSpec;

/// What a link can be told: name, title, default, example, and whether it can be moved while a run is under
/// way.
pub(crate) const KEYS: &[(&str, &str, &str, &str, bool)] = &[
    ("rate", "Rate", "100M", "1G", true),
    ("delay", "Delay, one way", "10ms", "125ms", true),
    ("queue", "Queue", "1bdp", "1000p", false),
    ("loss", "Loss", "0%", "5%", true),
    ("burst", "Mean burst, packets", "none", "5", true),
    ("mark", "Congestion marks", "0%", "2%", true),
    ("mark_threshold", "Marks from a queue of", "none", "30p", true),
    ("jitter", "Jitter", "0", "5ms", true),
    ("reorder", "Jitter changes the order", "false", "true", true),
    ("duplicate", "Copies", "0%", "1%", true),
    ("corrupt", "Damage", "0%", "0.1%", true),
    ("blackout", "Black-outs", "", "10s-12s", false),
];

/// A setting, or its default.
pub(crate) fn word<'a>(link: &'a Link, key: &str) -> &'a str {
    let set = link.get(key).map(|value| value.trim()).filter(|value| !value.is_empty());
    set.unwrap_or_else(|| {
        KEYS.iter().find(|(name, ..)| *name == key).map_or("", |(_, _, default, ..)| default)
    })
}

/// The one-way delay of a link.
fn delay(link: &Link, place: &str) -> Result<Duration, Refusal> {
    parse::duration(word(link, "delay"))
        .map_err(|e| Refusal::impossible(format!("{place}.delay"), e.to_string()))
}

/// Both directions for the model.
pub(crate) fn links(path: &Path) -> Result<(LinkConfig, LinkConfig), Refusal> {
    let backward = path.backward.as_ref();
    let there = delay(&path.forward, "path.forward")?;
    let back = backward.map_or(Ok(there), |link| delay(link, "path.backward"))?;
    let forward = config(&path.forward, "path.forward", there, there + back)?;
    let backward = match backward {
        Some(link) => config(link, "path.backward", back, there + back)?,
        None => forward.clone(),
    };
    Ok((forward, backward))
}

fn config(link: &Link, place: &str, delay: Duration, rtt: Duration) -> Result<LinkConfig, Refusal> {
    if let Some(unknown) = link.keys().find(|key| KEYS.iter().all(|(name, ..)| name != key)) {
        let names: Vec<&str> = KEYS.iter().map(|(name, ..)| *name).collect();
        let message = format!("a link has no '{unknown}'; it has {}", names.join(", "));
        return Err(Refusal::impossible(format!("{place}.{unknown}"), message));
    }
    let mut spec = LinkSpec { rtt, ..LinkSpec::default() };
    for (key, ..) in KEYS.iter().filter(|(key, ..)| *key != "delay") {
        let Some((key, value)) = as_flag(key, word(link, key)) else { continue };
        spec.set(key, &value)
            .map_err(|reason| Refusal::impossible(format!("{place}.{}", shown(key)), reason))?;
    }
    let mut config =
        spec.forward().map_err(|reason| Refusal::impossible(format!("{place}.burst"), reason))?;
    config.delay = delay;
    Ok(config)
}

/// The page's name of a key.
fn shown(key: &str) -> &str {
    if key == "queue_bdp" { "queue" } else { key }
}

/// A setting as [`LinkSpec::set`] and experiment files have it; `None` if it says nothing.
pub(crate) fn as_flag(key: &str, value: &str) -> Option<(&'static str, String)> {
    let (name, _, default, ..) = KEYS.iter().find(|(name, ..)| *name == key)?;
    if value == *default && !matches!(*name, "rate" | "queue") {
        return None;
    }
    match (*name, value.strip_suffix("bdp").filter(|number| number.parse::<f64>().is_ok())) {
        ("queue", Some(number)) => Some(("queue_bdp", number.to_owned())),
        ("mark_threshold", _) if value == "none" => None,
        ("loss" | "duplicate" | "corrupt" | "mark", _) if value == "none" => None,
        _ => Some((name, value.to_owned())),
    }
}

/// The path with a change applied, if only what can be moved is.
pub(crate) fn changed(path: &Path, change: &PathChange) -> Result<Path, Refusal> {
    let mut path = path.clone();
    let live = |link: &Link, place: &str| {
        let fixed = link.keys().find(|key| !KEYS.iter().any(|(name, .., live)| name == key && *live));
        fixed.map_or(Ok(()), |key| {
            Err(Refusal::impossible(
                format!("{place}.{key}"),
                format!("'{key}' cannot be moved while a run is under way"),
            ))
        })
    };
    live(&change.forward, "forward")?;
    path.forward.extend(change.forward.clone());
    if let Some(backward) = &change.backward {
        live(backward, "backward")?;
        path.backward.get_or_insert_with(|| path.forward.clone()).extend(backward.clone());
    }
    links(&path)?;
    Ok(path)
}

/// A path in a few words, for titles.
pub(crate) fn summary(path: &Path) -> String {
    let link = &path.forward;
    let mut words = vec![word(link, "rate").to_owned(), format!("{} one way", word(link, "delay"))];
    let loss = word(link, "loss");
    if !matches!(loss, "0%" | "0" | "none") {
        words.push(match word(link, "burst") {
            "none" => format!("loss {loss}"),
            burst => format!("loss {loss}, E={burst}"),
        });
    }
    if !matches!(word(link, "mark"), "0%" | "0") {
        words.push(format!("marks {}", word(link, "mark")));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(words: &[(&str, &str)]) -> Link {
        words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_direction_has_its_own_conditions_or_both_the_same() {
        let forward =
            link(&[("loss", "5%"), ("burst", "5"), ("delay", "30ms"), ("mark", "2%"), ("queue", "2bdp")]);
        let same = links(&Path { forward: forward.clone(), backward: None }).unwrap();
        assert_eq!(same.0, same.1);
        assert!(same.0.loss != fulmar_net::Loss::None && same.0.mark != fulmar_net::Probability::ZERO);
        let apart = Path { forward, backward: Some(link(&[("rate", "1M"), ("delay", "5ms")])) };
        let (there, back) = links(&apart).unwrap();
        assert_eq!((there.delay, back.delay), (Duration::from_millis(30), Duration::from_millis(5)));
        assert_eq!(back.loss, fulmar_net::Loss::None);
    }

    #[test]
    fn mistakes_name_their_field() {
        for (key, value, field) in [
            ("loss", "0.05", "path.forward.loss"),
            ("rate", "fast", "path.forward.rate"),
            ("delay", "far", "path.forward.delay"),
            ("queue", "x", "path.forward.queue"),
            ("colour", "red", "path.forward.colour"),
        ] {
            let path = Path { forward: link(&[(key, value)]), backward: None };
            assert_eq!(links(&path).unwrap_err().field.as_deref(), Some(field));
        }
        let path = Path { forward: link(&[("loss", "95%"), ("burst", "2")]), backward: None };
        assert_eq!(links(&path).unwrap_err().field.as_deref(), Some("path.forward.burst"));
    }

    #[test]
    fn only_what_is_live_is_moved() {
        let path = Path::default();
        let change = PathChange { forward: link(&[("loss", "10%")]), backward: None };
        assert_eq!(changed(&path, &change).unwrap().forward["loss"], "10%");
        let change = PathChange { forward: link(&[("queue", "10p")]), backward: None };
        assert_eq!(changed(&path, &change).unwrap_err().field.as_deref(), Some("forward.queue"));
        let change = PathChange { forward: link(&[]), backward: Some(link(&[("delay", "1ms")])) };
        assert_eq!(changed(&path, &change).unwrap().backward.unwrap()["delay"], "1ms");
    }
}
