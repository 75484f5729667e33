//! The kernel's TCP on the same path: a bridge of its own with the same link and the same losses, moved at
//! the same time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulmar_cli::demo::course::Course;
use fulmar_cli::demo::display::Sample;
use fulmar_cli::demo::race::Run;
use fulmar_cli::exit::Failure;
use rustix::io::Errno;
use serde_json::json;
use socket2::{Domain, Socket, Type};

use super::test_path::{bridge, inside, joined, stop};
use crate::bridge::{Bridge, SERVER_ADDRESS};
use crate::tcp::TcpInfo;

/// How long a call may block before it is asked whether all is over.
const PATIENCE: Duration = Duration::from_millis(50);

/// What both threads and the display share.
#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    received_bytes: AtomicU64,
    rtt_us: AtomicU64,
    data_segments: AtomicU64,
    segments_again: AtomicU64,
    /// When the connection was there, as Fulmar's runs count from theirs.
    began: OnceLock<Instant>,
}

/// The kernel's TCP copying the file.
#[derive(Debug)]
pub(super) struct Kernel {
    name: String,
    bridge: Bridge,
    shared: Arc<Shared>,
    sender: JoinHandle<io::Result<()>>,
    receiver: JoinHandle<io::Result<Received>>,
}

#[derive(Debug, Default)]
struct Received {
    hash: Option<blake3::Hash>,
    ended: Option<Instant>,
}

impl Kernel {
    /// Begins to copy with this congestion control.
    pub(super) fn start(course: &Course, congestion: &str) -> Result<Self, Failure> {
        let bridge = bridge(course)?;
        let listener = inside(&bridge.server, || TcpListener::bind((Ipv4Addr::from(SERVER_ADDRESS), 0)))?;
        let address = listener.local_addr().map_err(|e| Failure::Other(e.to_string()))?;
        let own = congestion.to_owned();
        let socket = inside(&bridge.client, move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_tcp_congestion(own.as_bytes()).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("this kernel has no congestion control '{own}' ({error})"),
                )
            })?;
            Ok(socket)
        })?;
        let shared = Arc::new(Shared::default());
        let (ours, theirs) = (shared.clone(), shared.clone());
        let (file, file_bytes) = (course.file.clone(), course.file_bytes);
        Ok(Self {
            name: format!("tcp-{congestion}"),
            sender: std::thread::spawn(move || send(socket, address, file, &ours)),
            receiver: std::thread::spawn(move || receive(&listener, file_bytes, &theirs)),
            bridge,
            shared,
        })
    }

    /// How far it is.
    pub(super) fn sample(&self, file_bytes: u64) -> Sample {
        let forward = self.bridge.forward_stats();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
        Sample {
            profile: self.name.clone(),
            elapsed: self.shared.began.get().map_or(Duration::ZERO, Instant::elapsed),
            time_max: None,
            bytes: count(&self.shared.received_bytes),
            file_bytes,
            rtt_ms: count(&self.shared.rtt_us) as f64 / 1e3,
            wire_loss_percent: share(forward.lost.packets, forward.offered.packets),
            queue_drops: forward.dropped.packets,
            extra_percent: (
                "again ",
                share(count(&self.shared.segments_again), count(&self.shared.data_segments)),
            ),
        }
    }

    /// Its time is over, if it has not come to its end before.
    pub(super) fn finish(self) -> Result<Run, Failure> {
        let now = Instant::now();
        self.shared.is_over.store(true, Ordering::Relaxed);
        let failed = |e: io::Error| Failure::Other(format!("{}: {e}", self.name));
        let received = joined(self.receiver).map_err(failed)?;
        // The receiver may have closed its end first.
        let closed = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::NotConnected];
        let is_closed = |e: &io::Error| closed.contains(&e.kind());
        joined(self.sender).or_else(|e| if is_closed(&e) { Ok(()) } else { Err(e) }).map_err(failed)?;
        let began = self.shared.began.get().copied().unwrap_or(now);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Run {
            profile: self.name,
            bytes: count(&self.shared.received_bytes),
            time: received.ended.unwrap_or(now).saturating_duration_since(began),
            blake3: received.hash.map(|hash| hash.to_hex().to_string()),
            sender: json!({
                "rtt_ms": count(&self.shared.rtt_us) as f64 / 1e3,
                "data_segments": count(&self.shared.data_segments),
                "segments_again": count(&self.shared.segments_again),
            }),
            forward: stop(self.bridge)?,
        })
    }
}

fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn send(socket: Socket, address: SocketAddr, file: PathBuf, shared: &Shared) -> io::Result<()> {
    socket.set_write_timeout(Some(PATIENCE))?;
    // An attempt that was cut short goes on in the kernel, and asking again waits for it.
    while let Err(error) = socket.connect(&address.into()) {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ISCONN) => break,
            Some(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {}
            _ => return Err(error),
        }
        if shared.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    let _ = shared.began.set(Instant::now());
    let mut stream = TcpStream::from(socket);
    let mut file = std::fs::File::open(file)?;
    let (mut buffer, mut rest) = (vec![0; 1 << 16], 0..0);
    while !shared.is_over.load(Ordering::Relaxed) {
        if rest.is_empty() {
            rest = 0..file.read(&mut buffer)?;
            if rest.is_empty() {
                break;
            }
        }
        match stream.write(&buffer[rest.clone()]) {
            Ok(written) => rest.start += written,
            Err(error) if is_patience(&error) => {}
            Err(error) => return Err(error),
        }
        note(&stream, shared)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    while !shared.is_over.load(Ordering::Relaxed) {
        note(&stream, shared)?;
        std::thread::sleep(PATIENCE);
    }
    Ok(())
}

/// What the kernel says of the connection.
fn note(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let info = TcpInfo::of(stream)?;
    shared.rtt_us.store(info.rtt.as_micros() as u64, Ordering::Relaxed);
    shared.data_segments.store(info.data_segments.into(), Ordering::Relaxed);
    shared.segments_again.store(info.retransmitted_segments.into(), Ordering::Relaxed);
    Ok(())
}

fn receive(listener: &TcpListener, file_bytes: u64, shared: &Shared) -> io::Result<Received> {
    listener.set_nonblocking(true)?;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_patience(&error) && !shared.is_over.load(Ordering::Relaxed) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if is_patience(&error) => return Ok(Received::default()),
            Err(error) => return Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut buffer, mut hasher, mut bytes) = (vec![0; 1 << 16], blake3::Hasher::new(), 0);
    while !shared.is_over.load(Ordering::Relaxed) && bytes < file_bytes {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                hasher.update(&buffer[..length]);
                bytes += length as u64;
                shared.received_bytes.store(bytes, Ordering::Relaxed);
            }
            Err(error) if is_patience(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let is_whole = bytes == file_bytes;
    Ok(Received { hash: is_whole.then(|| hasher.finalize()), ended: is_whole.then(Instant::now) })
}
