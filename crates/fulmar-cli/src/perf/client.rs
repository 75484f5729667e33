//! The side that asks for a measurement, runs its half, and has both halves in its hands at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::clock::{self, Exchange, Relation};
use super::half::{Half, receive, send};
use super::intervals::Intervals;
use super::protocol::{Control, Load, Outcome, Received, Test, VERSION, hear, say, unexpected};
use super::report::{Interval, Report};
use crate::exit::Failure;
use crate::session::Session;

/// Exchanges to compare the clocks with.
const EXCHANGES: usize = 8;

/// Runs one measurement; `on_interval` sees each interval as it ends.
pub async fn run(
    session: &Session,
    load: Load,
    is_reverse: bool,
    interval: Duration,
    mut on_interval: impl FnMut(&Interval),
) -> Result<Report, Failure> {
    let (mut say_to, mut hear_from) = session.open().await?;
    let machine = clock::machine();
    let interval_ms = interval.as_millis() as u64;
    let test = Test { version: VERSION, is_reverse, load, interval_ms, machine: machine.clone() };
    say(&mut say_to, &Control::Test(test)).await?;
    let theirs = match hear(&mut hear_from).await? {
        Control::Ready { machine } => machine,
        other => return Err(unexpected(&other)),
    };
    let relation = if !machine.is_empty() && machine == theirs {
        Relation::Shared
    } else {
        compare_clocks(&mut say_to, &mut hear_from).await?
    };
    say(&mut say_to, &Control::Begin(relation)).await?;

    let cpu_before = clock::cpu_time();
    let begin = Instant::now();
    let half = Half::new(load, relation);
    let mut intervals = Intervals::new(interval, &mut on_interval);
    let (received, outcome, intervals) = if is_reverse {
        let received = receive_watched(session, &half, interval, |seconds, bytes| {
            intervals.on_report(seconds, bytes, &session.wire_stats());
        });
        let received = received.await?;
        let intervals =
            intervals.finish(begin.elapsed().as_secs_f64(), half.meter.bytes(), &session.wire_stats());
        say(&mut say_to, &Control::Finished).await?;
        (received, wait_for_outcome(&mut hear_from, |_, _| {}).await?, intervals)
    } else {
        let here = |seconds: f64| if seconds > 0.0 { seconds } else { begin.elapsed().as_secs_f64() };
        let outcome = wait_for_outcome(&mut hear_from, |seconds, bytes| {
            intervals.on_report(here(seconds), bytes, &session.wire_stats());
        });
        let (outcome, ()) = tokio::try_join!(outcome, send(session, &half))?;
        let received =
            outcome.received.clone().ok_or_else(|| Failure::Other("the server measured nothing".into()))?;
        let end_seconds = here(outcome.elapsed_seconds);
        let intervals = intervals.finish(end_seconds, received.bytes, &session.wire_stats());
        (received, outcome, intervals)
    };
    let elapsed = begin.elapsed();
    let cpu_seconds = (clock::cpu_time() - cpu_before).as_secs_f64();
    Ok(Report::new(
        load,
        is_reverse,
        received,
        session.wire_stats(),
        *outcome,
        intervals,
        elapsed,
        cpu_seconds,
    ))
}

/// Asks the server for its time again and again.
pub(super) async fn compare_clocks<R, W>(say_to: &mut W, hear_from: &mut R) -> Result<Relation, Failure>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut exchanges = Vec::with_capacity(EXCHANGES);
    for _ in 0..EXCHANGES {
        let sent_ns = clock::monotonic_ns();
        say(say_to, &Control::Ask).await?;
        match hear(hear_from).await? {
            Control::Time { ns } => {
                exchanges.push(Exchange { sent_ns, their_ns: ns, received_ns: clock::monotonic_ns() });
            }
            other => return Err(unexpected(&other)),
        }
    }
    clock::estimate(&exchanges).ok_or_else(|| Failure::Other("no exchange to compare clocks with".into()))
}

async fn receive_watched(
    session: &Session,
    half: &Half,
    interval: Duration,
    mut on_report: impl FnMut(f64, u64),
) -> Result<Received, Failure> {
    let (meter, begin) = (Arc::clone(&half.meter), Instant::now());
    let mut receiving = std::pin::pin!(receive(session, half));
    let mut ticks = ticks(interval);
    loop {
        tokio::select! {
            received = &mut receiving => return received,
            _ = ticks.tick() => on_report(begin.elapsed().as_secs_f64(), meter.bytes()),
        }
    }
}

/// Ticks at each interval; never, in effect, for an interval of zero.
pub(super) fn ticks(interval: Duration) -> tokio::time::Interval {
    let interval = if interval.is_zero() { Duration::from_secs(1 << 30) } else { interval };
    let mut ticks = tokio::time::interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

async fn wait_for_outcome<R: AsyncRead + Unpin>(
    hear_from: &mut R,
    mut on_progress: impl FnMut(f64, u64),
) -> Result<Box<Outcome>, Failure> {
    loop {
        match hear(hear_from).await? {
            Control::Progress { bytes, seconds } => on_progress(seconds, bytes),
            Control::Outcome(outcome) => return Ok(outcome),
            other => return Err(unexpected(&other)),
        }
    }
}
