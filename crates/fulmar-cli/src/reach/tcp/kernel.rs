//! How the kernel is to treat a stream of datagrams.

use std::time::Duration;

use tokio::net::TcpStream;

/// What the kernel takes beyond what is under way: more would be a queue that nobody sees.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 64 << 10;

/// A stream whose other end has vanished is found out after so much silence, and some questions.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Packets leave at once, and wait in no long queue.
pub(super) fn prepare(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE);
    let done = socket.set_tcp_nodelay(true).and_then(|()| socket.set_tcp_keepalive(&keep_alive));
    #[cfg(target_os = "linux")]
    let done = done.and_then(|()| socket.set_tcp_notsent_lowat(UNSENT_BYTES));
    if let Err(error) = done {
        tracing::debug!(%error, "a stream stays as the system makes it");
    }
}
