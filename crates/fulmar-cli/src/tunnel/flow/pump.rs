//! Carries the bytes of one flow both ways between a stream of the tunnel and something local, with its ends
//! and resets.
//!
//! A byte is read only when there is room for it behind: back-pressure is that of the two streams, and what a
//! flow holds itself is one buffer in each direction.

use std::io;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::halves::{RecvHalf, SendHalf, is_lost};
use super::traffic::{Traffic, Way};

/// A buffer begins so small: most of a thousand connections are quiet.
const BUFFER_BYTES_MIN: usize = 4 << 10;

/// A buffer that is filled at once doubles up to this.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// By so much have all buffers of a process grown, at most: flows that stand still keep theirs, and there may
/// be thousands.
const GROWN_BYTES_MAX: usize = 4 << 20;

/// A buffer takes at most this part of what is left of that, so that there is always something left for who
/// comes next.
const PART_OF_REST: usize = 8;

/// The buffers of this process.
static GROWN: Grown = Grown(AtomicUsize::new(0));

/// By how many bytes buffers have grown.
#[derive(Debug)]
struct Grown(AtomicUsize);

/// What one direction of a flow holds.
#[derive(Debug)]
struct Buffer<'a> {
    bytes: Vec<u8>,
    grown: &'a Grown,
}

impl<'a> Buffer<'a> {
    fn new(grown: &'a Grown) -> Self {
        Self { bytes: vec![0; BUFFER_BYTES_MIN], grown }
    }

    /// Doubles, if it may and there is room.
    fn grow(&mut self) {
        let more = self.bytes.len();
        let left = |held: usize| GROWN_BYTES_MAX.saturating_sub(held) / PART_OF_REST;
        let take = |held: usize| (more <= left(held)).then_some(held + more);
        let grown = &self.grown.0;
        if 2 * more <= BUFFER_BYTES_MAX && grown.fetch_update(Relaxed, Relaxed, take).is_ok() {
            self.bytes.resize(2 * more, 0);
        }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.grown.0.fetch_sub(self.bytes.len() - BUFFER_BYTES_MIN, Relaxed);
    }
}

/// How one direction came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Everything was said.
    Finished,
    /// Whom it was for wanted no more. The other direction may still have something to say.
    Unwanted,
    /// Where it came from was cut off.
    Broken,
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both directions came to their ends, or were not wanted any more.
    Ended,
    /// One side was cut off, and the other has been told.
    Broken,
}

/// Carries a flow to its end. `outward` is the way from the local side into the tunnel.
pub async fn pump<LR, LW, TR, TW>(
    local: (LR, LW),
    tunnel: (TR, TW),
    outward: Way,
    traffic: &Traffic,
) -> Outcome
where
    LR: RecvHalf,
    LW: SendHalf,
    TR: RecvHalf,
    TW: SendHalf,
{
    let (mut local_recv, mut local_send) = local;
    let (mut tunnel_recv, mut tunnel_send) = tunnel;
    let is_broken = {
        let mut out = pin!(copy(&mut local_recv, &mut tunnel_send, outward, traffic));
        let mut back = pin!(copy(&mut tunnel_recv, &mut local_send, outward.back(), traffic));
        let (first, is_out) = tokio::select! {
            end = &mut out => (end, true),
            end = &mut back => (end, false),
        };
        let both = match (first, is_out) {
            (End::Broken, _) => End::Broken,
            (_, true) => back.await,
            (_, false) => out.await,
        };
        both == End::Broken
    };
    if !is_broken {
        return Outcome::Ended;
    }
    local_recv.cut_off();
    local_send.cut_off();
    tunnel_recv.cut_off();
    tunnel_send.cut_off();
    Outcome::Broken
}

/// Carries one direction to its end.
async fn copy<R: RecvHalf, W: SendHalf>(reader: &mut R, writer: &mut W, way: Way, traffic: &Traffic) -> End {
    let mut buffer = Buffer::new(&GROWN);
    loop {
        let len = match reader.read(&mut buffer.bytes).await {
            Ok(0) => return finish(reader, writer).await,
            Ok(len) => len,
            Err(_) => return End::Broken,
        };
        traffic.admit(way, len).await;
        tokio::select! {
            biased;
            written = write(writer, &buffer.bytes[..len]) => if let Err(error) = written {
                return fails(reader, &error);
            },
            () = traffic.hopeless() => return End::Broken,
        }
        traffic.count(way, len);
        if len == buffer.bytes.len() {
            buffer.grow();
        }
    }
}

async fn write<W: SendHalf>(writer: &mut W, data: &[u8]) -> io::Result<()> {
    writer.write_all(data).await?;
    writer.flush().await
}

async fn finish<R: RecvHalf, W: SendHalf>(reader: &mut R, writer: &mut W) -> End {
    match writer.shutdown().await {
        Ok(()) => End::Finished,
        // Who is gone already needs no end.
        Err(error) => fails(reader, &error),
    }
}

/// What it means that nothing more can be written: either its reader wants no more, or the tunnel is lost and
/// something is missing.
fn fails<R: RecvHalf>(reader: &mut R, error: &io::Error) -> End {
    if is_lost(error) {
        return End::Broken;
    }
    reader.cut_off();
    End::Unwanted
}

#[cfg(test)]
#[path = "pump_tests.rs"]
mod tests;
