//! What a running command tells about itself: to `fulmar status`, and as metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::session::{Session, WireStats};
use crate::tunnel::far::gateway::Gateway;
use crate::tunnel::near::client::Client;
use crate::units;

/// A command at one moment. Counts run from its beginning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Process.
    pub pid: u32,
    /// Which command.
    pub command: String,
    /// Where it listens.
    pub at: String,
    /// Since it was ready.
    pub up_seconds: f64,
    /// Bytes carried from clients to targets.
    pub up_bytes: u64,
    /// Bytes carried from targets to clients.
    pub down_bytes: u64,
    /// Flows opened.
    pub opened: u64,
    /// Flows refused.
    pub refused: u64,
    /// Packets of UDP flows and tunnels that were dropped here, by cause
    /// ([`crate::tunnel::flow::drops::Cause`]).
    #[serde(default)]
    pub dropped_packets: BTreeMap<String, u64>,
    /// Connections there are.
    pub connections: Vec<ConnectionReport>,
}

impl Report {
    /// All packets that were dropped, by cause, those of the connections that there are among them.
    pub fn drops(&self) -> Vec<(&str, u64)> {
        let sum = |of: fn(&ConnectionReport) -> u64| self.connections.iter().map(of).sum();
        let own = self.dropped_packets.iter().map(|(cause, count)| (cause.as_str(), *count));
        let connections = [
            ("unread", sum(|c| c.dropped_datagrams)),
            ("outgrown", sum(|c| c.outgrown_datagrams)),
            ("late", sum(|c| c.repaired_late)),
        ];
        own.chain(connections).filter(|(_, count)| *count > 0).collect()
    }
}

/// One connection at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// The other end's address.
    pub peer: String,
    /// Fingerprint of the other end's key.
    pub key: String,
    /// By which way it goes: `udp`, or `tcp` where UDP is shut.
    #[serde(default)]
    pub way: String,
    /// What `authorized_keys` calls it; nothing if there is no such line.
    #[serde(default)]
    pub comment: String,
    /// Streams open.
    pub streams: u64,
    /// Bytes of streams sent, each once: goodput.
    pub sent_bytes: u64,
    /// Bytes of streams that programs here have got.
    pub received_bytes: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u64,
    /// Bytes held until the other end has them.
    pub held_bytes: u64,
    /// Datagrams dropped because nobody read them.
    pub dropped_datagrams: u64,
    /// Datagrams dropped because the path has come to carry none that long.
    #[serde(default)]
    pub outgrown_datagrams: u64,
    /// Packets of UDP flows, or pieces of these, that were sent to be repaired.
    #[serde(default)]
    pub repaired_sent: u64,
    /// Repair sent for them.
    #[serde(default)]
    pub repaired_repairs_sent: u64,
    /// Of those that were sent here: lost on the way, and restored.
    #[serde(default)]
    pub repaired: u64,
    /// Dropped because their deadline had passed, at either end.
    #[serde(default)]
    pub repaired_late: u64,
    /// Never known here.
    #[serde(default)]
    pub repaired_lost: u64,
    /// What went over the wire.
    pub wire: WireStats,
}

impl ConnectionReport {
    /// Of a connection as it is now.
    pub fn of(session: &Session) -> Self {
        let stats = session.connection().stats();
        Self {
            peer: session.peer(),
            key: session.peer_key(),
            way: session.way().name().into(),
            comment: String::new(),
            streams: stats.streams.streams,
            sent_bytes: stats.streams.sent_bytes,
            received_bytes: stats.streams.read_bytes,
            queued_bytes: stats.streams.queued_bytes,
            held_bytes: stats.symbols_held_bytes,
            dropped_datagrams: stats.datagrams_dropped,
            outgrown_datagrams: stats.datagrams.outgrown,
            repaired_sent: stats.datagrams.sent,
            repaired_repairs_sent: stats.datagrams.repairs_sent,
            repaired: stats.datagrams.repaired,
            repaired_late: stats.datagrams.late + stats.datagrams.expired,
            repaired_lost: stats.datagrams.lost,
            wire: session.wire_stats(),
        }
    }
}

/// A command that can be looked at, and told to read its files again.
pub trait Observed: Send + Sync {
    /// What it does now.
    fn report(&self) -> Report;

    /// Reads its files again, without cutting anybody off; says what came of it.
    fn reload(&self) -> Result<String, String>;
}

/// A client's command.
#[derive(Debug)]
pub struct ObservedClient {
    command: &'static str,
    at: String,
    client: Client,
    begin: Instant,
}

impl ObservedClient {
    /// A command that listens there and goes through this client.
    pub fn new(command: &'static str, at: String, client: &Client) -> Arc<Self> {
        Arc::new(Self { command, at, client: client.clone(), begin: Instant::now() })
    }
}

impl Observed for ObservedClient {
    fn report(&self) -> Report {
        let (up_bytes, down_bytes) = self.client.traffic().bytes();
        let (opened, refused) = self.client.counts();
        let mut dropped_packets = BTreeMap::new();
        self.client.traffic().drops.add_to(&mut dropped_packets);
        Report {
            pid: std::process::id(),
            command: self.command.into(),
            at: self.at.clone(),
            up_seconds: self.begin.elapsed().as_secs_f64(),
            up_bytes,
            down_bytes,
            opened,
            refused,
            dropped_packets,
            connections: self.client.session().iter().map(ConnectionReport::of).collect(),
        }
    }

    fn reload(&self) -> Result<String, String> {
        Ok(format!("`fulmar {}` has no files to read again", self.command))
    }
}

/// A gateway.
#[derive(Debug)]
pub struct ObservedGateway {
    command: &'static str,
    at: String,
    gateway: Arc<Gateway>,
    begin: Instant,
}

impl ObservedGateway {
    /// A gateway that listens there.
    pub fn new(at: String, gateway: &Arc<Gateway>) -> Arc<Self> {
        Self::of("gateway", at, gateway)
    }

    /// One that gives and takes files only.
    pub fn of_files(at: String, gateway: &Arc<Gateway>) -> Arc<Self> {
        Self::of("serve", at, gateway)
    }

    fn of(command: &'static str, at: String, gateway: &Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self { command, at, gateway: Arc::clone(gateway), begin: Instant::now() })
    }
}

impl Observed for ObservedGateway {
    fn report(&self) -> Report {
        use std::sync::atomic::Ordering::Relaxed;
        let of = |(session, comment): &(Session, String)| ConnectionReport {
            comment: units::printable(comment),
            ..ConnectionReport::of(session)
        };
        let mut report = Report {
            pid: std::process::id(),
            command: self.command.into(),
            at: self.at.clone(),
            up_seconds: self.begin.elapsed().as_secs_f64(),
            refused: self.gateway.turned_away(),
            connections: self.gateway.sessions().iter().map(of).collect(),
            ..Report::default()
        };
        for (_, account) in self.gateway.accounts() {
            let (up_bytes, down_bytes) = account.traffic.bytes();
            account.traffic.drops.add_to(&mut report.dropped_packets);
            report.up_bytes += up_bytes;
            report.down_bytes += down_bytes;
            report.opened += account.opened.load(Relaxed);
            report.refused += account.refused.load(Relaxed);
        }
        report
    }

    fn reload(&self) -> Result<String, String> {
        self.gateway.check()?;
        self.gateway.reload();
        Ok("authorized_keys was read again".into())
    }
}
