//! Real time: the same network model between two network namespaces, so that the kernel's TCP and any program
//! meet it.
//!
//! `namespace` makes the ends, `packet` cuts what the kernel hands over into packets, `engine` moves the
//! model. A run of which the machine could not keep the times is invalid: [`Bridge::finish`] says so.

mod device;
mod engine;
mod lanes;
mod namespace;
mod packet;
mod watchdog;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fulmar_net::{LinkConfig, LinkStats, Stalls};

pub use engine::{LANE_PORT, LaneView};
pub use lanes::{Ground, Lanes, LanesReport};
pub use namespace::{End, TcpSettings, acquire_rights};

use crate::link::LinkSpec;
use crate::outcome::{Link, Outcome};
use device::Device;
use engine::{Control, Engine, Report};

/// Address of the sending end.
pub const CLIENT_ADDRESS: [u8; 4] = [10, 77, 0, 1];
/// Address of the receiving end.
pub const SERVER_ADDRESS: [u8; 4] = [10, 77, 0, 2];
/// A run is invalid if more than one packet in a hundred is later than this, unless the caller says
/// otherwise.
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(1);

/// A link in real time between two namespaces.
#[derive(Debug)]
pub struct Bridge {
    /// Where the sender runs.
    pub client: End,
    /// Where the receiver runs.
    pub server: End,
    control: Arc<Control>,
    engine: Option<JoinHandle<io::Result<Report>>>,
    configs: (LinkConfig, LinkConfig),
}

impl Bridge {
    /// Makes the namespaces and starts to move packets; with `is_faultless`, without loss, marks or jitter
    /// for now.
    ///
    /// # Errors
    /// If the link cannot be, or the kernel refuses.
    pub fn start(link: &LinkSpec, seed: u64, tcp: TcpSettings, is_faultless: bool) -> Result<Self, String> {
        if link.stall_sender != Stalls::None || link.stall_receiver != Stalls::None {
            return Err("hosts stall in virtual time only; in real time the link can (--stall)".into());
        }
        let configs = (link.forward()?, link.backward()?);
        let words = |error: io::Error| {
            format!("cannot make a namespace with a TUN device: {error}. {}", namespace::NEEDS)
        };
        let (client, near) = namespace::create(CLIENT_ADDRESS, tcp).map_err(words)?;
        let (server, far) = namespace::create(SERVER_ADDRESS, tcp).map_err(words)?;
        let control = Arc::new(Control::default());
        let (forward, backward) = if is_faultless {
            (configs.0.without_faults(), configs.1.without_faults())
        } else {
            configs.clone()
        };
        let engine = Engine::new(
            [Device::Tun(near), Device::Tun(far)],
            vec![(forward, backward)],
            seed,
            control.clone(),
        );
        let engine = std::thread::Builder::new()
            .name("bridge".into())
            .spawn(|| engine.run())
            .map_err(|e| e.to_string())?;
        Ok(Self { client, server, control, engine: Some(engine), configs })
    }

    /// From now on loss, marks and jitter strike.
    pub fn begin_faults(&self) {
        self.reconfigure(self.configs.clone());
    }

    /// From now on they do not.
    pub fn end_faults(&self) {
        self.reconfigure((self.configs.0.without_faults(), self.configs.1.without_faults()));
    }

    fn reconfigure(&self, links: (LinkConfig, LinkConfig)) {
        self.control.reconfigure.lock().unwrap_or_else(PoisonError::into_inner).insert(0, links);
    }

    /// Bytes in the forward queue, as of a few milliseconds ago.
    pub fn backlog_bytes(&self) -> u64 {
        self.view().backlog_bytes
    }

    /// What the forward link did so far, as of a few milliseconds ago.
    pub fn forward_stats(&self) -> LinkStats {
        self.view().forward
    }

    fn view(&self) -> LaneView {
        let lanes = self.control.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.first().cloned().unwrap_or_default()
    }

    /// Stops, and adds links and lateness to the outcome; marks it invalid if the machine was too slow.
    ///
    /// # Errors
    /// If the engine failed in the middle.
    pub fn finish(mut self, lateness_p99_max: Duration, outcome: &mut Outcome) -> Result<(), String> {
        let drops = self
            .client
            .device_drops()
            .and_then(|a| Ok(a + self.server.device_drops()?))
            .map_err(|e| e.to_string())?;
        let report = self
            .stop()
            .ok_or("the bridge has stopped before")?
            .map_err(|error| format!("the bridge failed: {error}"))?;
        outcome.driver = "bridge".into();
        let (forward, backward) = &report.lanes[0];
        outcome.links = vec![
            Link::new("forward", forward, report.elapsed),
            Link::new("backward", backward, report.elapsed),
        ];
        let (lateness, faults) = report.judge(lateness_p99_max, drops);
        outcome.valid = faults.is_empty();
        outcome.remarks.extend(faults);
        if report.refused > 0 {
            outcome.remarks.push(format!("a device refused {} packets", report.refused));
        }
        if report.down > 0 {
            outcome.remarks.push(format!("a device was down: {} packets went nowhere", report.down));
        }
        outcome.lateness = Some(lateness);
        Ok(())
    }

    fn stop(&mut self) -> Option<io::Result<Report>> {
        self.control.stop.store(true, Ordering::Relaxed);
        let engine = self.engine.take()?;
        Some(engine.join().unwrap_or_else(|_| Err(io::Error::other("its thread died"))))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop();
    }
}
