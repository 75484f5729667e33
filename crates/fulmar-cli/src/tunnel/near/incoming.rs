//! What comes from the gateway: visitors of the places where it listens for us.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::{RecvStream, SendStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::link::Link;
use super::reverses::Reverses;
use crate::tunnel::flow::dial;
use crate::tunnel::flow::halves::{BoxedHalves, TunnelSend};
use crate::tunnel::flow::lookups::Lookups;
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::tcp::boxed_tcp;
use crate::tunnel::flow::traffic::{PRESSED_BYTES, Traffic, Way};
use crate::tunnel::flow::udp::{self, Connected};
use crate::tunnel::policy::rules::Rules;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::message::{self, Answer, Request};
use crate::tunnel::wire::target::Target;

/// How long the gateway may take to say what a stream is for.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Visitors at the same time: more than that is a gateway's mistake, or its malice.
const VISITORS_MAX: usize = 4096;

/// How often it is looked at what waits to be read.
const WEIGH_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before a listener whose place is still taken is asked for again.
const ASK_INTERVAL: Duration = Duration::from_secs(2);

/// How often a listener is asked for whose place is taken: the connection of a client that has just ended may
/// still hold it.
const ASKS_MAX: u32 = 3;

/// Asks for a listener for the first time.
pub(super) async fn ask_first(
    link: &Link,
    reverses: &Reverses,
    listener: u64,
    at: &Target,
) -> Result<Option<SocketAddr>, OpenError> {
    let mut asks = 1;
    loop {
        match ask(link, reverses, listener, at).await {
            Err(error) if error.code == Code::InUse && asks < ASKS_MAX => {
                asks += 1;
                tokio::time::sleep(ASK_INTERVAL).await;
            }
            result => return result,
        }
    }
}

/// Asks for a listener; it lasts as long as its stream is kept.
async fn ask(
    link: &Link,
    reverses: &Reverses,
    listener: u64,
    at: &Target,
) -> Result<Option<SocketAddr>, OpenError> {
    let (send, mut recv) = link.session.open().await.map_err(OpenError::lost)?;
    let mut send = TunnelSend::from(send);
    let request = Request::Listen { at: at.clone(), listener };
    message::say(&mut send, &request).await.map_err(OpenError::lost)?;
    let at_the_gateway =
        |error: OpenError| OpenError { text: format!("at the gateway {}: {error}", link.gateway), ..error };
    match message::hear_answer(&mut recv).await.map_err(at_the_gateway)? {
        Answer::Listening { address } => {
            let mut hearing = JoinSet::new();
            hearing.spawn(tell_when_over(recv, format!("{} listens at {at}", link.gateway)));
            reverses.keep(send, hearing);
            Ok(address)
        }
        _ => Err(OpenError::new(Code::Other, "the gateway gives no answer to what it was asked")),
    }
}

/// The gateway ends the stream of a listener whose place it has given to another connection of this key.
async fn tell_when_over(mut recv: RecvStream, what: String) {
    if matches!(recv.read(&mut [0]).await, Ok(None)) {
        tracing::warn!("{what} no longer: another connection with this key does, since this one was silent");
    }
}

/// Serves the visitors of every connection, and asks each new one for the listeners there have been.
pub(super) async fn serve(
    mut links: watch::Receiver<Option<Link>>,
    reverses: Arc<Reverses>,
    traffic: Arc<Traffic>,
) {
    let mut is_first = true;
    let mut serving = JoinSet::new();
    loop {
        let link = links.borrow_and_update().clone();
        if let Some(link) = link {
            let is_new = !std::mem::take(&mut is_first);
            if is_new {
                reverses.let_go();
            }
            serving.spawn(serve_link(link, Arc::clone(&reverses), Arc::clone(&traffic), is_new));
        }
        if links.changed().await.is_err() {
            return;
        }
        while serving.try_join_next().is_some() {}
    }
}

/// Asks again for a listener of an earlier connection. The gateway may not have noticed yet that that one is
/// gone.
async fn ask_again(link: Link, reverses: Arc<Reverses>, listener: u64, at: Target) {
    loop {
        match ask(&link, &reverses, listener, &at).await {
            Ok(_) => return tracing::info!("{} listens at {at} again", link.gateway),
            Err(error) if error.code == Code::InUse => tokio::time::sleep(ASK_INTERVAL).await,
            Err(error) => return tracing::warn!("{} listens at {at} no longer: {error}", link.gateway),
        }
    }
}

async fn serve_link(link: Link, reverses: Arc<Reverses>, traffic: Arc<Traffic>, is_new: bool) {
    let mut asking = JoinSet::new();
    for (listener, reverse) in reverses.all().into_iter().filter(|_| is_new) {
        asking.spawn(ask_again(link.clone(), Arc::clone(&reverses), listener, reverse.at));
    }
    asking.spawn(weigh(link.clone(), Arc::clone(&traffic)));
    let mut visitors = JoinSet::new();
    let lookups = Lookups::default();
    while let Ok((send, recv)) = link.session.accept().await {
        while visitors.try_join_next().is_some() {}
        if visitors.len() >= VISITORS_MAX {
            continue;
        }
        let (link, reverses, traffic) = (link.clone(), Arc::clone(&reverses), Arc::clone(&traffic));
        let lookups = lookups.clone();
        visitors.spawn(async move {
            if let Err(error) = visit(&link, &reverses, &traffic, &lookups, (send, recv)).await {
                tracing::debug!("a visitor was refused: {error}");
            }
        });
    }
}

/// Tells the flows when those that are not read keep others waiting.
async fn weigh(link: Link, traffic: Arc<Traffic>) {
    loop {
        traffic.press(link.session.unread_bytes() > PRESSED_BYTES);
        tokio::time::sleep(WEIGH_INTERVAL).await;
    }
}

/// Serves one visitor. Where it may go is decided here: what the gateway says chooses among what was asked
/// for.
async fn visit(
    link: &Link,
    reverses: &Reverses,
    traffic: &Traffic,
    lookups: &Lookups,
    (send, mut recv): (SendStream, RecvStream),
) -> Result<(), OpenError> {
    let mut send = TunnelSend::from(send);
    let request = tokio::time::timeout(REQUEST_TIME_MAX, message::hear(&mut recv)).await;
    let malformed = |text: &str| OpenError::new(Code::Malformed, text);
    let (listener, flow) = match request {
        Ok(Ok(Some(Request::Incoming { listener, flow, .. }))) => (listener, flow),
        _ => return refuse(&mut send, malformed("this is no visitor")).await,
    };
    let Some(reverse) = reverses.get(listener) else {
        return refuse(&mut send, OpenError::new(Code::Forbidden, "nobody asked for that listener")).await;
    };
    if let Target::Udp(place) = &reverse.to {
        let Some(inbox) = flow.and_then(|flow| link.datagrams.accept(flow)) else {
            return refuse(&mut send, malformed("a UDP flow needs a number of its own")).await;
        };
        let dialled = match dial::resolve(place, &Rules::everything(), lookups).await {
            Ok(addresses) => dial::udp(place, addresses).await,
            Err(error) => Err(error),
        };
        let (socket, address) = match dialled {
            Ok(dialled) => dialled,
            Err(error) => return refuse(&mut send, error).await,
        };
        let answer = Answer::Opened { address: Some(address) };
        message::say(&mut send, &answer).await.map_err(OpenError::lost)?;
        let carried = udp::carry(Connected::new(socket), inbox, (recv, send), Way::Up, traffic).await;
        return carried.map_err(OpenError::lost);
    }
    match dial_here(&reverse.to, lookups).await {
        Ok((address, local)) => {
            message::say(&mut send, &Answer::Opened { address }).await.map_err(OpenError::lost)?;
            pump(local, (recv, send), Way::Up, traffic).await;
            Ok(())
        }
        Err(error) => refuse(&mut send, error).await,
    }
}

async fn dial_here(to: &Target, lookups: &Lookups) -> Result<(Option<SocketAddr>, BoxedHalves), OpenError> {
    let rules = Rules::everything();
    match to {
        Target::Unix(path) => Ok((None, dial::unix(path, &rules).await?)),
        Target::Tcp(place) | Target::Udp(place) => {
            let stream = dial::tcp(place, dial::resolve(place, &rules, lookups).await?).await?;
            Ok((stream.peer_addr().ok(), boxed_tcp(stream)))
        }
    }
}

async fn refuse(send: &mut TunnelSend, error: OpenError) -> Result<(), OpenError> {
    if message::say(send, &Answer::from(error.clone())).await.is_ok() {
        let _ = tokio::io::AsyncWriteExt::shutdown(send).await;
    }
    Err(error)
}
