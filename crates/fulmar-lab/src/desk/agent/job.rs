//! One end of one transfer, from the handshake to the end of the connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::Identity;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::ground::Ground;
use super::meter::Count;
use super::pipe::{Inlet, Outlet};
use super::{kernel, profile};
use crate::desk::control::{Job, Report};
use crate::desk::experiment::SAMPLE_INTERVAL;
use crate::desk::spec::{Transport, transport};
use crate::desk::types::Amount;

/// What is written, as often as needed.
static FILLER: [u8; 1 << 17] = [0x5a; 1 << 17];
/// Bytes read at once.
const READ_BYTES_MAX: usize = 1 << 18;
/// Longest handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// What the controller has said so far.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Prepare,
    Go,
    End,
}

/// Which end.
pub(super) enum Side {
    Receive { returns: bool },
    Send { to: SocketAddr, cargo: Option<Arc<[u8]>> },
}

/// What a job has to work with.
pub(super) struct Desk {
    pub(super) identity: Arc<Identity>,
    pub(super) ground: Arc<Ground>,
    pub(super) reports: mpsc::Sender<(Report, Vec<u8>)>,
    pub(super) phases: watch::Receiver<Phase>,
}

impl Desk {
    /// Does it all, and says how it went.
    pub(super) async fn run(mut self, job: Job, side: Side) {
        let number = job.number;
        let done = match side {
            Side::Receive { returns } => self.receive(job, returns).await,
            Side::Send { to, cargo } => self.send(job, to, cargo).await,
        };
        let last = match done {
            Ok(()) => Report::Ended { job: number },
            Err(reason) => Report::Failed { job: number, reason },
        };
        self.say(last).await;
    }

    async fn say(&self, report: Report) {
        // A controller that is gone needs no report.
        let _ = self.reports.send((report, Vec::new())).await;
    }

    /// Waits until the controller has said so; fails if it is gone.
    async fn phase(&mut self, phase: Phase) -> Result<(), String> {
        let is_there = |now: &Phase| *now == phase || *now == Phase::End;
        self.phases.wait_for(is_there).await.map(drop).map_err(|_| "the controller is gone".to_owned())
    }

    fn has_ended(&self) -> bool {
        *self.phases.borrow() == Phase::End
    }

    async fn receive(&mut self, job: Job, returns: bool) -> Result<(), String> {
        let ip = self.ground.address(job.network);
        let ready = |port: u16| Report::Ready { job: job.number, address: (ip, port).into() };
        let port_of =
            |address: std::io::Result<SocketAddr>| address.map(|a| a.port()).map_err(|e| e.to_string());
        let inlet = match transport(&job.transport) {
            Transport::Kernel(_) => {
                let listener = kernel::listen(&self.ground, &job)?;
                self.say(ready(port_of(listener.local_addr())?)).await;
                tokio::select! {
                    inlet = kernel::accept(listener) => inlet?,
                    _ = self.phase(Phase::End) => return Ok(()),
                }
            }
            _ => {
                let endpoint = profile::listen(&self.ground, &self.identity, &job).await?;
                self.say(ready(port_of(endpoint.local_addr())?)).await;
                tokio::select! {
                    inlet = profile::accept(endpoint) => inlet?,
                    _ = self.phase(Phase::End) => return Ok(()),
                }
            }
        };
        self.phase(Phase::Go).await?;
        self.take(job, inlet, returns).await
    }

    /// Reads, and reports ten times a second; then waits for the end.
    async fn take(&mut self, job: Job, mut inlet: Inlet, returns: bool) -> Result<(), String> {
        let mut count = Count::new(job.amount);
        let mut buffer = vec![0; READ_BYTES_MAX];
        let deadline = count.deadline().map(Instant::from_std);
        let mut over = pin!(async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        let mut phases = self.phases.clone();
        let mut ticks = ticks();
        let mut part = Vec::new();
        let broken = loop {
            tokio::select! {
                read = inlet.read(&mut buffer) => match read {
                    Ok(Some(length)) => {
                        count.on_bytes(length);
                        if returns {
                            part.extend_from_slice(&buffer[..length]);
                        }
                        if count.is_whole() {
                            break None;
                        }
                    }
                    Ok(None) => break (!count.is_whole()).then(|| "the sender ended early".to_owned()),
                    Err(reason) => break Some(reason),
                },
                _ = ticks.tick() => {
                    self.say(Report::Receiving { job: job.number, bytes: count.bytes() }).await;
                    self.give_back(job.number, &mut part).await;
                }
                () = &mut over => break None,
                () = ended(&mut phases) => break None,
            }
        };
        let (bytes, seconds, is_whole) = (count.bytes(), count.seconds(), count.is_whole());
        self.give_back(job.number, &mut part).await;
        if let Some(reason) = broken.filter(|_| !self.has_ended()) {
            return Err(reason);
        }
        self.say(Report::Received { job: job.number, bytes, seconds, is_whole }).await;
        self.phase(Phase::End).await?;
        inlet.end().await;
        Ok(())
    }

    /// Sends what has come back to the controller, in pieces.
    async fn give_back(&self, job: u32, part: &mut Vec<u8>) {
        for piece in part.chunks(READ_BYTES_MAX) {
            let _ = self.reports.send((Report::Part { job }, piece.to_vec())).await;
        }
        part.clear();
    }

    async fn send(&mut self, job: Job, to: SocketAddr, cargo: Option<Arc<[u8]>>) -> Result<(), String> {
        let connecting = async {
            match transport(&job.transport) {
                Transport::Kernel(congestion) => {
                    kernel::connect(self.ground.clone(), &job, congestion, to).await
                }
                _ => profile::connect(&self.ground, &self.identity, &job, to).await,
            }
        };
        let connected = tokio::time::timeout(HANDSHAKE_MAX, connecting).await;
        let mut outlet = connected.map_err(|_| format!("no connection within {HANDSHAKE_MAX:?}"))??;
        self.say(Report::Connected { job: job.number }).await;
        self.phase(Phase::Go).await?;
        let sent = self.pour(&job, &mut outlet, cargo.as_deref()).await;
        let is_whole = matches!(sent, Ok(true));
        outlet.end(is_whole).await;
        // That the other end was faster with the end is no error.
        sent.map(drop).or_else(|reason| if self.has_ended() { Ok(()) } else { Err(reason) })
    }

    /// Writes until everything is written, or until the end is said. True if all was written.
    async fn pour(&mut self, job: &Job, outlet: &mut Outlet, cargo: Option<&[u8]>) -> Result<bool, String> {
        let mut left = match (job.amount, cargo) {
            (_, Some(cargo)) => cargo.len() as u64,
            (Amount::Bytes(bytes), None) => bytes,
            (Amount::Seconds(_), None) => u64::MAX,
        };
        let mut phases = self.phases.clone();
        let mut ticks = ticks();
        let mut is_finished = false;
        loop {
            let piece = match cargo {
                Some(cargo) => &cargo[cargo.len() - left as usize..],
                None => &FILLER[..usize::try_from(left).unwrap_or(usize::MAX).min(FILLER.len())],
            };
            tokio::select! {
                biased;
                () = ended(&mut phases) => return Ok(is_finished),
                _ = ticks.tick() => {
                    let view = outlet.view();
                    // A controller that is slow gets fewer of them.
                    let _ = self.reports.try_send((Report::Sending { job: job.number, view }, Vec::new()));
                }
                written = outlet.write(piece), if left > 0 => {
                    let written = written? as u64;
                    if left != u64::MAX {
                        left -= written;
                    }
                }
            }
            if left == 0 && !is_finished {
                is_finished = true;
                outlet.finish();
            }
        }
    }
}

/// Until the controller has said that it is over, or is gone.
async fn ended(phases: &mut watch::Receiver<Phase>) {
    let _ = phases.wait_for(|phase| *phase == Phase::End).await.map(drop);
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
