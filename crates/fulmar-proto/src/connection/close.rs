//! How a connection ends: closing, draining, gone (RFC 9000 10.2).

use std::time::Duration;

use bytes::Bytes;

use crate::Instant;
use crate::wire::frame::Close;

/// Where the connection is in its life.
#[derive(Debug)]
pub(super) enum State {
    /// Keys are being agreed.
    Handshaking,
    /// In use.
    Established,
    /// This end has closed and repeats that when packets still come.
    Closing {
        close: Close,
        until: Instant,
        /// It is repeated unasked at this time: a peer with nothing under way would not ask.
        repeat_at: Instant,
        probe_timeout: Duration,
        /// The close is to be sent (again).
        is_due: bool,
        /// And then it is over.
        is_said_once: bool,
        /// Packets that came since; the close is repeated at the 1st, 2nd, 4th, 8th ..
        heard: u32,
    },
    /// The peer has closed, or all hope is lost: nothing is sent any more.
    Draining { until: Instant },
    /// Everything is over.
    Drained,
}

/// Closing and draining last for so many probe timeouts (RFC 9000 10.2).
const LINGER_PTOS: u32 = 3;

/// How long a close waits for room where it is said only once.
const LEAVE_MAX: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn closing(now: Instant, close: Close, probe_timeout: Duration) -> Self {
        Self::Closing {
            close,
            until: now + probe_timeout * LINGER_PTOS,
            repeat_at: now + probe_timeout,
            probe_timeout,
            is_due: true,
            is_said_once: false,
            heard: 0,
        }
    }

    /// Closes with one word, and is gone as soon as that has been said.
    pub(super) fn leaving(now: Instant, close: Close) -> Self {
        let until = now + LEAVE_MAX;
        let (repeat_at, probe_timeout) = (until, LEAVE_MAX);
        Self::Closing { close, until, repeat_at, probe_timeout, is_due: true, is_said_once: true, heard: 0 }
    }

    pub(super) fn draining(now: Instant, probe_timeout: Duration) -> Self {
        Self::Draining { until: now + probe_timeout * LINGER_PTOS }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closing { .. } | Self::Draining { .. } | Self::Drained)
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Closing { until, repeat_at, .. } => Some(*until.min(repeat_at)),
            Self::Draining { until } => Some(*until),
            Self::Handshaking | Self::Established | Self::Drained => None,
        }
    }

    /// True if that was the end.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        if let Self::Closing { repeat_at, probe_timeout, is_due, until, .. } = self
            && *repeat_at <= now
            && now < *until
        {
            *repeat_at += *probe_timeout;
            *is_due = true;
        }
        let is_over = matches!(self, Self::Closing { until, .. } | Self::Draining { until } if *until <= now);
        if is_over {
            *self = Self::Drained;
        }
        is_over
    }

    /// A packet came although this end has closed.
    pub(super) fn on_packet_while_closing(&mut self) {
        if let Self::Closing { is_due, heard, .. } = self {
            *heard += 1;
            *is_due |= heard.is_power_of_two();
        }
    }

    /// The close to send now.
    pub(super) fn poll_close(&mut self) -> Option<Close> {
        match self {
            Self::Closing { close, is_due: is_due @ true, is_said_once, until, .. } => {
                *is_due = false;
                if *is_said_once {
                    *until = Instant::ZERO;
                }
                Some(close.clone())
            }
            _ => None,
        }
    }
}

/// An orderly end that was asked for: close with this once everything has been delivered.
#[derive(Clone, Debug)]
pub(super) struct Shutdown {
    pub(super) code: u64,
    pub(super) reason: Bytes,
}
