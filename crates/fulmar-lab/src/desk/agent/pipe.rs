//! A connection for data, whoever carries it: what a job writes to or reads from, and asks how it is.

use std::time::Duration;

use fulmar::{Connection, Endpoint, RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::desk::control::SenderView;
use crate::tcp::TcpInfo;

/// How long the end of a connection may take.
const PARTING_MAX: Duration = Duration::from_secs(5);

/// The sending end.
pub(super) enum Outlet {
    Fulmar { endpoint: Endpoint, connection: Connection, stream: SendStream },
    Kernel(TcpStream),
}

/// The receiving end.
pub(super) enum Inlet {
    Fulmar { endpoint: Endpoint, connection: Connection, stream: Option<RecvStream> },
    Kernel(TcpStream),
}

impl Outlet {
    /// Writes some of it. Losing this future loses nothing.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<usize, String> {
        match self {
            Self::Fulmar { stream, .. } => stream.write(bytes).await.map_err(|error| error.to_string()),
            Self::Kernel(stream) => stream.write(bytes).await.map_err(|error| error.to_string()),
        }
    }

    /// Nothing more will be written. Of TCP that is said when the faults are off, as the end of the
    /// connection.
    pub(super) fn finish(&mut self) {
        if let Self::Fulmar { stream, .. } = self {
            // The stream may be gone with its connection: then its end is known already.
            let _ = stream.finish();
        }
    }

    /// How it is.
    pub(super) fn view(&self) -> SenderView {
        match self {
            Self::Fulmar { connection, .. } => {
                let stats = connection.stats();
                SenderView {
                    sequence_bytes: stats.streams.sent_bytes,
                    window_bytes: stats.path.window_bytes,
                    in_flight_bytes: stats.path.in_flight_bytes,
                    rtt_ms: crate::outcome::ms(stats.path.rtt),
                    pacing_mbps: stats.path.pacing.map(|rate| rate.bits_per_second() as f64 / 1e6),
                    loss_estimate: Some(stats.path.loss.rate),
                    repair_packets: stats.coding_sent.repairs_sent(),
                    redundancy: Some(stats.redundancy),
                }
            }
            Self::Kernel(stream) => TcpInfo::of(stream).map(kernel_view).unwrap_or_default(),
        }
    }

    /// Ends the connection: in order if all has arrived, at once otherwise.
    pub(super) async fn end(self, in_order: bool) {
        match self {
            Self::Fulmar { endpoint, connection, .. } => {
                if in_order {
                    let _ = tokio::time::timeout(PARTING_MAX, connection.shutdown(0, b"done")).await;
                }
                endpoint.close(0, b"over");
                let _ = tokio::time::timeout(PARTING_MAX, endpoint.wait_idle()).await;
            }
            Self::Kernel(mut stream) => {
                if in_order {
                    let parted = async {
                        let _ = stream.shutdown().await;
                        while stream.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {}
                    };
                    let _ = tokio::time::timeout(PARTING_MAX, parted).await;
                } else {
                    // What still lies in the kernel must not go on the next run's path.
                    let _ = stream.set_zero_linger();
                }
            }
        }
    }
}

fn kernel_view(info: TcpInfo) -> SenderView {
    let segment = u64::from(info.segment_bytes);
    SenderView {
        sequence_bytes: info.sent_bytes.saturating_sub(info.retransmitted_bytes),
        window_bytes: u64::from(info.window_segments) * segment,
        in_flight_bytes: u64::from(info.unacked_segments) * segment,
        rtt_ms: crate::outcome::ms(info.rtt),
        pacing_mbps: Some(info.pacing_bytes_per_second as f64 * 8.0 / 1e6).filter(|&mbps| mbps < 1e6),
        loss_estimate: None,
        repair_packets: info.retransmitted_segments.into(),
        redundancy: None,
    }
}

impl Inlet {
    /// Reads some of it; `None` at the end. Losing this future loses nothing.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, String> {
        match self {
            Self::Fulmar { connection, stream, .. } => {
                if stream.is_none() {
                    let accepted = connection.accept_uni().await.map_err(|error| error.to_string())?;
                    *stream = Some(accepted);
                }
                let Some(stream) = stream else { return Ok(None) };
                stream.read(buffer).await.map_err(|error| error.to_string())
            }
            Self::Kernel(stream) => match stream.read(buffer).await {
                Ok(0) => Ok(None),
                Ok(length) => Ok(Some(length)),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Waits for the other end to end it, for a while.
    pub(super) async fn end(self) {
        match self {
            Self::Fulmar { endpoint, connection, .. } => {
                let _ = tokio::time::timeout(PARTING_MAX, connection.closed()).await;
                endpoint.close(0, b"over");
                let _ = tokio::time::timeout(PARTING_MAX, endpoint.wait_idle()).await;
            }
            Self::Kernel(mut stream) => {
                let mut buffer = vec![0; 1 << 16];
                let rest = async { while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {} };
                let _ = tokio::time::timeout(PARTING_MAX, rest).await;
            }
        }
    }
}
