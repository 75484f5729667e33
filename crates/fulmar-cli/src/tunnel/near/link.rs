//! One connection of a client to a gateway, how it is made, and how it is kept.
//!
//! Several gateways are tried with a head start each, and the first that lets us in is taken. A connection
//! that has been silent although it was asked for a sign of life is not given up yet, since its streams may
//! survive: another one is made beside it, and new flows go there. Once that stands, the way is no excuse any
//! more: if the old one stays silent, its flows end.

use std::sync::Arc;
use std::time::Duration;

use fulmar::RecvStream;
use fulmar::identity::Host;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::exit::Failure;
use crate::reach::{self, Manner, Service};
use crate::session::Session;
use crate::tunnel::flow::datagrams::{Datagrams, End};
use crate::tunnel::flow::drops::Drops;
use crate::tunnel::flow::halves::TunnelSend;
use crate::tunnel::wire::error::OpenError;
use crate::tunnel::wire::message::{self, Answer, Request, VERSION};
use crate::units;

/// Head start of a gateway before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(400);

/// Pauses between attempts to connect again: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// A gateway that has not answered for so long is silent: another is looked for.
const SILENCE_MAX: Duration = Duration::from_secs(12);

/// A gateway that has not answered for so long may be elsewhere: its name is asked again, each time after so
/// long.
const NAME_AFTER: Duration = Duration::from_millis(1500);

/// A gateway that is silent although another connection stands has so long to answer, or so many round trips.
const LAST_WORD: Duration = Duration::from_secs(1);
const LAST_WORD_ROUNDS: u32 = 4;

/// How long one who waits for an answer waits on a connection that is silent: a moment longer than it takes
/// to find another, so that who asked at the beginning of the silence is asked for there.
pub const ANSWER_MAX: Duration = Duration::from_secs(14);

/// After so long without an answer it is said what may be the matter.
const HINT_AFTER: Duration = Duration::from_secs(4);

/// One connection to a gateway.
#[derive(Debug, Clone)]
pub struct Link {
    /// The connection.
    pub session: Session,
    /// To whom.
    pub gateway: Host,
    /// Its datagrams.
    pub datagrams: Arc<Datagrams>,
    /// The stream of the greeting stays open as long as the client is there.
    _greeting: Arc<(TunnelSend, RecvStream)>,
}

impl Link {
    /// Whether both are the same connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self._greeting, &other._greeting)
    }

    /// Resolves when nothing has been answered from now on for so long that nobody should wait for it any
    /// more.
    pub async fn answers_nobody(&self) {
        self.session.silent_for(ANSWER_MAX).await;
    }
}

/// Where to connect, and how.
#[derive(Debug, Clone)]
pub struct Route {
    /// Gateways in the order of preference.
    pub gateways: Vec<Host>,
    /// How.
    pub manner: Manner,
    /// What counts the packets that are dropped.
    pub drops: Arc<Drops>,
}

impl Route {
    /// Connects, and says what may be the matter if nobody answers for some seconds.
    pub async fn connect(&self) -> Result<Link, Failure> {
        let mut connecting = std::pin::pin!(self.race());
        tokio::select! {
            result = &mut connecting => return result,
            () = tokio::time::sleep(HINT_AFTER) => {}
        }
        let ports: Vec<_> = self.gateways.iter().map(|gateway| format!("{gateway}")).collect();
        eprintln!(
            "fulmar: no answer from {} for {} s. Does `fulmar gateway` run there, and do firewalls let UDP \
             through? (A gateway at port 443 gets through most, and with --tcp through nearly all.)",
            ports.join(", "),
            HINT_AFTER.as_secs()
        );
        connecting.await
    }

    /// The first gateway that lets us in.
    async fn race(&self) -> Result<Link, Failure> {
        let mut attempts = JoinSet::new();
        let mut waiting = self.gateways.clone().into_iter();
        let mut failure = Failure::Usage("no gateway was named".into());
        loop {
            match waiting.next() {
                Some(gateway) => {
                    let (manner, drops) = (self.manner.clone(), Arc::clone(&self.drops));
                    attempts.spawn(async move { greet(&gateway, &manner, &drops).await });
                }
                None if attempts.is_empty() => return Err(failure),
                None => {}
            }
            let is_last = waiting.len() == 0;
            let finished = tokio::select! {
                finished = attempts.join_next() => finished,
                () = tokio::time::sleep(HEAD_START), if !is_last => None,
            };
            match finished {
                Some(Ok(Ok(link))) => return Ok(link),
                // A refusal says more than silence.
                Some(Ok(Err(new))) if !matches!(failure, Failure::Untrusted(_)) => failure = new,
                _ => {}
            }
        }
    }

    /// Keeps a connection: makes another whenever it is lost, or while it is silent. `tell` gets each, or
    /// nothing while there is none.
    pub async fn keep(mut self, tell: watch::Sender<Option<Link>>) {
        // What may be wrong with a first connection is no news of one that has been there.
        self.manner.is_quiet = true;
        loop {
            let link = tell.borrow().clone();
            let Some(link) = link else { return };
            let why = tokio::select! {
                why = lost(&link.session) => {
                    tell.send_replace(None);
                    why
                }
                () = has_moved(&link) => "its name stands for another address".into(),
                () = link.session.silent_for(SILENCE_MAX) => "it is silent".into(),
            };
            tracing::warn!("{}: {why}; connecting again", link.gateway);
            let begin = Instant::now();
            let Some(new) = self.replace(&link, &tell).await else {
                tracing::warn!("{} is back after {}", link.gateway, units::duration(begin.elapsed()));
                continue;
            };
            tracing::warn!("connected with {} again after {}", new.gateway, units::duration(begin.elapsed()));
            // Streams of the old one hold it, and go on if it comes back.
            tell.send_replace(Some(new));
            tokio::spawn(give_up(link.session));
        }
    }

    /// A new connection; `None` if the old one has come to life again. What stands in the way is said once.
    async fn replace(&self, old: &Link, tell: &watch::Sender<Option<Link>>) -> Option<Link> {
        let received = || old.session.connection().stats().wire.received_datagrams;
        let before = received();
        let (mut pause, mut told) = (BACKOFF.0, String::new());
        loop {
            match self.race().await {
                Ok(link) => return Some(link),
                Err(failure) if told != failure.to_string() => {
                    told = failure.to_string();
                    tracing::warn!("{told}");
                }
                Err(_) => {}
            }
            if old.session.close_reason().is_some() {
                tell.send_replace(None);
            } else if received() > before {
                return None;
            }
            tokio::time::sleep(jittered(pause)).await;
            pause = (2 * pause).min(BACKOFF.1);
        }
    }
}

/// Ends a connection that another has taken the place of, unless something is heard of it.
async fn give_up(session: Session) {
    let before = session.received_datagrams();
    session.connection().ping();
    tokio::time::sleep(LAST_WORD.max(session.connection().rtt() * LAST_WORD_ROUNDS)).await;
    if session.received_datagrams() == before {
        session.abandon();
    }
}

/// Clients that lost the same gateway do not all come back at once.
fn jittered(pause: Duration) -> Duration {
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
    pause.mul_f64(0.75 + f64::from(nanos % 1000) / 2000.0)
}

/// Resolves when the connection has ended, with the reason.
async fn lost(session: &Session) -> String {
    session.connection().closed().await;
    session.close_reason().map_or_else(|| "connection lost".into(), |why| why.to_string())
}

/// Resolves when a gateway does not answer and its name no longer stands for where it was: it is not waited
/// for there as long as for one that is only silent.
async fn has_moved(link: &Link) {
    loop {
        link.session.silent_for(NAME_AFTER).await;
        let was = link.session.connection().remote_address().ip().to_canonical();
        let now = link.gateway.resolve().await.unwrap_or_default();
        if !now.is_empty() && !now.iter().any(|address| address.ip().to_canonical() == was) {
            return;
        }
    }
}

/// Connects, and makes sure that we are let in: a gateway judges its client only after the connection stands.
async fn greet(gateway: &Host, manner: &Manner, drops: &Arc<Drops>) -> Result<Link, Failure> {
    let session = reach::connect_to(gateway, Service::Tunnel, manner).await?;
    let greeting = async {
        let (send, mut recv) = session.open().await.map_err(OpenError::lost)?;
        let mut send = TunnelSend::from(send);
        let deadline_ms = manner.deadline.map(|deadline| deadline.as_millis() as u32);
        let hello = Request::Hello { version: VERSION, deadline_ms };
        message::say(&mut send, &hello).await.map_err(OpenError::lost)?;
        let answer = message::hear_answer(&mut recv).await?;
        Ok::<_, OpenError>((answer, send, recv))
    };
    let failure = match tokio::time::timeout(manner.connect_timeout, greeting).await {
        Ok(Ok((Answer::Welcome { .. }, send, recv))) => {
            let datagrams = Datagrams::of(session.connection(), End::Client, drops);
            datagrams.set_deadline(manner.deadline);
            let _greeting = Arc::new((send, recv));
            return Ok(Link { session, gateway: gateway.clone(), datagrams, _greeting });
        }
        Ok(Ok(_)) => Failure::Other(format!("{gateway} does not answer a greeting with a welcome")),
        Ok(Err(error)) => Failure::Unreachable(format!("{gateway}: {error}")),
        Err(_) => Failure::Unreachable(format!("{gateway} does not answer")),
    };
    Err(session.close_reason().unwrap_or(failure))
}
