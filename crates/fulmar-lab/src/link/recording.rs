//! Recorded paths: a table with a time and any of rate, delay and loss, or a list of delays.
//!
//! ```csv
//! time_s,rate_mbps,delay_ms,loss_percent
//! 0,17.4,31,0
//! 0.5,13.6,44,2.5
//! ```
//!
//! Columns stand in any order, others are left out, `#` begins a comment. A row is valid until the next one;
//! the last is as long as the one before it, and then all begins again.

use std::time::Duration;

use fulmar_net::{Probability, RateTrace, Steps};
use fulmar_proto::Rate;

/// The longest round-trip time, jitter and recorded delay: beyond the moon, and far below where times
/// overflow.
pub const DELAY_MAX: Duration = Duration::from_secs(3600);
/// The column that every table has.
const TIME: &str = "time_s";
/// A rate beyond this is a mistake in the unit.
const MBPS_MAX: f64 = 1e6;
/// How long each line of a list of delays lasts, as LeoCC records them.
const LINE: Duration = Duration::from_millis(10);

/// Whether a file is such a table: its first line names a time.
pub(super) fn is_one(text: &str) -> bool {
    let head = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    head.is_some_and(|head| head.split(',').any(|name| name.trim() == TIME))
}

/// The column of rates.
pub(super) fn rate(text: &str) -> Result<RateTrace, String> {
    column(text, "rate_mbps", |mbps| {
        (0.0..=MBPS_MAX).contains(&mbps).then(|| Rate::from_bits_per_second((mbps * 1e6) as u64))
    })
}

/// The column of delays, one way.
pub(super) fn delay(text: &str) -> Result<Steps<Duration>, String> {
    column(text, "delay_ms", millis)
}

/// The column of losses.
pub(super) fn loss(text: &str) -> Result<Steps<Probability>, String> {
    column(text, "loss_percent", |percent| Probability::from_f64(percent / 100.0).ok())
}

/// A delay in ms on each line, one for each 10 ms, as LeoCC records them.
pub(super) fn delay_lines(text: &str) -> Result<Steps<Duration>, String> {
    let value =
        |line: &str| line.parse().ok().and_then(millis).ok_or_else(|| format!("'{line}' is no delay in ms"));
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let values = lines.map(value).collect::<Result<Vec<_>, _>>()?;
    let period = LINE * u32::try_from(values.len()).map_err(|_| "too many lines")?;
    let steps = (0..).map(|index| LINE * index).zip(values).collect();
    Steps::new(steps, Some(period)).map_err(|error| error.to_string())
}

fn millis(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1e3).ok().filter(|&delay| delay <= DELAY_MAX)
}

fn column<T: Copy>(text: &str, name: &str, value: impl Fn(f64) -> Option<T>) -> Result<Steps<T>, String> {
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let head = reader.headers().map_err(|error| error.to_string())?.clone();
    let place = |wanted: &str| {
        let found = head.iter().position(|name| name == wanted);
        found.ok_or_else(|| {
            format!("there is no column {wanted}, only {}", head.iter().collect::<Vec<_>>().join(", "))
        })
    };
    let (time, own) = (place(TIME)?, place(name)?);
    let mut rows: Vec<(Duration, T)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = |at: usize| {
            let text = record.get(at).unwrap_or_default();
            text.parse::<f64>().map_err(|_| format!("line {line}: '{text}' is no number"))
        };
        let start =
            Duration::try_from_secs_f64(number(time)?).map_err(|_| format!("line {line}: not a time"))?;
        let value = value(number(own)?).ok_or_else(|| format!("line {line}: {name} is out of range"))?;
        rows.push((start, value));
    }
    let first = rows.first().map(|row| row.0).unwrap_or_default();
    rows.iter_mut().for_each(|row| row.0 = row.0.saturating_sub(first));
    let length = match rows[..] {
        [.., before, last] => last.0.saturating_sub(before.0),
        _ => Duration::from_secs(1),
    };
    let period = rows.last().map(|last| last.0 + length);
    Steps::new(rows, period).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_proto::Instant;

    const TABLE: &str =
        "# by hand\n delay_ms, time_s ,rate_mbps,loss_percent,place\n30,5,10,0,here\n45,5.5,0.2,2.5,there\n";

    #[test]
    fn each_column_is_read_from_its_own_start() {
        assert!(is_one(TABLE) && !is_one("22\n22\n") && !is_one("0s 20M\n") && !is_one(""));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let (rate, delay, loss) = (rate(TABLE).unwrap(), delay(TABLE).unwrap(), loss(TABLE).unwrap());
        for (time, kbps, ms, ppm) in
            [(0, 10_000, 30, 0), (499, 10_000, 30, 0), (500, 200, 45, 25_000), (1000, 10_000, 30, 0)]
        {
            assert_eq!(rate.at(at(time)).bits_per_second(), kbps * 1000, "{time}");
            assert_eq!(delay.at(at(time)), Duration::from_millis(ms), "{time}");
            assert_eq!(loss.at(at(time)), Probability::from_ppm(ppm), "{time}");
        }
    }

    #[test]
    fn a_table_that_says_nothing_is_refused_in_words() {
        for (table, wanted) in [
            ("time_s\n0\n", "no column rate_mbps"),
            ("time_s,rate_mbps\n", "at least one step"),
            ("time_s,rate_mbps\n0,fast\n", "line 2: 'fast' is no number"),
            ("time_s,rate_mbps\n0,1\n0,2\n", "does not start after"),
            ("time_s,rate_mbps\n1,1\n0,2\n", "does not start after"),
            ("time_s,rate_mbps\n0,-1\n", "out of range"),
            ("time_s,rate_mbps\n0,NaN\n", "out of range"),
            ("time_s,rate_mbps\n-1,1\n", "not a time"),
            ("time_s,rate_mbps\n0\n", "line: 2"),
        ] {
            let error = rate(table).unwrap_err();
            assert!(error.contains(wanted), "{table:?}: {error}");
        }
        assert!(loss("time_s,loss_percent\n0,101\n").is_err());
        assert!(delay("time_s,delay_ms\n0,1e18\n").is_err());
        assert!(delay_lines("12\nfar\n").is_err() && delay_lines("").is_err());
    }
}
