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

    let (cpu_before, begin) = (clock::cpu_time(), std::time::Instant::now());
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
    let elapsed_seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = (clock::cpu_time() - cpu_before).as_secs_f64();
    let outcome = Outcome { received, wire: session.wire_stats(), cpu_seconds, elapsed_seconds };
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
        // A stream that is dropped before its end may take its last words with it.
        let _ = tokio::io::AsyncWriteExt::shutdown(say_to).await;
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
    let (meter, begin) = (Arc::clone(&half.meter), std::time::Instant::now());
    let mut receiving = std::pin::pin!(receive(session, half));
    // Not more often than makes sense, whatever the client asks for.
    let interval = if interval_ms == 0 { Duration::ZERO } else { Duration::from_millis(interval_ms.max(10)) };
    let mut ticks = ticks(interval);
    loop {
        tokio::select! {
            received = &mut receiving => return received,
            _ = ticks.tick() => {
                let seconds = begin.elapsed().as_secs_f64();
                say(say_to, &Control::Progress { bytes: meter.bytes(), seconds }).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::compare_clocks;
    use super::super::protocol::Load;
    use super::*;

    fn test(version: u32) -> Test {
        let load = Load::Messages { size_bytes: 100, interval_us: 1000, seconds: 1.0 };
        Test { version, is_reverse: false, load, interval_ms: 0, machine: "another".into() }
    }

    #[tokio::test]
    async fn ends_on_two_machines_compare_their_clocks() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
            (tokio::io::split(near), tokio::io::split(far));
        let client = async {
            say(&mut near_write, &Control::Test(test(VERSION))).await?;
            assert!(matches!(hear(&mut near_read).await?, Control::Ready { .. }));
            let relation = compare_clocks(&mut near_write, &mut near_read).await?;
            say(&mut near_write, &Control::Begin(relation)).await?;
            Ok::<_, Failure>(relation)
        };
        let (ours, theirs) = tokio::join!(client, agree(&mut far_write, &mut far_read));
        let (ours, (_, theirs)) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(ours, theirs);
        // Here both ends read one clock after all, so the estimate can be judged.
        let Relation::Estimated { offset_ns, error_ns } = ours else { panic!("{ours:?}") };
        assert!(offset_ns.unsigned_abs() <= error_ns + 1, "{ours:?}");
        assert_eq!(turned(turned(ours)), ours);
    }

    #[tokio::test]
    async fn what_is_out_of_bounds_is_refused_with_a_reason() {
        let too_much = Load::Bulk { streams: 1_000_000, seconds: Some(1.0), bytes: None };
        for bad in [test(VERSION + 1), Test { load: too_much, ..test(VERSION) }] {
            let (mut question, mut answer) = (Vec::new(), Vec::new());
            say(&mut question, &Control::Test(bad)).await.unwrap();
            agree(&mut answer, &mut &question[..]).await.unwrap_err();
            let refusal = hear(&mut &answer[..]).await.unwrap_err();
            assert!(refusal.to_string().contains("refuses"), "{refusal}");
        }
    }
}
