//! Clients that come by byte streams, where UDP is shut: what is cut out of them, and what hostile ends write
//! into them.
//!
//! A stream loses nothing and keeps the order, and comes in pieces of any length. An end that reads what is
//! no datagram gives the stream up.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use fulmar_proto::Instant;
use fulmar_proto::wire::piped::{self, DATAGRAM_BYTES_MAX, Reader};

use super::super::draw::Draw;

/// To the protocol the address of a stream is one that no datagram has (`fulmar::origins`).
const LABEL: u32 = 1 << 31;

/// What is on its way to somebody.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) to: usize,
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
    /// It is a piece of the stream between these, which leads to the first address.
    pub(super) piece_of: Option<(SocketAddr, SocketAddr)>,
}

/// One way of a stream.
#[derive(Debug)]
pub(super) struct Pipe {
    reader: Reader,
    /// When the last piece arrives that is on its way.
    last_at: Instant,
    /// Somebody has written what is no datagram.
    is_noisy: bool,
    is_broken: bool,
}

impl Pipe {
    pub(super) fn new(now: Instant) -> Self {
        Self { reader: Reader::new(), last_at: now, is_noisy: false, is_broken: false }
    }

    /// Pieces of a stream that leave now, and when each arrives.
    pub(super) fn pieces(
        &mut self,
        now: Instant,
        bytes: &[u8],
        chance: &mut Draw,
    ) -> Vec<(Instant, Vec<u8>)> {
        let (mut rest, mut pieces) = (bytes, Vec::new());
        while !rest.is_empty() {
            let len = chance.log_between(1, 2000).min(rest.len() as u64) as usize;
            let piece;
            (piece, rest) = rest.split_at(len);
            self.last_at = self.last_at.max(now + chance.millis(1, 15));
            pieces.push((self.last_at, piece.to_vec()));
        }
        pieces
    }

    /// A hostile end writes what it likes.
    pub(super) fn on_noise(&mut self) {
        self.is_noisy = true;
    }

    /// A piece arrives: the datagrams that are whole now.
    pub(super) fn on_piece(&mut self, mut piece: &[u8]) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        while !piece.is_empty() && !self.is_broken {
            let room = self.reader.room();
            assert!(!room.is_empty(), "a stream that goes on can be read");
            let len = room.len().min(piece.len());
            room[..len].copy_from_slice(&piece[..len]);
            self.reader.on_read(len);
            piece = &piece[len..];
            match self.reader.take() {
                Ok(read) => datagrams.extend(read.into_iter().map(|datagram| datagram.to_vec())),
                Err(_) => self.is_broken = true,
            }
        }
        assert!(datagrams.iter().all(|datagram| (1..=DATAGRAM_BYTES_MAX).contains(&datagram.len())));
        assert!(!self.is_broken || self.is_noisy, "a stream of datagrams cannot be read");
        datagrams
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }
}

/// A datagram as it is in a stream.
pub(super) fn framed(datagram: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(datagram.len() + 2);
    piped::put(datagram, &mut bytes);
    bytes
}

/// The same end by the stream of this number.
pub(super) fn by_stream(address: SocketAddr, number: u32) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddrV6::new(ip, address.port(), LABEL | number, 0).into()
}

/// Whether an end comes by a stream, and by which.
pub(super) fn number(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(v6) if v6.flowinfo() & LABEL != 0 => Some(v6.flowinfo() & !LABEL),
        _ => None,
    }
}
