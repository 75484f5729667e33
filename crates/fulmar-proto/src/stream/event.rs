//! What the application learns without asking, each fact once until it was taken.

use crate::{Dir, StreamId};
use std::collections::VecDeque;

/// Something an application may wait for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// There is something to read: data, the end, or a reset. Comes once after the stream was opened, and
    /// then only after a read that found nothing.
    Readable(StreamId),
    /// A stream whose last write was refused probably takes data again.
    Writable(StreamId),
    /// The peer does not want what is written, for the reason `code`; what was not sent yet is gone. Does not
    /// come after the stream was finished or reset.
    Stopped {
        /// Which stream.
        id: StreamId,
        /// The application's code.
        code: u64,
    },
    /// The peer opened at least one stream to accept.
    Opened {
        /// Of which direction.
        dir: Dir,
    },
    /// The peer allows more streams, after it had refused one.
    Available {
        /// Of which direction.
        dir: Dir,
    },
}

impl StreamEvent {
    /// The stream it is about, if it is about one.
    pub(super) fn stream(&self) -> Option<StreamId> {
        match *self {
            Self::Readable(id) | Self::Writable(id) | Self::Stopped { id, .. } => Some(id),
            Self::Opened { .. } | Self::Available { .. } => None,
        }
    }
}

/// Events not taken yet. Streams see to it that they add no event twice; events that concern a forgotten
/// stream are dropped before they outnumber the streams.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<StreamEvent>,
}

/// A stream has at most this many events pending.
const EVENTS_PER_STREAM: usize = 3;
/// Events of forgotten streams that may lie in the queue.
const STALE_MAX: usize = 64;

impl Events {
    pub(super) fn push(&mut self, event: StreamEvent) {
        self.queue.push_back(event);
    }

    /// Adds an event that may be there already, and is about no stream.
    pub(super) fn push_once(&mut self, event: StreamEvent, is_pending: &mut bool) {
        if !std::mem::replace(is_pending, true) {
            self.queue.push_back(event);
        }
    }

    pub(super) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.queue.pop_front();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        event
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Drops events of streams that are gone, once there are too many: constant work per stream on the
    /// average.
    pub(super) fn compact(&mut self, streams: usize, is_live: impl Fn(StreamId) -> bool) {
        if self.queue.len() > 2 * EVENTS_PER_STREAM * streams + STALE_MAX {
            self.queue.retain(|event| event.stream().is_none_or(&is_live));
        }
    }
}
