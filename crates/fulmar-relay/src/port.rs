//! A UDP socket that does not block, with ECN bits and large buffers.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use fulmar_net::{Datagram, Ecn};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

/// What is asked of the system for each socket; it may give less.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Enough for the longest datagram, and for what the system joins to one (GRO).
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// Buffers filled by one call.
const RECEIVE_BATCH: usize = 8;
/// The socket and what `quinn-udp` knows of it. Setting that up also makes the socket non-blocking.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: UdpSocket,
    state: UdpSocketState,
}

impl Port {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        // Less than asked for is not an error: the relay loses a packet where a router would.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
        Ok(Self { socket, state })
    }

    /// A socket toward `server`.
    pub(super) fn toward(server: SocketAddr) -> io::Result<Self> {
        let any: IpAddr =
            if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        Self::bind(SocketAddr::new(any, 0))
    }

    pub(super) fn send(
        &self,
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
        datagram: &Datagram,
    ) -> io::Result<()> {
        let ecn = match datagram.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let contents = &datagram.contents;
        self.state.try_send(
            (&self.socket).into(),
            &Transmit { destination, ecn, contents, segment_size: None, src_ip },
        )
    }

    /// Receives once, as much as the buffers hold, and hands on each datagram.
    pub(super) fn receive(
        &self,
        buffers: &mut Buffers,
        mut each: impl FnMut(Received<'_>),
    ) -> io::Result<()> {
        let mut slices = buffers.0.each_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut metas = [RecvMeta::default(); RECEIVE_BATCH];
        let count = self.state.recv((&self.socket).into(), &mut slices, &mut metas)?;
        for (meta, buffer) in metas[..count].iter().zip(&buffers.0) {
            let ecn = match meta.ecn {
                None => Ecn::NotEct,
                Some(EcnCodepoint::Ect0) => Ecn::Ect0,
                Some(EcnCodepoint::Ect1) => Ecn::Ect1,
                Some(EcnCodepoint::Ce) => Ecn::Ce,
            };
            // The system may have joined several datagrams of one sender (GRO).
            for contents in buffer[..meta.len].chunks(meta.stride.max(1)) {
                each(Received { from: meta.addr, local_ip: meta.dst_ip, ecn, contents });
            }
        }
        Ok(())
    }

    /// The receive buffer the system granted.
    pub(super) fn receive_buffer_bytes(&self) -> io::Result<usize> {
        self.state.recv_buffer_size((&self.socket).into())
    }
}

/// One datagram that has arrived.
pub(super) struct Received<'a> {
    pub(super) from: SocketAddr,
    /// The address it was sent to.
    pub(super) local_ip: Option<IpAddr>,
    pub(super) ecn: Ecn,
    pub(super) contents: &'a [u8],
}

/// Space for what one call receives.
pub(super) struct Buffers([Vec<u8>; RECEIVE_BATCH]);

impl Buffers {
    pub(super) fn new() -> Self {
        Self([(); RECEIVE_BATCH].map(|()| vec![0; DATAGRAM_BYTES_MAX]))
    }
}
