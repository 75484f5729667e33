//! A connection as the application holds it.

mod connecting;
pub(crate) mod driver;
mod inbox;
pub(crate) mod shared;
mod trace;

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fulmar_proto as proto;
use proto::crypto::PeerIdentity;
use proto::{ConnectionError, ConnectionStats, Dir, Side, StreamId, TransportError};

pub use connecting::{Connecting, Incoming};
pub use shared::HeldMemory;
use shared::{ConnectionShared, Handle, State, index};
pub use trace::PacketTrace;

use crate::clock;
use crate::error::SendDatagramError;
use crate::origins;
use crate::{DatagramOptions, RecvStream, SendStream};

/// A connection: streams and datagrams to one peer, encrypted and authenticated.
///
/// Cloning gives another handle to the same connection. When the last handle is gone, and with it the last
/// stream, the connection ends in order, with code 0: [finished](SendStream::finish) streams are still
/// delivered, for at most 30 seconds, as long as the runtime runs. To be certain that it was, use
/// [`shutdown`](Self::shutdown).
#[derive(Clone)]
pub struct Connection(Handle);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Connection {
    /// Opens a stream on which both ends send. Waits while the peer allows no more of them.
    ///
    /// The peer learns of it with the first bytes, or its end.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((self.sending(id), self.receiving(id)))
    }

    /// Opens a stream on which only this end sends. Waits while the peer allows no more of them.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        Ok(self.sending(self.open(Dir::Uni).await?))
    }

    /// The next stream the peer opened for both ends to send on. Fails once the connection has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((self.sending(id), self.receiving(id)))
    }

    /// The next stream the peer opened to send on. Fails once the connection has ended.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        Ok(self.receiving(self.accept(Dir::Uni).await?))
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let open = |state: &mut State| {
            let id = state.proto.open(dir);
            id.into_iter().for_each(|id| state.on_sending(id));
            id.map(Ok).or_else(|| state.ending().map(Err))
        };
        self.0.wait_for(&self.0.available[index(dir)], open).await
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        // Streams that came before the connection ended can still be read.
        let accept = |state: &mut State| {
            let id = state.proto.accept(dir);
            if let (Some(id), Dir::Bi) = (id, dir) {
                state.on_sending(id);
            }
            id.map(Ok).or_else(|| state.closed().map(Err))
        };
        self.0.wait_for(&self.0.opened[index(dir)], accept).await
    }

    fn sending(&self, id: StreamId) -> SendStream {
        SendStream::new(self.0.clone(), id)
    }

    fn receiving(&self, id: StreamId) -> RecvStream {
        RecvStream::new(self.0.clone(), id)
    }

    /// Sends an unreliable datagram, once there is room in the queue: it may get lost or overtake others, and
    /// is never sent again. Good for what is worthless when late.
    pub async fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let attempt = |state: &mut State| match try_send_datagram(state, &data) {
            Err(SendDatagramError::Full) => None,
            result => Some(result),
        };
        self.0.wait_for(&self.0.datagrams_unblocked, attempt).await
    }

    /// As [`send_datagram`](Self::send_datagram), but fails if the queue is full.
    pub fn try_send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        self.0.act(|state| try_send_datagram(state, &data))
    }

    /// Sends a datagram of which more is asked, once there is room in the queue: that it is repaired ahead of
    /// loss, that it keeps its order, that it is worth nothing after a while. One that fits no packet travels
    /// in pieces. To a peer that does not know repair it is sent once.
    ///
    /// A game that wants its packets within 40 ms, at up to three times the bytes:
    /// ```no_run
    /// # async fn play(connection: fulmar::Connection) -> Result<(), fulmar::SendDatagramError> {
    /// use std::time::Duration;
    /// use fulmar::{DatagramClass, DatagramOptions};
    /// let game = DatagramOptions::new(DatagramClass::Repaired)
    ///     .deadline(Duration::from_millis(40))
    ///     .cost_percent(300);
    /// connection.send_datagram_with("position 3 7".into(), game).await?;
    /// let stats = connection.stats().datagrams;
    /// println!("{} repaired, {} late, {} lost", stats.repaired, stats.late, stats.lost);
    /// # Ok(()) }
    /// ```
    pub async fn send_datagram_with(
        &self,
        data: Bytes,
        options: DatagramOptions,
    ) -> Result<(), SendDatagramError> {
        let attempt = |state: &mut State| match try_send_datagram_with(state, &data, options) {
            Err(SendDatagramError::Full) => None,
            result => Some(result),
        };
        self.0.wait_for(&self.0.datagrams_unblocked, attempt).await
    }

    /// As [`send_datagram_with`](Self::send_datagram_with), but fails if the queue is full.
    pub fn try_send_datagram_with(
        &self,
        data: Bytes,
        options: DatagramOptions,
    ) -> Result<(), SendDatagramError> {
        self.0.act(|state| try_send_datagram_with(state, &data, options))
    }

    /// The next unreliable datagram that arrived. Those nobody reads are dropped, the oldest first.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        let attempt = |state: &mut State| {
            let data = state.proto.recv_datagram();
            data.map(Ok).or_else(|| state.closed().map(Err))
        };
        self.0.wait_for(&self.0.datagram_received, attempt).await
    }

    /// Most bytes an unreliable datagram may have now; `None` if the peer takes none.
    pub fn datagram_bytes_max(&self) -> Option<usize> {
        self.0.lock().proto.datagram_bytes_max()
    }

    /// The same for [`send_datagram_with`](Self::send_datagram_with), which cuts what fits no packet.
    pub fn any_datagram_bytes_max(&self) -> Option<usize> {
        self.0.lock().proto.any_datagram_bytes_max()
    }

    /// The peer may have so many streams for both ends open from now on, whatever
    /// [`TransportConfig::streams_bi`](crate::TransportConfig::streams_bi) says: a server that knows its
    /// clients can give each its due. Fewer than before only as those end that it has.
    pub fn limit_bi_streams(&self, count: u64) {
        self.0.act(|state| state.proto.limit_streams(Dir::Bi, count));
    }

    /// As [`limit_bi_streams`](Self::limit_bi_streams), for streams on which only the peer sends.
    pub fn limit_uni_streams(&self, count: u64) {
        self.0.act(|state| state.proto.limit_streams(Dir::Uni, count));
    }

    /// Whether dropping a [`SendStream`] that was neither finished nor reset finishes it, as quinn does, in
    /// place of resetting it. For all streams of this connection that are dropped from now on; in a thread
    /// that panics they are reset all the same. Default: no.
    pub fn finish_dropped_streams(&self, finishes: bool) {
        self.0.finishes_dropped.store(finishes, Ordering::Relaxed);
    }

    /// Says that the application holds so many bytes for this connection, for one of its streams say: they
    /// count as what the connection holds itself
    /// ([`EndpointConfig::memory_bytes`](crate::EndpointConfig::memory_bytes)), until what is returned is
    /// dropped. `None` if nothing is left: whatever it was wanted for is to be refused.
    pub fn hold_memory(&self, bytes: usize) -> Option<HeldMemory> {
        self.0.shared().take_memory(bytes)
    }

    /// Closes at once: what has not been delivered yet may be lost. The peer's application gets `code` and
    /// `reason`.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.0.act(|state| state.proto.close(clock::now(), code, reason));
    }

    /// Closes in order: takes no more, delivers everything written so far, then closes. Resolves when all of
    /// that is done and the peer has been told; fails if the connection ended in another way before.
    ///
    /// Streams not [finished](SendStream::finish) end at the peer with the connection's error. A peer that
    /// does not read is waited for; wrap this into a timeout if there is a limit to patience.
    pub async fn shutdown(&self, code: u64, reason: &[u8]) -> Result<(), ConnectionError> {
        let reason = Bytes::copy_from_slice(reason);
        self.0.act(|state| state.shutdown(clock::now(), code, reason));
        let attempt = |state: &mut State| {
            let why = state.closed()?;
            match why {
                ConnectionError::LocallyClosed => state.is_close_sent.then_some(Ok(())),
                other => Some(Err(other)),
            }
        };
        self.0.wait_for(&self.0.ended, attempt).await
    }

    /// Resolves when the connection has ended, with the reason.
    pub async fn closed(&self) -> ConnectionError {
        self.0.wait_for(&self.0.ended, |state| state.closed()).await
    }

    /// Why the connection has ended; `None` as long as it has not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.lock().closed()
    }

    /// The peer's address. It changes when the peer moves.
    pub fn remote_address(&self) -> SocketAddr {
        origins::visible(self.0.lock().proto.remote())
    }

    /// The server's ports, if it has told of several
    /// ([`TransportConfig::ports`](crate::TransportConfig::ports)). A client may begin at any of them.
    pub fn server_ports(&self) -> Vec<RangeInclusive<u16>> {
        self.0.lock().proto.server_ports().to_vec()
    }

    /// Whether what is sent goes by a byte stream now, and not by UDP
    /// ([`Endpoint::move_to_stream`](crate::Endpoint::move_to_stream)).
    pub fn is_in_stream(&self) -> bool {
        let state = self.0.lock();
        state.socket.is_pipe(state.proto.remote())
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.0.lock().proto.side()
    }

    /// Who the peer has proved to be; `None` for a client that was let in without showing a key.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        self.0.lock().proto.peer_identity()
    }

    /// The application protocol that both ends agreed on (ALPN, RFC 7301): one of
    /// [`with_alpn`](crate::crypto::ClientConfig::with_alpn), or
    /// [`ALPN_DEFAULT`](crate::crypto::ALPN_DEFAULT).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.0.lock().proto.alpn().map(<[u8]>::to_vec)
    }

    /// The name that a client with X.509 asked for (RFC 6066). With raw keys none is sent.
    pub fn server_name(&self) -> Option<String> {
        self.0.lock().proto.server_name().map(str::to_owned)
    }

    /// The round-trip time, smoothed.
    pub fn rtt(&self) -> Duration {
        self.0.lock().proto.rtt()
    }

    /// Counts and current values: RTT, window, rate, loss before and after repair, overhead, MTU, state of
    /// coding.
    pub fn stats(&self) -> ConnectionStats {
        self.0.lock().proto.stats()
    }

    /// Resolves once nothing has been answered for `time` of what this end sent, from now on or before: the
    /// peer is gone, or the way to it. While all is answered, or nothing is asked, this wakes nobody. For the
    /// end that has connected; the other hears nothing of that.
    pub async fn unanswered(&self, time: Duration) {
        let begin = clock::now();
        loop {
            let mut silent = std::pin::pin!(self.0.silent.notified());
            silent.as_mut().enable();
            let since = self.0.lock().proto.unanswered_since();
            match since.map(|since| since.max(begin) + time) {
                Some(at) if at <= clock::now() => return,
                Some(at) => tokio::time::sleep_until(clock::to_tokio(at)).await,
                None => silent.await,
            }
        }
    }

    /// Asks the peer for a sign of life: keeps the connection and NAT bindings on the way open.
    pub fn ping(&self) {
        self.0.act(|state| state.proto.ping());
    }

    /// Changes the keys ahead of time. False if the last change has not been acknowledged yet.
    pub fn initiate_key_update(&self) -> bool {
        self.0.act(|state| state.proto.initiate_key_update())
    }

    /// Fills `out` with secret bytes that both ends derive alike from `label` and `context` (RFC 8446 7.5).
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), TransportError> {
        self.0.lock().proto.export_keying_material(out, label, context)
    }

    /// A number that tells this connection from others of this process as long as it lives.
    pub fn stable_id(&self) -> usize {
        std::ptr::from_ref::<ConnectionShared>(&self.0).addr()
    }
}

fn try_send_datagram(state: &mut State, data: &Bytes) -> Result<(), SendDatagramError> {
    if let Some(error) = state.ending() {
        return Err(SendDatagramError::ConnectionLost(error));
    }
    state.proto.send_datagram(data.clone()).map_err(refused)
}

fn try_send_datagram_with(
    state: &mut State,
    data: &Bytes,
    options: DatagramOptions,
) -> Result<(), SendDatagramError> {
    if let Some(error) = state.ending() {
        return Err(SendDatagramError::ConnectionLost(error));
    }
    state.proto.send_datagram_with(clock::now(), data.clone(), options).map_err(refused)
}

fn refused(error: proto::SendDatagramError) -> SendDatagramError {
    match error {
        proto::SendDatagramError::TooLarge { max } => SendDatagramError::TooLarge { max_bytes: max },
        proto::SendDatagramError::Blocked => SendDatagramError::Full,
        _ => SendDatagramError::Unsupported,
    }
}
