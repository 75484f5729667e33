//! A log of the packets that a run's links drop or lose: of which flow, carrying which symbol, where and why.
//!
//! Each packet has a tag that writes a line when it is thrown away before it has arrived. So no queue and no
//! loss process needs to know of the log. Which of them it was follows from the links' counters.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::mem;
use std::rc::Rc;

use fulmar_net::LinkStats;
use fulmar_proto::coding::Content;
use fulmar_proto::{Instant, PacketEvent, PacketEventKind};

use super::start::START;

/// Events of packets that a connection keeps until it sends again: a window of lost packets on the longest
/// paths has fewer.
pub(super) const EVENTS_MAX: usize = 1 << 20;

/// A packet that did not arrive. Displayed it is a line of CSV, without its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// When, in seconds since the start.
    pub at_seconds: f64,
    /// The link, as the outcome names it; `access` is a link of one flow.
    pub link: String,
    /// The link's counter that counted it: dropped (by the queue), lost, blacked_out, policed, oversize.
    pub cause: &'static str,
    /// Index of the flow.
    pub flow: usize,
    /// Whether the flow's receiver sent it.
    pub is_backward: bool,
    /// Number of the packet, and its bytes without headers of UDP and IP.
    pub packet: u64,
    /// See `packet`.
    pub bytes: usize,
    /// What it carries of the coding layer.
    pub content: Option<Content>,
    /// Repair symbols that its sender had sent before: with a code whose blocks end with their repair
    /// symbols, symbols with the same number here are of the same block.
    pub repairs_before: u64,
}

impl Dropped {
    /// The first line of a file of them.
    pub const HEADER: &str = "seconds,link,cause,flow,way,packet,bytes,carries,symbol,repairs_before";
}

impl Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.is_backward { "backward" } else { "forward" };
        let Self { at_seconds, link, cause, flow, packet, bytes, .. } = self;
        write!(f, "{at_seconds:.6},{link},{cause},{flow},{way},{packet},{bytes},")?;
        match self.content {
            Some(content) => write!(f, "{},{}", content.name(), content.number())?,
            None => write!(f, ",")?,
        }
        write!(f, ",{}", self.repairs_before)
    }
}

/// What is in the log, and what the tags have told since the links' counters were last read.
#[derive(Debug, Default)]
struct Told {
    now: Instant,
    fresh: Vec<Dropped>,
    /// Packets that are thrown away when the run is over were under way.
    is_over: bool,
}

/// What a packet is, and where to tell of it.
#[derive(Clone, Debug)]
pub(super) struct Tag {
    packet: Dropped,
    told: Rc<RefCell<Told>>,
    has_arrived: bool,
}

impl Tag {
    /// The packet has reached its host.
    pub(super) fn arrive(mut self) {
        self.has_arrived = true;
    }
}

impl Drop for Tag {
    fn drop(&mut self) {
        let mut told = self.told.borrow_mut();
        if !self.has_arrived && !told.is_over {
            let at_seconds = (told.now - START).as_secs_f64();
            let packet = Dropped { at_seconds, ..self.packet.clone() };
            told.fresh.push(packet);
        }
    }
}

/// The log of a run.
#[derive(Debug, Default)]
pub(super) struct Drops {
    told: Rc<RefCell<Told>>,
    /// Counters of each link when they were last read.
    counters: Vec<[u64; 5]>,
    /// Repair symbols that each host has sent.
    repairs: Vec<u64>,
    log: Vec<Dropped>,
}

impl Drops {
    /// A tag for a datagram that a host is about to send; `events` of its connection begin with those of this
    /// datagram's packets.
    pub(super) fn tag(
        &mut self,
        host: usize,
        bytes: usize,
        events: &mut dyn Iterator<Item = PacketEvent>,
    ) -> Tag {
        let (mut sum, mut number, mut carried) = (0, 0, None);
        while sum < bytes
            && let Some(event) = events.next()
        {
            if let PacketEventKind::Sent { packet, content, .. } = event.kind {
                sum += packet.bytes as usize;
                (number, carried) = (packet.number.0, content.or(carried));
            }
        }
        if self.repairs.len() <= host {
            self.repairs.resize(host + 1, 0);
        }
        let packet = Dropped {
            at_seconds: 0.0,
            link: String::new(),
            cause: "",
            flow: host / 2,
            is_backward: host % 2 == 1,
            packet: number,
            bytes,
            content: carried,
            repairs_before: self.repairs[host],
        };
        self.repairs[host] += u64::from(matches!(carried, Some(Content::Repair(_))));
        Tag { packet, told: self.told.clone(), has_arrived: false }
    }

    /// The links are about to be asked at this time.
    pub(super) fn at(&self, now: Instant) {
        self.told.borrow_mut().now = now;
    }

    /// The links have been asked: what they threw away is of the link whose counter went up.
    pub(super) fn gather<'a>(&mut self, links: impl Iterator<Item = (&'a str, &'a LinkStats)>) {
        let fresh = mem::take(&mut self.told.borrow_mut().fresh);
        if fresh.is_empty() {
            return;
        }
        let mut causes = Vec::new();
        for (index, (name, stats)) in links.enumerate() {
            if self.counters.len() <= index {
                self.counters.push([0; 5]);
            }
            let counts = counters(stats);
            for ((cause, count), before) in counts.into_iter().zip(&mut self.counters[index]) {
                causes.extend((*before..count).map(|_| (name, cause)));
                *before = count;
            }
        }
        let mut causes = causes.into_iter();
        for mut packet in fresh {
            let (link, cause) = causes.next().unwrap_or(("access", "dropped"));
            (packet.link, packet.cause) = (link.into(), cause);
            self.log.push(packet);
        }
    }

    /// All of it; what is thrown away from now on does not count.
    pub(super) fn end(&mut self) -> Vec<Dropped> {
        self.told.borrow_mut().is_over = true;
        mem::take(&mut self.log)
    }
}

fn counters(stats: &LinkStats) -> [(&'static str, u64); 5] {
    [
        ("dropped", stats.dropped.packets),
        ("lost", stats.lost.packets),
        ("blacked_out", stats.blacked_out.packets),
        ("policed", stats.policed.packets),
        ("oversize", stats.oversize.packets),
    ]
}
