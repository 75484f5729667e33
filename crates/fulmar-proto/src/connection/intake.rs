//! What this end asks the peer to send at most: its share of a limit that it keeps with other connections.

use std::time::Duration;

use crate::Instant;
use crate::Rate;
use crate::recovery::ReceiveLimit;
use crate::wire::symbol::SymbolFrame;

/// It is looked so often how much has come, at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A share that differs by less than this part from what the peer knows is no news.
const NEWS_PARTS: u64 = 32;

/// The share of one connection.
#[derive(Debug)]
pub(super) struct Intake {
    limit: ReceiveLimit,
    name: u64,
    /// What has come since then.
    since: Instant,
    bytes: u64,
    /// What the peer was asked for last, and as what number.
    asked: Option<Rate>,
    sequence: u64,
    is_news: bool,
    /// The peer understands.
    is_understood: bool,
}

impl Intake {
    pub(super) fn new(now: Instant, limit: &ReceiveLimit) -> Self {
        let (name, asked) = {
            let mut division = limit.division();
            let name = division.join(now);
            (name, division.share(now, name))
        };
        let limit = limit.clone();
        Self { limit, name, since: now, bytes: 0, asked, sequence: 0, is_news: false, is_understood: false }
    }

    /// What the peer may send from the first packet on.
    pub(super) fn first(&self) -> Option<Rate> {
        self.asked
    }

    /// The peer understands what it is asked.
    pub(super) fn on_understood(&mut self) {
        self.is_understood = true;
    }

    /// A datagram of `bytes` came.
    pub(super) fn on_datagram(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        let elapsed = now - self.since;
        if elapsed < LOOK_EVERY {
            return;
        }
        let received = Rate::from_bytes_in(std::mem::take(&mut self.bytes), elapsed).unwrap_or_default();
        self.since = now;
        let share = {
            let mut division = self.limit.division();
            division.tell(now, self.name, received);
            division.share(now, self.name)
        };
        if is_news(self.asked, share) {
            (self.asked, self.is_news) = (share, self.is_understood);
            self.sequence += u64::from(self.is_news);
        }
    }

    /// The peer is to hear of another share.
    pub(super) fn has_news(&self) -> bool {
        self.is_news
    }

    /// The frame that tells it.
    pub(super) fn poll(&mut self) -> Option<SymbolFrame<'static>> {
        let bytes_per_second = self.asked.map_or(0, Rate::bytes_per_second);
        let is_news = std::mem::take(&mut self.is_news);
        is_news.then_some(SymbolFrame::MaxRate { sequence: self.sequence, bytes_per_second })
    }
}

fn is_news(asked: Option<Rate>, share: Option<Rate>) -> bool {
    match (asked, share) {
        (Some(asked), Some(share)) => {
            let (asked, share) = (asked.bytes_per_second(), share.bytes_per_second());
            asked.abs_diff(share) > asked / NEWS_PARTS
        }
        (asked, share) => asked != share,
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.limit.division().leave(self.name);
    }
}
