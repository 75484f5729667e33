//! Several paths side by side over one pair of ends: transports that are compared do not share a link, but
//! meet the same losses. A packet's lane is told by its port at the receiving end, [`super::LANE_PORT`] plus
//! the lane.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fulmar_net::LinkConfig;

use super::device::{Device, READ_BYTES_MAX, Wire};
use super::engine::{Control, Engine, LaneView, Report};
use super::{CLIENT_ADDRESS, End, SERVER_ADDRESS, TcpSettings, namespace};
use crate::outcome::{Lateness, Link};

/// What the ends of the paths are: it outlives the runs.
#[derive(Debug)]
pub struct Ground {
    devices: [Device; 2],
    /// Sender's and receiver's namespace, if the bridge has made them.
    pub ends: Option<[End; 2]>,
}

impl Ground {
    /// Two namespaces with a device each.
    ///
    /// # Errors
    /// In words that say what is needed.
    pub fn namespaces() -> Result<Self, String> {
        let words =
            |error| format!("cannot make a namespace with a TUN device: {error}. {}", namespace::NEEDS);
        let (client, near) = namespace::create(CLIENT_ADDRESS, TcpSettings::default()).map_err(words)?;
        let (server, far) = namespace::create(SERVER_ADDRESS, TcpSettings::default()).map_err(words)?;
        Ok(Self { devices: [Device::Tun(near), Device::Tun(far)], ends: Some([client, server]) })
    }

    /// Two Ethernet interfaces of this machine, to the sender's side and to the receiver's.
    ///
    /// # Errors
    /// If there are no such interfaces, or one may not read them.
    pub fn interfaces(names: [&str; 2]) -> Result<Self, String> {
        let wires = Wire::pair(names)
            .map_err(|error| format!("{error}. The bridge reads interfaces as they are: it needs root."))?;
        Ok(Self { devices: wires.map(Device::Wire), ends: None })
    }

    fn device_drops(&self) -> std::io::Result<u64> {
        self.ends.iter().flatten().map(End::device_drops).sum()
    }

    fn take_drops(&self) -> std::io::Result<u64> {
        self.devices.iter().map(Device::take_drops).sum()
    }
}

/// Lanes that are being moved.
#[derive(Debug)]
pub struct Lanes {
    control: Arc<Control>,
    engine: Option<JoinHandle<std::io::Result<Report>>>,
    drops_before: u64,
}

/// What the lanes did in all.
#[derive(Clone, Debug, Default)]
pub struct LanesReport {
    /// Forward and backward link of each lane.
    pub links: Vec<[Link; 2]>,
    /// How late packets were.
    pub lateness: Lateness,
    /// Why the machine was too slow, if it was: then no figure means anything.
    pub invalid: Option<String>,
}

impl Lanes {
    /// Begins to move packets, the same seed for every lane.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(ground: &Ground, lanes: Vec<(LinkConfig, LinkConfig)>, seed: u64) -> Result<Self, String> {
        let words = |error: std::io::Error| error.to_string();
        let devices =
            [ground.devices[0].try_clone().map_err(words)?, ground.devices[1].try_clone().map_err(words)?];
        let mut buffer = vec![0; READ_BYTES_MAX];
        devices.iter().for_each(|device| device.drain(&mut buffer));
        let drops_before = ground.device_drops().map_err(words)?;
        ground.take_drops().map_err(words)?;
        let control = Arc::new(Control::default());
        let engine = Engine::new(devices, lanes, seed, control.clone());
        let engine =
            std::thread::Builder::new().name("bridge".into()).spawn(|| engine.run()).map_err(words)?;
        Ok(Self { control, engine: Some(engine), drops_before })
    }

    /// What a lane does from now on.
    pub fn reconfigure(&self, lane: usize, links: (LinkConfig, LinkConfig)) {
        self.control.reconfigure.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, links);
    }

    /// How the lanes are, some milliseconds ago; none at the very beginning.
    pub fn views(&self) -> Vec<LaneView> {
        self.control.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops, and tells what was.
    ///
    /// # Errors
    /// If the engine failed in the middle.
    pub fn finish(mut self, ground: &Ground, lateness_p99_max: Duration) -> Result<LanesReport, String> {
        let drops =
            ground.device_drops().and_then(|drops| Ok(drops - self.drops_before + ground.take_drops()?));
        let drops = drops.map_err(|error| error.to_string())?;
        let report = self.stop().ok_or("the bridge has stopped before")?;
        let report = report.map_err(|error| format!("the bridge failed: {error}"))?;
        let (lateness, faults) = report.judge(lateness_p99_max, drops);
        let links = report.lanes.iter().map(|(forward, backward)| {
            [Link::new("forward", forward, report.elapsed), Link::new("backward", backward, report.elapsed)]
        });
        Ok(LanesReport {
            links: links.collect(),
            lateness,
            invalid: (!faults.is_empty()).then(|| faults.join("; ")),
        })
    }

    fn stop(&mut self) -> Option<std::io::Result<Report>> {
        self.control.stop.store(true, Ordering::Relaxed);
        let engine = self.engine.take()?;
        Some(engine.join().unwrap_or_else(|_| Err(std::io::Error::other("its thread died"))))
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.stop();
    }
}
