//! What a hostile end with valid keys does.

use std::net::SocketAddr;

use bytes::Bytes;
use fulmar_proto::{Connection, ConnectionHandle, Dir};

use super::super::draw::Draw;
use super::field::{Field, SERVER};
use super::frames::{self, Standing};

/// Packets of one burst.
const BURST: u64 = 25;

/// A hostile end. It has what it likes to do most.
#[derive(Debug)]
pub(super) struct Enemy {
    party: usize,
    habit: u64,
    /// One number in so many is nowhere near what could be: most such end the connection.
    wild_one_in: u64,
}

/// How many deeds there are.
const DEEDS: u64 = 11;

impl Enemy {
    pub(super) fn new(draw: &mut Draw, party: usize) -> Self {
        Self { party, habit: draw.between(0, DEEDS - 1), wild_one_in: draw.of(&[8, 100, 10_000]) }
    }

    /// One deed on each of its connections.
    pub(super) fn act(&mut self, draw: &mut Draw, field: &mut Field) {
        field.connect(self.party);
        for handle in field.handles(self.party) {
            let deed = if draw.one_in(2) { self.habit } else { draw.between(0, DEEDS - 1) };
            let times = if draw.one_in(3) { draw.between(1, BURST) } else { 1 };
            match deed {
                0 => self.say(draw, field, handle, times, frames::repair),
                1 => self.say(draw, field, handle, times, frames::source),
                2 => self.say(draw, field, handle, times, frames::ack),
                3 => self.say(draw, field, handle, times, |draw, _, out| frames::small(draw, out)),
                4 => self.say(draw, field, handle, times, |draw, _, out| frames::datagram(draw, out)),
                5 if draw.one_in(self.wild_one_in) => {
                    self.say(draw, field, handle, 1, |draw, _, out| frames::nonsense(draw, out));
                }
                5 => self.say(draw, field, handle, times, |draw, _, out| frames::path(draw, out)),
                6 => self.be_honest(draw, field, handle),
                // Who hears nothing acknowledges nothing and reads nothing.
                7 => field.parties[self.party].is_deaf = draw.one_in(2),
                8 => self.wander(draw, field, handle),
                _ => repeat(draw, field),
            }
        }
        field.parties[self.party].stir();
    }

    /// Packets under the right keys with frames that `put` writes.
    fn say(
        &self,
        draw: &mut Draw,
        field: &mut Field,
        handle: ConnectionHandle,
        times: u64,
        mut put: impl FnMut(&mut Draw, &Standing, &mut Vec<u8>),
    ) {
        let party = &mut field.parties[self.party];
        let (from, code) = (party.node.addr, party.code);
        let Some(connection) = party.node.connections.get_mut(&handle) else { return };
        let standing = standing(connection, code, self.wild_one_in);
        let Some(to) = self.other(field, handle) else { return };
        for _ in 0..times {
            let mut frames = Vec::with_capacity(frames::PAYLOAD_BYTES * 2);
            put(draw, &standing, &mut frames);
            frames.truncate(frames::PAYLOAD_BYTES);
            let Some(connection) = field.parties[self.party].node.connections.get_mut(&handle) else {
                return;
            };
            let packet = if connection.is_handshaking() {
                frames.clear();
                frames::handshake(draw, &mut frames);
                connection.forge_handshake_packet(&frames)
            } else {
                connection.forge_packet(&frames)
            };
            if let Some(packet) = packet {
                field.send(from, to, packet);
            }
        }
    }

    /// Who is at the other end.
    fn other(&self, field: &Field, handle: ConnectionHandle) -> Option<usize> {
        let remote = field.parties[self.party].node.connections.get(&handle)?.remote();
        field.parties.iter().position(|party| party.node.addr == remote)
    }

    /// Uses the connection as anybody would: so the other end has something to send and to lose.
    fn be_honest(&self, draw: &mut Draw, field: &mut Field, handle: ConnectionHandle) {
        let now = field.now;
        let Some(connection) = field.parties[self.party].node.connections.get_mut(&handle) else { return };
        if connection.is_handshaking() || connection.is_closed() {
            return;
        }
        match draw.between(0, 3) {
            0 => drop(connection.initiate_key_update()),
            1 => drop(connection.send_datagram(Bytes::from_static(&[1; 500]))),
            2 if draw.one_in(8) => connection.close(now, draw.between(0, 9), Bytes::from_static(b"enough")),
            _ => {
                let dir = draw.of(&[Dir::Bi, Dir::Uni]);
                if let Some(id) = connection.open(dir) {
                    let _ = connection.write(id, &vec![3; draw.log_between(1, 20_000) as usize]);
                }
            }
        }
    }

    /// Seems to come from somewhere else.
    fn wander(&self, draw: &mut Draw, field: &mut Field, handle: ConnectionHandle) {
        let victim = SocketAddr::from(([10, 7, 7, draw.between(1, 3) as u8], 7));
        let Some(to) = self.other(field, handle) else { return };
        let Some(connection) = field.parties[self.party].node.connections.get_mut(&handle) else { return };
        let mut frames = vec![1];
        frames.resize(draw.between(1, 1000) as usize, 0);
        let packet = if connection.is_handshaking() {
            connection.forge_handshake_packet(&frames)
        } else {
            connection.forge_packet(&frames)
        };
        if let Some(packet) = packet {
            field.send(victim, to, packet);
        }
    }
}

fn standing(connection: &Connection, code: u8, wild_one_in: u64) -> Standing {
    let stats = connection.stats();
    Standing {
        packets: stats.wire.opened_packets,
        symbols: stats.coding_sent.sources,
        their_symbols: stats.coding_received.sources,
        code,
        wild_one_in,
    }
}

/// An observer sends something again, perhaps damaged or cut, from where it came from or from elsewhere.
fn repeat(draw: &mut Draw, field: &mut Field) {
    let Some((to, mut bytes)) = field.caught(draw) else { return };
    if bytes.is_empty() {
        return;
    }
    let at = draw.between(0, bytes.len() as u64 - 1) as usize;
    match draw.between(0, 3) {
        0 => bytes[at] ^= 1 << draw.between(0, 7),
        1 => bytes.truncate(at),
        _ => {}
    }
    let elsewhere = SocketAddr::from(([10, 7, 7, draw.between(1, 3) as u8], 7));
    let from = if to == SERVER || draw.one_in(2) { elsewhere } else { field.parties[SERVER].node.addr };
    field.send(from, to, bytes);
}
