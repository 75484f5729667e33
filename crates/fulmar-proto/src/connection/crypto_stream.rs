//! The bytes of the TLS handshake in one packet-number space: reliable and in order, without symbols.

use std::ops::Range;

use crate::recovery::RangeSet;
use crate::{TransportError, TransportErrorCode};

/// Handshake bytes buffered out of order, at most (RFC 9000 7.5 asks for at least 4096).
const BUFFER_MAX_BYTES: u64 = 64 << 10;

/// Stretches of them, at most: a sound peer's are a packet long.
const PIECES_MAX: usize = 128;

/// Handshake bytes to send.
#[derive(Debug, Default)]
pub(super) struct CryptoSend {
    data: Vec<u8>,
    acked: RangeSet,
    next: u64,
}

impl CryptoSend {
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// The next bytes to send, at most `bytes_max`.
    pub(super) fn poll(&mut self, bytes_max: usize) -> Option<(u64, &[u8])> {
        let gap = self.acked.first_gap(self.next, self.data.len() as u64)?;
        let end = gap.end.min(gap.start + bytes_max as u64);
        (end > gap.start).then(|| {
            self.next = end;
            (gap.start, &self.data[gap.start as usize..end as usize])
        })
    }

    pub(super) fn has_pending(&self) -> bool {
        self.acked.first_gap(self.next, self.data.len() as u64).is_some()
    }

    pub(super) fn has_unacked(&self) -> bool {
        self.acked.first_gap(0, self.data.len() as u64).is_some()
    }

    pub(super) fn on_acked(&mut self, range: Range<u64>) {
        self.acked.insert_range(range);
    }

    /// Sends again everything that is not acknowledged.
    pub(super) fn repeat(&mut self) {
        self.next = 0;
    }
}

/// Handshake bytes received: one buffer, however the pieces overlap.
#[derive(Debug, Default)]
pub(super) struct CryptoReceive {
    /// From `read` on; bytes that have not arrived are zero.
    buffer: Vec<u8>,
    received: RangeSet,
    read: u64,
}

impl CryptoReceive {
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        let exceeded = |reason| TransportError::new(TransportErrorCode::CryptoBufferExceeded, reason);
        let end = offset.saturating_add(data.len() as u64);
        if end > self.read + BUFFER_MAX_BYTES {
            return Err(exceeded("handshake data too far ahead"));
        }
        if end <= self.read {
            return Ok(());
        }
        let start = offset.max(self.read);
        let (from, to) = ((start - self.read) as usize, (end - self.read) as usize);
        if self.buffer.len() < to {
            self.buffer.resize(to, 0);
        }
        self.buffer[from..to].copy_from_slice(&data[(start - offset) as usize..]);
        self.received.insert_range(start..end);
        if self.received.range_count() > PIECES_MAX {
            return Err(exceeded("handshake data in too many pieces"));
        }
        Ok(())
    }

    /// Everything below `end` was read.
    pub(super) fn has_read(&self, end: u64) -> bool {
        end <= self.read
    }

    /// The next bytes in order.
    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        let end = self.read + self.buffer.len() as u64;
        let in_order = self.received.first_gap(self.read, end).map_or(end, |gap| gap.start);
        if in_order == self.read {
            return None;
        }
        let rest = self.buffer.split_off((in_order - self.read) as usize);
        self.read = in_order;
        self.received.remove_below(in_order);
        Some(std::mem::replace(&mut self.buffer, rest))
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.received.range_count() * size_of::<Range<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_in_order_whatever_the_pieces() {
        let data: Vec<u8> = (0..200).map(|i| i as u8).collect();
        let mut receive = CryptoReceive::default();
        for (offset, len) in [(50usize, 30usize), (60, 10), (0, 20), (10, 45), (190, 10), (70, 130)] {
            receive.insert(offset as u64, &data[offset..offset + len]).unwrap();
        }
        let mut read = Vec::new();
        while let Some(chunk) = receive.read() {
            read.extend(chunk);
        }
        assert_eq!(read, data);
        assert!(receive.insert(BUFFER_MAX_BYTES + 200, &[1]).is_err());
    }

    #[test]
    fn overlapping_pieces_take_no_more_than_the_bytes_they_cover() {
        let mut receive = CryptoReceive::default();
        for offset in 1..BUFFER_MAX_BYTES - 1200 {
            receive.insert(offset, &[7; 1200]).unwrap();
        }
        assert!(receive.memory_bytes() <= 2 * BUFFER_MAX_BYTES as usize, "{}", receive.memory_bytes());
        let mut scattered = CryptoReceive::default();
        let refused = (1..BUFFER_MAX_BYTES / 2).find(|at| scattered.insert(at * 2, &[7]).is_err());
        assert_eq!(refused, Some(PIECES_MAX as u64 + 1));
    }

    #[test]
    fn what_is_not_acknowledged_is_sent_again() {
        let mut send = CryptoSend::default();
        send.write(&[7; 100]);
        assert_eq!(send.poll(60).map(|(o, d)| (o, d.len())), Some((0, 60)));
        assert_eq!(send.poll(60).map(|(o, d)| (o, d.len())), Some((60, 40)));
        assert!(!send.has_pending() && send.has_unacked());
        send.on_acked(20..60);
        send.repeat();
        assert_eq!(send.poll(60).map(|(o, d)| (o, d.len())), Some((0, 20)));
        assert_eq!(send.poll(60).map(|(o, d)| (o, d.len())), Some((60, 40)));
        send.on_acked(0..100);
        assert!(!send.has_unacked());
    }
}
