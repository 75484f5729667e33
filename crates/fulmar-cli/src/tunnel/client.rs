//! The client's half of the tunnel: flows through a connection to a gateway that is kept up.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fulmar::RecvStream;
use fulmar::identity::Host;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;

use super::datagrams::Inbox;
use super::error::{Code, OpenError};
use super::halves::{RecvHalf, TunnelSend};
use super::incoming;
use super::link::{Link, Route};
use super::message::{self, Answer, Request};
use super::target::Target;
use super::traffic::Traffic;
use crate::exit::Failure;
use crate::reach::Manner;
use crate::session::Session;

/// How long a new flow waits for a tunnel that is down at the moment.
const LINK_WAIT: Duration = Duration::from_secs(10);

/// A tunnel to a gateway. Cloning gives another handle to it; it ends with the last one.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What the gateway listens at for us, by our number for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reverse {
    /// Where it listens.
    pub at: Target,
    /// What its visitors are connected with here.
    pub to: Target,
}

#[derive(Debug)]
struct Shared {
    link: watch::Receiver<Option<Link>>,
    traffic: Arc<Traffic>,
    opened: AtomicU64,
    refused: AtomicU64,
    reverses: Arc<Reverses>,
    tasks: Vec<tokio::task::AbortHandle>,
}

/// All that the gateway listens at for us.
#[derive(Debug, Default)]
pub struct Reverses {
    wanted: Mutex<BTreeMap<u64, Reverse>>,
    /// Their streams: the gateway listens as long as these are open.
    streams: Mutex<Vec<(TunnelSend, RecvStream)>>,
}

impl Reverses {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Reverse>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the stream of one open.
    pub fn keep(&self, streams: (TunnelSend, RecvStream)) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(streams);
    }

    /// Lets go of those on an earlier connection: what they hold there is wanted again on the next one.
    pub fn let_go(&self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The one with this number.
    pub fn get(&self, listener: u64) -> Option<Reverse> {
        self.lock().get(&listener).cloned()
    }

    /// All, with their numbers.
    pub fn all(&self) -> Vec<(u64, Reverse)> {
        self.lock().iter().map(|(number, reverse)| (*number, reverse.clone())).collect()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

/// A flow that has been asked for. What is written now arrives behind what was first; what is read first is
/// the answer.
#[derive(Debug)]
pub struct Flow {
    /// Towards the target.
    pub send: TunnelSend,
    /// From the target, once it has been [`answered`](Flow::answered).
    pub recv: RecvStream,
    shared: Arc<Shared>,
}

/// Why a flow was refused, once that is known.
pub type Refusal = Arc<OnceLock<OpenError>>;

impl Flow {
    /// Both halves, once it has been [`answered`](Flow::answered).
    pub fn into_halves(self) -> (RecvStream, TunnelSend) {
        (self.recv, self.send)
    }

    /// Both halves, without waiting for the answer: reading waits for it, and fails if it is a refusal.
    pub fn unanswered(self) -> (Answering, TunnelSend, Refusal) {
        let refusal = Refusal::default();
        let (told, Self { send, mut recv, shared }) = (Arc::clone(&refusal), self);
        let waiting = async move {
            match shared.heard(message::hear_answer(&mut recv).await) {
                Ok(_) => Ok(recv),
                Err(error) => Err(told.get_or_init(|| error).clone()),
            }
        };
        (Answering::Waiting(Box::pin(waiting)), send, refusal)
    }

    /// Waits for the gateway's answer: the address that it has connected to, if it has one.
    pub async fn answered(&mut self) -> Result<Option<SocketAddr>, OpenError> {
        self.shared.heard(message::hear_answer(&mut self.recv).await)
    }
}

impl Shared {
    /// Counts an answer.
    fn heard(&self, answer: Result<Answer, OpenError>) -> Result<Option<SocketAddr>, OpenError> {
        let answer = match answer {
            Ok(Answer::Opened { address }) => Ok(address),
            Ok(_) => Err(OpenError::new(Code::Other, "the gateway gives no answer to what it was asked")),
            Err(error) => Err(error),
        };
        let counter = if answer.is_ok() { &self.opened } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

/// The receiving half of a flow whose answer may still be on its way.
pub enum Answering {
    /// It is.
    Waiting(Pin<Box<dyn Future<Output = Result<RecvStream, OpenError>> + Send>>),
    /// It came, and was a yes.
    Open(RecvStream),
}

impl AsyncRead for Answering {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Self::Waiting(waiting) = this {
            let recv = ready!(waiting.as_mut().poll(cx))?;
            *this = Self::Open(recv);
        }
        match this {
            Self::Open(recv) => Pin::new(recv).poll_read(cx, out),
            Self::Waiting(_) => Poll::Pending,
        }
    }
}

impl RecvHalf for Answering {
    fn cut_off(&mut self) {
        // One that waits stops its stream when it is dropped.
        if let Self::Open(recv) = self {
            recv.cut_off();
        }
    }
}

impl Client {
    /// Connects to one of these gateways, and stays connected.
    pub async fn connect(gateways: Vec<Host>, manner: Manner) -> Result<Self, Failure> {
        let route = Route { gateways, manner };
        let link = route.connect().await?;
        let (tell, watch) = watch::channel(Some(link));
        let (reverses, traffic) = (Arc::<Reverses>::default(), Arc::<Traffic>::default());
        let keeping = tokio::spawn(route.keep(tell));
        let coming =
            tokio::spawn(incoming::serve(watch.clone(), Arc::clone(&reverses), Arc::clone(&traffic)));
        let tasks = vec![keeping.abort_handle(), coming.abort_handle()];
        let (opened, refused) = Default::default();
        Ok(Self { shared: Arc::new(Shared { link: watch, traffic, opened, refused, reverses, tasks }) })
    }

    /// Asks for a flow to `target`, with the first bytes that go there. Does not wait for the answer.
    pub async fn open(&self, target: &Target, first: &[u8]) -> Result<Flow, OpenError> {
        let link = self.link().await?;
        self.ask(&link, target, None, first).await
    }

    /// Asks for a flow of packets to a UDP port, with the first packet that goes there.
    pub async fn open_packets(&self, target: &Target, first: &[u8]) -> Result<(Flow, Inbox), OpenError> {
        let link = self.link().await?;
        let inbox = link.datagrams.open();
        let mut frame = Vec::new();
        message::append_packet(&mut frame, first);
        Ok((self.ask(&link, target, Some(inbox.flow()), &frame).await?, inbox))
    }

    async fn ask(
        &self,
        link: &Link,
        target: &Target,
        flow: Option<u32>,
        first: &[u8],
    ) -> Result<Flow, OpenError> {
        target.check().map_err(|text| OpenError::new(Code::Malformed, text))?;
        let (send, recv) = link.session.open().await.map_err(OpenError::lost)?;
        let mut send = TunnelSend::from(send);
        let request = Request::Open { target: target.clone(), flow };
        send.write_all(&message::with_first(&request, first)).await.map_err(OpenError::lost)?;
        Ok(Flow { send, recv, shared: Arc::clone(&self.shared) })
    }

    /// Has the gateway listen at a place and connects those who come with `to`, now and after each
    /// reconnection. Gives where it listens.
    pub async fn listen(&self, reverse: Reverse) -> Result<Option<SocketAddr>, OpenError> {
        let link = self.link().await?;
        let listener = {
            let mut reverses = self.shared.reverses.lock();
            let listener = reverses.last_key_value().map_or(0, |(last, _)| last + 1);
            reverses.insert(listener, reverse.clone());
            listener
        };
        let asked = incoming::ask(&link, &self.shared.reverses, listener, &reverse.at).await;
        if asked.is_err() {
            self.shared.reverses.lock().remove(&listener);
        }
        asked
    }

    /// The gateway at the other end now, if there is one.
    pub fn gateway(&self) -> Option<Host> {
        self.shared.link.borrow().as_ref().map(|link| link.gateway.clone())
    }

    /// The connection that new flows take now, if there is one.
    pub fn session(&self) -> Option<Session> {
        self.shared.link.borrow().as_ref().map(|link| link.session.clone())
    }

    /// What all flows have carried.
    pub fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    /// Flows that were opened and refused since the beginning.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.opened.load(Ordering::Relaxed), self.shared.refused.load(Ordering::Relaxed))
    }

    /// Says goodbye.
    pub async fn close(&self) {
        self.shared.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        if let Some(session) = self.session() {
            session.close().await;
        }
    }

    async fn link(&self) -> Result<Link, OpenError> {
        let mut link = self.shared.link.clone();
        let up = tokio::time::timeout(LINK_WAIT, link.wait_for(Option::is_some)).await;
        match up {
            Ok(Ok(link)) => link.clone().ok_or_else(|| OpenError::lost("no gateway")),
            _ => Err(OpenError::lost("no gateway answers")),
        }
    }
}
