//! The client's half of the tunnel: one connection to a gateway, kept up, and flows through it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::RecvStream;
use fulmar::identity::Host;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::error::{Code, OpenError};
use super::halves::TunnelSend;
use super::message::{self, Answer, Request, VERSION};
use super::target::Target;
use crate::exit::Failure;
use crate::reach::{self, Manner, Service};
use crate::session::Session;

/// How long a new flow waits for a tunnel that is down at the moment.
const LINK_WAIT: Duration = Duration::from_secs(10);

/// Pauses between attempts to connect again: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// A tunnel to a gateway. Cloning gives another handle to it; it ends with the last one.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    link: watch::Receiver<Option<Link>>,
    keeper: tokio::task::JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// One connection to a gateway.
#[derive(Debug, Clone)]
struct Link {
    session: Session,
    gateway: Host,
    /// The stream of the greeting stays open as long as the client is there.
    _greeting: Arc<(TunnelSend, RecvStream)>,
}

/// A flow that has been asked for. What is written now arrives behind what was first; what is read first is the answer.
#[derive(Debug)]
pub struct Flow {
    /// Towards the target.
    pub send: TunnelSend,
    /// From the target, once it has been [`answered`](Flow::answered).
    pub recv: RecvStream,
}

impl Flow {
    /// Waits for the gateway's answer: the address that it has connected to, if it has one.
    pub async fn answered(&mut self) -> Result<Option<SocketAddr>, OpenError> {
        match message::hear_answer(&mut self.recv).await? {
            Answer::Opened { address } => Ok(address),
            other => Err(OpenError::new(Code::Other, format!("the gateway answers {other:?}"))),
        }
    }
}

impl Client {
    /// Connects to one of these gateways, and stays connected.
    pub async fn connect(gateways: Vec<Host>, manner: Manner) -> Result<Self, Failure> {
        let link = greet_any(&gateways, &manner).await?;
        let (tell, watch) = watch::channel(Some(link));
        let keeper = tokio::spawn(keep(gateways, manner, tell));
        Ok(Self { shared: Arc::new(Shared { link: watch, keeper }) })
    }

    /// Asks for a flow to `target`, with the first bytes that go there. Does not wait for the answer.
    pub async fn open(&self, target: &Target, first: &[u8]) -> Result<Flow, OpenError> {
        let link = self.link().await?;
        let (send, recv) = link.session.open().await.map_err(OpenError::lost)?;
        let mut send = TunnelSend::from(send);
        let request = Request::Open { target: target.clone(), flow: None };
        send.write_all(&message::with_first(&request, first)).await.map_err(OpenError::lost)?;
        Ok(Flow { send, recv })
    }

    /// The gateway at the other end now, if there is one.
    pub fn gateway(&self) -> Option<Host> {
        self.shared.link.borrow().as_ref().map(|link| link.gateway.clone())
    }

    /// Says goodbye.
    pub async fn close(&self) {
        self.shared.keeper.abort();
        let link = self.shared.link.borrow().clone();
        if let Some(link) = link {
            link.session.close().await;
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

/// Connects again whenever the connection is lost.
async fn keep(gateways: Vec<Host>, manner: Manner, tell: watch::Sender<Option<Link>>) {
    loop {
        let link = tell.borrow().clone();
        let Some(link) = link else { return };
        link.session.connection().closed().await;
        let why = link.session.close_reason().map_or_else(String::new, |why| why.to_string());
        tracing::warn!("connection lost: {why}; connecting again");
        tell.send_replace(None);
        let mut pause = BACKOFF.0;
        let link = loop {
            match greet_any(&gateways, &manner).await {
                Ok(link) => break link,
                Err(failure) => tracing::debug!("{failure}"),
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(BACKOFF.1);
        };
        tracing::warn!("connected with {} again", link.gateway);
        tell.send_replace(Some(link));
    }
}

/// Connects to the first gateway that lets us in.
async fn greet_any(gateways: &[Host], manner: &Manner) -> Result<Link, Failure> {
    let mut last = Failure::Usage("no gateway was named".into());
    for gateway in gateways {
        match greet(gateway, manner).await {
            Ok(link) => return Ok(link),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// Connects, and makes sure that we are let in: the gateway judges only after the connection stands.
async fn greet(gateway: &Host, manner: &Manner) -> Result<Link, Failure> {
    let session = reach::connect_to(gateway, Service::Tunnel, manner).await?;
    let welcome = async {
        let (send, mut recv) = session.open().await.map_err(OpenError::lost)?;
        let mut send = TunnelSend::from(send);
        let hello = Request::Hello { version: VERSION };
        message::say(&mut send, &hello).await.map_err(OpenError::lost)?;
        let answer = message::hear_answer(&mut recv).await?;
        Ok::<_, OpenError>((answer, send, recv))
    };
    let answer = tokio::time::timeout(manner.connect_timeout, welcome).await;
    match answer {
        Ok(Ok((Answer::Welcome { .. }, send, recv))) => {
            Ok(Link { session, gateway: gateway.clone(), _greeting: Arc::new((send, recv)) })
        }
        Ok(Ok((other, ..))) => Err(Failure::Other(format!("{gateway} answers {other:?} to a greeting"))),
        Ok(Err(error)) => {
            Err(session.close_reason().unwrap_or_else(|| Failure::Unreachable(format!("{gateway}: {error}"))))
        }
        Err(_) => Err(Failure::Unreachable(format!("{gateway} does not answer"))),
    }
}
