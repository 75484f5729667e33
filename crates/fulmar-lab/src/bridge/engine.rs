//! The thread that moves the model in real time between the two devices.
//!
//! It waits until a device has packets or the model has something due, never longer than it takes to notice a
//! command. How late each packet leaves is recorded: the difference between the time the model says and the
//! time after it was written. The model's time begins when a packet is read: how long it lay in the device
//! before, as far as that can be known (this thread overslept, or was busy with others), is recorded too.
//!
//! Setting a timer costs several microseconds in a virtual machine, more than moving a packet. So waits
//! shorter than [`TICK`] become as long, like the interrupt moderation of a network card; that lateness is
//! recorded like any other.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

use fulmar_net::{DelayHistogram, Direction, LinkConfig, LinkStats, Path};
use fulmar_proto::Instant;

use super::device::{Device, Found, READ_BYTES_MAX};
use super::packet::{IpPacket, split};
use super::watchdog::Watchdog;
use crate::outcome::{Delays, Lateness, ms};
use crate::sys;

/// Reads from one device before it is the other's turn: up to 64 KiB each.
const READS_MAX: usize = 16;
/// How long a command may wait to be noticed.
const COMMAND_INTERVAL: Duration = Duration::from_millis(10);

/// The receiving end of lane i listens here plus i.
pub const LANE_PORT: u16 = 5300;

/// The shortest wait.
const TICK: Duration = Duration::from_micros(50);

/// What others may tell the engine, and see of it.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) stop: AtomicBool,
    /// New settings of both links of a lane.
    pub(super) reconfigure: Mutex<BTreeMap<usize, (LinkConfig, LinkConfig)>>,
    /// What each lane's forward link holds and did so far.
    pub(super) lanes: Mutex<Vec<LaneView>>,
}

/// A lane as others see it, a few milliseconds late.
#[derive(Clone, Debug, Default)]
pub struct LaneView {
    /// Bytes in the forward queue.
    pub backlog_bytes: u64,
    /// What the forward link did so far.
    pub forward: LinkStats,
}

/// What the engine has to tell in the end.
#[derive(Debug)]
pub(super) struct Report {
    /// Forward and backward link of each lane.
    pub(super) lanes: Vec<(LinkStats, LinkStats)>,
    pub(super) lateness: DelayHistogram,
    /// How long packets lay in a device before they were read, at least.
    pub(super) waited: DelayHistogram,
    /// How late threads of the programs' priority woke, where programs run on this machine.
    pub(super) programs: Option<DelayHistogram>,
    pub(super) elapsed: Duration,
    pub(super) busy: Duration,
    /// Packets a device did not take.
    pub(super) refused: u64,
    /// Packets for a device that was down.
    pub(super) down: u64,
}

/// Programs may be later than the bridge by this factor: they have no real-time priority, and wait for a
/// slice of the scheduler (3 ms) where they share cores.
const PROGRAMS_FACTOR: u32 = 5;

impl Report {
    /// How late packets were, and in words why the machine was too slow, if it was.
    pub(super) fn judge(&self, lateness_p99_max: Duration, device_drops: u64) -> (Lateness, Vec<String>) {
        let delays = Delays::of_histogram(&self.lateness);
        let p99_max_ms = ms(lateness_p99_max);
        let core_share = self.busy.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9);
        let mut faults = Vec::new();
        if delays.p99_ms > p99_max_ms {
            faults.push(format!("packets were late: p99 {:.2} ms, bound {p99_max_ms:.2} ms", delays.p99_ms));
        }
        let waited = Delays::of_histogram(&self.waited);
        if waited.p99_ms > p99_max_ms {
            faults.push(format!(
                "packets lay in a device before the bridge read them: p99 {:.2} ms, bound {p99_max_ms:.2} ms",
                waited.p99_ms
            ));
        }
        let programs = self.programs.as_ref().map(Delays::of_histogram).unwrap_or_default();
        let programs_max_ms = p99_max_ms * f64::from(PROGRAMS_FACTOR);
        if programs.p99_ms > programs_max_ms {
            faults.push(format!(
                "the machine was late for the programs: p99 {:.2} ms, bound {programs_max_ms:.2} ms",
                programs.p99_ms
            ));
        }
        // A device that is switched off drops by itself what it was about to send.
        if device_drops > 0 && self.down == 0 {
            faults.push(format!(
                "a device dropped {device_drops} packets that the bridge did not read in time"
            ));
        }
        (Lateness { delays, waited, programs, p99_max_ms, programs_max_ms, device_drops, core_share }, faults)
    }
}

/// The engine's state.
pub(super) struct Engine {
    /// Of the sender's end and of the receiver's.
    devices: [Device; 2],
    /// Paths that know nothing of each other. Which one a packet takes its port says: see [`Engine::lane`].
    lanes: Vec<Path<IpPacket>>,
    control: Arc<Control>,
    origin: Clock,
    lateness: DelayHistogram,
    waited: DelayHistogram,
    refused: u64,
    down: u64,
    /// When this thread woke last, and by how much too late.
    woke: (Instant, Duration),
}

/// Whether a device is switched off: what it is given is lost, and it may come back.
fn is_down(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::ENETDOWN | libc::ENXIO | libc::ENETUNREACH))
}

impl Engine {
    pub(super) fn new(
        devices: [Device; 2],
        lanes: Vec<(LinkConfig, LinkConfig)>,
        seed: u64,
        control: Arc<Control>,
    ) -> Self {
        let lanes = lanes.into_iter().map(|(forward, backward)| Path::new(forward, backward, seed)).collect();
        Self {
            devices,
            lanes,
            control,
            origin: Clock::now(),
            lateness: DelayHistogram::default(),
            waited: DelayHistogram::default(),
            refused: 0,
            down: 0,
            woke: (Instant::ZERO, Duration::ZERO),
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// Works until told to stop.
    pub(super) fn run(mut self) -> io::Result<Report> {
        // Before this thread is preferred to all others: the priority would be passed on.
        let has_programs = self.devices.iter().all(|device| matches!(device, Device::Tun(_)));
        let watchdog = has_programs.then(Watchdog::start).transpose()?;
        sys::be_punctual();
        let mut buffer = vec![0; READ_BYTES_MAX];
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
            lanes: (self.lanes.iter())
                .map(|path| Direction::BOTH.map(|direction| path.link(direction).stats().clone()).into())
                .collect(),
            lateness: self.lateness,
            waited: self.waited,
            programs: watchdog.map(Watchdog::finish),
            elapsed: self.origin.elapsed(),
            busy: sys::thread_time(),
            refused: self.refused,
            down: self.down,
        })
    }

    /// When the next packet comes out of any lane.
    fn due(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(Path::poll_timeout).min()
    }

    /// The lane of a packet: that of its port at the receiving end, and the first for all that have none.
    fn lane(&mut self, direction: Direction, packet: &IpPacket) -> &mut Path<IpPacket> {
        let port = if self.lanes.len() > 1 { packet.receiving_port(direction) } else { None };
        let index = port.and_then(|port| port.checked_sub(LANE_PORT)).map_or(0, usize::from);
        let index = if index < self.lanes.len() { index } else { 0 };
        &mut self.lanes[index]
    }

    /// Waits until something is due or a device has packets; says which may have.
    fn wait(&mut self, command_at: Instant) -> io::Result<[bool; 2]> {
        let (began, until) = (self.now(), self.due().map_or(command_at, |at| at.min(command_at)));
        let wait = until - began;
        let ready = if wait < TICK {
            std::thread::sleep(TICK);
            [true; 2]
        } else {
            sys::wait_readable([&self.devices[0], &self.devices[1]], wait)?
        };
        let now = self.now();
        self.woke = (now, now - (began + wait.max(TICK)));
        Ok(ready)
    }

    /// Hands what a device has to the link.
    fn take_in(&mut self, index: usize, direction: Direction, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let found = match self.devices[index].read(buffer) {
                Ok(found) => found,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(());
                }
                Err(error) if is_down(&error) => {
                    // It may say so at once each time it is asked.
                    std::thread::sleep(TICK);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let now = self.now();
            let (woke, overslept) = self.woke;
            self.waited.record(overslept + (now - woke));
            let packets = match found {
                Found::Packets(packets) => packets,
                // One that is not taken is asked for again by who needs it.
                Found::Frame(frame) => {
                    let _ = self.devices[1 - index].pass(frame);
                    continue;
                }
            };
            split(packets, |packet| self.lane(direction, &packet).send(now, direction, packet));
            if self.due().is_some_and(|at| at <= now) {
                // What is due goes before what is new.
                self.deliver()?;
            }
        }
        Ok(())
    }

    /// Writes what has come out of the links.
    fn deliver(&mut self) -> io::Result<()> {
        let mut index = 0;
        while index < self.lanes.len() {
            let now = self.now();
            let Some((due, direction, packet)) = self.lanes[index].poll_arrival(now) else {
                index += 1;
                continue;
            };
            let device = match direction {
                Direction::Forward => &self.devices[1],
                Direction::Backward => &self.devices[0],
            };
            match device.write(packet.as_bytes()) {
                Ok(_) => {}
                // A damaged header is refused: that packet is gone.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.refused += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.refused += 1,
                Err(error) if is_down(&error) => self.down += 1,
                Err(error) => return Err(error),
            }
            self.lateness.record(self.now() - due);
        }
        Ok(())
    }

    fn obey(&mut self, now: Instant) {
        let news =
            std::mem::take(&mut *self.control.reconfigure.lock().unwrap_or_else(PoisonError::into_inner));
        for (lane, (forward, backward)) in news {
            let Some(path) = self.lanes.get_mut(lane) else { continue };
            path.link_mut(Direction::Forward).reconfigure(now, forward);
            path.link_mut(Direction::Backward).reconfigure(now, backward);
        }
        let mut views = self.control.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        views.resize_with(self.lanes.len(), LaneView::default);
        for (view, path) in views.iter_mut().zip(&self.lanes) {
            let forward = path.link(Direction::Forward);
            view.backlog_bytes = forward.backlog().bytes;
            view.forward.clone_from(forward.stats());
        }
    }
}
