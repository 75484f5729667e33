//! Datagrams that come and leave by a byte stream: for each stream a future that reads and writes it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fulmar_proto::DatagramMeta;
use fulmar_proto::wire::piped::Reader;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};

use super::driver::Driver;
use super::shared::EndpointShared;
use crate::panics::caught;
use crate::pipe::Pipe;

/// What a stream takes: the reader's buffer, and about as much for what waits to be written, in the mean.
const PIPE_BYTES: usize = 64 << 10;

/// A stream that carries datagrams: a future that resolves when the stream ends, or the endpoint.
#[must_use = "nothing is carried unless this is polled"]
pub struct Carrying {
    place: Place,
    work: Pin<Box<dyn Future<Output = io::Result<()>> + Send>>,
}

/// What is given back when a stream is not carried any more.
struct Place {
    endpoint: Arc<EndpointShared>,
    pipe: Arc<Pipe>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pipe.close();
        self.endpoint.pipes.remove(&self.pipe);
        self.endpoint.memory.give_back(PIPE_BYTES);
    }
}

impl fmt::Debug for Carrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Carrying").field(&self.place.pipe.address).finish()
    }
}

impl Carrying {
    pub(super) fn new<S>(endpoint: Arc<EndpointShared>, pipe: Arc<Pipe>, stream: S) -> io::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        if !endpoint.memory.take(PIPE_BYTES) {
            endpoint.pipes.remove(&pipe);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let place = Place { endpoint, pipe };
        let work = Box::pin(work(place.endpoint.clone(), place.pipe.clone(), stream));
        Ok(Self { place, work })
    }

    /// Resolves when a connection has come to use this stream whose handshake is over: its other end is no
    /// stranger. For servers.
    pub fn known(&self) -> impl Future<Output = ()> + Send + use<> {
        let pipe = self.place.pipe.clone();
        async move { pipe.known().await }
    }
}

impl Future for Carrying {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.work.as_mut().poll(cx)
    }
}

async fn work<S>(endpoint: Arc<EndpointShared>, pipe: Arc<Pipe>, stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reading, writing) = tokio::io::split(stream);
    let result = tokio::select! {
        read = read(endpoint.clone(), pipe.clone(), reading) => read,
        written = pipe.write_to(writing) => written,
        () = end_of(&endpoint) => Ok(()),
    };
    // A sender that waits for room hears of it, even while this future is kept.
    pipe.close();
    result
}

async fn read<S: AsyncRead>(
    endpoint: Arc<EndpointShared>,
    pipe: Arc<Pipe>,
    mut stream: ReadHalf<S>,
) -> io::Result<()> {
    let meta = DatagramMeta { remote: pipe.address, local_ip: None, ecn: None };
    let mut driver = Driver::of_pipe(endpoint.clone(), pipe);
    let mut reader = Reader::new();
    loop {
        let bytes = stream.read(reader.room()).await?;
        if bytes == 0 {
            return Ok(());
        }
        reader.on_read(bytes);
        let datagrams = reader
            .take()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no datagram has this length"))?;
        let socket = endpoint.lock().socket.clone();
        let delivering = || {
            driver.deliver(&socket, 1, datagrams.into_iter().map(|datagram| (meta, datagram)));
            driver.wake_waiting();
        };
        caught(delivering).map_err(io::Error::other)?;
    }
}

/// Resolves when nobody needs the endpoint any more.
async fn end_of(endpoint: &EndpointShared) {
    loop {
        let mut ended = std::pin::pin!(endpoint.pipes.ended.notified());
        ended.as_mut().enable();
        if endpoint.is_abandoned() && endpoint.lock().proto.connection_count() == 0 {
            return;
        }
        ended.await;
    }
}
