//! A door for tests and fuzzing: packets a sound peer would not send, under the right keys.

use super::Connection;
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
}
