//! The side that is asked for a measurement: one per connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::client::ticks;
use super::clock::{self, Relation};
use super::half::{Half, receive, send};
use super::protocol::{Control, Outcome, Received, Test, VERSION, hear, say, unexpected};
use crate::exit::Failure;
use crate::session::Session;

/// How long a client may take to say what it wants.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Runs the server's half of one measurement, and says what came of it.
pub async fn run(session: &Session) -> Result<(Test, Outcome), Failure> {
    let (mut say_to, mut hear_from) = session.accept().await?;
    let (test, relation) = tokio::time::timeout(REQUEST_TIME_MAX, agree(&mut say_to, &mut hear_from))
        .await
        .map_err(|_| Failure::Other("the client did not say what to measure".into()))??;

    let cpu_before = clock::cpu_time();
    let half = Half::new(test.load, turned(relation));
    let received = if test.is_reverse {
        // `Finished` may be lost with a connection that the client closes: sending is what matters.
        send(session, &half).await?;
        match hear(&mut hear_from).await? {
            Control::Finished => None,
            other => return Err(unexpected(&other)),
        }
    } else {
        Some(receive_reported(session, &half, test.interval_ms, &mut say_to).await?)
    };
    let cpu_seconds = (clock::cpu_time() - cpu_before).as_secs_f64();
    let outcome = Outcome { received, wire: session.wire_stats(), cpu_seconds };
    say(&mut say_to, &Control::Outcome(Box::new(outcome.clone()))).await?;
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut say_to).await;
    Ok((test, outcome))
}

async fn agree<R, W>(say_to: &mut W, hear_from: &mut R) -> Result<(Test, Relation), Failure>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let test = match hear(hear_from).await? {
        Control::Test(test) => test,
        other => return Err(unexpected(&other)),
    };
    let check = if test.version == VERSION {
        test.load.check()
    } else {
        Err(format!(
            "version {} of the measurement protocol is not spoken here: it is {VERSION}",
            test.version
        ))
    };
    if let Err(why) = check {
        say(say_to, &Control::Refused(why.clone())).await?;
        return Err(Failure::Other(why));
    }
    say(say_to, &Control::Ready { machine: clock::machine() }).await?;
    loop {
        match hear(hear_from).await? {
            Control::Ask => say(say_to, &Control::Time { ns: clock::monotonic_ns() }).await?,
            Control::Begin(relation) => return Ok((test, relation)),
            other => return Err(unexpected(&other)),
        }
    }
}

/// The client told how our clock compares to its own; a half wants the peer's seen from here.
fn turned(relation: Relation) -> Relation {
    match relation {
        Relation::Shared => Relation::Shared,
        Relation::Estimated { offset_ns, error_ns } => {
            Relation::Estimated { offset_ns: offset_ns.wrapping_neg(), error_ns }
        }
    }
}

async fn receive_reported<W: AsyncWrite + Unpin>(
    session: &Session,
    half: &Half,
    interval_ms: u64,
    say_to: &mut W,
) -> Result<Received, Failure> {
    let meter = Arc::clone(&half.meter);
    let mut receiving = std::pin::pin!(receive(session, half));
    // Not more often than makes sense, whatever the client asks for.
    let interval = if interval_ms == 0 { Duration::ZERO } else { Duration::from_millis(interval_ms.max(10)) };
    let mut ticks = ticks(interval);
    loop {
        tokio::select! {
            received = &mut receiving => return received,
            _ = ticks.tick() => say(say_to, &Control::Progress { bytes: meter.bytes() }).await?,
        }
    }
}
