//! One run in a process of its own: what is asked for, the two sides, and what the system says about them.

use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "quiche")]
use crate::quiche_side;
#[cfg(feature = "s2n")]
use crate::s2n_side;
use crate::{fulmar_side, quinn_side};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) const WRITE_BYTES: usize = 1 << 18;
/// Of each socket, in each direction: what Fulmar asks for by itself.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Of the server; the others' certificates are for it.
pub(crate) const NAME: &str = "localhost";
/// The others' flow control, so that it is never what limits a run.
pub(crate) const WINDOW_BYTES: u32 = 16 << 20;
/// More connections than this share endpoints.
const CLIENTS_MAX: usize = 8;
/// Before anything is counted: slow start, MTU discovery.
const WARM_UP: Duration = Duration::from_secs(1);

/// What connections are opened for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// To send as much as they can, from a buffer that is the application's.
    Bulk,
    /// The same, of [`bytes::Bytes`] that nobody has to copy.
    BulkBytes,
    /// To be there.
    Idle,
    /// To be closed at once, and opened again.
    Handshakes,
}

impl Load {
    fn parse(word: &str) -> Result<Self> {
        [Self::Bulk, Self::BulkBytes, Self::Idle, Self::Handshakes]
            .into_iter()
            .find(|load| format!("{load:?}") == word)
            .ok_or_else(|| format!("{word} is no load").into())
    }

    pub(crate) fn is_bulk(self) -> bool {
        matches!(self, Self::Bulk | Self::BulkBytes)
    }
}

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Plan {
    /// A profile of Fulmar's, or another library's name.
    pub(crate) profile: String,
    pub(crate) seconds: f64,
    pub(crate) connections: usize,
    /// Threads of each side.
    pub(crate) cores: usize,
    pub(crate) loss_ppm: u32,
    /// Largest datagrams.
    pub(crate) mtu_bytes: u16,
    pub(crate) load: Load,
}

impl Plan {
    /// The words that a process is started with.
    pub(crate) fn words(&self) -> Vec<String> {
        let Self { profile, seconds, connections, cores, loss_ppm, mtu_bytes, load } = self;
        let words: [&dyn std::fmt::Display; 6] = [profile, seconds, connections, cores, loss_ppm, mtu_bytes];
        let words = words.map(|word| word.to_string());
        [vec!["run".into()], words.to_vec(), vec![format!("{load:?}")]].concat()
    }

    /// The reverse of [`Self::words`], without the first.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let [profile, seconds, connections, cores, loss_ppm, mtu_bytes, load] = words else {
            return Err("run PROFILE|LIBRARY SECONDS CONNECTIONS CORES LOSS_PPM MTU_BYTES \
                Bulk|BulkBytes|Idle|Handshakes"
                .into());
        };
        Ok(Self {
            profile: (*profile).to_owned(),
            seconds: seconds.parse()?,
            connections: connections.parse()?,
            cores: cores.parse()?,
            loss_ppm: loss_ppm.parse()?,
            mtu_bytes: mtu_bytes.parse()?,
            load: Load::parse(load)?,
        })
    }

    /// Client endpoints, each with a socket of its own, over which the connections are spread.
    pub(crate) fn clients(&self) -> usize {
        self.connections.min(CLIENTS_MAX)
    }
}

/// A runtime for each side.
pub(crate) struct Sides {
    pub(crate) server: Runtime,
    pub(crate) client: Runtime,
}

/// The size of full datagrams now, which is found out while data flows.
pub(crate) type DatagramBytes = Box<dyn Fn() -> u16 + Send>;

/// Bytes that each connection's reader got.
pub(crate) struct Received(Vec<AtomicU64>);

/// Of what is received while connections come and go, this stands for one handshake.
pub(crate) const HANDSHAKE: usize = 1;

impl Received {
    pub(crate) fn add(&self, place: usize, len: usize) {
        self.0[place % self.0.len()].fetch_add(len as u64, Ordering::Relaxed);
    }

    fn all(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Says which datagrams another library's receiver is not to get, as `EndpointConfig::lose_received_ppm` does
/// for Fulmar.
#[derive(Debug)]
pub(crate) struct Losses {
    ppm: u32,
    drawn: AtomicU64,
}

impl Losses {
    pub(crate) fn new(ppm: u32) -> Self {
        Self { ppm, drawn: AtomicU64::new(0) }
    }

    /// Splitmix64 of a counter.
    pub(crate) fn take_next(&self) -> bool {
        let mut z = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 32) * 1_000_000) >> 32 < u64::from(self.ppm)
    }
}

/// What runs meanwhile leaves here.
pub(crate) struct Running {
    pub(crate) received: Arc<Received>,
}

/// Carries a plan out and returns its figures.
pub(crate) fn carry_out(plan: &Plan) -> Result<Value> {
    let sides = Sides { server: runtime("server", plan.cores)?, client: runtime("client", plan.cores)? };
    let received = (0..plan.connections).map(|_| AtomicU64::new(0)).collect();
    let running = Running { received: Arc::new(Received(received)) };
    let memory_before = resident_bytes();
    let start = match plan.profile.as_str() {
        "quinn" => quinn_side::start,
        #[cfg(feature = "s2n")]
        "s2n" => s2n_side::start,
        #[cfg(feature = "quiche")]
        "quiche" => quiche_side::start,
        _ => fulmar_side::start,
    };
    let datagram_bytes_now = start(plan, &sides, &running)?;
    sleep(WARM_UP);
    let (began, cpu_before, before) = (Instant::now(), cpu_seconds(), running.received.all());
    sleep(Duration::from_secs_f64(plan.seconds));
    let (seconds, cpu, after) = (began.elapsed().as_secs_f64(), cpu_seconds(), running.received.all());
    let counts: Vec<f64> = before.iter().zip(after).map(|(before, after)| (after - before) as f64).collect();
    let bytes: f64 = counts.iter().sum();
    let squares: f64 = counts.iter().map(|count| count * count).sum();
    let (receiver, sender) = (cpu.0 - cpu_before.0, cpu.1 - cpu_before.1);
    let figures = json!({
        "gbps": bytes * 8e-9 / seconds,
        "receiver_s_per_gb": receiver / (bytes / 1e9),
        "sender_s_per_gb": sender / (bytes / 1e9),
        "receiver_cores": receiver / seconds,
        "sender_cores": sender / seconds,
        "handshakes_per_s_core": bytes / HANDSHAKE as f64 / receiver,
        "jain": bytes * bytes / (squares * counts.len() as f64),
        "kib_per_end": (resident_bytes() - memory_before) / 2048.0 / plan.connections as f64,
        "datagram_bytes": datagram_bytes_now(),
    });
    // Nobody says goodbye.
    sides.server.shutdown_background();
    sides.client.shutdown_background();
    Ok(figures)
}

fn runtime(name: &str, cores: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(cores).thread_name(name).enable_all().build()
}

/// A socket on loopback.
pub(crate) fn udp_socket() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let reference = socket2::SockRef::from(&socket);
    reference.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    reference.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    Ok(socket)
}

/// Seconds of processor that the threads of each side have used: server, client.
fn cpu_seconds() -> (f64, f64) {
    (threads_named("server"), threads_named("client"))
}

fn threads_named(wanted: &str) -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let nanos = tasks.flatten().filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let schedstat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanos: f64 = schedstat.split_whitespace().next()?.parse().ok()?;
        (name.trim() == wanted).then_some(nanos)
    });
    nanos.sum::<f64>() / 1e9
}

/// Bytes of memory that this process uses now.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}
