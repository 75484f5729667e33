//! `--metrics ADDR`: what commands report, for Prometheus to fetch.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::report::{ConnectionReport, Observed, Report};
use crate::tunnel::flow::local;

/// How long a request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Connections at the same time.
const CONNECTIONS_MAX: usize = 32;

/// A value of each connection: name, help, kind, and how to get it.
type OfConnection = (&'static str, &'static str, MetricType, fn(&ConnectionReport) -> f64);

const COUNTER: MetricType = MetricType::Counter;
const GAUGE: MetricType = MetricType::Gauge;

/// Values of connections, labelled with the peer's address and key.
const OF_CONNECTION: &[OfConnection] = &[
    ("goodput_sent_bytes", "Stream bytes sent, each once", COUNTER, |c| c.sent_bytes as f64),
    ("goodput_received_bytes", "Stream bytes read by programs", COUNTER, |c| c.received_bytes as f64),
    ("wire_sent_bytes", "Bytes sent with IP and UDP headers", COUNTER, |c| c.wire.wire_bytes as f64),
    ("wire_received_bytes", "Bytes received with IP and UDP headers", COUNTER, |c| {
        c.wire.received_wire_bytes as f64
    }),
    ("sent_packets", "Datagrams sent", COUNTER, |c| c.wire.packets as f64),
    ("lost_packets", "Packets lost on the wire", COUNTER, |c| c.wire.lost_packets as f64),
    ("source_symbols", "Source symbols sent", COUNTER, |c| c.wire.source_symbols as f64),
    ("repair_symbols", "Repair symbols sent", COUNTER, |c| c.wire.repair_symbols as f64),
    ("decoded_symbols", "Symbols decoded from repair", COUNTER, |c| c.wire.decoded_symbols as f64),
    ("congestion_marks", "Packets that came back with a mark", COUNTER, |c| c.wire.ecn_ce_packets as f64),
    ("dropped_datagrams", "Datagrams nobody read in time", COUNTER, |c| c.dropped_datagrams as f64),
    (
        "outgrown_datagrams",
        "Datagrams that became too long for the path before they were sent",
        COUNTER,
        |c| c.outgrown_datagrams as f64,
    ),
    ("udp_sent_packets", "Packets of UDP flows sent to be repaired", COUNTER, |c| c.repaired_sent as f64),
    ("udp_repair_packets", "Repair sent for packets of UDP flows", COUNTER, |c| {
        c.repaired_repairs_sent as f64
    }),
    ("udp_repaired_packets", "Packets of UDP flows lost and restored", COUNTER, |c| c.repaired as f64),
    ("udp_late_packets", "Packets of UDP flows dropped after their deadline", COUNTER, |c| {
        c.repaired_late as f64
    }),
    ("udp_lost_packets", "Packets of UDP flows lost and not restored", COUNTER, |c| c.repaired_lost as f64),
    ("rtt_seconds", "Smoothed round-trip time", GAUGE, |c| c.wire.rtt_ms / 1e3),
    ("rtt_min_seconds", "Smallest round-trip time", GAUGE, |c| c.wire.rtt_min_ms / 1e3),
    ("loss_before_repair_ratio", "Share of symbols whose first packet was lost", GAUGE, |c| {
        c.wire.loss_before_repair_percent / 100.0
    }),
    ("loss_after_repair_ratio", "Share of symbols that repair sent ahead did not save", GAUGE, |c| {
        c.wire.loss_after_repair_percent / 100.0
    }),
    ("repair_ratio", "Repair symbols per source symbol", GAUGE, |c| {
        c.wire.repair_symbols as f64 / (c.wire.source_symbols as f64).max(1.0)
    }),
    ("window_bytes", "Congestion window", GAUGE, |c| c.wire.window_bytes as f64),
    ("queue_bytes", "Bytes waiting to be sent", GAUGE, |c| c.queued_bytes as f64),
    ("held_bytes", "Bytes held until the other end has them", GAUGE, |c| c.held_bytes as f64),
    ("streams", "Streams open", GAUGE, |c| c.streams as f64),
    ("in_tcp", "Whether it goes by TCP, because UDP is shut", GAUGE, |c| f64::from(u8::from(c.way == "tcp"))),
];

/// A value of each command.
type OfCommand = (&'static str, &'static str, MetricType, fn(&Report) -> f64);

/// Values of commands, over all their connections.
const OF_COMMAND: &[OfCommand] = &[
    ("up_bytes", "Bytes carried from clients to targets", COUNTER, |r| r.up_bytes as f64),
    ("down_bytes", "Bytes carried from targets to clients", COUNTER, |r| r.down_bytes as f64),
    ("flows_opened", "Flows opened", COUNTER, |r| r.opened as f64),
    ("flows_refused", "Flows and clients refused", COUNTER, |r| r.refused as f64),
    ("connections", "Connections there are", GAUGE, |r| r.connections.len() as f64),
    ("uptime_seconds", "Time since the command was ready", GAUGE, |r| r.up_seconds),
];

/// Packets dropped by commands, labelled with the cause.
const DROPPED: (&str, &str) = ("dropped_packets", "Packets of UDP flows that were dropped here");

/// All commands of this process.
struct Commands(Vec<Arc<dyn Observed>>);

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Commands").field(&self.0.len()).finish()
    }
}

impl Collector for Commands {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let reports: Vec<Report> = self.0.iter().map(|command| command.report()).collect();
        for &(name, help, kind, value) in OF_COMMAND {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for report in &reports {
                let labels = [("command", report.command.as_str()), ("at", report.at.as_str())];
                let mut of = metric.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => of.encode_counter::<NoLabelSet, f64, f64>(&value(report), None)?,
                    _ => of.encode_gauge(&value(report))?,
                }
            }
        }
        let mut dropped = encoder.encode_descriptor(DROPPED.0, DROPPED.1, None, COUNTER)?;
        for report in &reports {
            for (cause, count) in &report.dropped_packets {
                let labels = [
                    ("command", report.command.as_str()),
                    ("at", report.at.as_str()),
                    ("cause", cause.as_str()),
                ];
                let mut of = dropped.encode_family(&labels)?;
                of.encode_counter::<NoLabelSet, f64, f64>(&(*count as f64), None)?;
            }
        }
        for &(name, help, kind, value) in OF_CONNECTION {
            let name = format!("connection_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
            for (report, connection) in reports.iter().flat_map(|r| r.connections.iter().map(move |c| (r, c)))
            {
                let labels = [
                    ("command", report.command.as_str()),
                    ("peer", connection.peer.as_str()),
                    ("key", connection.key.as_str()),
                ];
                let mut of = metric.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => {
                        of.encode_counter::<NoLabelSet, f64, f64>(&value(connection), None)?
                    }
                    _ => of.encode_gauge(&value(connection))?,
                }
            }
        }
        Ok(())
    }
}

/// Listens for Prometheus.
pub async fn bind(at: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Answers requests for metrics of these commands until this is dropped.
pub async fn serve(listener: TcpListener, commands: Vec<Arc<dyn Observed>>) {
    let mut registry = Registry::with_prefix("fulmar");
    registry.register_collector(Box::new(Commands(commands)));
    let registry = Arc::new(registry);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = local::accept(&listener).await;
        let registry = Arc::clone(&registry);
        let service = service_fn(move |request| {
            let response = answer(&registry, &request);
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIME_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let _ = connection.await;
            drop(place);
        });
    }
}

fn answer(registry: &Registry, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let status = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    };
    if request.method() != Method::GET || request.uri().path() != "/metrics" {
        return status(StatusCode::NOT_FOUND);
    }
    let mut out = String::new();
    if text::encode(&mut out, registry).is_err() {
        return status(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let mut response = Response::new(Full::from(out));
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Report);

    impl Observed for Fixed {
        fn report(&self) -> Report {
            self.0.clone()
        }
        fn reload(&self) -> Result<String, String> {
            Ok(String::new())
        }
    }

    #[test]
    fn reports_become_metrics() {
        let connection = ConnectionReport { peer: "192.0.2.1:1".into(), sent_bytes: 7, ..Default::default() };
        let report = Report {
            command: "proxy".into(),
            opened: 3,
            dropped_packets: [("send_queue_full".to_owned(), 5)].into(),
            connections: vec![
                connection.clone(),
                ConnectionReport { peer: "192.0.2.2:1".into(), ..connection },
            ],
            ..Report::default()
        };
        let mut registry = Registry::with_prefix("fulmar");
        registry.register_collector(Box::new(Commands(vec![Arc::new(Fixed(report))])));
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        for line in [
            "# TYPE fulmar_flows_opened counter",
            "fulmar_flows_opened_total{command=\"proxy\",at=\"\"} 3.0",
            "fulmar_dropped_packets_total{command=\"proxy\",at=\"\",cause=\"send_queue_full\"} 5.0",
            "fulmar_connections{command=\"proxy\",at=\"\"} 2.0",
            "fulmar_connection_goodput_sent_bytes_total{command=\"proxy\",peer=\"192.0.2.2:1\",key=\"\"} 7.0",
            "# EOF",
        ] {
            assert!(out.lines().any(|l| l == line), "{line} is not in\n{out}");
        }
        // Each metric is described once (OpenMetrics).
        let types: Vec<_> = out.lines().filter(|l| l.starts_with("# TYPE")).collect();
        assert_eq!(types.len(), OF_COMMAND.len() + 1 + OF_CONNECTION.len());
    }

    #[test]
    fn the_dashboard_shows_what_there_is() {
        let mut registry = Registry::with_prefix("fulmar");
        let report = Report { connections: vec![ConnectionReport::default()], ..Report::default() };
        registry.register_collector(Box::new(Commands(vec![Arc::new(Fixed(report))])));
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana.json");
        let dashboard = std::fs::read_to_string(path).unwrap();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut names: Vec<&str> =
            dashboard.split(|c| !is_name(c)).filter(|word| word.starts_with("fulmar_")).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert!(out.contains(&format!("\n{name}{{")), "{name} is not in\n{out}");
        }
    }
}
