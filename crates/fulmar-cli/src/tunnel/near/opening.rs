//! How a flow is opened, also when the gateway that was asked is lost before it answers.
//!
//! Until the first byte of its answer comes, nothing is known here of what a gateway has done for a flow: the
//! next one is asked instead, unless something was sent to the target already. Then, or when its answer has
//! begun, a flow is reset with its connection. (A packet is another matter: it may come twice anyhow.)

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fulmar::RecvStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::ahead::{Ahead, AheadSend, Answering};
use super::link::{ANSWER_MAX, Link};
use super::links::Links;
use crate::tunnel::flow::datagrams::Inbox;
use crate::tunnel::flow::halves::TunnelSend;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::message::{self, Answer, Request};
use crate::tunnel::wire::target::Target;

/// Connections on which one flow is asked for, one after the other.
const ATTEMPTS_MAX: usize = 4;

/// What tells a flow of packets apart.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    flow: u32,
    association: Option<u32>,
}

/// Opens flows on whatever connection there is.
#[derive(Debug, Clone)]
pub struct Opener {
    links: Links,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    opened: AtomicU64,
    refused: AtomicU64,
    /// Flows wait for a gateway, and that has been said.
    are_waiting: AtomicBool,
}

/// A flow that the gateway has opened.
#[derive(Debug)]
pub struct Flow {
    /// Towards the target.
    pub send: TunnelSend,
    /// From the target.
    pub recv: RecvStream,
    /// What the gateway has connected to; a Unix socket has no address.
    pub address: Option<SocketAddr>,
}

impl Flow {
    /// Both halves.
    pub fn into_halves(self) -> (RecvStream, TunnelSend) {
        (self.recv, self.send)
    }
}

/// Why an answer is not a yes.
enum Unanswered {
    /// The connection was lost, and nothing of an answer had come.
    Lost,
    /// It is a no, or none at all.
    Refused(OpenError),
}

impl Unanswered {
    /// A stream of this connection failed before the answer began.
    fn of(link: &Link, error: impl std::fmt::Display) -> Self {
        if link.session.is_open() { Self::Refused(OpenError::lost(error)) } else { Self::Lost }
    }
}

impl Opener {
    /// One for these connections.
    pub fn new(links: Links) -> Self {
        Self { links, counts: Arc::default() }
    }

    /// Flows that were opened and refused since the beginning.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.opened.load(Ordering::Relaxed), self.counts.refused.load(Ordering::Relaxed))
    }

    fn count<T>(&self, result: Result<T, OpenError>) -> Result<T, OpenError> {
        let counter = if result.is_ok() { &self.counts.opened } else { &self.counts.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        if result.is_ok() {
            self.counts.are_waiting.store(false, Ordering::Relaxed);
        }
        result
    }

    /// A flow to `target`.
    pub async fn open(&self, target: &Target) -> Result<Flow, OpenError> {
        let opened = self.opened(target, |_| (None, ()), &[]).await;
        self.count(opened.map(|(flow, ())| flow))
    }

    /// A flow of packets to a UDP port, with the first packet that goes there. Those of one association leave
    /// the gateway from one port.
    pub async fn open_packets(
        &self,
        target: &Target,
        association: Option<u32>,
        first: &[u8],
    ) -> Result<(Flow, Inbox), OpenError> {
        let mut frame = Vec::new();
        message::append_packet(&mut frame, first);
        let numbered = |link: &Link| {
            let inbox = link.datagrams.open();
            (Some(Numbers { flow: inbox.flow(), association }), inbox)
        };
        let opened = self.opened(target, numbered, &frame).await;
        self.count(opened)
    }

    /// A flow, and what `prepare` gives for the connection that it came to be on.
    async fn opened<T>(
        &self,
        target: &Target,
        prepare: impl Fn(&Link) -> (Option<Numbers>, T),
        first: &[u8],
    ) -> Result<(Flow, T), OpenError> {
        let (mut lost, begin) = (None, Instant::now());
        for _ in 0..ATTEMPTS_MAX {
            let link = self.other_than(lost.as_ref(), begin).await?;
            let (numbers, kept) = prepare(&link);
            let answered = async {
                let (send, mut recv) = ask(&link, target, numbers, first).await?;
                let address = self.answer(&link, &mut recv).await?;
                Ok(Flow { send, recv, address })
            };
            match self.heard(&link, answered).await {
                Ok(flow) => return Ok((flow, kept)),
                Err(Unanswered::Refused(error)) => return Err(error),
                Err(Unanswered::Lost) => {}
            }
            lost = Some(link);
        }
        Err(too_many())
    }

    /// A flow whose first bytes leave before the answer comes: reading waits for the answer, and fails if it
    /// is a no.
    pub async fn open_ahead(&self, target: &Target) -> Result<(Answering, AheadSend), OpenError> {
        let (mut lost, begin) = (None, Instant::now());
        for _ in 0..ATTEMPTS_MAX {
            let link = self.other_than(lost.as_ref(), begin).await?;
            match self.heard(&link, ask(&link, target, None, &[])).await {
                Ok((send, recv)) => {
                    let (ahead, sending) = Ahead::new(send, &link.session);
                    let settled = self.clone().settled(target.clone(), link, recv, ahead);
                    return Ok((Answering::new(settled), sending));
                }
                Err(Unanswered::Refused(error)) => return Err(error),
                Err(Unanswered::Lost) => lost = Some(link),
            }
        }
        Err(too_many())
    }

    /// Waits for the answer to what was asked on `link`, and asks the next gateway if none comes.
    async fn settled(
        self,
        target: Target,
        mut link: Link,
        mut recv: RecvStream,
        ahead: Ahead,
    ) -> Result<RecvStream, OpenError> {
        let (mut attempts, begin) = (1, Instant::now());
        let result = loop {
            match self.heard(&link, self.answer(&link, &mut recv)).await {
                Ok(_) => break Ok(recv),
                Err(Unanswered::Refused(error)) => break Err(error),
                Err(Unanswered::Lost) if attempts == ATTEMPTS_MAX => break Err(too_many()),
                Err(Unanswered::Lost) => {}
            }
            attempts += 1;
            match self.ask_again(&target, &link, &ahead, begin).await {
                Ok(again) => (link, recv) = again,
                Err(error) => break Err(error),
            }
        };
        ahead.settle();
        self.count(result)
    }

    /// Asks another gateway.
    async fn ask_again(
        &self,
        target: &Target,
        lost: &Link,
        ahead: &Ahead,
        begin: Instant,
    ) -> Result<(Link, RecvStream), OpenError> {
        if !ahead.begin_again() {
            return Err(OpenError::lost("data had been sent ahead of the answer"));
        }
        let link = self.other_than(Some(lost), begin).await?;
        match self.heard(&link, ask(&link, target, None, &[])).await {
            Ok((send, recv)) => {
                ahead.go_on(send, &link.session);
                Ok((link, recv))
            }
            Err(Unanswered::Refused(error)) => Err(error),
            Err(Unanswered::Lost) => Err(too_many()),
        }
    }

    /// A connection for new flows, waited for if there is none.
    async fn other_than(&self, lost: Option<&Link>, begin: Instant) -> Result<Link, OpenError> {
        if self.links.session().is_none() || lost.is_some() {
            self.tell_waiting();
        }
        self.links.other_than(lost, begin).await
    }

    /// What comes of an attempt on a connection, unless that one is silent.
    async fn heard<T>(
        &self,
        link: &Link,
        attempt: impl Future<Output = Result<T, Unanswered>>,
    ) -> Result<T, Unanswered> {
        tokio::select! {
            biased;
            result = attempt => result,
            () = link.answers_nobody() => {
                self.tell_waiting();
                Err(Unanswered::Refused(OpenError::lost(format!("{} is silent", link.gateway))))
            }
        }
    }

    /// Said once for all flows that wait, until one is opened again.
    fn tell_waiting(&self) {
        if !self.counts.are_waiting.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "no gateway answers: new connections wait for one, {} s at most",
                ANSWER_MAX.as_secs()
            );
        }
    }

    /// The answer on a stream that was asked for.
    async fn answer(&self, link: &Link, recv: &mut RecvStream) -> Result<Option<SocketAddr>, Unanswered> {
        let mut begin = [0];
        tokio::select! {
            biased;
            read = AsyncReadExt::read(recv, &mut begin) => {
                if read.map_err(|e| Unanswered::of(link, e))? == 0 {
                    return Err(Unanswered::of(link, "the stream ended without an answer"));
                }
            }
            () = self.links.replaced(link) => return Err(Unanswered::Lost),
        }
        let answer = message::hear_answer(&mut (&begin[..]).chain(recv)).await;
        match answer.map_err(Unanswered::Refused)? {
            Answer::Opened { address } => Ok(address),
            _ => {
                let text = "the gateway gives no answer to what it was asked";
                Err(Unanswered::Refused(OpenError::new(Code::Other, text)))
            }
        }
    }
}

/// Asks for a flow, with the first bytes that go there.
async fn ask(
    link: &Link,
    target: &Target,
    numbers: Option<Numbers>,
    first: &[u8],
) -> Result<(TunnelSend, RecvStream), Unanswered> {
    target.check().map_err(|text| Unanswered::Refused(OpenError::new(Code::Malformed, text)))?;
    let (send, recv) = link.session.open().await.map_err(|e| Unanswered::of(link, e))?;
    let mut send = TunnelSend::from(send);
    let (flow, association) = (numbers.map(|udp| udp.flow), numbers.and_then(|udp| udp.association));
    let request = Request::Open { target: target.clone(), flow, association };
    let said = send.write_all(&message::with_first(&request, first)).await;
    said.map_err(|e| Unanswered::of(link, e))?;
    Ok((send, recv))
}

fn too_many() -> OpenError {
    OpenError::lost("gateways are lost faster than they answer")
}
