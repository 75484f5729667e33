//! A thin flow: a message at each interval, and how long each takes to be delivered in order.
//!
//! A message carries the moment it was *due*. When the transport falls behind and a write has to wait, the
//! waiting is part of the delay, as it is for whoever waits for the message ("coordinated omission" otherwise
//! hides it).

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::bulk::Meter;
use super::clock::{Relation, monotonic_ns};
use super::protocol::Delays;

/// Messages that may be due and not yet written; beyond that the sender of messages itself has to wait.
const WAITING_MAX: usize = 65536;

/// Number (8 bytes) and due time (8 bytes), big endian, open each message.
const HEADER_BYTES: usize = 16;

/// Sends `count` messages, then finishes the stream.
pub async fn tick<W: AsyncWrite + Unpin>(
    writer: &mut W,
    size_bytes: u32,
    interval: Duration,
    count: u64,
) -> std::io::Result<()> {
    let (due, mut to_send) = mpsc::channel(WAITING_MAX);
    let clock = tokio::spawn(async move {
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for number in 0..count {
            ticks.tick().await;
            if due.send((number, monotonic_ns())).await.is_err() {
                return;
            }
        }
    });
    let mut message = vec![0x5a; size_bytes as usize];
    while let Some((number, due_ns)) = to_send.recv().await {
        message[..8].copy_from_slice(&u64::to_be_bytes(number));
        message[8..HEADER_BYTES].copy_from_slice(&u64::to_be_bytes(due_ns));
        writer.write_all(&message).await?;
    }
    let _ = clock.await;
    writer.shutdown().await
}

/// Reads messages to the end of the stream. The relation is the sender's clock seen from this one.
pub async fn collect<R: AsyncRead + Unpin>(
    reader: &mut R,
    size_bytes: u32,
    count_max: u64,
    clock: Relation,
    meter: &Arc<Meter>,
) -> std::io::Result<Delays> {
    let offset_ns = match clock {
        Relation::Shared => 0,
        Relation::Estimated { offset_ns, .. } => offset_ns,
    };
    let mut delays_ns = Vec::new();
    let mut message = vec![0; size_bytes as usize];
    loop {
        match reader.read_exact(&mut message).await {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        let now_ns = monotonic_ns();
        meter.on_bytes(size_bytes.into());
        let (header, _) = message.split_first_chunk::<HEADER_BYTES>().unwrap_or((&[0; HEADER_BYTES], &[]));
        let [number, due_ns] = [0, 8].map(|at| u64::from_be_bytes(std::array::from_fn(|i| header[at + i])));
        if number != delays_ns.len() as u64 || number >= count_max {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "a message that is out of order",
            ));
        }
        let due_here_ns = due_ns.wrapping_sub(offset_ns as u64);
        delays_ns.push(now_ns.wrapping_sub(due_here_ns) as i64);
    }
    Ok(summarise(delays_ns, clock))
}

fn summarise(mut delays_ns: Vec<i64>, clock: Relation) -> Delays {
    delays_ns.sort_unstable();
    let (Some(&min), Some(&max)) = (delays_ns.first(), delays_ns.last()) else { return Delays::default() };
    let ms = |ns: i64| ns as f64 / 1e6;
    // The nearest-rank definition: the smallest value with at least this share at or below it.
    let at = |share: f64| {
        let rank = (share * delays_ns.len() as f64).ceil() as usize;
        ms(delays_ns[rank.clamp(1, delays_ns.len()) - 1])
    };
    let sum: i128 = delays_ns.iter().map(|d| i128::from(*d)).sum();
    Delays {
        count: delays_ns.len() as u64,
        clock: Some(clock),
        min_ms: ms(min),
        mean_ms: sum as f64 / delays_ns.len() as f64 / 1e6,
        p50_ms: at(0.50),
        p90_ms: at(0.90),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        max_ms: ms(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_nearest_rank() {
        let delays = summarise((1..=1000).rev().map(|ms| ms * 1_000_000).collect(), Relation::Shared);
        assert_eq!((delays.min_ms, delays.p50_ms, delays.p90_ms), (1.0, 500.0, 900.0));
        assert_eq!((delays.p99_ms, delays.p999_ms, delays.max_ms), (990.0, 999.0, 1000.0));
        assert_eq!(delays.mean_ms, 500.5);
        assert_eq!(summarise(vec![], Relation::Shared), Delays::default());
    }

    #[tokio::test]
    async fn messages_arrive_with_the_delay_of_the_pipe() {
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        let meter = Arc::new(Meter::default());
        let (sent, delays) = tokio::join!(
            tick(&mut near, 100, Duration::from_millis(1), 20),
            collect(&mut far, 100, 20, Relation::Shared, &meter)
        );
        sent.unwrap();
        let delays = delays.unwrap();
        assert_eq!(delays.count, 20);
        assert_eq!(meter.bytes(), 2000);
        assert!(delays.min_ms >= 0.0 && delays.max_ms >= delays.p50_ms);
    }

    #[tokio::test]
    async fn an_offset_between_clocks_is_taken_out() {
        let mut wire = [0; 32];
        wire[8..16].copy_from_slice(&(monotonic_ns() + 5_000_000_000).to_be_bytes());
        let clock = Relation::Estimated { offset_ns: 5_000_000_000, error_ns: 1 };
        let delays = collect(&mut &wire[..], 32, 1, clock, &Arc::new(Meter::default())).await.unwrap();
        assert!((0.0..1000.0).contains(&delays.max_ms), "{}", delays.max_ms);
    }

    #[tokio::test]
    async fn more_or_other_messages_than_agreed_are_refused() {
        let wire = [0; 64];
        let meter = Arc::new(Meter::default());
        assert!(collect(&mut &wire[..], 32, 2, Relation::Shared, &meter).await.is_err(), "number 0 twice");
        assert!(collect(&mut &wire[..32], 32, 0, Relation::Shared, &meter).await.is_err(), "one too many");
    }
}
