//! What `fulmar tun` tells `fulmar status` and Prometheus.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::session::Session;
use crate::tunnel::flow::traffic::Traffic;
use crate::tunnel::watch::report::{ConnectionReport, Observed, Report};

/// A tunnel for packets, over all connections that it has had.
#[derive(Debug)]
pub struct ObservedTun {
    /// Bytes of packets.
    pub traffic: Arc<Traffic>,
    device: String,
    begin: Instant,
    session: Mutex<Option<Session>>,
    /// Connections so far.
    opened: std::sync::atomic::AtomicU64,
}

impl ObservedTun {
    /// One whose device has this name.
    pub fn new(device: &str) -> Self {
        Self {
            traffic: Arc::default(),
            device: device.into(),
            begin: Instant::now(),
            session: Mutex::default(),
            opened: Default::default(),
        }
    }

    /// From now on it goes by this connection.
    pub fn has(&self, session: &Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        self.opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Observed for ObservedTun {
    fn report(&self) -> Report {
        let (up_bytes, down_bytes) = self.traffic.bytes();
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let alive = session.filter(|session| session.connection().close_reason().is_none());
        let mut dropped_packets = std::collections::BTreeMap::new();
        self.traffic.drops.add_to(&mut dropped_packets);
        Report {
            pid: std::process::id(),
            command: "tun".into(),
            at: self.device.clone(),
            up_seconds: self.begin.elapsed().as_secs_f64(),
            up_bytes,
            down_bytes,
            opened: self.opened.load(std::sync::atomic::Ordering::Relaxed),
            refused: 0,
            dropped_packets,
            connections: alive.iter().map(ConnectionReport::of).collect(),
        }
    }

    fn reload(&self) -> Result<String, String> {
        Ok("`fulmar tun` has no files to read again".into())
    }
}
