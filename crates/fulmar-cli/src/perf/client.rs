//! The side that asks for a measurement, runs its half, and has both halves in its hands at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::clock::{self, Exchange, Relation};
use super::half::{Half, receive, send};
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
    let mut intervals = Vec::new();
    let mut note = |bytes: u64, is_last: bool| {
        let before = intervals.last().map_or((0.0, 0), |i: &Interval| (i.end_seconds, i.bytes_total));
        let next = Interval::new(before, begin.elapsed().as_secs_f64(), bytes, session);
        if !is_last || next.bytes > 0 {
            on_interval(&next);
            intervals.push(next);
        }
    };
    let (received, outcome) = if is_reverse {
        let received = receive_watched(session, &half, interval, &mut note).await?;
        say(&mut say_to, &Control::Finished).await?;
        (received, wait_for_outcome(&mut hear_from, |_| {}).await?)
    } else {
        let outcome = wait_for_outcome(&mut hear_from, |bytes| note(bytes, false));
        let (outcome, ()) = tokio::try_join!(outcome, send(session, &half))?;
        let received =
            outcome.received.clone().ok_or_else(|| Failure::Other("the server measured nothing".into()))?;
        note(received.bytes, true);
        (received, outcome)
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
    note: &mut impl FnMut(u64, bool),
) -> Result<Received, Failure> {
    let meter = Arc::clone(&half.meter);
    let mut receiving = std::pin::pin!(receive(session, half));
    let mut ticks = ticks(interval);
    loop {
        tokio::select! {
            received = &mut receiving => {
                note(meter.bytes(), true);
                return received;
            }
            _ = ticks.tick() => note(meter.bytes(), false),
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
    mut on_progress: impl FnMut(u64),
) -> Result<Box<Outcome>, Failure> {
    loop {
        match hear(hear_from).await? {
            Control::Progress { bytes } => on_progress(bytes),
            Control::Outcome(outcome) => return Ok(outcome),
            other => return Err(unexpected(&other)),
        }
    }
}
