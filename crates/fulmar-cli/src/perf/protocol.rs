//! What the two ends of a measurement say to each other on the control stream: JSON in frames
//! (docs/internals/perf-protocol.md).
//!
//! A server believes nothing of it beyond the bounds given here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use super::clock::Relation;
use crate::exit::Failure;
use crate::frames;
use crate::session::WireStats;
use crate::units::printable;

/// Version of the measurement protocol.
pub const VERSION: u32 = 1;

/// Streams of one measurement at most.
pub const STREAMS_MAX: u32 = 128;

/// Messages of one measurement at most: each leaves 8 bytes of memory at the receiver.
pub const MESSAGES_MAX: u64 = 5_000_000;

/// Bounds of one message, in bytes: it holds its number and its time, and fits a few packets.
pub const MESSAGE_BYTES: std::ops::RangeInclusive<u32> = 16..=65536;

/// Longest measurement, in seconds.
pub const SECONDS_MAX: f64 = 86_400.0;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// [`VERSION`] of the client.
    pub version: u32,
    /// Whether the server sends.
    pub is_reverse: bool,
    /// What is sent.
    pub load: Load,
    /// Milliseconds between progress reports; 0 for none.
    pub interval_ms: u64,
    /// As in [`super::clock::machine`].
    pub machine: String,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// As much as goes, on so many streams, until the time is over or the bytes are through.
    Bulk {
        /// Streams at once.
        streams: u32,
        /// Stop sending after so many seconds,
        seconds: Option<f64>,
        /// or after so many bytes on all streams together.
        bytes: Option<u64>,
    },
    /// A message of this size at each interval, in order, on one stream.
    Messages {
        /// Bytes of one message.
        size_bytes: u32,
        /// Time from one to the next.
        interval_us: u64,
        /// For so long.
        seconds: f64,
    },
}

impl Load {
    /// Refuses what would exceed the bounds.
    pub fn check(&self) -> Result<(), String> {
        let check = |is_fine: bool, what: &str| if is_fine { Ok(()) } else { Err(what.to_owned()) };
        match *self {
            Self::Bulk { streams, seconds, bytes } => {
                check((1..=STREAMS_MAX).contains(&streams), "between 1 and 128 streams are possible")?;
                check(
                    seconds.is_some() != bytes.is_some(),
                    "either a time or a number of bytes ends a test",
                )?;
                check(seconds.is_none_or(|s| (0.0..=SECONDS_MAX).contains(&s)), "at most a day")?;
                check(
                    bytes.is_none_or(|b| (1..1 << 60).contains(&b)),
                    "at least one byte, and fewer than 2^60",
                )
            }
            Self::Messages { size_bytes, seconds, .. } => {
                check(MESSAGE_BYTES.contains(&size_bytes), "a message has 16 to 65536 bytes")?;
                check((0.0..=SECONDS_MAX).contains(&seconds), "at most a day")?;
                check(
                    (1..=MESSAGES_MAX).contains(&self.messages()),
                    "between 1 and 5 million messages are possible",
                )
            }
        }
    }

    /// How many messages it makes; 0 for a bulk load.
    pub fn messages(&self) -> u64 {
        match *self {
            Self::Bulk { .. } => 0,
            Self::Messages { interval_us: 0, .. } => u64::MAX,
            Self::Messages { interval_us, seconds, .. } => (seconds * 1e6 / interval_us as f64) as u64,
        }
    }
}

/// What a receiver has measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Bytes delivered to the application.
    pub bytes: u64,
    /// From the first to the last of them.
    pub seconds: f64,
    /// Delays, if messages were sent.
    pub messages: Option<Delays>,
}

/// Delay of messages, from the moment they were due to be sent until they were delivered in order, in
/// milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Messages delivered.
    pub count: u64,
    /// How the clocks of the two ends compare; none if no message came.
    pub clock: Option<Relation>,
    /// Smallest.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90 % are below.
    pub p90_ms: f64,
    /// 99 % are below.
    pub p99_ms: f64,
    /// 99.9 % are below.
    pub p999_ms: f64,
    /// Largest.
    pub max_ms: f64,
}

/// What the server knows at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// If it received.
    pub received: Option<Received>,
    /// Its side of the connection.
    pub wire: WireStats,
    /// Processor seconds that it used.
    pub cpu_seconds: f64,
    /// How long the measurement took, by its clock.
    #[serde(default)]
    pub elapsed_seconds: f64,
}

/// Everything that is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Client: this is to be measured.
    Test(Test),
    /// Server: ready; this is my machine.
    Ready {
        /// As in [`super::clock::machine`].
        machine: String,
    },
    /// Client: what time is it?
    Ask,
    /// Server: so late.
    Time {
        /// Its monotonic clock.
        ns: u64,
    },
    /// Client: the clocks compare like this (theirs, seen from ours).
    Begin(Relation),
    /// Server: so many bytes have come.
    Progress {
        /// In total.
        bytes: u64,
        /// Since the measurement began over there: reports may be held up on the way, and come together.
        #[serde(default)]
        seconds: f64,
    },
    /// Client: I have everything.
    Finished,
    /// Server: that was it.
    Outcome(Box<Outcome>),
    /// Server: not like that.
    Refused(String),
}

/// The one kind of frame.
const KIND_JSON: u8 = 0x01;

/// Says something.
pub async fn say<W: AsyncWrite + Unpin>(writer: &mut W, control: &Control) -> Result<(), Failure> {
    let json = serde_json::to_vec(control).map_err(|e| Failure::Other(e.to_string()))?;
    frames::write(writer, KIND_JSON, &json).await.map_err(lost)
}

/// Hears what is said next; a refusal is a failure.
pub async fn hear<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Control, Failure> {
    match hear_as::<R, Control>(reader).await? {
        Control::Refused(why) => Err(Failure::Other(format!("the server refuses: {}", printable(&why)))),
        control => Ok(control),
    }
}

async fn hear_as<R: AsyncRead + Unpin, T: DeserializeOwned>(reader: &mut R) -> Result<T, Failure> {
    let frame = frames::read(reader).await.map_err(lost)?;
    let frame = frame.ok_or_else(|| Failure::Unreachable("the other side has ended the test".into()))?;
    if frame.kind != KIND_JSON {
        return Err(Failure::Other("the other side does not speak the measurement protocol".into()));
    }
    // What is not understood is quoted in the error, and ends on a terminal.
    let wrong = |e: serde_json::Error| printable(&format!("the other side is not understood: {e}"));
    serde_json::from_slice(&frame.body).map_err(|e| Failure::Other(wrong(e)))
}

/// A connection that broke.
pub fn lost(error: std::io::Error) -> Failure {
    Failure::Unreachable(format!("the connection was lost: {error}"))
}

/// Something said at the wrong time.
pub fn unexpected(control: &Control) -> Failure {
    let name = format!("{control:?}");
    let name = name.split(['(', ' ', '{']).next().unwrap_or_default().to_owned();
    Failure::Other(format!("the other side said {name} out of turn"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn what_is_said_is_heard() {
        let test = Test {
            version: VERSION,
            is_reverse: true,
            load: Load::Bulk { streams: 3, seconds: Some(1.5), bytes: None },
            interval_ms: 1000,
            machine: "m".into(),
        };
        for control in [
            Control::Test(test),
            Control::Ask,
            Control::Time { ns: u64::MAX },
            Control::Begin(Relation::Shared),
        ] {
            let mut wire = Vec::new();
            say(&mut wire, &control).await.unwrap();
            assert_eq!(hear(&mut &wire[..]).await.unwrap(), control);
        }
    }

    #[tokio::test]
    async fn what_is_not_understood_is_quoted_without_its_control_characters() {
        let mut wire = Vec::new();
        frames::append(&mut wire, KIND_JSON, br#"{"\u001b[2J": 1}"#);
        let error = hear(&mut &wire[..]).await.unwrap_err().to_string();
        assert!(error.contains("[2J") && !error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn loads_out_of_bounds_are_refused() {
        let bulk = |streams, seconds, bytes| Load::Bulk { streams, seconds, bytes };
        let messages = |size_bytes, interval_us, seconds| Load::Messages { size_bytes, interval_us, seconds };
        for good in [bulk(1, Some(10.0), None), bulk(128, None, Some(1)), messages(1200, 5000, 10.0)] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for bad in [
            bulk(0, Some(1.0), None),
            bulk(129, Some(1.0), None),
            bulk(1, None, None),
            bulk(1, Some(1.0), Some(1)),
            bulk(1, Some(f64::NAN), None),
            bulk(1, Some(-1.0), None),
            bulk(1, None, Some(u64::MAX)),
            messages(15, 5000, 10.0),
            messages(1200, 0, 10.0),
            messages(1200, 1, 80_000.0),
            messages(1200, u64::MAX, 1.0),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut wire = Vec::new();
            frames::append(&mut wire, KIND_JSON, &body);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(hear(&mut &wire[..]));
        }
    }
}
