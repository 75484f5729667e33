//! The bytes of the TLS handshake in one packet-number space: reliable and in order, without symbols.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::recovery::RangeSet;
use crate::{TransportError, TransportErrorCode};

/// Handshake bytes buffered out of order, at most (RFC 9000 7.5 asks for at least 4096).
const BUFFER_MAX_BYTES: u64 = 64 << 10;

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

/// Handshake bytes received.
#[derive(Debug, Default)]
pub(super) struct CryptoReceive {
    chunks: BTreeMap<u64, Vec<u8>>,
    read: u64,
}

impl CryptoReceive {
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        let end = offset.saturating_add(data.len() as u64);
        if end > self.read + BUFFER_MAX_BYTES {
            return Err(TransportError::new(
                TransportErrorCode::CryptoBufferExceeded,
                "handshake data too far ahead",
            ));
        }
        if end <= self.read {
            return Ok(());
        }
        let skip = self.read.saturating_sub(offset);
        let kept = &data[skip as usize..];
        let chunk = self.chunks.entry(offset + skip).or_default();
        if kept.len() > chunk.len() {
            *chunk = kept.to_vec();
        }
        Ok(())
    }

    /// The next bytes in order.
    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        loop {
            let entry = self.chunks.first_entry()?;
            let offset = *entry.key();
            if offset > self.read {
                return None;
            }
            let mut chunk = entry.remove();
            let skip = (self.read - offset) as usize;
            if skip < chunk.len() {
                chunk.drain(..skip);
                self.read += chunk.len() as u64;
                return Some(chunk);
            }
        }
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
