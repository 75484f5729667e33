//! The sending end of one flow of kernel TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use super::info::TcpInfo;
use super::scenario::TcpFlow;
use crate::bridge::SERVER_ADDRESS;
use crate::outcome::ms;
use crate::sample::Sample;
use crate::sys;
use crate::traffic::Traffic;

/// What is written, as often as needed.
static FILLER: [u8; 1 << 16] = [0x5a; 1 << 16];
/// How long a write may block before the clock is looked at.
const WRITE_TIMEOUT: Duration = Duration::from_millis(50);

/// How often one who waits for the end of a run looks whether it is over.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the end of a connection without faults may take.
const PARTING_MAX: Duration = Duration::from_secs(5);

/// What the sender knows in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) info: TcpInfo,
    /// Messages that were due.
    pub(super) messages: u64,
    pub(super) samples: Vec<Sample>,
}

/// One sender, connected.
pub(super) struct Sender {
    stream: TcpStream,
    flow: TcpFlow,
    number: usize,
    began: Clock,
    sample_interval: Option<Duration>,
    sample_at: Duration,
    sent: Sent,
}

/// Connects with the congestion control the flow names. Blocks until the handshake is complete, at most for
/// `patience`: the kernel's own is two minutes. Nothing if it is not complete by then.
pub(super) fn connect(flow: &TcpFlow, port: u16, patience: Duration) -> io::Result<Option<TcpStream>> {
    let stream = TcpStream::from(sys::tcp_socket()?);
    sys::set_congestion_control(&stream, &flow.congestion).map_err(|error| {
        io::Error::new(error.kind(), format!("congestion control '{}': {error}", flow.congestion))
    })?;
    stream.set_write_timeout(Some(patience.max(WRITE_TIMEOUT)))?;
    match sys::connect(&stream, SERVER_ADDRESS, port) {
        Ok(()) => {}
        Err(error) if is_too_late(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    stream.set_nodelay(flow.traffic.has_messages())?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    Ok(Some(stream))
}

/// The handshake took longer than the run (EINPROGRESS), whose receiver is gone, or than the kernel waits.
fn is_too_late(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::ECONNREFUSED | libc::ETIMEDOUT))
}

impl Sender {
    pub(super) fn new(
        stream: TcpStream,
        flow: TcpFlow,
        number: usize,
        began: Clock,
        sample_interval: Option<Duration>,
    ) -> Self {
        Self {
            stream,
            flow,
            number,
            began,
            sample_interval,
            sample_at: Duration::ZERO,
            sent: Sent::default(),
        }
    }

    /// Writes until `end` after the beginning, or until everything is written; then waits for `is_over`, so
    /// that what is under way can still arrive. With `parts_in_order` it stays until the other end has closed
    /// the connection as well.
    pub(super) fn run(
        mut self,
        end: Duration,
        is_over: &AtomicBool,
        parts_in_order: bool,
    ) -> io::Result<Sent> {
        let result = match self.flow.traffic {
            Traffic::Messages { bytes, interval } => self.write_messages(bytes as usize, interval, end),
            Traffic::Fixed { bytes } => self.write_bulk(bytes, end),
            Traffic::None => Ok(()),
            Traffic::Bulk | Traffic::OnOff { .. } | Traffic::Web { .. } => self.write_bulk(u64::MAX, end),
        };
        // A receiver that is done may have closed its end.
        result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
        let interval = self.sample_interval.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL);
        while !is_over.load(Ordering::Relaxed) && self.began.elapsed() < end {
            self.sample_if_due();
            std::thread::sleep(interval);
        }
        self.sent.info = TcpInfo::of(&self.stream)?;
        // What the other end did first is no error of the run.
        let _ = self.stream.shutdown(Shutdown::Write);
        if parts_in_order {
            self.stream.set_read_timeout(Some(PARTING_MAX))?;
            let _ = self.stream.read(&mut [0]);
        }
        Ok(self.sent)
    }

    fn write_bulk(&mut self, mut left: u64, end: Duration) -> io::Result<()> {
        while left > 0 && self.began.elapsed() < end {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(FILLER.len());
            match self.stream.write(&FILLER[..most]) {
                Ok(written) if left != u64::MAX => left -= written as u64,
                Ok(_) => {}
                Err(error) if is_patience(&error) => {}
                Err(error) => return Err(error),
            }
            self.sample_if_due();
        }
        Ok(())
    }

    /// Each message begins with the time it was due, so that waiting for the socket counts as delay.
    fn write_messages(&mut self, bytes: usize, interval: Duration, end: Duration) -> io::Result<()> {
        let mut message = vec![0x5a; bytes.max(8)];
        let mut due = self.began.elapsed();
        while due < end {
            let now = self.began.elapsed();
            if due > now {
                std::thread::sleep(due - now);
            }
            message[..8].copy_from_slice(&(due.as_nanos() as u64).to_be_bytes());
            self.sent.messages = self.sent.messages.saturating_add(1);
            if !self.write_all(&message, end)? {
                // The rest of what was due is counted, though nobody will write it.
                self.sent.messages += ((end - due.min(end)).as_nanos() / interval.as_nanos().max(1)) as u64;
                return Ok(());
            }
            self.sample_if_due();
            due += interval;
        }
        Ok(())
    }

    /// Writes a whole message. False if the end came first.
    fn write_all(&mut self, mut rest: &[u8], end: Duration) -> io::Result<bool> {
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if is_patience(&error) && self.began.elapsed() < end => {}
                Err(error) if is_patience(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn sample_if_due(&mut self) {
        let (Some(interval), now) = (self.sample_interval, self.began.elapsed()) else { return };
        if now < self.sample_at {
            return;
        }
        self.sample_at = now + interval;
        let Ok(info) = TcpInfo::of(&self.stream) else { return };
        self.sent.samples.push(Sample {
            t: now.as_secs_f64(),
            flow: self.number,
            window_bytes: u64::from(info.window_segments) * u64::from(info.segment_bytes),
            in_flight_bytes: u64::from(info.unacked_segments) * u64::from(info.segment_bytes),
            rtt_ms: ms(info.rtt),
            pacing_mbps: Some(info.pacing_bytes_per_second as f64 * 8.0 / 1e6).filter(|&mbps| mbps < 1e6),
            ..Sample::default()
        });
    }
}

fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
