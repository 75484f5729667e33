//! The receiving end of one flow of kernel TCP: the clock of all figures.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as Clock};

use crate::meter::Meter;
use crate::traffic::Traffic;

/// How long a read may block before the clock is looked at.
const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// What the receiver found.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// Times since the beginning of the run.
    pub(super) meter: Meter,
    pub(super) message_delays: Vec<Duration>,
    /// Messages read, those of the warm-up included.
    pub(super) messages: u64,
}

/// Times of a run that the receiver needs.
#[derive(Copy, Clone, Debug)]
pub(super) struct Times {
    pub(super) began: Clock,
    pub(super) warm_up: Duration,
    pub(super) end: Duration,
    pub(super) one_way: Duration,
}

/// Reads until the end of the run or of the stream. `count` shows others how far it is.
pub(super) fn run(
    mut stream: TcpStream,
    traffic: Traffic,
    times: Times,
    count: &AtomicU64,
) -> io::Result<Received> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut received = Received { meter: Meter::new(times.warm_up), ..Received::default() };
    let mut messages = match traffic {
        Traffic::Messages { bytes, .. } => {
            Some(Messages { bytes: bytes.max(8) as usize, partial: Vec::new() })
        }
        _ => None,
    };
    let mut buffer = vec![0; 1 << 18];
    loop {
        let result = stream.read(&mut buffer);
        let now = times.began.elapsed();
        match result {
            Ok(0) => {
                received.meter.has_ended = true;
                return Ok(received);
            }
            Ok(length) if now < times.end => {
                received.meter.on_bytes(length as u64, now);
                count.store(received.meter.total_bytes, Ordering::Relaxed);
                // A transfer is over when all of it is there, not when the end of the connection is (LT-TCP,
                // 2.1).
                if matches!(traffic, Traffic::Fixed { bytes } if received.meter.total_bytes >= bytes) {
                    received.meter.has_ended = true;
                    return Ok(received);
                }
                if let Some(messages) = &mut messages {
                    messages.on_bytes(&buffer[..length], now, times, &mut received);
                }
            }
            Ok(_) => return Ok(received),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(received),
            Err(error) => return Err(error),
        }
        if now >= times.end {
            return Ok(received);
        }
    }
}

/// Cuts the stream into messages of one size, each with the time it was due at its head.
struct Messages {
    bytes: usize,
    partial: Vec<u8>,
}

impl Messages {
    fn on_bytes(&mut self, bytes: &[u8], now: Duration, times: Times, received: &mut Received) {
        self.partial.extend_from_slice(bytes);
        let whole = self.partial.len() / self.bytes * self.bytes;
        for message in self.partial[..whole].chunks(self.bytes) {
            let due = message[..8].iter().fold(0, |due, &byte| due << 8 | u64::from(byte));
            received.messages += 1;
            if received.meter.does_count(now) {
                received
                    .message_delays
                    .push(now.saturating_sub(Duration::from_nanos(due)).saturating_sub(times.one_way));
            }
        }
        self.partial.drain(..whole);
    }
}
