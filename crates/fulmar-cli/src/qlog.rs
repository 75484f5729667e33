//! `--qlog DIR`: a file for each connection in the format of qlog (draft-ietf-quic-qlog-main-schema, JSON
//! text sequences).
//!
//! What the transport counts is written ten times a second while it changes: `quic:recovery_metrics_updated`
//! with the meaning it has for QUIC, so that viewers draw it, and events of a namespace of our own. Single
//! packets are not logged.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use fulmar::{Connection, ConnectionStats, Side};
use serde_json::{Value, json};

use crate::exit::Failure;

/// Between two looks at a connection.
const INTERVAL: Duration = Duration::from_millis(100);

/// Events of our own (docs/carry.md).
const SCHEMA: &str = "urn:fulmar:qlog:events:fulmar-1";

/// Those of QUIC that have the same meaning here.
const SCHEMA_QUIC: &str = "urn:ietf:params:qlog:events:quic";

/// Begins each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Logs every connection from now on to a file of its own in this folder, which is made if need be.
pub fn start(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::File(format!("{}: {e}", folder.display())))?;
    // There is one command line.
    let _ = FOLDER.set(folder.to_owned());
    Ok(())
}

/// Follows a connection to its end, if connections are logged.
pub fn follow(connection: &Connection) {
    let Some(folder) = FOLDER.get() else { return };
    let side = if connection.side() == Side::Client { "client" } else { "server" };
    let path = folder.join(name(side));
    let connection = connection.clone();
    match Log::create(&path, side) {
        Ok(log) => drop(tokio::spawn(async move {
            if let Err(error) = log.follow(&connection).await {
                tracing::warn!("{}: {error}", path.display());
            }
        })),
        Err(error) => tracing::warn!("{}: {error}", path.display()),
    }
}

/// A name that no other connection has.
fn name(side: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{process}-{number}_{side}.sqlog", since.as_secs())
}

/// A log that is being written.
struct Log<W> {
    out: W,
    begin: Instant,
    /// When `begin` was, of the system's clock: which may be set, while times in a log only grow.
    since_epoch: Duration,
}

impl Log<BufWriter<File>> {
    fn create(path: &Path, side: &str) -> io::Result<Self> {
        Self::new(BufWriter::new(File::create_new(path)?), side)
    }
}

impl<W: Write> Log<W> {
    fn new(out: W, side: &str) -> io::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut log = Self { out, begin: Instant::now(), since_epoch };
        log.record(&json!({
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

    async fn follow(mut self, connection: &Connection) -> io::Result<()> {
        let stats = connection.stats();
        self.event(
            "fulmar:connection_started",
            &json!({
                "remote": connection.remote_address().to_string(), "profile": stats.profile,
            }),
        )?;
        let mut last = [Value::Null, Value::Null];
        loop {
            let ended = tokio::time::timeout(INTERVAL, connection.closed()).await;
            let stats = connection.stats();
            let now = [recovery(&stats), coding(&stats)];
            for (at, name) in
                ["quic:recovery_metrics_updated", "fulmar:coding_metrics_updated"].iter().enumerate()
            {
                if now[at] != last[at] {
                    self.event(name, &now[at])?;
                }
            }
            last = now;
            self.out.flush()?;
            if let Ok(reason) = ended {
                self.event("fulmar:connection_closed", &json!({ "reason": reason.to_string() }))?;
                return self.out.flush();
            }
        }
    }

    fn event(&mut self, name: &str, data: &Value) -> io::Result<()> {
        let time = (self.since_epoch + self.begin.elapsed()).as_secs_f64() * 1e3;
        self.record(&json!({ "time": time, "name": name, "data": data }))
    }

    fn record(&mut self, record: &Value) -> io::Result<()> {
        self.out.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }
}

/// What congestion control knows, by QUIC's names; times in milliseconds.
fn recovery(stats: &ConnectionStats) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut data = json!({
        "smoothed_rtt": ms(stats.rtt), "min_rtt": ms(stats.rtt_min), "congestion_window": stats.window_bytes,
    });
    if let Some(pacing) = stats.pacing {
        data["pacing_rate"] = json!(pacing.bits_per_second());
    }
    data
}

/// What coding does: everything counted since the connection began.
fn coding(stats: &ConnectionStats) -> Value {
    json!({
        "sent_datagrams": stats.sent_datagrams, "sent_bytes": stats.sent_bytes,
        "received_datagrams": stats.received_datagrams, "received_bytes": stats.received_bytes,
        "lost_packets": stats.lost_packets, "spurious_packets": stats.spurious_packets,
        "source_symbols": stats.coding_sent.sources, "repair_symbols": stats.coding_sent.repairs_sent(),
        "recovered_symbols": stats.coding_received.recovered, "redundant_symbols": stats.coding_received.redundant,
        "loss_before_repair": stats.loss_before_repair(), "loss_after_repair": stats.loss_after_repair(),
        "redundancy": stats.redundancy, "controller": stats.controller, "phase": stats.phase,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_a_sequence_of_json_texts() {
        let mut log = Log::new(Vec::new(), "client").unwrap();
        log.event("fulmar:connection_closed", &json!({ "reason": "a\nb" })).unwrap();
        let text = String::from_utf8(log.out).unwrap();
        let records: Vec<Value> =
            text.split('\x1e').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
        assert_eq!(records[1]["data"]["reason"], "a\nb");
        assert!(records[1]["time"].is_f64());
    }
}
