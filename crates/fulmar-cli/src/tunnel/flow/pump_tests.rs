//! Flows in memory: ends, resets, back-pressure.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex, split};

use super::*;

/// One end of a pipe that remembers whether it was cut off, and can be made to fail.
struct Half<T> {
    inner: T,
    is_cut_off: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

impl<T> Half<T> {
    fn new(inner: T) -> (Self, Arc<AtomicBool>, Arc<AtomicBool>) {
        let (is_cut_off, fails) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        (Self { inner, is_cut_off: is_cut_off.clone(), fails: fails.clone() }, is_cut_off, fails)
    }

    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Half<ReadHalf<DuplexStream>> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_read(cx, out);
        // What fails does so where the end would be.
        if result.is_ready() && out.filled().is_empty() {
            return Poll::Ready(self.check());
        }
        result
    }
}

impl AsyncWrite for Half<WriteHalf<DuplexStream>> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write(cx, data)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl RecvHalf for Half<ReadHalf<DuplexStream>> {
    fn cut_off(&mut self) {
        self.is_cut_off.store(true, Ordering::SeqCst);
    }
}

impl SendHalf for Half<WriteHalf<DuplexStream>> {
    fn cut_off(&mut self) {
        self.is_cut_off.store(true, Ordering::SeqCst);
    }
}

/// A side of the pump, seen from outside: its far end, whether its halves were cut off, and how to make them
/// fail.
struct Side {
    far: DuplexStream,
    recv_cut: Arc<AtomicBool>,
    send_cut: Arc<AtomicBool>,
    recv_fails: Arc<AtomicBool>,
    send_fails: Arc<AtomicBool>,
}

type Halves = (Half<ReadHalf<DuplexStream>>, Half<WriteHalf<DuplexStream>>);

fn side(room_bytes: usize) -> (Side, Halves) {
    let (near, far) = duplex(room_bytes);
    let (read, write) = split(near);
    let (read, recv_cut, recv_fails) = Half::new(read);
    let (write, send_cut, send_fails) = Half::new(write);
    (Side { far, recv_cut, send_cut, recv_fails, send_fails }, (read, write))
}

fn start(local: Halves, tunnel: Halves) -> tokio::task::JoinHandle<(Outcome, (u64, u64))> {
    tokio::spawn(async move {
        let traffic = Traffic::default();
        let outcome = pump(local, tunnel, Way::Up, &traffic).await;
        (outcome, traffic.bytes())
    })
}

async fn read_all(stream: &mut DuplexStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    all
}

#[tokio::test]
async fn a_half_close_leaves_the_other_direction_open() {
    let ((mut program, local), (mut peer, tunnel)) = (side(64), side(64));
    let running = start(local, tunnel);
    program.far.write_all(b"question").await.unwrap();
    program.far.shutdown().await.unwrap();
    assert_eq!(read_all(&mut peer.far).await, b"question");
    peer.far.write_all(b"a long answer").await.unwrap();
    peer.far.shutdown().await.unwrap();
    assert_eq!(read_all(&mut program.far).await, b"a long answer");
    assert_eq!(running.await.unwrap(), (Outcome::Ended, (8, 13)));
    let cuts = [&program.recv_cut, &program.send_cut, &peer.recv_cut, &peer.send_cut];
    assert!(cuts.iter().all(|cut| !cut.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn a_reset_of_either_side_reaches_the_other() {
    for is_local in [true, false] {
        let ((program, local), (peer, tunnel)) = (side(64), side(64));
        let (broken, told) = if is_local { (program, peer) } else { (peer, program) };
        broken.recv_fails.store(true, Ordering::SeqCst);
        let running = start(local, tunnel);
        drop(broken.far);
        assert_eq!(running.await.unwrap().0, Outcome::Broken);
        assert!(told.send_cut.load(Ordering::SeqCst) && told.recv_cut.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn what_is_not_wanted_any_more_does_not_cost_the_answer() {
    let ((mut program, local), (mut peer, tunnel)) = (side(64), side(64));
    // The peer reads no more, but is in the middle of its answer.
    peer.send_fails.store(true, Ordering::SeqCst);
    let running = start(local, tunnel);
    program.far.write_all(b"more and more").await.unwrap();
    peer.far.write_all(b"the answer").await.unwrap();
    peer.far.shutdown().await.unwrap();
    assert_eq!(read_all(&mut program.far).await, b"the answer");
    assert_eq!(running.await.unwrap().0, Outcome::Ended);
    assert!(program.recv_cut.load(Ordering::SeqCst) && !program.send_cut.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_the_writer() {
    let ((mut program, local), (_peer, tunnel)) = (side(1 << 20), side(1000));
    let _running = start(local, tunnel);
    let mut written = 0;
    // As much as the pipes and one buffer hold, and then no more however long one waits.
    while let Ok(Ok(len)) =
        tokio::time::timeout(std::time::Duration::from_millis(100), program.far.write(&[0; 10_000])).await
    {
        written += len;
    }
    assert!(written <= (1 << 20) + 1000 + BUFFER_BYTES_MAX, "{written}");
}

#[test]
fn thousands_of_buffers_grow_by_no_more_than_they_may_together() {
    let grown = Grown(AtomicUsize::new(0));
    let full = |grown| {
        let mut buffer = Buffer::new(grown);
        (0..20).for_each(|_| buffer.grow());
        buffer
    };
    assert_eq!(full(&grown).bytes.len(), BUFFER_BYTES_MAX, "one alone is as large as it may be");
    let all: Vec<_> = (0..5000).map(|_| full(&grown)).collect();
    let beyond: usize = all.iter().map(|buffer| buffer.bytes.len() - BUFFER_BYTES_MIN).sum();
    assert!(beyond <= GROWN_BYTES_MAX && beyond > GROWN_BYTES_MAX / 2, "{beyond} bytes");
    drop(all);
    assert_eq!(full(&grown).bytes.len(), BUFFER_BYTES_MAX, "what is dropped is given back");
}
