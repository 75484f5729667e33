//! One transfer of one transport, or of several side by side, in the eight steps of the LT-TCP thesis (Hourt
//! 2014, 2.1): configuration to the bridge, delay, handshake, losses, data, no losses, ends of connections,
//! no delay.

use std::collections::BTreeSet;
use std::time::Duration;

use fulmar_net::LinkConfig;
use tokio::sync::{mpsc, watch as channel};
use tokio::time::{Instant, MissedTickBehavior};

use super::agents::{Agents, Member, Told, lost};
use super::means::Means;
use super::paths::Paths;
use super::transfer::{Halt, gone, mbps, step, stopped, transfer};
use super::watch::Watch;
use crate::bridge::LANE_PORT;
use crate::desk::board::Board;
use crate::desk::control::{Job, Network, Order, Report};
use crate::desk::experiment::SAMPLE_INTERVAL;
use crate::desk::path;
use crate::desk::types::{Amount, DriverName, Ending, FlowStatus, Kind, Path, Role, Spec, UnderWay};

/// How long agents may take to be ready and to connect.
const HANDSHAKE_MAX: Duration = Duration::from_secs(35);
/// How long a run waits for agents that are not there.
const HIRING_MAX: Duration = Duration::from_secs(5);
/// How long connections may take to end without faults.
const PARTING_MAX: Duration = Duration::from_secs(8);
/// How much later than the end of its time a receiver may report.
const REPORT_MAX: Duration = Duration::from_secs(10);
/// Bytes of a picture in one message.
const CARGO_BYTES: usize = 1 << 18;

/// One transport of the round.
struct Lane {
    flow: usize,
    watch: Watch,
    /// When it was told to come to an end because its time was over.
    has_given_up: bool,
    /// Who still has a connection.
    open: BTreeSet<u8>,
    end: Option<(Ending, Option<String>)>,
    seconds: f64,
}

/// A round under way.
struct Round<'a> {
    board: &'a Board,
    id: &'a str,
    spec: &'a Spec,
    transfer: u32,
    first_job: u32,
    paths: Paths<'a>,
    lanes: Vec<Lane>,
    sender: Member,
    receiver: Member,
    told: mpsc::Receiver<Told>,
    stop: channel::Receiver<bool>,
    path: channel::Receiver<Path>,
    late_max: Duration,
}

/// Carries a round out, and puts its transfers on the board however it ends.
pub(crate) async fn run(
    means: &Means,
    id: &str,
    spec: &Spec,
    transfer: u32,
    flows: &[usize],
    first_job: u32,
) -> Result<(), Halt> {
    let (board, late_max) = (&*means.board, means.late_max);
    let (sender, receiver, told) = pair(&means.agents).await?;
    let (stop, mut path, picture) = board
        .with(id, |record| (record.stop.subscribe(), record.path.subscribe(), record.picture.clone()))
        .map_err(|refusal| refusal.message)?;
    let links = links(&path.borrow_and_update())?;
    let ground = means.ground.as_ref().filter(|_| spec.driver == DriverName::Real);
    let seed = spec.seed + u64::from(transfer);
    step(board, id, 1);
    let paths = Paths::start(ground, links, flows.len(), seed, !spec.loss_free_handshake)?;
    step(board, id, 2);
    let lanes = flows.iter().map(|&flow| Lane {
        flow,
        watch: Watch::default(),
        has_given_up: false,
        open: BTreeSet::new(),
        end: None,
        seconds: 0.0,
    });
    let lanes = lanes.collect();
    let mut round = Round {
        board,
        id,
        spec,
        transfer,
        first_job,
        paths,
        lanes,
        sender,
        receiver,
        told,
        stop,
        path,
        late_max,
    };
    for &flow in flows {
        board.update(id, |record| {
            record.flows[flow].status = FlowStatus::Under(UnderWay::Running);
            record.flows[flow].transfer = transfer;
        });
    }
    let picture = picture.filter(|_| spec.kind == Kind::Demo);
    let done = round.carry_out(picture.as_deref().map(|picture| picture.bytes.as_slice())).await;
    round.close(done).await
}

/// The two agents; one that was lost may be on its way back.
async fn pair(agents: &Agents) -> Result<(Member, Member, mpsc::Receiver<Told>), Halt> {
    let until = Instant::now() + HIRING_MAX;
    loop {
        match agents.take_pair() {
            Err(_) if Instant::now() < until => tokio::time::sleep(SAMPLE_INTERVAL).await,
            hired => return Ok(hired?),
        }
    }
}

fn links(path: &Path) -> Result<(LinkConfig, LinkConfig), Halt> {
    path::links(path).map_err(|refusal| Halt::Failed(refusal.message))
}

impl Round<'_> {
    async fn carry_out(&mut self, picture: Option<&[u8]>) -> Result<(), Halt> {
        step(self.board, self.id, 3);
        let until = Instant::now() + HANDSHAKE_MAX;
        self.connect(picture, until).await?;
        step(self.board, self.id, 4);
        (0..self.lanes.len()).for_each(|lane| self.paths.set_faults(lane, true));
        step(self.board, self.id, 5);
        for lane in 0..self.lanes.len() {
            let job = self.first_job + lane as u32;
            self.receiver.order(Order::Go { job }, Vec::new()).await?;
            self.sender.order(Order::Go { job }, Vec::new()).await?;
        }
        self.transfer().await?;
        step(self.board, self.id, 7);
        self.part().await
    }

    /// Step 3.
    async fn connect(&mut self, picture: Option<&[u8]>, until: Instant) -> Result<(), Halt> {
        for (index, piece) in picture.unwrap_or_default().chunks(CARGO_BYTES).enumerate() {
            self.sender.order(Order::Cargo { is_first: index == 0 }, piece.to_vec()).await?;
        }
        for lane in 0..self.lanes.len() {
            let job = self.job(lane, &self.sender.key);
            self.receiver.order(Order::Receive { job, returns: picture.is_some() }, Vec::new()).await?;
            self.lanes[lane].open.insert(Role::Receiver as u8);
        }
        let mut waiting = 2 * self.lanes.len();
        while waiting > 0 {
            let (role, report, _) = self.next(Some(until), "no connection").await?;
            match (self.lane_of(&report), report) {
                (Some(lane), Report::Ready { address, .. }) => {
                    let to = self.paths.way(lane, address)?;
                    let job = self.job(lane, &self.receiver.key);
                    self.lanes[lane].open.insert(Role::Sender as u8);
                    self.sender
                        .order(Order::Send { job, to, has_cargo: picture.is_some() }, Vec::new())
                        .await?;
                    waiting -= 1;
                }
                (Some(_), Report::Connected { .. }) => waiting -= 1,
                (lane, report) => self.on_trouble(role, lane, &report)?,
            }
        }
        Ok(())
    }

    fn job(&self, lane: usize, peer_key: &str) -> Job {
        let is_real = self.spec.driver == DriverName::Real;
        Job {
            number: self.first_job + lane as u32,
            transport: self.spec.transports[self.lanes[lane].flow].clone(),
            network: if is_real { Network::Data } else { Network::Loopback },
            port: if is_real { LANE_PORT + lane as u16 } else { 0 },
            amount: self.spec.amount,
            ecn: self.spec.ecn,
            peer_key: peer_key.to_owned(),
        }
    }

    /// Step 5: until every receiver has what was to come, or its time is over.
    async fn transfer(&mut self) -> Result<(), Halt> {
        let began = Instant::now();
        let limit = match self.spec.amount {
            Amount::Bytes(_) => Duration::from_secs_f64(self.spec.time_max_s),
            Amount::Seconds(seconds) => Duration::from_secs_f64(seconds) + REPORT_MAX,
        };
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut path, mut stop) = (self.path.clone(), self.stop.clone());
        (0..self.lanes.len()).for_each(|lane| self.sample(lane, began));
        while self.lanes.iter().any(|lane| lane.end.is_none()) {
            tokio::select! {
                told = self.told.recv() => {
                    let (role, report, beside) = told.ok_or_else(|| Halt::Failed("nobody reports".into()))?;
                    let is_count = matches!(report, Report::Receiving { .. } | Report::Received { .. });
                    let counted = self.lane_of(&report).filter(|_| is_count);
                    self.on_report(role, report, beside).await?;
                    if let Some(lane) = counted {
                        self.sample(lane, began);
                    }
                }
                _ = ticks.tick() => {
                    if began.elapsed() > limit + REPORT_MAX {
                        return Err(Halt::Failed("a receiver does not report".into()));
                    }
                    if began.elapsed() > limit {
                        self.give_up().await?;
                    }
                }
                changed = path.changed() => {
                    changed.map_err(|_| Halt::Stopped)?;
                    let path = path.borrow_and_update().clone();
                    self.paths.change(links(&path)?);
                }
                () = stopped(&mut stop) => return Err(Halt::Stopped),
            }
        }
        Ok(())
    }

    async fn on_report(&mut self, role: Role, report: Report, beside: Vec<u8>) -> Result<(), Halt> {
        let Some(lane) = self.lane_of(&report) else { return self.on_trouble(role, None, &report) };
        match report {
            Report::Sending { view, .. } => self.lanes[lane].watch.view = view,
            Report::Receiving { bytes, .. } => self.lanes[lane].watch.received_bytes = bytes,
            Report::Part { .. } => {
                let (flow, mut is_room) = (self.lanes[lane].flow, true);
                self.board.update(self.id, |record| is_room = record.take_in(flow, &beside));
                if !is_room {
                    let name = &self.receiver.name;
                    return Err(Halt::Failed(format!("agent '{name}' returns more than the picture has")));
                }
            }
            Report::Received { bytes, seconds, is_whole, .. } => {
                let seen = &mut self.lanes[lane];
                (seen.watch.received_bytes, seen.seconds) = (bytes, seconds);
                let ending = match self.spec.amount {
                    Amount::Bytes(_) if is_whole => Ending::Complete,
                    Amount::Bytes(_) => Ending::GaveUp,
                    Amount::Seconds(_) => Ending::Time,
                };
                // What was stopped stays so.
                if seen.end.is_none() {
                    seen.end = Some((ending, None));
                    self.end(lane).await?;
                }
            }
            Report::Failed { .. } if self.lanes[lane].end.is_none() => {
                return self.on_trouble(role, Some(lane), &report);
            }
            Report::Ended { .. } | Report::Failed { .. } => _ = self.lanes[lane].open.remove(&(role as u8)),
            _ => {}
        }
        Ok(())
    }

    /// Steps 6 and 7 of one lane.
    async fn end(&mut self, lane: usize) -> Result<(), Halt> {
        if self.spec.loss_free_handshake {
            self.paths.set_faults(lane, false);
        }
        let job = self.first_job + lane as u32;
        self.receiver.order(Order::End { job }, Vec::new()).await?;
        self.sender.order(Order::End { job }, Vec::new()).await?;
        Ok(())
    }

    /// The time of those that are not done is over.
    async fn give_up(&mut self) -> Result<(), Halt> {
        for lane in 0..self.lanes.len() {
            let seen = &mut self.lanes[lane];
            if seen.end.is_none() && !seen.has_given_up {
                seen.has_given_up = true;
                let job = self.first_job + lane as u32;
                self.receiver.order(Order::End { job }, Vec::new()).await?;
            }
        }
        Ok(())
    }

    /// Step 7: waits until the connections have ended.
    async fn part(&mut self) -> Result<(), Halt> {
        let until = Instant::now() + PARTING_MAX;
        while self.lanes.iter().any(|lane| !lane.open.is_empty()) {
            match self.next(Some(until), "").await {
                Ok((role, report, beside)) => {
                    // Samples of connections that end are of no interest.
                    if !matches!(report, Report::Sending { .. } | Report::Receiving { .. }) {
                        self.on_report(role, report, beside).await?;
                    }
                }
                // Agents see to it that nothing of a job is left behind.
                Err(Halt::Failed(reason)) if reason.is_empty() => return Ok(()),
                Err(halt) => return Err(halt),
            }
        }
        Ok(())
    }

    /// What is said next; a failure in these words if nothing is for too long.
    async fn next(&mut self, until: Option<Instant>, late: &str) -> Result<Told, Halt> {
        let mut stop = self.stop.clone();
        let until = until.unwrap_or_else(|| Instant::now() + HANDSHAKE_MAX);
        tokio::select! {
            told = self.told.recv() => told.ok_or_else(|| Halt::Failed("nobody reports".into())),
            _ = tokio::time::sleep_until(until) => Err(Halt::Failed(late.into())),
            () = stopped(&mut stop) => Err(Halt::Stopped),
        }
    }

    /// The lane a report is about; none if it is about none of this round.
    fn lane_of(&self, report: &Report) -> Option<usize> {
        let job = match report {
            Report::Ready { job, .. }
            | Report::Connected { job }
            | Report::Sending { job, .. }
            | Report::Receiving { job, .. }
            | Report::Part { job }
            | Report::Received { job, .. }
            | Report::Ended { job }
            | Report::Failed { job, .. } => *job,
            Report::Hello { .. } | Report::Lost { .. } | Report::Pong => return None,
        };
        let lane = job.checked_sub(self.first_job)? as usize;
        (lane < self.lanes.len()).then_some(lane)
    }

    /// What ends a run, if it does.
    fn on_trouble(&mut self, role: Role, lane: Option<usize>, report: &Report) -> Result<(), Halt> {
        match (lane, report) {
            (_, Report::Lost { name }) => {
                // With it are its connections.
                self.lanes.iter_mut().for_each(|lane| _ = lane.open.remove(&(role as u8)));
                Err(Halt::Failed(lost(name)))
            }
            (Some(lane), Report::Failed { reason, .. }) => {
                let transport = &self.spec.transports[self.lanes[lane].flow];
                let who = if role == Role::Sender { &self.sender.name } else { &self.receiver.name };
                Err(Halt::Failed(format!("{transport}, agent '{who}': {reason}")))
            }
            _ => Ok(()),
        }
    }

    /// Taken when a receiver has counted: at any other moment its count would be older than the sample, and
    /// the last of them, shortly before the end, would show a rate that the path does not have.
    fn sample(&mut self, lane: usize, began: Instant) {
        let (t, views) = (began.elapsed().as_secs_f64(), self.paths.views());
        let seen = &mut self.lanes[lane];
        let sample = seen.watch.sample(seen.flow, self.transfer, t, &views[lane]);
        self.board.add_samples(self.id, vec![sample]);
    }

    /// Step 8, also of a round that was cut short: nothing of it stays behind.
    async fn close(mut self, done: Result<(), Halt>) -> Result<(), Halt> {
        if let Err(halt) = &done {
            let end = match halt {
                Halt::Stopped => (Ending::Stopped, None),
                Halt::Failed(reason) => (Ending::Failed, Some(reason.clone())),
            };
            for lane in 0..self.lanes.len() {
                self.lanes[lane].end.get_or_insert_with(|| end.clone());
                // Whoever is lost has dropped everything.
                let _ = self.end(lane).await;
            }
            // Nobody can stop the stopping.
            let (_calm, stop) = channel::channel(false);
            self.stop = stop;
            let _ = self.part().await;
        }
        step(self.board, self.id, 8);
        let Self { board, id, spec, transfer: number, paths, lanes, .. } = self;
        let ends = paths.clear(self.late_max)?;
        for (lane, end) in lanes.into_iter().zip(ends) {
            let mut ended = transfer(spec, lane.flow, number);
            (ended.status, ended.error) = lane.end.unwrap_or((Ending::Failed, None));
            ended.received_bytes = lane.watch.received_bytes;
            ended.time_s = lane.seconds;
            ended.goodput_mbps = mbps(ended.received_bytes, lane.seconds);
            ended.repair_packets = lane.watch.view.repair_packets;
            (ended.lost_packets, ended.offered_packets) = (gone(&end.forward), end.forward.offered);
            ended.wire_ratio = (ended.received_bytes > 0)
                .then(|| end.forward.offered_bytes as f64 / ended.received_bytes as f64);
            if let (Some(reason), Ending::Complete | Ending::Time | Ending::GaveUp) =
                (end.invalid, ended.status)
            {
                (ended.status, ended.error) = (Ending::Invalid, Some(reason));
            }
            board.add_transfer(id, ended);
        }
        done
    }
}
