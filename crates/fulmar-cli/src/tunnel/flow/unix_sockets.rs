//! Unix sockets as targets and as places to listen at.

use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use socket2::SockRef;
use tokio::net::{self, UnixStream, unix};

use super::halves::{BoxedHalves, RecvHalf, SendHalf};

/// A socket that is listened at.
#[derive(Debug)]
pub struct UnixListener(net::UnixListener);

impl UnixListener {
    /// A socket for its owner only: whoever can open it uses the tunnel.
    pub async fn bind(path: &str) -> io::Result<Self> {
        // One that nobody listens at any more is a leftover. One whose owner is too busy to answer is not, and
        // is not waited for.
        let is_dead = UnixStream::connect(path)
            .await
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_dead && is_socket {
            std::fs::remove_file(path)?;
        }
        let listener = net::UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self(listener))
    }

    /// The next one who comes.
    pub async fn accept(&self) -> io::Result<BoxedHalves> {
        self.0.accept().await.map(|(stream, _)| boxed(stream))
    }
}

/// Connects to the socket with this name.
pub async fn connect(path: &str) -> io::Result<BoxedHalves> {
    UnixStream::connect(path).await.map(boxed)
}

fn boxed(stream: UnixStream) -> BoxedHalves {
    let (read, write) = stream.into_split();
    (Box::new(read), Box::new(write))
}

/// A Unix socket knows no reset: who writes to it hears that nobody reads, who reads sees an end. (Linux
/// tells a reader of a reset only where something that it had sent was not read.)
impl SendHalf for unix::OwnedWriteHalf {
    fn cut_off(&mut self) {
        let _ = SockRef::from(AsRef::<UnixStream>::as_ref(self)).shutdown(Shutdown::Both);
    }
}

impl RecvHalf for unix::OwnedReadHalf {
    fn cut_off(&mut self) {
        let _ = SockRef::from(AsRef::<UnixStream>::as_ref(self)).shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_whose_owner_does_not_accept_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let text = path.to_str().unwrap();
        let owner = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        owner.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
        owner.listen(0).unwrap();
        // As many as the queue takes: from then on connecting would wait.
        let _queue: Vec<_> = std::iter::from_fn(|| {
            let next = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
            next.set_nonblocking(true).unwrap();
            next.connect(&socket2::SockAddr::unix(&path).unwrap()).ok().map(|()| next)
        })
        .collect();
        let begin = std::time::Instant::now();
        let error = UnixListener::bind(text).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
        assert!(begin.elapsed() < std::time::Duration::from_secs(20) && path.exists());
        // Nobody listens any more: a leftover.
        drop(owner);
        drop(UnixListener::bind(text).await.unwrap());
    }
}
