//! How much may be sent: the credit an end announces for what it receives, and how the credit grows.
//!
//! A window is moved forward when a quarter of it is consumed (RFC 9000 4.2): while a reader waits for a gap
//! to close, what it read before and did not tell is lost to the sender. If that went in less than a round
//! trip, the window may be what limits the sender, and it doubles at once, up to a maximum: the rule of
//! Chromium's `QuicFlowController::MaybeIncreaseMaxWindowSize`, which waits for a half, earlier, because a
//! sender that starts up sends 2.8 times as much in each round trip, and news of a larger window travel for
//! half of one. So a window ends at about four times what the path holds, room for the round trips that
//! repair takes, and the window of a slow reader stays small. It also doubles when a quarter of it is used up
//! while the reader waits for a gap to close.

use crate::wire::VARINT_MAX;
use fulmar_units::Instant;
use std::time::Duration;

/// The peer is told of more credit when this part of the window was consumed.
const NEWS_PARTS: u64 = 4;

/// Credit announced to the peer, for a stream or for the connection. All in bytes.
#[derive(Clone, Debug)]
pub(super) struct RecvWindow {
    /// The peer may send up to this offset. Moves at once when an update is due; the frame follows.
    max: u64,
    /// Read by the application, or discarded.
    consumed: u64,
    window_bytes: u64,
    window_bytes_max: u64,
    /// When the quarter that is being consumed began, and what was consumed before it.
    since: Option<(Instant, u64)>,
    is_due: bool,
}

impl RecvWindow {
    /// A window of `window_bytes` that may grow to `window_bytes_max`.
    pub(super) fn new(window_bytes: u64, window_bytes_max: u64) -> Self {
        // An empty window could never be consumed, so never move.
        let window_bytes = window_bytes.clamp(1, VARINT_MAX);
        Self { max: window_bytes, consumed: 0, window_bytes, window_bytes_max, since: None, is_due: false }
    }

    /// Offset up to which the peer may send.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Bytes whose credit has come back.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// `bytes` were read by the application at `now`.
    pub(super) fn on_read(&mut self, bytes: u64, now: Instant, rtt: Duration) {
        let (since, before) = *self.since.get_or_insert((now, self.consumed));
        self.consumed += bytes;
        let (read_bytes, quarter) = (self.consumed - before, self.window_bytes / 4);
        if read_bytes >= quarter {
            self.since = Some((now, self.consumed));
            let elapsed = now.saturating_duration_since(since);
            // An application may read more than a quarter at once.
            if elapsed.as_nanos() * u128::from(quarter) < rtt.as_nanos() * u128::from(read_bytes) {
                self.double();
            }
        }
        if self.is_news_due() {
            self.advance();
        }
    }

    /// Data up to `highest` were received while the reader waits for what is missing before them: it is not
    /// the reader that is slow. If a quarter of the credit is used up, the window doubles at once: the sender
    /// may have used up half by then, three quarters when it hears of it, and all of it if that is lost once.
    /// Where packets get lost, a window consumed in bursts, whenever a gap closes, would seem slow although
    /// it is what limits the sender.
    pub(super) fn on_gap(&mut self, highest: u64) {
        if self.max.saturating_sub(highest) < self.window_bytes - self.window_bytes / 4 {
            self.double();
        }
    }

    fn double(&mut self) {
        if self.window_bytes < self.window_bytes_max {
            self.window_bytes = self.window_bytes_max.min(self.window_bytes.saturating_mul(2));
            self.advance();
        }
    }

    /// `bytes` were thrown away: their credit comes back, and says nothing about the reader.
    pub(super) fn on_discarded(&mut self, bytes: u64) {
        self.consumed += bytes;
        if self.is_news_due() {
            self.advance();
        }
    }

    fn is_news_due(&self) -> bool {
        self.max - self.consumed <= self.window_bytes - self.window_bytes / NEWS_PARTS
    }

    fn advance(&mut self) {
        let max = self.consumed.saturating_add(self.window_bytes).min(VARINT_MAX);
        self.is_due |= max > self.max;
        self.max = self.max.max(max);
    }

    /// Whether the peer has to be told of a new maximum; asked once for each.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn moves_when_a_quarter_is_consumed() {
        let mut w = RecvWindow::new(1000, 1000);
        w.on_read(249, at(0), RTT);
        assert!(!w.take_due());
        w.on_read(1, at(0), RTT);
        assert!(w.take_due() && !w.take_due());
        assert_eq!(w.max(), 1250);
        w.on_discarded(250);
        assert_eq!((w.max(), w.take_due()), (1500, true));
    }

    #[test]
    fn doubles_for_a_fast_reader_up_to_the_maximum() {
        let mut w = RecvWindow::new(1000, 3000);
        w.on_read(1, at(0), RTT);
        w.on_read(499, at(199), RTT);
        assert_eq!(w.max(), 500 + 2000);
        w.on_read(1000, at(300), RTT);
        assert_eq!(w.max(), 1500 + 3000);
        w.on_read(1500, at(400), RTT);
        assert_eq!(w.max(), 3000 + 3000);
    }

    #[test]
    fn stays_for_a_slow_reader_and_for_discarded_bytes() {
        let mut w = RecvWindow::new(1000, 1 << 20);
        w.on_read(1, at(0), RTT);
        w.on_read(499, at(200), RTT);
        assert_eq!(w.max(), 1500);
        w.on_read(500, at(400), RTT);
        assert_eq!(w.max(), 2000);
        (0..10).for_each(|_| w.on_discarded(500));
        assert_eq!(w.max(), 7000);
    }

    #[test]
    fn doubles_when_a_gap_holds_up_a_fast_sender() {
        let mut w = RecvWindow::new(1000, 3000);
        w.on_gap(250);
        assert!(!w.take_due());
        w.on_gap(251);
        assert_eq!((w.max(), w.take_due()), (2000, true));
        w.on_gap(1999);
        w.on_gap(2999);
        assert_eq!(w.max(), 3000);
    }

    #[test]
    fn a_window_of_one_byte_still_moves() {
        let mut w = RecvWindow::new(0, 1);
        for read in 1..5 {
            w.on_read(1, at(read * 1000), RTT);
            assert_eq!((w.max(), w.take_due()), (1 + read, true));
        }
    }

    #[test]
    fn ends_at_the_largest_offset_there_is() {
        let mut w = RecvWindow::new(u64::MAX, u64::MAX);
        w.on_read(VARINT_MAX, at(0), RTT);
        assert_eq!((w.max(), w.take_due()), (VARINT_MAX, false));
    }
}
