//! The UDP socket: batches out with segmentation offload, batches in with receive offload, ECN both ways.
//!
//! What a system or a network card refuses is done without: when a batch cannot be segmented by the system,
//! it is sent datagram by datagram from then on. A send that fails for any reason but a full buffer is a lost
//! packet, which the protocol knows how to live with.
//!
//! Addresses are plain on this side: an IPv4 peer of a dual-stack IPv6 socket is an IPv4 address.
//!
//! What goes to a pipe's address goes into that pipe, and a client's socket may lead into one altogether
//! ([`crate::pipe`]). What goes to who came by another port of the endpoint leaves from there ([`Ports`]).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll, ready};

use fulmar_proto::{DatagramMeta, Ecn, Transmit};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use tokio::io::Interest;

use crate::buffers;
use crate::origins;
use crate::pipe::{Pipe, Pipes};
use crate::refusals::Refusals;

/// Most bytes of one batch, sent or received: what fits one IP packet.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 16;
/// Most segments of one batch that Linux takes (`UDP_MAX_SEGMENTS` was 64 before 6.9).
const SEGMENTS_MAX: usize = 64;

/// Datagrams of one size to one address, and how far they have been sent.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) transmit: Transmit,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent_bytes: usize,
}

/// A socket of an endpoint.
#[derive(Debug)]
pub(crate) struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    /// Once the system has refused to segment a batch: the state to go on with.
    unsegmented: OnceLock<UdpSocketState>,
    is_ipv6: bool,
    /// Those of the endpoint.
    pipes: Arc<Pipes>,
    /// The endpoint's other ports.
    ports: Arc<Ports>,
    /// All that is sent goes in here.
    only: Option<Arc<Pipe>>,
}

/// Sockets of an endpoint at other ports than its first. They have none themselves, so that nothing goes in a
/// circle.
#[derive(Debug, Default)]
pub(crate) struct Ports(RwLock<Vec<Arc<Socket>>>);

impl Ports {
    /// One more; returns its number.
    pub(crate) fn add(&self, socket: Arc<Socket>) -> usize {
        let mut sockets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        sockets.push(socket);
        sockets.len() - 1
    }

    /// From which a batch leaves, if not from the first.
    fn find(&self, destination: SocketAddr) -> Option<Arc<Socket>> {
        let number = origins::port(destination)?;
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }
}

/// Opens and binds a UDP socket; an IPv6 one takes IPv4 as well, where the system allows it.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    if address.is_ipv6()
        && let Err(error) = socket.set_only_v6(false)
    {
        tracing::debug!(%error, "no dual-stack sockets here");
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// An error if the system knows no way to `remote`, as when an interface is down. Nothing is sent.
pub(crate) fn find_way(remote: SocketAddr) -> io::Result<()> {
    let any = match remote {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    std::net::UdpSocket::bind((any, 0))?.connect(remote)
}

/// Up to `count - 1` sockets at the address of `first`, over which the system spreads what comes by the
/// sender's address. None where it does not do that.
///
/// The first was bound alone, so an address that was taken is noticed; nobody but the same user can join
/// (`SO_REUSEPORT`).
#[cfg(target_os = "linux")]
pub(crate) fn siblings(first: &std::net::UdpSocket, count: usize) -> Vec<std::net::UdpSocket> {
    let open = || {
        let address = first.local_addr()?;
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::DGRAM,
            Some(socket2::Protocol::UDP),
        )?;
        let first = socket2::SockRef::from(first);
        if address.is_ipv6() {
            socket.set_only_v6(first.only_v6()?)?;
        }
        first.set_reuse_port(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok::<_, io::Error>(socket.into())
    };
    let mut sockets = Vec::new();
    while sockets.len() + 1 < count {
        match open() {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                tracing::debug!(%error, "fewer sockets than cores");
                break;
            }
        }
    }
    sockets
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn siblings(_: &std::net::UdpSocket, _: usize) -> Vec<std::net::UdpSocket> {
    Vec::new()
}

impl Socket {
    /// Takes a bound socket over. `buffer_bytes` are asked for in each direction. `hears_refusals`: see
    /// [`Self::refusals`].
    pub(crate) fn new(
        socket: std::net::UdpSocket,
        buffer_bytes: usize,
        may_segment: bool,
        hears_refusals: bool,
    ) -> io::Result<Self> {
        buffers::enlarge(&socket, buffer_bytes);
        let is_ipv6 = socket.local_addr()?.is_ipv6();
        if hears_refusals && let Err(error) = Refusals::enable(&socket, is_ipv6) {
            tracing::debug!(%error, "closed ports will not be noticed");
        }
        // Makes the socket non-blocking.
        let state = UdpSocketState::new((&socket).into())?;
        let socket = Self {
            io: tokio::net::UdpSocket::from_std(socket)?,
            state,
            unsegmented: OnceLock::new(),
            is_ipv6,
            pipes: Arc::default(),
            ports: Arc::default(),
            only: None,
        };
        if !may_segment {
            socket.stop_segmenting();
        }
        Ok(socket)
    }

    /// The same as one of the endpoint's, which has these pipes and ports.
    pub(crate) fn beside(self, pipes: Arc<Pipes>, ports: Arc<Ports>) -> Self {
        Self { pipes, ports, ..self }
    }

    /// The same with all that is sent going into one pipe.
    pub(crate) fn into_pipe(self, only: Arc<Pipe>) -> Self {
        Self { only: Some(only), ..self }
    }

    /// Where a batch goes, if not into the network.
    fn pipe_to(&self, destination: SocketAddr) -> Option<Arc<Pipe>> {
        self.only.clone().or_else(|| self.pipes.find(destination))
    }

    /// Whether all that is sent goes by a stream.
    pub(crate) fn leads_into_pipe(&self) -> bool {
        self.only.is_some()
    }

    /// Whether what is sent to `destination` goes by a stream.
    pub(crate) fn is_pipe(&self, destination: SocketAddr) -> bool {
        self.pipe_to(destination).is_some()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Whether datagrams to `address` can leave from here.
    pub(crate) fn can_reach(&self, address: SocketAddr) -> bool {
        self.is_ipv6 || address.is_ipv4()
    }

    /// Waits until the network says that nobody listens at some addresses; for ever if it was not asked to.
    pub(crate) async fn refusals(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(Refusals::next(&self.io).await?.into_iter().map(plain).collect())
    }

    /// Segments that one batch may have.
    pub(crate) fn segments_max(&self) -> usize {
        if self.unsegmented.get().is_some() { 1 } else { self.state.max_gso_segments().min(SEGMENTS_MAX) }
    }

    /// Resolves when a send to `destination` that was blocked is worth trying again; an error when it is to be
    /// given up.
    pub(crate) async fn writable(&self, destination: SocketAddr) -> io::Result<()> {
        if let Some(pipe) = self.pipe_to(destination) {
            return pipe.has_room().await;
        }
        match self.ports.find(destination) {
            Some(port) => port.io.writable().await,
            None => self.io.writable().await,
        }
    }

    /// Sends what is left of a batch. The one error is `WouldBlock`.
    pub(crate) fn try_send(&self, batch: &mut Batch) -> io::Result<()> {
        if let Some(pipe) = self.pipe_to(batch.transmit.destination) {
            let rest = &batch.bytes[batch.sent_bytes..batch.transmit.bytes];
            pipe.try_send(rest, batch.transmit.segment_bytes.unwrap_or(rest.len()))?;
            batch.sent_bytes = batch.transmit.bytes;
            return Ok(());
        }
        if let Some(port) = self.ports.find(batch.transmit.destination) {
            return port.try_send(batch);
        }
        while batch.sent_bytes < batch.transmit.bytes {
            let rest = &batch.bytes[batch.sent_bytes..batch.transmit.bytes];
            let segment_bytes = batch.transmit.segment_bytes.unwrap_or(rest.len());
            let is_segmenting = self.segments_max() > 1 && rest.len() > segment_bytes;
            let len = if is_segmenting { rest.len() } else { segment_bytes.min(rest.len()) };
            match self.send(&batch.transmit, &rest[..len], segment_bytes) {
                Ok(()) => batch.sent_bytes += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) if is_segmenting && is_refusal(&error) => {
                    tracing::info!(%error, "the system does not segment batches (GSO); sending one by one");
                    self.stop_segmenting();
                }
                Err(error) => {
                    // EMSGSIZE answers an MTU probe that is too long for the interface.
                    tracing::debug!(%error, destination = %batch.transmit.destination, len, "send failed");
                    batch.sent_bytes += len;
                }
            }
        }
        Ok(())
    }

    fn send(&self, transmit: &Transmit, contents: &[u8], segment_bytes: usize) -> io::Result<()> {
        let state = self.unsegmented.get().unwrap_or(&self.state);
        let transmit = quinn_udp::Transmit {
            destination: self.to_system(transmit.destination),
            ecn: transmit.ecn.map(to_codepoint),
            contents,
            segment_size: (contents.len() > segment_bytes).then_some(segment_bytes),
            src_ip: transmit.src_ip.map(|ip| if self.is_ipv6 { mapped(ip) } else { ip }),
        };
        self.io.try_io(Interest::WRITABLE, || state.try_send((&self.io).into(), &transmit))
    }

    /// A refusal makes the state give up more than segmenting (ECN on old kernels), which a fresh one has
    /// not.
    fn stop_segmenting(&self) {
        match UdpSocketState::new((&self.io).into()) {
            Ok(state) => drop(self.unsegmented.set(state)),
            Err(error) => tracing::warn!(%error, "the socket cannot be set up anew"),
        }
    }

    /// Receives into `buffers`, one batch each; returns how many. For one task at a time.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let received =
                self.io.try_io(Interest::READABLE, || self.state.recv((&self.io).into(), buffers, metas));
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn to_system(&self, address: SocketAddr) -> SocketAddr {
        match origins::visible(address) {
            SocketAddr::V4(v4) if self.is_ipv6 => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            plain => plain,
        }
    }
}

/// Where a received batch came from.
pub(crate) fn origin(meta: &RecvMeta) -> DatagramMeta {
    DatagramMeta {
        remote: plain(meta.addr),
        local_ip: meta.dst_ip.map(|ip| ip.to_canonical()),
        ecn: meta.ecn.map(from_codepoint),
    }
}

/// `address` without the detour of IPv4 through IPv6.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 @ IpAddr::V6(_) => v6,
    }
}

/// How Linux says that it, or a network card, cannot segment: EIO, and EINVAL from some drivers and for some
/// sockets.
fn is_refusal(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const EINVAL: i32 = 22;
    matches!(error.raw_os_error(), Some(EIO | EINVAL))
}

fn to_codepoint(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}

fn from_codepoint(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn batch(destination: SocketAddr, segment_bytes: usize, len: usize) -> Batch {
        let transmit = Transmit {
            destination,
            src_ip: None,
            ecn: Some(Ecn::Ect0),
            bytes: len,
            segment_bytes: Some(segment_bytes),
        };
        Batch { transmit, bytes: (0..len).map(|index| index as u8).collect(), sent_bytes: 0 }
    }

    async fn receive(socket: &Socket, count: usize) -> Vec<(Vec<u8>, DatagramMeta)> {
        let mut received = Vec::new();
        while received.len() < count {
            let (mut buffer, mut metas) = (vec![0; BATCH_BYTES_MAX], [RecvMeta::default()]);
            let receiving = std::future::poll_fn(|cx| {
                socket.poll_recv(cx, &mut [IoSliceMut::new(&mut buffer)], &mut metas)
            });
            tokio::time::timeout(Duration::from_secs(20), receiving).await.unwrap().unwrap();
            let datagrams = buffer[..metas[0].len].chunks(metas[0].stride);
            received.extend(datagrams.map(|datagram| (datagram.to_vec(), origin(&metas[0]))));
        }
        received
    }

    async fn send(socket: &Socket, batch: &mut Batch) {
        while socket.try_send(batch).is_err() {
            tokio::time::timeout(Duration::from_secs(20), socket.writable(batch.transmit.destination))
                .await
                .unwrap()
                .unwrap();
        }
    }

    fn open() -> Socket {
        Socket::new(bind("127.0.0.1:0".parse().unwrap()).unwrap(), 1 << 20, true, false).unwrap()
    }

    #[tokio::test]
    async fn batches_arrive_as_datagrams() {
        let (from, to) = (open(), open());
        let mut batch = batch(to.local_addr().unwrap(), 1000, 3500);
        send(&from, &mut batch).await;
        assert_eq!(batch.sent_bytes, 3500);
        let received = receive(&to, 4).await;
        let lens: Vec<usize> = received.iter().map(|(datagram, _)| datagram.len()).collect();
        assert_eq!(lens, [1000, 1000, 1000, 500]);
        assert_eq!(
            received.iter().flat_map(|(datagram, _)| datagram).copied().collect::<Vec<u8>>(),
            batch.bytes
        );
        for (_, meta) in received {
            assert_eq!((meta.remote, meta.ecn), (from.local_addr().unwrap(), Some(Ecn::Ect0)));
        }
    }

    /// Linux answers EINVAL to more segments than 128, as a driver may to any: every datagram leaves all the
    /// same, and nothing is asked to be segmented again.
    #[tokio::test]
    async fn a_refused_batch_is_sent_one_by_one() {
        let (from, to) = (open(), open());
        let mut batch = batch(to.local_addr().unwrap(), 3, 599);
        send(&from, &mut batch).await;
        assert_eq!(batch.sent_bytes, 599);
        let received = receive(&to, 200).await;
        assert_eq!(
            received.iter().flat_map(|(datagram, _)| datagram).copied().collect::<Vec<u8>>(),
            batch.bytes
        );
        assert_eq!(received.last().unwrap().0.len(), 2);
        // ECN is not given up with it.
        assert!(received.iter().all(|(_, meta)| meta.ecn == Some(Ecn::Ect0)));
        assert_eq!(from.segments_max(), 1);
    }

    #[tokio::test]
    async fn a_datagram_too_long_for_any_path_is_lost_and_no_more() {
        let (from, to) = (open(), open());
        let destination = to.local_addr().unwrap();
        let mut too_long = batch(destination, 70_000, 70_000);
        too_long.transmit.segment_bytes = None;
        send(&from, &mut too_long).await;
        send(&from, &mut batch(destination, 10, 10)).await;
        assert_eq!(receive(&to, 1).await[0].0.len(), 10);
    }
}
