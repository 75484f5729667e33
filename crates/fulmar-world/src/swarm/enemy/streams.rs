//! What happens in the field where clients come by streams.

use std::net::SocketAddr;

use super::super::draw::Draw;
use super::field::{Field, SERVER};
use super::pipes::{Letter, Pipe, by_stream, framed, number};

impl Field {
    /// A piece of a stream has come. Who reads what is no datagram gives the stream up, and its client comes by
    /// another.
    pub(super) fn deliver_piece(&mut self, pipe: (SocketAddr, SocketAddr), to: usize, piece: &[u8]) {
        let Some(stream) = self.pipes.get_mut(&pipe) else { return };
        let datagrams = stream.on_piece(piece);
        let is_broken = stream.is_broken();
        for datagram in datagrams {
            self.deliver(to, pipe.1, datagram);
        }
        if is_broken {
            self.pipes.remove(&pipe);
            self.pipes.remove(&(pipe.1, pipe.0));
            let ends = [pipe.0, pipe.1];
            for client in self.parties.iter_mut().skip(1).filter(|party| ends.contains(&party.node.addr)) {
                client.node.addr = next(client.node.addr);
            }
        }
    }

    /// Clients come by streams from now on, each if a coin says so. True if one does.
    pub(super) fn shut_udp(&mut self, draw: &mut Draw) -> bool {
        for party in self.parties.iter_mut().skip(1).filter(|_| draw.one_in(2)) {
            party.node.addr = by_stream(party.node.addr, 0);
        }
        self.parties.iter().any(|party| number(party.node.addr).is_some())
    }

    /// Whether one end comes by a stream, and the other is its server. Whose address that is cannot be said by
    /// others: nobody gets into a stream of others.
    pub(super) fn is_piped(&self, from: SocketAddr, to: usize) -> bool {
        let (server, to) = (self.parties[SERVER].node.addr, self.parties[to].node.addr);
        (from == server && number(to).is_some()) || (to == server && number(from).is_some())
    }

    /// Bytes are written into a stream.
    pub(super) fn write(&mut self, from: SocketAddr, to: usize, bytes: &[u8], is_noise: bool) {
        let pipe = (self.parties[to].node.addr, from);
        let stream = self.pipes.entry(pipe).or_insert_with(|| Pipe::new(self.now));
        if is_noise {
            stream.on_noise();
        }
        for (at, bytes) in stream.pieces(self.now, bytes, &mut self.chance) {
            self.count += 1;
            self.mail.insert((at, self.count), Letter { to, from, bytes, piece_of: Some(pipe) });
        }
    }

    /// A hostile end writes noise into a stream of its own: often lengths that are kept, and then are not.
    pub(super) fn babble(&mut self, draw: &mut Draw) {
        let server = &self.parties[SERVER];
        let (is_server_hostile, from) = (server.is_hostile, server.node.addr);
        let piped: Vec<_> = (1..self.parties.len())
            .filter(|&place| number(self.parties[place].node.addr).is_some())
            .filter(|&place| is_server_hostile || self.parties[place].is_hostile)
            .collect();
        if piped.is_empty() {
            return;
        }
        let place = draw.of(&piped);
        let length = draw.log_between(1, 3000);
        let noise = super::frames::noise(draw, length);
        let noise = if draw.one_in(4) { noise } else { framed(&noise) };
        let (from, to) =
            if is_server_hostile { (from, place) } else { (self.parties[place].node.addr, SERVER) };
        self.write(from, to, &noise, true);
    }
}

/// The same client by its next stream.
fn next(address: SocketAddr) -> SocketAddr {
    by_stream(address, number(address).map_or(0, |number| number + 1))
}
