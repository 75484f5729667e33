//! Sizes, rates and times as people write and read them.
//!
//! Sizes follow `iperf3 -n` and `ls -h`: K, M, G are powers of 1024. Rates follow networks: K, M, G are
//! powers of 1000 bits per second.

use std::time::Duration;

/// Parses a size such as `1200`, `64K`, `1.5M` or `2GiB` into bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        other => return Err(format!("`{other}` is no unit of size: use K, M, G or T")),
    };
    scaled(number, factor as f64, u64::MAX as f64 / 2.0).map(|bytes| bytes as u64)
}

/// Parses a rate such as `50M`, `50mbit`, `1.5G` or `50` (megabits) into bits per second.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor = match unit.to_ascii_lowercase().trim_end_matches("/s").trim_end_matches("ps") {
        "bit" | "b" => 1.0,
        "k" | "kb" | "kbit" => 1e3,
        "" | "m" | "mb" | "mbit" => 1e6,
        "g" | "gb" | "gbit" => 1e9,
        other => return Err(format!("`{other}` is no unit of rate: use K, M or G (bits per second)")),
    };
    match scaled(number, factor, 1e12)? {
        bits if bits < 1.0 => Err("a rate is at least one bit per second".into()),
        bits => Ok(bits as u64),
    }
}

/// Parses a time such as `60` or `60ms` (milliseconds), `1.5s`, `250us`.
pub fn parse_millis(text: &str) -> Result<Duration, String> {
    parse_duration(text, 1e-3)
}

/// Parses a time such as `10` or `10s` (seconds), `500ms`.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    parse_duration(text, 1.0)
}

fn parse_duration(text: &str, bare_seconds: f64) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => bare_seconds,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        other => return Err(format!("`{other}` is no unit of time: use us, ms, s or min")),
    };
    scaled(number, factor, 1e7).map(Duration::from_secs_f64)
}

/// Parses the time after which a packet is worth nothing: milliseconds, up to a minute.
pub fn parse_deadline(text: &str) -> Result<Duration, String> {
    let ms = text.strip_suffix("ms").unwrap_or(text).parse().ok().filter(|ms| (1..=60_000).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(|| format!("`{text}` is no number of milliseconds up to 60000"))
}

/// Parses a share such as `10`, `10%` or `0.5%` into parts per million.
pub fn parse_percent_ppm(text: &str) -> Result<u32, String> {
    let percent = scaled(text.trim().trim_end_matches('%').trim_end(), 1.0, 100.0)?;
    Ok((percent * 1e4).round() as u32)
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn scaled(number: &str, factor: f64, max: f64) -> Result<f64, String> {
    let value: f64 = number.parse().map_err(|_| format!("`{number}` is no number"))?;
    let value = value * factor;
    if (0.0..=max).contains(&value) { Ok(value) } else { Err(format!("`{number}` is out of range")) }
}

/// Bytes for people: `999 B`, `1.0 KiB`, `100.0 MiB`.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

/// Megabits per second of so many bytes in so long; 0 when no time has passed.
pub fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / time.as_secs_f64() }
}

/// A rate in Mb/s for people, with as many digits as make sense.
pub fn rate(mbps: f64) -> String {
    match mbps {
        m if m >= 1000.0 => format!("{:.2} Gb/s", m / 1000.0),
        m if m >= 100.0 => format!("{m:.0} Mb/s"),
        m if m >= 1.0 => format!("{m:.1} Mb/s"),
        m => format!("{:.0} kb/s", m * 1000.0),
    }
}

/// A time for people: `850 ms`, `19.2 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        0 => format!("{:.0} ms", seconds * 1e3),
        1..=119 => format!("{seconds:.1} s"),
        s @ 120..=7199 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// Text that somebody else has made (a name, the other side's words), fit for a terminal: control characters
/// (an escape sequence, say) become `?`, and so does what breaks lines or turns the direction of writing (UAX
/// 9, UAX 14).
pub fn printable(text: &str) -> String {
    let is_unfit = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
    };
    text.chars().map(|c| if is_unfit(c) { '?' } else { c }).collect()
}

/// As [`printable`], for a text of several lines.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1200"), Ok(1200));
        assert_eq!(parse_size("64K"), Ok(65536));
        assert_eq!(parse_size("1.5 MiB"), Ok(3 << 19));
        assert!(parse_size("ten").is_err());
        assert!(parse_size("-5").is_err());
        assert!(parse_size("5 parsecs").is_err());
        assert!(parse_size("99999999999999999999G").is_err());
    }

    #[test]
    fn rates_and_times() {
        assert_eq!(parse_rate("50"), Ok(50_000_000));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(1_500_000_000));
        assert_eq!(parse_rate("64kbps"), Ok(64_000));
        assert!(parse_rate("0").is_err());
        assert_eq!(parse_millis("60"), Ok(Duration::from_millis(60)));
        assert_eq!(parse_seconds("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_seconds("250us"), Ok(Duration::from_micros(250)));
        assert!(parse_seconds("NaN").is_err());
    }

    #[test]
    fn shares() {
        assert_eq!(parse_percent_ppm("10"), Ok(100_000));
        assert_eq!(parse_percent_ppm("0.5 %"), Ok(5_000));
        assert!(parse_percent_ppm("101").is_err());
    }

    #[test]
    fn for_people() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(100 << 20), "100.0 MiB");
        assert_eq!(rate(0.25), "250 kb/s");
        assert_eq!(rate(43.21), "43.2 Mb/s");
        assert_eq!(duration(Duration::from_millis(850)), "850 ms");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}c\u{202e}d\ne"), "a?[2Jb?c?d?e");
        assert_eq!(printable_lines("a\u{7}\nb"), "a?\nb");
    }
}
