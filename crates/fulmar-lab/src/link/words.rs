//! Values of a link in words, where the laboratory knows more than the model: traces by name or in files,
//! bursts apart.

use std::time::Duration;

use fulmar_net::{Jitter, LinkRate, Loss, QueueConfig, QueueLimit, Steps, TwoState, parse};

use super::{recording, traces};

/// Over how long opportunities of a mahimahi trace are averaged to a rate.
const TRACE_STEP: Duration = Duration::from_millis(20);
/// What a trace's name begins with.
const TRACE: &str = "trace:";

/// A rate, rates in steps, or a trace.
pub(super) fn rate(text: &str) -> Result<LinkRate, String> {
    let Some(name) = text.strip_prefix(TRACE) else {
        return parse::link_rate(text).map_err(|error| error.to_string());
    };
    if let Some(trace) = traces::find(name) {
        return trace.rate().map(LinkRate::Trace);
    }
    let contents = read(name)?;
    if recording::is_one(&contents) {
        return recording::rate(&contents).map(LinkRate::Trace).map_err(|error| format!("{name}: {error}"));
    }
    // One number a line is mahimahi's format, a time and a rate are ours.
    let is_mahimahi = contents.lines().all(|line| line.trim().chars().all(|c| c.is_ascii_digit()));
    let trace = if is_mahimahi {
        parse::trace::mahimahi_trace(&contents, TRACE_STEP)
    } else {
        parse::trace::rate_trace(&contents)
    };
    trace.map(LinkRate::Trace).map_err(|error| format!("{name}: {error}"))
}

/// A loss model, or a trace of losses.
pub(super) fn loss(text: &str) -> Result<Loss, String> {
    let Some(name) = text.strip_prefix(TRACE) else {
        return parse::model::loss(text).map_err(|error| error.to_string());
    };
    if let Some(trace) = traces::find(name) {
        return Ok(Loss::Trace(trace.loss()));
    }
    let contents = read(name)?;
    let loss = if recording::is_one(&contents) {
        recording::loss(&contents).map(Loss::Varying)
    } else {
        parse::trace::mahimahi_loss(&contents).map(Loss::Trace).map_err(|error| error.to_string())
    };
    loss.map_err(|error| format!("{name}: {error}"))
}

/// A trace of delays; `None` for `none`.
pub(super) fn delay(text: &str) -> Result<Option<Steps<Duration>>, String> {
    if text == "none" {
        return Ok(None);
    }
    let name = text.strip_prefix(TRACE).ok_or_else(|| format!("'{text}' is neither trace:FILE nor none"))?;
    let contents = read(name)?;
    let delay = if recording::is_one(&contents) {
        recording::delay(&contents)
    } else {
        recording::delay_lines(&contents)
    };
    delay.map(Some).map_err(|error| format!("{name}: {error}"))
}

/// Bytes of a trace's file: some hours at 100 Mb/s in mahimahi's format.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A trace's file. The name may be anybody's: a device or a pipe would never end.
fn read(path: &str) -> Result<String, String> {
    let words = |error: &dyn std::fmt::Display| {
        format!("no trace '{path}': there are {}, and files ({error})", traces::names())
    };
    let meta = std::fs::metadata(path).map_err(|error| words(&error))?;
    if !meta.is_file() {
        return Err(words(&"this is none"));
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err(words(&format_args!("this has more than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(path).map_err(|error| words(&error))
}

/// The loss model with a burst length, if one is given.
pub(super) fn with_bursts(loss: &Loss, burst: Option<u32>) -> Result<Loss, String> {
    match (loss, burst) {
        (loss, None) => Ok(loss.clone()),
        (Loss::None, Some(_)) => Ok(Loss::None),
        (Loss::Bernoulli(p), Some(burst_milli)) => TwoState::new(*p, burst_milli)
            .map(Loss::TwoState)
            .map_err(|error| format!("loss {p} in bursts of {}: {error}", f64::from(burst_milli) / 1e3)),
        _ => Err("a burst length goes with a plain loss rate only".into()),
    }
}

/// The queue with its size in bandwidth-delay products, if it is, of this round-trip time.
pub(super) fn of_rtt(queue: QueueConfig, rtt: Duration) -> QueueConfig {
    match queue {
        QueueConfig::DropTail(QueueLimit::Bdp { milli, rtt: None }) => {
            QueueConfig::DropTail(QueueLimit::Bdp { milli, rtt: Some(rtt) })
        }
        other => other,
    }
}

/// Jitter up to this.
pub(super) fn jitter(longest: Duration) -> Jitter {
    if longest.is_zero() { Jitter::None } else { Jitter::Uniform(longest) }
}

/// Puts a value into its place, or says why it is none.
pub(super) fn to<T, E: ToString>(slot: &mut T, value: Result<T, E>) -> Result<(), String> {
    *slot = value.map_err(|error| error.to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_by_name_and_from_files() {
        assert!(matches!(rate("trace:lte-walk"), Ok(LinkRate::Trace(_))));
        assert!(matches!(loss("trace:starlink"), Ok(Loss::Trace(_))));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rate");
        let word = format!("trace:{}", path.display());
        for contents in ["1\n2\n3\n20\n", "0s 5M\n3s 1M\n"] {
            std::fs::write(&path, contents).unwrap();
            assert!(matches!(rate(&word), Ok(LinkRate::Trace(_))), "{contents}");
        }
        std::fs::write(&path, "fast\n").unwrap();
        assert!(rate(&word).unwrap_err().contains("a.rate"));
        assert!(loss("trace:nowhere").unwrap_err().contains("lte-walk"));
        std::fs::write(&path, "12\n14\n").unwrap();
        let steps = delay(&word).unwrap().unwrap();
        assert_eq!(
            steps.at(fulmar_proto::Instant::ZERO + Duration::from_millis(25)),
            Duration::from_millis(12)
        );
        assert!(delay("trace:lte-walk").is_err() && delay("5ms").is_err());
        // Read to their end they would take all memory.
        assert!(rate("trace:/dev/zero").unwrap_err().contains("this is none"));
        assert!(loss("trace:/dev/zero").unwrap_err().contains("this is none"));
    }
}
