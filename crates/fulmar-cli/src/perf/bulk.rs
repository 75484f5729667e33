//! As much as goes: writing it, and counting what arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::clock::monotonic_ns;
use super::protocol::Received;

/// Bytes written or read in one call.
const CHUNK_BYTES: usize = 128 * 1024;

/// What all streams of one measurement share at the sender: when to stop.
#[derive(Debug)]
pub struct Supply {
    deadline: Option<Instant>,
    bytes_left: AtomicU64,
}

impl Supply {
    /// Ends after a time, after a number of bytes, or whichever comes first.
    pub fn new(time: Option<Duration>, bytes: Option<u64>) -> Self {
        let deadline = time.map(|t| Instant::now() + t);
        Self { deadline, bytes_left: AtomicU64::new(bytes.unwrap_or(u64::MAX)) }
    }

    /// How much the next write may have; 0 at the end.
    fn next_bytes(&self) -> usize {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return 0;
        }
        let take = |left: u64| Some(left - left.min(CHUNK_BYTES as u64));
        let left = self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        left.min(CHUNK_BYTES as u64) as usize
    }
}

/// Writes until the supply ends, then finishes the stream.
pub async fn pour<W: AsyncWrite + Unpin>(writer: &mut W, supply: &Supply) -> std::io::Result<()> {
    // Not zeros, in case anything on the way compresses.
    let chunk: Vec<u8> =
        (0..CHUNK_BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
    loop {
        match supply.next_bytes() {
            0 => return writer.shutdown().await,
            count => match supply.deadline {
                None => writer.write_all(&chunk[..count]).await?,
                // A write may be stuck behind a slow path; the time is over all the same.
                Some(deadline) => {
                    match tokio::time::timeout_at(deadline, writer.write_all(&chunk[..count])).await {
                        Ok(written) => written?,
                        Err(_) => return writer.shutdown().await,
                    }
                }
            },
        }
    }
}

/// What all streams of one measurement share at the receiver.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Meter {
    /// So much has come just now.
    pub fn on_bytes(&self, bytes: u64) {
        let now_ns = monotonic_ns();
        let _ = self.first_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        self.last_ns.fetch_max(now_ns, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much has come in total.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The measurement: from the first to the last byte.
    pub fn received(&self) -> Received {
        let ns = self.last_ns.load(Ordering::Relaxed).saturating_sub(self.first_ns.load(Ordering::Relaxed));
        Received { bytes: self.bytes(), seconds: ns as f64 / 1e9, messages: None }
    }
}

/// Reads a stream to its end.
pub async fn drain<R: AsyncRead + Unpin>(reader: &mut R, meter: &Arc<Meter>) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(()),
            count => meter.on_bytes(count as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn streams_share_a_supply_of_bytes() {
        let total = 3 * CHUNK_BYTES as u64 + 17;
        let supply = Supply::new(None, Some(total));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        pour(&mut a, &supply).await.unwrap();
        pour(&mut b, &supply).await.unwrap();
        assert_eq!(a.len() as u64, total);
        assert!(b.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn time_ends_a_write_that_is_stuck() {
        let (mut near, far) = tokio::io::duplex(1000);
        let supply = Supply::new(Some(Duration::from_secs(2)), None);
        let begin = Instant::now();
        pour(&mut near, &supply).await.unwrap();
        assert_eq!(begin.elapsed().as_secs(), 2);
        drop((near, far));
    }

    #[tokio::test]
    async fn the_meter_counts_what_comes() {
        let meter = Arc::new(Meter::default());
        drain(&mut &[1u8; 1000][..], &meter).await.unwrap();
        drain(&mut &[1u8; 500][..], &meter).await.unwrap();
        let received = meter.received();
        assert_eq!(received.bytes, 1500);
        assert!(received.seconds >= 0.0);
    }
}
