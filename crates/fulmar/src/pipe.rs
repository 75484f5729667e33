//! Byte streams that carry datagrams, where a network lets no UDP through.
//!
//! A pipe takes the place of a path: what is sent to its address, or from a socket that leads into it, leaves
//! in its stream. The addresses of pipes are those of no datagram ([`crate::origins`]). So a connection moves
//! between UDP and a pipe as it moves between addresses, and nothing above this file knows the difference.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_proto::wire::piped;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::origins;

/// A pipe takes more as long as less than so much waits in it; with a batch that is half as much again at
/// most. More would only be a longer queue: the stream has buffers of its own.
const QUEUE_BYTES: usize = 64 << 10;

/// So long a sender waits for room in a pipe; then its packet is lost, for its timers have to go on.
const ROOM_WAIT_MAX: Duration = Duration::from_millis(100);

/// One stream, from its sender's side.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Where its datagrams come from, and go to.
    pub(crate) address: SocketAddr,
    queue: Mutex<Queue>,
    /// Something is to be written, or nothing will be any more.
    filled: Notify,
    /// There is room, or there will be none any more.
    emptied: Notify,
    /// A connection whose handshake is over has used it.
    is_known: AtomicBool,
    known: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl Pipe {
    pub(crate) fn new(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            queue: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
            is_known: AtomicBool::new(false),
            known: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes datagrams of this size in, all of them. The one error is `WouldBlock`.
    pub(crate) fn try_send(&self, bytes: &[u8], segment_bytes: usize) -> io::Result<()> {
        let mut queue = self.lock();
        if !queue.is_closed {
            if queue.bytes.len() >= QUEUE_BYTES {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let datagrams = bytes.chunks(segment_bytes.max(1));
            for datagram in datagrams {
                if !piped::put(datagram, &mut queue.bytes) {
                    tracing::debug!(len = datagram.len(), "no stream carries a datagram of this length");
                }
            }
            self.filled.notify_one();
        }
        // What goes into a pipe that has ended is lost.
        Ok(())
    }

    /// Resolves when a batch that was refused is worth trying again; an error when it is to be given up.
    pub(crate) async fn has_room(&self) -> io::Result<()> {
        let room = async {
            loop {
                let mut emptied = std::pin::pin!(self.emptied.notified());
                emptied.as_mut().enable();
                {
                    let queue = self.lock();
                    if queue.is_closed || queue.bytes.len() < QUEUE_BYTES {
                        return;
                    }
                }
                emptied.await;
            }
        };
        tokio::time::timeout(ROOM_WAIT_MAX, room).await.map_err(|_| io::ErrorKind::TimedOut.into())
    }

    /// Writes what is sent, until the pipe or the stream ends.
    pub(crate) async fn write_to(&self, mut stream: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let is_closed = {
                let mut queue = self.lock();
                std::mem::swap(&mut queue.bytes, &mut bytes);
                queue.is_closed
            };
            self.emptied.notify_waiters();
            if bytes.is_empty() {
                if is_closed {
                    return stream.shutdown().await;
                }
                // A pipe that rests holds nothing.
                bytes = Vec::new();
                stream.flush().await?;
                self.filled.notified().await;
                continue;
            }
            stream.write_all(&bytes).await?;
            bytes.clear();
        }
    }

    /// Nothing goes in any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
        self.emptied.notify_waiters();
    }

    /// A connection that is let in has used it.
    pub(crate) fn on_known(&self) {
        if !self.is_known.swap(true, Ordering::AcqRel) {
            self.known.notify_waiters();
        }
    }

    /// Resolves when one has.
    pub(crate) async fn known(&self) {
        let mut known = std::pin::pin!(self.known.notified());
        known.as_mut().enable();
        if !self.is_known.load(Ordering::Acquire) {
            known.await;
        }
    }
}

/// The pipes of an endpoint by which clients come.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    by_address: Mutex<BTreeMap<SocketAddr, Arc<Pipe>>>,
    next: AtomicU32,
    /// The endpoint may have ended.
    pub(crate) ended: Notify,
}

impl Pipes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Arc<Pipe>>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one whose other end is at `peer`: its address is one that no other has.
    pub(crate) fn open(&self, peer: SocketAddr) -> Arc<Pipe> {
        let mut pipes = self.lock();
        let address = loop {
            let address = origins::by_stream(peer, self.next.fetch_add(1, Ordering::Relaxed));
            if !pipes.contains_key(&address) {
                break address;
            }
        };
        let pipe = Pipe::new(address);
        pipes.insert(address, pipe.clone());
        pipe
    }

    /// One has ended.
    pub(crate) fn remove(&self, pipe: &Pipe) {
        self.lock().remove(&pipe.address);
    }

    /// Which pipe a batch goes into: none, or perhaps one that has ended.
    pub(crate) fn find(&self, destination: SocketAddr) -> Option<Arc<Pipe>> {
        if !origins::is_stream(destination) {
            return None;
        }
        let known = self.lock().get(&destination).cloned();
        Some(known.unwrap_or_else(|| {
            let ended = Pipe::new(destination);
            ended.close();
            ended
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[test]
    fn each_pipe_has_an_address_of_its_own_that_no_datagram_has() {
        let pipes = Pipes::default();
        for text in ["192.0.2.1:5", "[2001:db8::1]:5"] {
            let peer: SocketAddr = text.parse().unwrap();
            let (one, other) = (pipes.open(peer), pipes.open(peer));
            assert_ne!(one.address, other.address);
            assert!(Arc::ptr_eq(&pipes.find(other.address).unwrap(), &other));
            assert!(pipes.find(peer).is_none());
            // It is not found, and yet nothing of it leaves by UDP.
            pipes.remove(&one);
            assert!(pipes.find(one.address).unwrap().lock().is_closed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_pipe_makes_its_sender_wait_but_not_for_ever() {
        let pipe = Pipe::new("192.0.2.1:5".parse().unwrap());
        let (near, mut far) = tokio::io::duplex(1000);
        let mut sent = 0;
        while pipe.try_send(&[7; 12_000], 1200).is_ok() {
            sent += 10;
        }
        assert!(pipe.lock().bytes.len() < QUEUE_BYTES + 13_000);
        assert_eq!(pipe.has_room().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let writing = tokio::spawn({
            let pipe = pipe.clone();
            async move { pipe.write_to(near).await }
        });
        pipe.has_room().await.unwrap();
        pipe.close();
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), sent * 1202, "what was taken in comes, and then the end");
        writing.await.unwrap().unwrap();
        pipe.try_send(&[7; 1200], 1200).expect("what comes later is lost");
    }
}
