//! Kernel TCP over the bridge: sender and receiver are threads of this process, each in its namespace, so
//! nothing has to be installed and both ends share a clock.
//!
//! Congestion control is set for each socket by name; Nagle's algorithm is off for messages. Everything else
//! is as Linux has it, but for the sockets' memory (up to 64 MiB instead of 6), so that windows are never
//! what limits a run.

mod info;
mod netstat;
mod receiver;
mod scenario;
mod sender;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use crate::bridge::{Bridge, SERVER_ADDRESS};
use crate::outcome::{Delays, Flow, Outcome, ms};
use crate::sys;
use crate::traffic::Traffic;
pub use info::TcpInfo;
use receiver::{Received, Times};
pub use scenario::{TcpFlow, TcpScenario};
use sender::{LOOK_INTERVAL, Sender, Sent};

/// First port of the receivers.
const PORT: u16 = 5201;
/// How long loss-free handshakes may take.
const HANDSHAKES_MAX: Duration = Duration::from_secs(30);

/// The threads of one flow.
struct Threads {
    sender: JoinHandle<io::Result<Sent>>,
    receiver: JoinHandle<io::Result<Received>>,
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

/// Runs flows of kernel TCP side by side over one link in real time.
///
/// # Errors
/// If the scenario or the machine does not allow it.
pub fn run(scenario: &TcpScenario, seed: u64) -> Result<Outcome, String> {
    scenario.check()?;
    let bridge = Bridge::start(&scenario.link, seed, scenario.settings, scenario.loss_free_handshake)?;
    let flows = run_flows(scenario, &bridge).map_err(|error| format!("kernel TCP: {error}"))?;
    let recoveries =
        netstat::fast_recoveries(&bridge.client).map_err(|error| format!("/proc/net/netstat: {error}"))?;
    let mut outcome = Outcome {
        seed,
        seconds: scenario.duration.as_secs_f64(),
        fast_recoveries: Some(recoveries),
        ..Outcome::default()
    };
    bridge.finish(scenario.lateness_p99_max, &mut outcome)?;
    for (flow, (sent, received, samples)) in scenario.flows.iter().zip(flows) {
        outcome.flows.push(describe(scenario, flow, &sent, received));
        outcome.series.extend(samples);
    }
    outcome.series.sort_by(|a, b| a.t.total_cmp(&b.t));
    let capacity = scenario.link.capacity_bps(scenario.warm_up, scenario.duration);
    outcome.summarise(capacity, scenario.link.mean_loss());
    Ok(outcome)
}

type FlowResult = (Sent, Received, Vec<crate::sample::Sample>);

fn run_flows(scenario: &TcpScenario, bridge: &Bridge) -> io::Result<Vec<FlowResult>> {
    let began = Clock::now();
    let mut threads = Vec::new();
    let mut connected = Vec::new();
    for (number, flow) in scenario.flows.iter().enumerate() {
        let (tell, told) = mpsc::channel();
        connected.push(told);
        threads.push(start_flow(scenario, bridge, flow, number, began, tell)?);
    }
    if scenario.loss_free_handshake {
        for (flow, told) in scenario.flows.iter().zip(&connected).filter(|(flow, _)| flow.start.is_zero()) {
            told.recv_timeout(HANDSHAKES_MAX).map_err(|_| {
                io::Error::other(format!("no connection within {HANDSHAKES_MAX:?} ({})", flow.congestion))
            })?;
        }
        bridge.begin_faults();
    }
    let seen = watch(scenario, bridge, &threads, began);
    if scenario.loss_free_handshake {
        bridge.end_faults();
    }
    seen.into_iter()
        .zip(threads)
        .map(|(samples, flow)| {
            let died = || io::Error::other("a flow's thread died");
            let received = flow.receiver.join().map_err(|_| died())??;
            flow.is_over.store(true, Ordering::Relaxed);
            let mut sent = flow.sender.join().map_err(|_| died())??;
            let mut merged = std::mem::take(&mut sent.samples);
            for sample in &mut merged {
                let at = samples.partition_point(|(t, ..)| *t <= sample.t).saturating_sub(1);
                if let Some((_, bytes, queue)) = samples.get(at) {
                    (sample.received_bytes, sample.queue_bytes) = (*bytes, *queue);
                }
            }
            Ok((sent, received, merged))
        })
        .collect()
}

/// Starts the threads of a flow. `tell` gets a word when it is connected.
fn start_flow(
    scenario: &TcpScenario,
    bridge: &Bridge,
    flow: &TcpFlow,
    number: usize,
    began: Clock,
    tell: mpsc::Sender<()>,
) -> io::Result<Threads> {
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let port = PORT + number as u16;
    let times =
        Times { began, warm_up: scenario.warm_up, end: scenario.duration, one_way: scenario.link.rtt / 2 };
    let (ready, is_ready) = mpsc::channel();
    let (traffic, counter) = (flow.traffic, count.clone());
    let (end, parts_in_order) = (scenario.duration, scenario.loss_free_handshake);
    let receiver = bridge.server.spawn(move || {
        let listener = TcpListener::bind((Ipv4Addr::from(SERVER_ADDRESS), port))?;
        // The receiver of this channel waits for it below.
        let _ = ready.send(());
        match accept(&listener, times)? {
            Some(stream) => {
                if !parts_in_order {
                    leave_nothing(&stream)?;
                }
                receiver::run(stream, traffic, times, &counter)
            }
            None => Ok(Received::default()),
        }
    });
    let _ = is_ready.recv();
    let (own, over, interval) = (flow.clone(), is_over.clone(), scenario.sample_interval);
    let sender = bridge.client.spawn(move || {
        std::thread::sleep(own.start.saturating_sub(began.elapsed()));
        let patience = end.saturating_sub(began.elapsed());
        let Some(stream) = sender::connect(&own, port, patience)? else { return Ok(Sent::default()) };
        if !parts_in_order {
            leave_nothing(&stream)?;
        }
        let _ = tell.send(());
        Sender::new(stream, own, number, began, interval).run(end, &over, parts_in_order)
    });
    Ok(Threads { sender, receiver, is_over, count })
}

/// Closed, a connection is gone at once. One that waits for acknowledgments nobody will send keeps its
/// namespace for minutes, and each namespace makes the next ones slower.
fn leave_nothing(stream: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// Waits for a connection as long as the run lasts.
fn accept(listener: &TcpListener, times: Times) -> io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    loop {
        let left = times.end.saturating_sub(times.began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        sys::wait_readable([listener], left)?;
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// While the run lasts, notes for each flow how much has arrived, and what is in the queue.
fn watch(
    scenario: &TcpScenario,
    bridge: &Bridge,
    threads: &[Threads],
    began: Clock,
) -> Vec<Vec<(f64, u64, u64)>> {
    let mut seen = vec![Vec::new(); threads.len()];
    let interval = scenario.sample_interval.unwrap_or(LOOK_INTERVAL);
    while began.elapsed() < scenario.duration && !threads.iter().all(|flow| flow.receiver.is_finished()) {
        if scenario.sample_interval.is_some() {
            let (t, queue) = (began.elapsed().as_secs_f64(), bridge.backlog_bytes());
            for (seen, flow) in seen.iter_mut().zip(threads) {
                seen.push((t, flow.count.load(Ordering::Relaxed), queue));
            }
        }
        std::thread::sleep(interval.min(scenario.duration.saturating_sub(began.elapsed())));
    }
    seen
}

/// Bytes of the headers of a segment: IPv4, TCP, and its timestamps.
const SEGMENT_HEADER_BYTES: u64 = 52;

fn describe(scenario: &TcpScenario, flow: &TcpFlow, sent: &Sent, received: Received) -> Flow {
    let (meter, end) = (&received.meter, scenario.duration);
    let info = &sent.info;
    let wire_bytes = info.sent_bytes + u64::from(info.sent_segments) * SEGMENT_HEADER_BYTES;
    let mut delays = received.message_delays;
    let unfinished = sent.messages.saturating_sub(received.messages);
    if flow.traffic.has_messages() {
        // Those that never came were delayed by a run's length at most, and by the longest delay seen at
        // least.
        let longest = delays.iter().max().copied().unwrap_or(scenario.duration);
        let overdue = unfinished.saturating_sub(in_flight_messages(scenario, flow));
        delays.extend(std::iter::repeat_n(longest, overdue as usize));
    }
    Flow {
        name: format!("tcp-{}", flow.congestion),
        traffic: flow.traffic.to_string(),
        received_bytes: meter.counted_bytes,
        counted: meter.counted(end),
        goodput_mbps: meter.goodput_mbps(end),
        completion_seconds: (meter.span(end).map(|span| span.as_secs_f64()))
            .filter(|_| meter.has_ended && matches!(flow.traffic, Traffic::Fixed { .. })),
        finish_seconds: (meter.ended_at())
            .filter(|_| matches!(flow.traffic, Traffic::Fixed { .. }))
            .map(|at| at.saturating_sub(flow.start).as_secs_f64()),
        wire_ratio: (meter.total_bytes > 0).then(|| wire_bytes as f64 / meter.total_bytes as f64),
        retransmission_rate: f64::from(info.retransmitted_segments) / f64::from(info.data_segments.max(1)),
        timeouts: u64::from(info.timeouts),
        ce_marks: u64::from(info.delivered_ce),
        rtt_ms: ms(info.rtt),
        message_delay: flow.traffic.has_messages().then(|| Delays::of(&mut delays)),
        unfinished,
        ..Flow::default()
    }
}

/// Messages that are rightly under way when a run ends.
fn in_flight_messages(scenario: &TcpScenario, flow: &TcpFlow) -> u64 {
    match flow.traffic {
        Traffic::Messages { interval, .. } => {
            (scenario.link.rtt.as_nanos() / interval.as_nanos().max(1)) as u64 + 1
        }
        _ => 0,
    }
}
