//! What an application sends.
//!
//! | words | meaning |
//! |---|---|
//! | `bulk` | as much as goes, for the whole run |
//! | `none` | nothing: for flows that only have datagrams |
//! | `fixed:10MB` | so many bytes, then the end |
//! | `messages:1200/5ms` | a message of 1200 bytes every 5 ms, each timed until it is delivered in order |
//! | `cbr:64k`, `cbr:64k/160` | a constant bit rate, in messages of 1200 (or 160) bytes |
//! | `voip` | PCM speech: 160 bytes every 20 ms |
//! | `onoff:1s/2s` | bulk for a time, silence for a time; both exponential with these means |
//! | `web:100ms/30kB` | short transfers that begin at random, one every 100 ms on average, each on a connection of its own; sizes are heavy-tailed (Pareto, 1.5) with this mean |

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fulmar_net::{Rng, parse};
use fulmar_proto::{DatagramClass, DatagramOptions};

/// Traffic of one flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Traffic {
    /// As much as goes.
    Bulk,
    /// Nothing.
    None,
    /// So many bytes.
    Fixed {
        /// How many.
        bytes: u64,
    },
    /// Messages at a steady pace.
    Messages {
        /// Size of each.
        bytes: u32,
        /// From the start of one to the start of the next.
        interval: Duration,
    },
    /// Bulk and silence in turns.
    OnOff {
        /// Mean time of sending.
        on: Duration,
        /// Mean time of silence.
        off: Duration,
    },
    /// Short transfers that begin at random.
    Web {
        /// Mean time from the start of one to the start of the next.
        interval: Duration,
        /// Mean size.
        bytes: u64,
    },
}

/// Message size of a constant bit rate unless one is given.
const CBR_MESSAGE_BYTES: u32 = 1200;
/// No transfer is larger than so many times the mean: a heavy tail would otherwise make short runs
/// incomparable.
const WEB_BYTES_MAX_FACTOR: u64 = 100;

impl Traffic {
    /// Whether messages are timed one by one.
    pub const fn has_messages(&self) -> bool {
        matches!(self, Self::Messages { .. })
    }

    /// Size of the next web transfer: Pareto with shape 1.5, so that the mean is three times the smallest
    /// size. Bounded.
    pub fn draw_web_bytes(mean_bytes: u64, rng: &mut Rng) -> u64 {
        let uniform = (rng.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let smallest = mean_bytes as f64 / 3.0;
        let size = smallest / (1.0 - uniform).powf(1.0 / 1.5);
        (size as u64).clamp(8, mean_bytes.saturating_mul(WEB_BYTES_MAX_FACTOR).max(8))
    }
}

impl FromStr for Traffic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "'{text}' is not a kind of traffic: bulk, none, fixed:10MB, messages:1200/5ms, cbr:64k, voip, onoff:1s/2s, web:100ms/30kB"
            )
        };
        let words = |e: parse::ParseError| e.to_string();
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let pair = || rest.and_then(|rest| rest.split_once('/')).ok_or_else(error);
        let traffic = match name {
            "bulk" if rest.is_none() => Self::Bulk,
            "none" if rest.is_none() => Self::None,
            "voip" if rest.is_none() => Self::Messages { bytes: 160, interval: Duration::from_millis(20) },
            "fixed" => Self::Fixed { bytes: parse::bytes(rest.ok_or_else(error)?).map_err(words)? },
            "messages" => {
                let (bytes, interval) = pair()?;
                let bytes = u32::try_from(parse::bytes(bytes).map_err(words)?).map_err(|_| error())?;
                Self::Messages { bytes, interval: parse::duration(interval).map_err(words)? }
            }
            "cbr" => constant_rate(rest.ok_or_else(error)?).ok_or_else(error)?,
            "onoff" => {
                let (on, off) = pair()?;
                Self::OnOff {
                    on: parse::duration(on).map_err(words)?,
                    off: parse::duration(off).map_err(words)?,
                }
            }
            "web" => {
                let (interval, bytes) = pair()?;
                Self::Web {
                    interval: parse::duration(interval).map_err(words)?,
                    bytes: parse::bytes(bytes).map_err(words)?,
                }
            }
            _ => return Err(error()),
        };
        traffic.is_sound().then_some(traffic).ok_or_else(error)
    }
}

impl Traffic {
    /// Nothing of it is zero: a flow of empty messages, or of infinitely many, is a mistake.
    fn is_sound(&self) -> bool {
        match *self {
            Self::Bulk | Self::None => true,
            Self::Fixed { bytes } => bytes > 0,
            Self::Messages { bytes, interval } => bytes > 0 && !interval.is_zero(),
            Self::OnOff { on, off } => !on.is_zero() && !off.is_zero(),
            Self::Web { interval, bytes } => !interval.is_zero() && bytes > 0,
        }
    }
}

/// `RATE` or `RATE/BYTES`.
fn constant_rate(text: &str) -> Option<Traffic> {
    let (rate, bytes) = match text.split_once('/') {
        Some((rate, bytes)) => (rate, u32::try_from(parse::bytes(bytes).ok()?).ok()?),
        None => (text, CBR_MESSAGE_BYTES),
    };
    let rate = parse::rate(rate).ok().filter(|rate| rate.bytes_per_second() > 0)?;
    Some(Traffic::Messages { bytes, interval: rate.time_for(u64::from(bytes)) })
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk => f.write_str("bulk"),
            Self::None => f.write_str("none"),
            Self::Fixed { bytes } => write!(f, "fixed:{bytes}"),
            Self::Messages { bytes, interval } => write!(f, "messages:{bytes}/{interval:?}"),
            Self::OnOff { on, off } => write!(f, "onoff:{on:?}/{off:?}"),
            Self::Web { interval, bytes } => write!(f, "web:{interval:?}/{bytes}"),
        }
    }
}

/// Datagrams that both ends of a flow send each other on its connection: a game, or a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// Size of each.
    pub bytes: u32,
    /// From one to the next.
    pub interval: Duration,
    /// One is in time that comes no later than this beyond what an empty path takes.
    pub deadline: Duration,
    /// What becomes of one whose packet is lost.
    pub class: DatagramClass,
}

impl Datagrams {
    /// Each has its number in it.
    const BYTES: std::ops::RangeInclusive<u64> = 4..=65_507;

    /// What is asked for each.
    pub(crate) fn options(&self) -> DatagramOptions {
        DatagramOptions::new(self.class).deadline(self.deadline)
    }
}

impl FromStr for Datagrams {
    type Err = String;

    /// `BYTES/INTERVAL`, and after further slashes the deadline and the class.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not BYTES/INTERVAL[/DEADLINE[/CLASS]], such as 120/16ms/40ms/repaired: 4 to \
                 65507 bytes; once, repaired or in-order"
            )
        };
        let time = |text: &str| parse::duration(text).ok().filter(|time| !time.is_zero()).ok_or_else(wrong);
        let parts: Vec<_> = text.split('/').collect();
        let (bytes, interval, deadline, class) = match parts[..] {
            [bytes, interval] => (bytes, interval, "40ms", "repaired"),
            [bytes, interval, deadline] => (bytes, interval, deadline, "repaired"),
            [bytes, interval, deadline, class] => (bytes, interval, deadline, class),
            _ => return Err(wrong()),
        };
        let bytes = parse::bytes(bytes).ok().filter(|bytes| Self::BYTES.contains(bytes)).ok_or_else(wrong)?;
        let class = match class {
            "once" => DatagramClass::Once,
            "repaired" => DatagramClass::Repaired,
            "in-order" => DatagramClass::RepairedInOrder,
            _ => return Err(wrong()),
        };
        Ok(Self { bytes: bytes as u32, interval: time(interval)?, deadline: time(deadline)?, class })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values() {
        for (text, expected) in [
            ("bulk", Traffic::Bulk),
            ("none", Traffic::None),
            ("fixed:10MB", Traffic::Fixed { bytes: 10_000_000 }),
            ("messages:1200/5ms", Traffic::Messages { bytes: 1200, interval: Duration::from_millis(5) }),
            ("cbr:1.92M", Traffic::Messages { bytes: 1200, interval: Duration::from_millis(5) }),
            ("cbr:64k/160", Traffic::Messages { bytes: 160, interval: Duration::from_millis(20) }),
            ("voip", Traffic::Messages { bytes: 160, interval: Duration::from_millis(20) }),
            ("onoff:1s/2s", Traffic::OnOff { on: Duration::from_secs(1), off: Duration::from_secs(2) }),
            ("web:100ms/30kB", Traffic::Web { interval: Duration::from_millis(100), bytes: 30_000 }),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in
            ["", "bulk:1", "fixed", "fixed:0", "messages:0/5ms", "messages:1200", "cbr:0", "web:0/1k", "ftp"]
        {
            assert!(text.parse::<Traffic>().is_err(), "{text}");
        }
    }

    #[test]
    fn datagrams_have_a_size_and_a_pace_and_perhaps_a_deadline_and_a_class() {
        let game = Datagrams {
            bytes: 120,
            interval: Duration::from_millis(16),
            deadline: Duration::from_millis(40),
            class: DatagramClass::Repaired,
        };
        let call = Datagrams { deadline: Duration::from_millis(150), class: DatagramClass::Once, ..game };
        for (text, expected) in [("120/16ms", game), ("120/16ms/40ms", game), ("120/16ms/150ms/once", call)] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in
            ["", "120", "3/16ms", "66kB/16ms", "120/0", "120/16ms/0", "120/16ms/40ms/twice", "1/2/3/once/5"]
        {
            assert!(text.parse::<Datagrams>().unwrap_err().contains("such as"), "{text}");
        }
    }

    #[test]
    fn web_sizes_have_their_mean() {
        // The bound takes away a third of 300^-0.5 = 5.8 % of the mean, about 2 %.
        let mut rng = Rng::new(1, 0);
        let sum: u64 = (0..100_000).map(|_| Traffic::draw_web_bytes(30_000, &mut rng)).sum();
        let mean = sum as f64 / 100_000.0;
        assert!((27_500.0..31_500.0).contains(&mean), "{mean}");
    }
}
