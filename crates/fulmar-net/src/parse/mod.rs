//! What people write on a command line or in an experiment file, and the values it stands for.
//!
//! | function | examples |
//! |---|---|
//! | [`rate`] | `100M`, `1.5G`, `64k`, `10` (bits per second, decimal prefixes; a bare number is Mbit/s) |
//! | [`link_rate`] | as above, or `unlimited`, or in steps: `100M,5s:10M,10s:100M` |
//! | [`duration`] | `20ms`, `1.5s`, `250us`, `100ns`, `2min`, `1h`, `20` (a bare number is ms) |
//! | [`probability`] | `5%`, `0.1%`, `5` (a bare number is percent) |
//! | [`bytes`] | `64KiB`, `1.5MB`, `100M`, `1500`, `1500B` (K, M, G are powers of 1000, Ki, Mi, Gi of 1024) |
//! | [`queue_limit`] | `1bdp`, `100p`, `64KiB` |
//! | [`milli`] | `5`, `2.5` (thousandths: 5000, 2500) |
//! | [`model`] | whole queues, losses, stalls, policers |
//! | [`trace`] | rates and losses over time |
//!
//! A number without a unit means what it means to `fulmar demo`, too.
//!
//! The functions have the shape that `clap`'s `value_parser` wants. Numbers are read as decimal fractions,
//! never as floating point, so `0.1` is a tenth.

mod decimal;
pub mod model;
pub mod trace;

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use fulmar_units::Rate;

use crate::{Probability, QueueLimit};
use decimal::Decimal;
pub use trace::link_rate;

/// A text that does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    expected: &'static str,
}

impl ParseError {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.trim().to_owned(), expected }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}", self.text, self.expected)
    }
}

impl core::error::Error for ParseError {}

/// A rate; Mbit/s if no unit is given.
///
/// # Errors
/// If the text is no such rate.
pub fn rate(text: &str) -> Result<Rate, ParseError> {
    let error = || ParseError::new(text, "a rate in bits per second such as 64k, 100M or 1.5G");
    let (number, unit) = Decimal::split(text).ok_or_else(error)?;
    let is_bare = unit.is_empty();
    let unit = ["bit/s", "bits/s", "bps", "b/s", "bit"]
        .iter()
        .find_map(|end| unit.strip_suffix(end))
        .unwrap_or(unit);
    let factor = match unit.trim_end() {
        // `10bit` is ten bits; `10` is what a person means.
        "" => {
            if is_bare {
                1_000_000
            } else {
                1
            }
        }
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return Err(error()),
    };
    number.times(factor).map(Rate::from_bits_per_second).ok_or_else(error)
}

/// A length of time; milliseconds if no unit is given.
///
/// # Errors
/// If the text is none.
pub fn duration(text: &str) -> Result<Duration, ParseError> {
    let error = || ParseError::new(text, "a duration such as 20ms, 1.5s or 250us");
    let (number, unit) = Decimal::split(text).ok_or_else(error)?;
    let nanos_per_unit = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" | "" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(error()),
    };
    number.times(nanos_per_unit).map(Duration::from_nanos).ok_or_else(error)
}

/// A probability in percent, with the sign or without.
///
/// # Errors
/// If the text is none. A bare number between 0 and 1 is none either: a person may mean 0.05 % or 5 %.
pub fn probability(text: &str) -> Result<Probability, ParseError> {
    let error = || ParseError::new(text, "a probability such as 5% or 0.05%");
    let (number, unit) = Decimal::split(text).ok_or_else(error)?;
    let ppb = number.times(10_000_000).filter(|&ppb| match unit {
        "%" => ppb <= 1_000_000_000,
        "" => ppb == 0 || (10_000_000..=1_000_000_000).contains(&ppb),
        _ => false,
    });
    ppb.map(Probability::from_ppb).ok_or_else(error)
}

/// A number of bytes.
///
/// # Errors
/// If the text is none.
pub fn bytes(text: &str) -> Result<u64, ParseError> {
    let error = || ParseError::new(text, "a number of bytes such as 1500, 64KiB or 1.5MB");
    let (number, unit) = Decimal::split(text).ok_or_else(error)?;
    let factor = match unit.strip_suffix('B').unwrap_or(unit) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(error()),
    };
    number.times(factor).ok_or_else(error)
}

/// What a queue may hold: bandwidth-delay products of its link, packets, or bytes.
///
/// # Errors
/// If the text is none of these.
pub fn queue_limit(text: &str) -> Result<QueueLimit, ParseError> {
    let error = || ParseError::new(text, "a queue size such as 1bdp, 100p or 64KiB");
    let (number, unit) = Decimal::split(text).ok_or_else(error)?;
    match unit {
        "bdp" | "BDP" => {
            let milli = number.times(1000).and_then(|milli| u32::try_from(milli).ok()).ok_or_else(error)?;
            Ok(QueueLimit::Bdp { milli, rtt: None })
        }
        "p" | "packets" => number.times(1).map(QueueLimit::Packets).ok_or_else(error),
        _ => bytes(text).map(QueueLimit::Bytes).map_err(|_| error()),
    }
}

/// A number in thousandths: burst lengths, factors.
///
/// # Errors
/// If the text is no number, or too large.
pub fn milli(text: &str) -> Result<u32, ParseError> {
    let error = || ParseError::new(text, "a number such as 5 or 2.5");
    match Decimal::split(text) {
        Some((number, "")) => {
            number.times(1000).and_then(|milli| u32::try_from(milli).ok()).ok_or_else(error)
        }
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkRate;
    use alloc::string::ToString;

    #[test]
    fn rates() {
        let bits = |text| rate(text).map(Rate::bits_per_second);
        for (text, expected) in [
            ("100M", 100_000_000),
            ("1.5G", 1_500_000_000),
            ("64k", 64_000),
            (" 1.544 Mbit/s ", 1_544_000),
            ("10Gbps", 10_000_000_000),
            ("800000bit", 800_000),
            ("10", 10_000_000),
            ("0.5", 500_000),
            ("0", 0),
        ] {
            assert_eq!(bits(text), Ok(expected), "{text}");
        }
        for text in ["", "M", "fast", "-1M", "1.M.", "1e6", "100MB", "99999999999999999999G", "1 0M", "."] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(link_rate("unlimited"), Ok(LinkRate::Unlimited));
        let message = rate("100 parrots").unwrap_err().to_string();
        assert_eq!(message, "'100 parrots' is not a rate in bits per second such as 64k, 100M or 1.5G");
    }

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("20ms", 20_000_000),
            ("1.5s", 1_500_000_000),
            ("0.25ms", 250_000),
            ("250us", 250_000),
            ("250\u{b5}s", 250_000),
            ("7ns", 7),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("20", 20_000_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "ms", "20 m", "-1s", "1d", "99999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probabilities() {
        for (text, ppb) in
            [("5%", 50_000_000), ("5", 50_000_000), ("0.001%", 10_000), ("100", 1_000_000_000), ("0", 0)]
        {
            assert_eq!(probability(text), Ok(Probability::from_ppb(ppb)), "{text}");
        }
        for text in ["0.05", "0.99", "101", "101%", "%", "five", "-0.1"] {
            assert!(probability(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_limits() {
        for (text, expected) in
            [("1500", 1500), ("64KiB", 65_536), ("1.5MB", 1_500_000), ("2k", 2000), ("3Gi", 3 << 30)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        assert!(bytes("1.5X").is_err());
        assert_eq!(queue_limit("0.1bdp"), Ok(QueueLimit::Bdp { milli: 100, rtt: None }));
        assert_eq!(queue_limit("100p"), Ok(QueueLimit::Packets(100)));
        assert_eq!(queue_limit("50 packets"), Ok(QueueLimit::Packets(50)));
        assert_eq!(queue_limit("64KiB"), Ok(QueueLimit::Bytes(65_536)));
        assert!(queue_limit("many").is_err());
        assert_eq!(milli("2.5"), Ok(2500));
        assert!(milli("2.5x").is_err() && milli("5000000").is_err());
    }
}
