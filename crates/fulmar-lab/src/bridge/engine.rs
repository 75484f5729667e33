//! The thread that moves the model in real time between the two devices.
//!
//! It waits until a device has packets or the model has something due, never longer than it takes to notice a command. How
//! late each packet leaves is recorded: the difference between the time the model says and the time after it was written.
//!
//! Setting a timer costs several microseconds in a virtual machine, more than moving a packet. So waits shorter than
//! [`TICK`] become as long, like the interrupt moderation of a network card; that lateness is recorded like any other.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

use fulmar_net::{DelayHistogram, Direction, LinkConfig, LinkStats, Path};
use fulmar_proto::Instant;

use super::packet::{HEADER_BYTES, IpPacket, split};
use crate::sys;

/// Reads from one device before it is the other's turn: up to 64 KiB each.
const READS_MAX: usize = 16;
/// How long a command may wait to be noticed.
const COMMAND_INTERVAL: Duration = Duration::from_millis(10);

/// The shortest wait.
const TICK: Duration = Duration::from_micros(50);

/// What others may tell the engine, and see of it.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) stop: AtomicBool,
    /// New settings of both links.
    pub(super) reconfigure: Mutex<Option<(LinkConfig, LinkConfig)>>,
    /// Bytes in the forward queue.
    pub(super) backlog_bytes: AtomicU64,
    /// What the forward link did so far.
    pub(super) forward: Mutex<LinkStats>,
}

/// What the engine has to tell in the end.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) forward: LinkStats,
    pub(super) backward: LinkStats,
    pub(super) lateness: DelayHistogram,
    pub(super) elapsed: Duration,
    pub(super) busy: Duration,
    /// Packets a device did not take.
    pub(super) refused: u64,
}

/// The engine's state.
pub(super) struct Engine {
    /// Of the sender's end and of the receiver's.
    devices: [File; 2],
    path: Path<IpPacket>,
    control: Arc<Control>,
    origin: Clock,
    lateness: DelayHistogram,
    refused: u64,
}

impl Engine {
    pub(super) fn new(
        devices: [File; 2],
        forward: LinkConfig,
        backward: LinkConfig,
        seed: u64,
        control: Arc<Control>,
    ) -> Self {
        let path = Path::new(forward, backward, seed);
        Self { devices, path, control, origin: Clock::now(), lateness: DelayHistogram::default(), refused: 0 }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// Works until told to stop.
    pub(super) fn run(mut self) -> io::Result<Report> {
        sys::be_punctual();
        let mut buffer = vec![0; HEADER_BYTES + (1 << 16)];
        let mut command_at = self.now();
        while !self.control.stop.load(Ordering::Relaxed) {
            self.deliver()?;
            let now = self.now();
            if now >= command_at {
                self.obey(now);
                command_at = now + COMMAND_INTERVAL;
            }
            let ready = self.wait(command_at)?;
            for (index, direction) in Direction::BOTH.into_iter().enumerate() {
                if ready[index] {
                    self.take_in(index, direction, &mut buffer)?;
                }
            }
        }
        Ok(Report {
            forward: self.path.link(Direction::Forward).stats().clone(),
            backward: self.path.link(Direction::Backward).stats().clone(),
            lateness: self.lateness,
            elapsed: self.origin.elapsed(),
            busy: sys::thread_time(),
            refused: self.refused,
        })
    }

    /// Waits until something is due or a device has packets; says which may have.
    fn wait(&self, command_at: Instant) -> io::Result<[bool; 2]> {
        let until = self.path.poll_timeout().map_or(command_at, |at| at.min(command_at));
        let wait = until - self.now();
        if wait < TICK {
            std::thread::sleep(TICK);
            return Ok([true; 2]);
        }
        sys::wait_readable([&self.devices[0], &self.devices[1]], wait)
    }

    /// Hands what a device has to the link.
    fn take_in(&mut self, index: usize, direction: Direction, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let length = match (&self.devices[index]).read(buffer) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let now = self.now();
            split(&buffer[..length], |packet| self.path.send(now, direction, packet));
            if self.path.poll_timeout().is_some_and(|at| at <= now) {
                // What is due goes before what is new.
                self.deliver()?;
            }
        }
        Ok(())
    }

    /// Writes what has come out of the links.
    fn deliver(&mut self) -> io::Result<()> {
        while let Some((due, direction, packet)) = self.path.poll_arrival(self.now()) {
            let device = match direction {
                Direction::Forward => &self.devices[1],
                Direction::Backward => &self.devices[0],
            };
            let mut device: &File = device;
            match device.write(packet.as_bytes()) {
                Ok(_) => {}
                // A damaged header is refused: that packet is gone.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.refused += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.refused += 1,
                Err(error) => return Err(error),
            }
            self.lateness.record(self.now() - due);
        }
        Ok(())
    }

    fn obey(&mut self, now: Instant) {
        let news = self.control.reconfigure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((forward, backward)) = news {
            self.path.link_mut(Direction::Forward).reconfigure(now, forward);
            self.path.link_mut(Direction::Backward).reconfigure(now, backward);
        }
        let forward = self.path.link(Direction::Forward);
        self.control.backlog_bytes.store(forward.backlog().bytes, Ordering::Relaxed);
        self.control.forward.lock().unwrap_or_else(PoisonError::into_inner).clone_from(forward.stats());
    }
}
