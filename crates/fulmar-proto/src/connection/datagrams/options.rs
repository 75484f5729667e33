//! What is asked for a datagram, and what is counted of all.

use std::time::Duration;

use fulmar_control::Favor;

use crate::Instant;

/// What a datagram may take on the wire with its repair, in percent of what it takes without us, unless
/// another bound is given: as a rule, and where the connection favours latency.
const COST_PERCENT: u16 = 250;
const COST_PERCENT_LATENCY: u16 = 300;

/// How long a datagram without a deadline is worth repair.
pub(super) const WORTH: Duration = Duration::from_millis(40);

/// What becomes of a datagram whose packet is lost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatagramClass {
    /// It is lost.
    #[default]
    Once,
    /// Repair symbols over the newest datagrams restore it, as many as the path's losses need. It may
    /// overtake others.
    Repaired,
    /// The same; and it waits for those before it, as long as these may still come.
    RepairedInOrder,
}

/// What is asked for a datagram.
///
/// ```
/// use std::time::Duration;
/// use fulmar_proto::{DatagramClass, DatagramOptions};
/// // A game: within 40 ms, at up to three times the bytes.
/// let options = DatagramOptions::new(DatagramClass::Repaired)
///     .deadline(Duration::from_millis(40))
///     .cost_percent(300);
/// # let _ = options;
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    pub(super) class: DatagramClass,
    pub(super) deadline: Option<Duration>,
    pub(super) cost_percent: Option<u16>,
}

impl DatagramOptions {
    /// Of this class; nothing is ever too late, and the connection's profile decides what repair may cost.
    pub fn new(class: DatagramClass) -> Self {
        Self { class, ..Self::default() }
    }

    /// It is worth nothing so long after it was handed over, beyond the time that the path takes anyway: then
    /// it is dropped, here or at the other end, and counted. Without one repair is made for 40 ms, and what
    /// comes later is delivered all the same. At most a minute.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline.min(Duration::from_secs(60))), ..self }
    }

    /// What its packet and its share of repair may take on the wire, IP headers and ACKs included, in percent
    /// of what a UDP packet with the datagram takes. Default: 250; with a profile that favours latency 300,
    /// with one that favours throughput nothing is spent on repair.
    pub fn cost_percent(self, percent: u16) -> Self {
        Self { cost_percent: Some(percent), ..self }
    }

    pub(in super::super) fn is_repaired(&self) -> bool {
        self.class != DatagramClass::Once
    }

    /// When one that is handed over now is worth nothing any more.
    pub(in super::super) fn expires_at(&self, now: Instant) -> Option<Instant> {
        self.deadline.map(|deadline| now + deadline)
    }

    /// What repair may cost, in percent; `None`: there is none.
    pub(super) fn budget(&self, favor: Favor) -> Option<u16> {
        let of_favor = match favor {
            Favor::Throughput => None,
            Favor::Balanced => Some(COST_PERCENT),
            Favor::Latency => Some(COST_PERCENT_LATENCY),
        };
        self.cost_percent.or(of_favor).filter(|_| self.is_repaired())
    }

    /// Until when repair is made for what leaves now and was handed over at `since`. Pieces of a datagram
    /// wait for the window, and so does their repair: it has two round trips, unless there is a deadline.
    pub(super) fn worth_until(
        &self,
        now: Instant,
        since: Instant,
        (is_piece, rtt): (bool, Duration),
    ) -> Instant {
        match self.deadline {
            Some(deadline) => since + deadline,
            None if is_piece => now + WORTH.max(rtt * 2),
            None => now + WORTH,
        }
    }
}

/// What became of datagrams: of all that were dropped here, and of those that were sent to be repaired or
/// were too long for a packet. Of these one that fits a packet counts as one; of a longer one each piece
/// counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramStats {
    /// Sent to be repaired, or in pieces.
    pub sent: u64,
    /// Repair symbols sent.
    pub repairs_sent: u64,
    /// Dropped before they were sent, because their deadline had passed.
    pub expired: u64,
    /// Dropped before they were sent, because the path has come to carry none that long.
    pub outgrown: u64,
    /// Arrived by themselves.
    pub arrived: u64,
    /// Repair symbols that arrived.
    pub repairs_arrived: u64,
    /// Lost on the way, and restored by the code.
    pub repaired: u64,
    /// Known after their deadline, and dropped for that.
    pub late: u64,
    /// Never known.
    pub lost: u64,
}
