//! One file: what a connection did, to its end or to the end of the room there is.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fulmar::{Connection, Instant, PacketTrace};
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use super::events::{self, Counts};

/// Between two looks at a connection.
const INTERVAL: Duration = Duration::from_millis(100);

/// Events of our own (docs/carry.md).
const SCHEMA: &str = "urn:fulmar:qlog:events:fulmar-2";

/// Those of QUIC that have the same meaning here.
const SCHEMA_QUIC: &str = "urn:ietf:params:qlog:events:quic";

/// Begins each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// Kept free in each file to say that it ends, and why.
const END_BYTES: u64 = 400;

/// Bytes that all files may still get.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    bytes_max: u64,
}

impl Budget {
    /// So many.
    pub fn new(bytes_max: u64) -> Self {
        Self { left: AtomicU64::new(bytes_max), bytes_max }
    }

    /// Whether one more file is worth its name.
    pub fn has_room(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 4 * END_BYTES
    }

    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    budget: Arc<Budget>,
    /// There was no room for something: nothing follows.
    is_full: bool,
    /// A moment by the clock of events, and when that was, in milliseconds since 1970, by the system's, which
    /// may be set while times in a log only grow.
    origin: Option<(Instant, f64)>,
    record: Vec<u8>,
}

#[derive(Serialize)]
struct Record<'a, D> {
    time: f64,
    name: &'a str,
    data: D,
}

impl<W: Write> Log<W> {
    /// Begins a file.
    pub fn new(out: W, side: &str, budget: Arc<Budget>) -> io::Result<Self> {
        let is_full = !budget.take(END_BYTES);
        let mut log = Self { out, budget, is_full, origin: None, record: Vec::new() };
        log.put(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": format!("fulmar {}", env!("CARGO_PKG_VERSION")),
            "trace": {
                "vantage_point": { "type": side },
                "event_schemas": [SCHEMA, SCHEMA_QUIC],
                "common_fields": {
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "system", "epoch": "1970-01-01T00:00:00.000Z" },
                },
            },
        }))?;
        Ok(log)
    }

    /// Writes what a connection does, until it has ended, there is no room, or `end` tells that the program
    /// ends.
    pub async fn follow(mut self, connection: &Connection, mut end: watch::Receiver<bool>) -> io::Result<()> {
        let mut counts = None;
        let mut is_begun = false;
        loop {
            let ended = tokio::select! {
                why = connection.closed() => Some(("fulmar:connection_closed", why.to_string())),
                _ = end.wait_for(|is_over| *is_over) => Some(("fulmar:log_ended", "the program ends".into())),
                () = tokio::time::sleep(INTERVAL), if is_begun => None,
                () = std::future::ready(()), if !is_begun => None,
            };
            let trace = connection.take_packet_trace();
            if !std::mem::replace(&mut is_begun, true) {
                let began = trace.events.front().map_or(trace.at, |event| event.at);
                let remote = connection.remote_address().to_string();
                let data = json!({ "remote": remote, "profile": trace.stats.profile });
                self.event(began, "fulmar:connection_started", &data)?;
            }
            self.write(&trace, &mut counts)?;
            if let Some((name, reason)) = &ended {
                self.event(trace.at, name, &json!({ "reason": reason }))?;
            }
            if self.is_full {
                self.finish(trace.at)?;
            }
            self.out.flush()?;
            if self.is_full || ended.is_some() {
                return Ok(());
            }
        }
    }

    /// Writes what happened since the last time, and the counts if they are others.
    fn write(&mut self, trace: &PacketTrace, counts: &mut Option<Counts>) -> io::Result<()> {
        for event in &trace.events {
            if let Some((name, data)) = events::event(event.kind) {
                self.event(event.at, name, &data)?;
            }
        }
        if trace.omitted > 0 {
            self.event(trace.at, "fulmar:events_omitted", &json!({ "count": trace.omitted }))?;
        }
        let now = Counts::from(&trace.stats);
        if counts.as_ref() != Some(&now) {
            self.event(trace.at, "fulmar:coding_metrics_updated", &now)?;
            *counts = Some(now);
        }
        Ok(())
    }

    /// Says why nothing follows, in the room kept for it.
    fn finish(&mut self, at: Instant) -> io::Result<()> {
        let bytes_max = self.budget.bytes_max;
        tracing::warn!("--qlog: the logs have {bytes_max} bytes (--qlog-max); nothing more is logged");
        let data =
            json!({ "reason": "all logs together are as long as they may get", "bytes_max": bytes_max });
        let record = Record { time: self.time(at), name: "fulmar:log_ended", data };
        self.serialize(&record)?;
        self.out.write_all(&self.record)
    }

    fn time(&mut self, at: Instant) -> f64 {
        let (origin, then) = *self.origin.get_or_insert_with(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            (at, since.as_secs_f64() * 1e3)
        });
        then + ((at - origin).as_secs_f64() - (origin - at).as_secs_f64()) * 1e3
    }

    fn event(&mut self, at: Instant, name: &str, data: &impl Serialize) -> io::Result<()> {
        let record = Record { time: self.time(at), name, data };
        self.put(&record)
    }

    /// Writes a record, if there is room for it and was for all before.
    fn put(&mut self, record: &impl Serialize) -> io::Result<()> {
        if self.is_full {
            return Ok(());
        }
        self.serialize(record)?;
        self.is_full = !self.budget.take(self.record.len() as u64);
        if self.is_full { Ok(()) } else { self.out.write_all(&self.record) }
    }

    fn serialize(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.record.clear();
        self.record.push(RECORD_SEPARATOR);
        serde_json::to_writer(&mut self.record, record)?;
        self.record.push(b'\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn records(log: Log<Vec<u8>>) -> Vec<Value> {
        let text = String::from_utf8(log.out).unwrap();
        text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect()
    }

    #[test]
    fn records_are_a_sequence_of_json_texts() {
        let mut log = Log::new(Vec::new(), "client", Arc::new(Budget::new(10_000))).unwrap();
        let at = Instant::from_nanos(5);
        log.event(at, "fulmar:connection_closed", &json!({ "reason": "a\nb" })).unwrap();
        let records = records(log);
        assert_eq!(records.len(), 2);
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
        assert_eq!(records[1]["data"]["reason"], "a\nb");
        assert!(records[1]["time"].is_f64());
    }

    #[test]
    fn all_logs_together_get_no_longer_than_allowed_and_say_where_they_end() {
        let budget = Arc::new(Budget::new(5_000));
        let mut logs: Vec<_> =
            (0..2).map(|_| Log::new(Vec::new(), "server", Arc::clone(&budget)).unwrap()).collect();
        let at = Instant::from_nanos(0);
        for number in 0..200 {
            logs[number % 2].event(at, "fulmar:packet_sent", &json!({ "number": number })).unwrap();
        }
        assert!(logs.iter().all(|log| log.is_full) && !budget.has_room());
        let mut bytes = 0;
        for mut log in logs {
            log.finish(at).unwrap();
            bytes += log.out.len();
            let records = records(log);
            assert_eq!(records.last().unwrap()["name"], "fulmar:log_ended");
            // Nothing is left out before the end.
            let numbers: Vec<u64> =
                records.iter().filter_map(|record| record["data"]["number"].as_u64()).collect();
            assert!(
                numbers.len() > 5 && numbers.windows(2).all(|pair| pair[1] == pair[0] + 2),
                "{numbers:?}"
            );
        }
        assert!(bytes <= 5_000, "{bytes}");
    }
}
