//! TCP connections that are carried: unless both sides have said their ends, closing one is a reset.
//!
//! Who sees an end takes what came for all there is. So an end may be sent only where the other side has said
//! one; and a process can be closed by what it does not control: a signal, `kill -9`, a panic, an error on
//! the way. Therefore such a socket does not linger from its first moment on (`SO_LINGER` with no time):
//! whoever closes it, the kernel included, sends a reset. That is taken away in one place, when both
//! directions have come to their ends, so that the kernel still delivers what it holds.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::halves::{BoxedHalves, RecvHalf, SendHalf};

/// A silent TCP peer is asked for a sign of life after so long, and given up after a few of them.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// Closing this socket sends a reset from now on. Those that a listener accepts are as the listener is.
pub fn reset_on_close<'a>(socket: impl Into<SockRef<'a>>) {
    // Linux takes it for every TCP socket; a peer that has reset us already needs no reset.
    let _ = socket.into().set_linger(Some(Duration::ZERO));
}

/// Listens at an address for connections that are to be carried.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    reset_on_close(&listener);
    Ok(listener)
}

/// Connects to an address, for a connection that is to be carried.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    reset_on_close(&socket);
    socket.connect(address).await
}

/// A TCP connection that is carried. Cloning gives another handle to it.
///
/// As long as it is not [split](Self::split) it is a protocol's of its own (SOCKS, HTTP), and shutting it
/// down means that this protocol has said everything.
#[derive(Debug, Clone)]
pub struct Carried(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stream: TcpStream,
    /// We have said our end.
    has_ended: AtomicBool,
    /// The peer has said its end.
    has_heard_end: AtomicBool,
}

impl Carried {
    /// From now on it sends at once what it gets, and is reset unless it comes to its ends.
    pub fn new(stream: TcpStream) -> Self {
        reset_on_close(&stream);
        let socket = SockRef::from(&stream);
        // A socket that has none of these options carries bytes all the same.
        let _ = socket.set_tcp_nodelay(true);
        let _ = socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEP_ALIVE));
        let (has_ended, has_heard_end) = Default::default();
        Self(Arc::new(Shared { stream, has_ended, has_heard_end }))
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.0.stream
    }

    /// Ends it in order, with whatever was written: nothing was carried, or all of it.
    pub fn end(&self) -> io::Result<()> {
        self.0.end(true)
    }

    /// Both directions. Each comes to an end of its own; before both have, closing is a reset.
    pub fn split(self) -> (TcpHalf, TcpHalf) {
        (TcpHalf(Arc::clone(&self.0)), TcpHalf(self.0))
    }

    /// Both directions, in boxes.
    pub fn into_boxed(self) -> BoxedHalves {
        let (read, write) = self.split();
        (Box::new(read), Box::new(write))
    }
}

impl Shared {
    fn end(&self, is_all: bool) -> io::Result<()> {
        let socket = SockRef::from(&self.stream);
        socket.shutdown(Shutdown::Write)?;
        self.has_ended.store(true, Ordering::SeqCst);
        if is_all || self.has_heard_end.load(Ordering::SeqCst) {
            self.is_complete();
        }
        Ok(())
    }

    fn hears_end(&self) {
        self.has_heard_end.store(true, Ordering::SeqCst);
        if self.has_ended.load(Ordering::SeqCst) {
            self.is_complete();
        }
    }

    /// Nothing is missing any more: the kernel may take its time to deliver what it holds.
    fn is_complete(&self) {
        let _ = SockRef::from(&self.stream).set_linger(None);
    }

    fn poll_read(&self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(out.initialize_unfilled()) {
                Ok(len) => {
                    out.advance(len);
                    if len == 0 {
                        self.hears_end();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.stream.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }
}

impl AsyncRead for Carried {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, out)
    }
}

impl AsyncWrite for Carried {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end())
    }
}

/// Half of a TCP connection.
#[derive(Debug)]
pub struct TcpHalf(Arc<Shared>);

impl AsyncRead for TcpHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, out)
    }
}

impl AsyncWrite for TcpHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.end(false))
    }
}

impl SendHalf for TcpHalf {
    fn cut_off(&mut self) {
        reset_on_close(&self.0.stream);
    }
}

impl RecvHalf for TcpHalf {
    fn cut_off(&mut self) {
        reset_on_close(&self.0.stream);
    }
}

/// Both halves of a TCP connection, in boxes.
pub fn boxed_tcp(stream: TcpStream) -> BoxedHalves {
    Carried::new(stream).into_boxed()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What a carried connection is reached by, and the connection.
    async fn pair() -> (TcpStream, Carried) {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (program, Carried::new(listener.accept().await.unwrap().0))
    }

    async fn read(mut program: TcpStream) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        program.read_to_end(&mut all).await.map(|_| all)
    }

    /// Every state in which a connection may be dropped: by an early return, a panic, the end of the runtime.
    #[tokio::test]
    async fn who_is_dropped_before_both_ends_is_reset() {
        let (program, carried) = pair().await;
        drop(carried);
        assert_eq!(read(program).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        let (program, carried) = pair().await;
        let (recv, mut send) = carried.split();
        send.write_all(b"half of it").await.unwrap();
        drop((recv, send));
        assert_eq!(read(program).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        // Its own direction has ended; ours has not.
        let (mut program, carried) = pair().await;
        let (mut recv, mut send) = carried.split();
        program.shutdown().await.unwrap();
        assert_eq!(recv.read(&mut [0; 9]).await.unwrap(), 0);
        send.write_all(b"half of it").await.unwrap();
        drop((recv, send));
        assert_eq!(read(program).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        // Our direction has ended, and so what it sends goes nowhere.
        let (mut program, carried) = pair().await;
        let (recv, mut send) = carried.split();
        send.shutdown().await.unwrap();
        assert_eq!(program.read(&mut [0; 9]).await.unwrap(), 0);
        drop((recv, send));
        let mut writes = 0;
        while program.write_all(b"the rest").await.is_ok() {
            writes += 1;
            assert!(writes < 1000, "nobody says that nobody reads");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// What the kernel holds when the last half goes is still delivered.
    #[tokio::test]
    async fn after_both_ends_everything_arrives() {
        const BYTES: usize = 300_000;
        for is_split in [true, false] {
            let (mut program, carried) = pair().await;
            SockRef::from(carried.stream()).set_send_buffer_size(1 << 20).unwrap();
            program.shutdown().await.unwrap();
            if is_split {
                let (mut recv, mut send) = carried.split();
                send.write_all(&[7; BYTES]).await.unwrap();
                send.shutdown().await.unwrap();
                assert_eq!(recv.read(&mut [0; 9]).await.unwrap(), 0);
            } else {
                let mut carried = carried;
                carried.write_all(&[7; BYTES]).await.unwrap();
                carried.shutdown().await.unwrap();
            }
            assert_eq!(read(program).await.unwrap().len(), BYTES);
        }
    }

    #[tokio::test]
    async fn who_was_never_accepted_is_reset_as_well() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let waiting = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let accepted = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // As the kernel closes it when the process is killed right after: nobody has touched it.
        drop(listener.accept().await.unwrap());
        drop(listener);
        for program in [waiting, accepted] {
            assert_eq!(read(program).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    }
}
