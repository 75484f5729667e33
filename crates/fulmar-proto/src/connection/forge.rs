//! A door for tests and fuzzing: packets a sound peer would not send, under the right keys.

use super::Connection;
use super::handshake::Level;
use crate::wire::packet::PacketHeader;

impl Connection {
    /// A 1-RTT packet of this end with `frames` as its payload, whatever they are; `None` without keys.
    #[doc(hidden)]
    pub fn forge_packet(&mut self, frames: &[u8]) -> Option<Vec<u8>> {
        let number = self.path.recovery.next_number();
        let keys = self.keys.as_mut()?;
        let mut packet = Vec::new();
        let span = PacketHeader::OneRtt { dcid: self.cids.peer() }.put(number, &mut packet);
        packet.extend_from_slice(frames);
        keys.seal(number, &mut packet, span).ok()?;
        self.path.recovery.on_sent_untracked();
        Some(packet)
    }

    /// The same with the keys of the handshake, the newest there are.
    #[doc(hidden)]
    pub fn forge_handshake_packet(&mut self, frames: &[u8]) -> Option<Vec<u8>> {
        let (dcid, scid) = (self.cids.peer(), self.cids.local);
        let levels = [Level::Handshake, Level::Initial];
        let level = levels.into_iter().find(|&level| self.handshake.space(level).is_some())?;
        let header = match level {
            Level::Initial => PacketHeader::Initial { dcid, scid, token: &[] },
            Level::Handshake => PacketHeader::Handshake { dcid, scid },
        };
        let space = self.handshake.space(level)?;
        let number = space.take_number();
        let mut packet = Vec::new();
        let span = header.put(number, &mut packet);
        packet.extend_from_slice(frames);
        space.keys.seal(number, &mut packet, span).ok()?;
        Some(packet)
    }
}
