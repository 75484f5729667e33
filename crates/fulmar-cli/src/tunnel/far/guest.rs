//! One client at the gateway: serves the streams that it opens, as far as it may.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use fulmar::HeldMemory;

use super::account::{Account, Seat};
use super::visitors::{Bound, Door};
use crate::session::Session;
use crate::tunnel::flow::datagrams::{Datagrams, End};
use crate::tunnel::flow::dial;
use crate::tunnel::flow::halves::{BoxedHalves, RecvHalf, SendHalf};
use crate::tunnel::flow::mapped::{Mapped, Mappings};
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::tcp::boxed_tcp;
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::flow::udp::{self, Connected};
use crate::tunnel::policy::rules::Rules;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::message::{self, Answer, Request, VERSION};
use crate::tunnel::wire::target::{Place, Target};
use crate::{turned_away, units};

/// How long a stream may take to say what it is for.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// What a stream takes here beside what its connection holds: its task, 12 KiB (9,900 greetings took
/// 120 MB), and the smallest buffers of both directions of a flow.
const STREAM_BYTES: usize = 20 << 10;

/// One client, on one connection.
#[derive(Debug)]
pub struct Guest {
    rules: RwLock<Arc<Rules>>,
    account: Arc<Account>,
    datagrams: Arc<Datagrams>,
    /// From which its UDP flows leave that share one.
    mappings: Mappings,
    /// It has opened a stream.
    has_begun: AtomicBool,
    is_greeted: AtomicBool,
    /// Needed to open streams to the client.
    session: Option<Session>,
    #[cfg(machine)]
    tun: Option<crate::packets::pool::Pool>,
}

/// What a stream has from its acceptance to its end: a seat, and memory that counts.
#[derive(Debug)]
pub struct Admission {
    /// The first of a connection has none: it is the greeting, unless it says otherwise.
    seat: Option<Seat>,
    _memory: Option<HeldMemory>,
}

impl Guest {
    /// A client with these rules, without a connection: it can open streams, and have none opened to it.
    pub fn new(rules: Rules, account: Arc<Account>) -> Self {
        let datagrams = Datagrams::none(End::Gateway);
        Self {
            rules: RwLock::new(Arc::new(rules)),
            account,
            datagrams,
            mappings: Mappings::default(),
            has_begun: AtomicBool::new(false),
            is_greeted: AtomicBool::new(false),
            session: None,
            #[cfg(machine)]
            tun: None,
        }
    }

    /// A client on a connection.
    pub fn on(session: &Session, rules: Rules, account: Arc<Account>) -> Self {
        let datagrams = Datagrams::of(session.connection(), End::Gateway, &account.traffic.drops);
        Self { datagrams, session: Some(session.clone()), ..Self::new(rules, account) }
    }

    /// Offers it a tunnel for packets, with addresses of this pool.
    #[cfg(machine)]
    pub fn with_tun(self, tun: Option<crate::packets::pool::Pool>) -> Self {
        Self { tun, ..self }
    }

    #[cfg(machine)]
    async fn open_tun<R, W>(
        &self,
        wish: &crate::tunnel::wire::packets::Wish,
        recv: R,
        mut send: W,
    ) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        use crate::packets::far;
        let traffic = Arc::clone(&self.account.traffic);
        let (pool, session) = (self.tun.as_ref(), self.session.as_ref());
        let opened = match far::open(&self.rules(), pool, session, &self.datagrams, traffic, wish) {
            Ok(opened) => opened,
            Err(error) => return self.refuse(&mut send, error).await,
        };
        message::say(&mut send, &Answer::Tun(opened.grant.clone())).await.map_err(OpenError::lost)?;
        Err(OpenError::lost(opened.carry(recv, send).await))
    }

    /// What it may do now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What it may do from now on: streams that are open stay open.
    pub fn set_rules(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Whether there is room for one more stream.
    pub fn admit(&self) -> Result<Admission, OpenError> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let seat = if is_first { None } else { Some(self.account.seat()?) };
        let hold = |session: &Session| {
            let held = session.connection().hold_memory(STREAM_BYTES);
            held.ok_or_else(|| OpenError::new(Code::Limit, "no memory is left for another stream"))
        };
        Ok(Admission { seat, _memory: self.session.as_ref().map(hold).transpose()? })
    }

    /// Serves one stream that the client has opened, to its end. What went wrong has been told to the client.
    pub async fn serve<R, W>(
        &self,
        mut admission: Admission,
        mut recv: R,
        mut send: W,
    ) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let request = tokio::time::timeout(REQUEST_TIME_MAX, message::hear(&mut recv)).await;
        let malformed = |text: String| OpenError::new(Code::Malformed, text);
        let request = match request {
            Ok(Ok(Some(request))) => request,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return refuse(&mut send, malformed(error.to_string())).await,
            Err(_) => return refuse(&mut send, malformed("no request came".into())).await,
        };
        if !matches!(request, Request::Hello { .. }) && admission.seat.is_none() {
            match self.account.seat() {
                Ok(seat) => admission.seat = Some(seat),
                Err(error) => return self.refuse(&mut send, error).await,
            }
        }
        match request {
            Request::Hello { version: VERSION, deadline_ms } => {
                self.datagrams.set_deadline(deadline_ms.map(|ms| Duration::from_millis(ms.into())));
                if self.is_greeted.swap(true, Ordering::Relaxed) {
                    return refuse(&mut send, malformed("a second greeting".into())).await;
                }
                greet(recv, send).await
            }
            Request::Hello { version, .. } => {
                let text =
                    format!("version {version} of the tunnel protocol is not spoken here: it is {VERSION}");
                refuse(&mut send, malformed(text)).await
            }
            Request::Open { target, flow, association } => {
                let result = self.open(&target, (flow, association), recv, send).await;
                tracing::debug!(%target, error = result.as_ref().err().map(tracing::field::display), "flow");
                result
            }
            #[cfg(machine)]
            Request::Tun(wish) => self.open_tun(&wish, recv, send).await,
            Request::Listen { at, listener } => self.listen(&at, listener, recv, send).await,
            Request::Incoming { .. } => refuse(&mut send, malformed("out of turn".into())).await,
        }
    }

    async fn open<R, W>(
        &self,
        target: &Target,
        udp: (Option<u32>, Option<u32>),
        recv: R,
        mut send: W,
    ) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        if let Err(error) = check(target) {
            return self.refuse(&mut send, error).await;
        }
        match target {
            Target::Udp(place) => self.open_udp(place, udp, recv, send).await,
            _ => self.open_stream(target, recv, send).await,
        }
    }

    async fn open_stream<R, W>(&self, target: &Target, recv: R, mut send: W) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let dialled = self.dial(target).await;
        let (address, local) = match dialled {
            Ok(dialled) => dialled,
            Err(error) => return self.refuse(&mut send, error).await,
        };
        self.said_yes(&mut send, address).await?;
        pump(local, (recv, send), Way::Down, &self.account.traffic).await;
        Ok(())
    }

    async fn dial(&self, target: &Target) -> Result<(Option<SocketAddr>, BoxedHalves), OpenError> {
        let rules = self.rules();
        match target {
            Target::Unix(path) => {
                let _turn = self.account.dial().await;
                Ok((None, dial::unix(path, &rules).await?))
            }
            Target::Tcp(place) | Target::Udp(place) => {
                // Names that hang hold no turn of those who connect.
                let addresses = dial::resolve(place, &rules, &self.account.lookups).await?;
                let _turn = self.account.dial().await;
                let stream = dial::tcp(place, addresses).await?;
                Ok((stream.peer_addr().ok(), boxed_tcp(stream)))
            }
        }
    }

    async fn open_udp<R, W>(
        &self,
        place: &Place,
        (flow, association): (Option<u32>, Option<u32>),
        recv: R,
        mut send: W,
    ) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let taken = || OpenError::new(Code::Malformed, "a UDP flow needs a number of its own");
        let Some(inbox) = flow.and_then(|flow| self.datagrams.accept(flow)) else {
            return self.refuse(&mut send, taken()).await;
        };
        let addresses = match dial::resolve(place, &self.rules(), &self.account.lookups).await {
            Ok(addresses) => addresses,
            Err(error) => return self.refuse(&mut send, error).await,
        };
        let traffic = &self.account.traffic;
        if let Some((mapped, address)) = self.mapped(association, &addresses).await {
            self.said_yes(&mut send, Some(address)).await?;
            let carried = udp::carry(mapped, inbox, (recv, send), Way::Down, traffic).await;
            return carried.map_err(OpenError::lost);
        }
        let (socket, address) = match dial::udp(place, addresses).await {
            Ok(dialled) => dialled,
            Err(error) => return self.refuse(&mut send, error).await,
        };
        self.said_yes(&mut send, Some(address)).await?;
        let carried = udp::carry(Connected::new(socket), inbox, (recv, send), Way::Down, traffic).await;
        carried.map_err(OpenError::lost)
    }

    /// A flow from the port of its association, with the first address that this machine has a way to. None
    /// for a flow without an association, and for a second one to the same address: that gets a port of its
    /// own, or hears why not.
    async fn mapped(
        &self,
        association: Option<u32>,
        addresses: &[SocketAddr],
    ) -> Option<(Mapped, SocketAddr)> {
        let association = association?;
        for address in addresses {
            if dial::has_way(*address) {
                let opened = self.mappings.open(association, *address, &self.account.traffic.drops).await;
                return Some((opened.ok()??, *address));
            }
        }
        None
    }

    /// Listens as long as the client keeps the stream open.
    async fn listen<R, W>(
        &self,
        at: &Target,
        listener: u64,
        mut recv: R,
        mut send: W,
    ) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let Some(session) = self.session.clone().filter(|_| self.rules().allows_listening(at)) else {
            let error = OpenError::new(
                Code::Forbidden,
                format!(
                    "listening at {at} is not permitted; the gateway's owner can write permit-listen=\"{at}\" before your key in \
                 authorized_keys"
                ),
            );
            return self.refuse(&mut send, error).await;
        };
        let bound = match self.bind(at).await {
            Ok(bound) => bound,
            Err(error) => return self.refuse(&mut send, error).await,
        };
        let address = bound.address();
        message::say(&mut send, &Answer::Listening { address }).await.map_err(OpenError::lost)?;
        tracing::info!("listening at {at} for a client");
        let held = self.account.holders.hold(at, &session);
        let (account, datagrams) = (Arc::clone(&self.account), Arc::clone(&self.datagrams));
        tokio::select! {
            () = bound.receive(Door { session, account, datagrams, listener }) => {}
            () = ended(&mut recv) => {}
            () = held.taken() => {}
        }
        drop(held);
        let _ = send.shutdown().await;
        Ok(())
    }

    /// Listens there, also where a dead connection of the same key does still.
    async fn bind(&self, at: &Target) -> Result<Bound, OpenError> {
        match Bound::at(at, &self.account.lookups).await {
            Err(error) if error.code == Code::InUse && self.account.holders.take_over(at).await => {
                Bound::at(at, &self.account.lookups).await
            }
            result => result,
        }
    }

    async fn said_yes<W: SendHalf>(
        &self,
        send: &mut W,
        address: Option<SocketAddr>,
    ) -> Result<(), OpenError> {
        self.account.opened.fetch_add(1, Ordering::Relaxed);
        message::say(send, &Answer::Opened { address }).await.map_err(OpenError::lost)
    }

    /// Counts a refusal, and tells the client.
    pub async fn refuse<W: SendHalf>(&self, send: &mut W, error: OpenError) -> Result<(), OpenError> {
        self.account.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(session) = self.session.as_ref().filter(|_| error.code == Code::Forbidden) {
            turned_away::log_target(&session.peer(), &session.peer_key(), &units::printable(&error.text));
        }
        refuse(send, error).await
    }
}

fn check(target: &Target) -> Result<(), OpenError> {
    target.check().map_err(|text| OpenError::new(Code::Malformed, text))
}

/// The greeting's stream is held open by the client as long as it is there.
async fn greet<R: RecvHalf, W: SendHalf>(mut recv: R, mut send: W) -> Result<(), OpenError> {
    message::say(&mut send, &Answer::Welcome { version: VERSION }).await.map_err(OpenError::lost)?;
    ended(&mut recv).await;
    let _ = send.shutdown().await;
    Ok(())
}

/// Resolves when the other side has ended its direction, or is gone.
async fn ended<R: RecvHalf>(recv: &mut R) {
    let mut nowhere = tokio::io::sink();
    let _ = tokio::io::copy(recv, &mut nowhere).await;
}

/// Tells the other side why not.
async fn refuse<W: SendHalf>(send: &mut W, error: OpenError) -> Result<(), OpenError> {
    if message::say(send, &Answer::from(error.clone())).await.is_ok() {
        let _ = send.shutdown().await;
    }
    Err(error)
}

#[cfg(test)]
#[path = "guest_tests.rs"]
mod tests;
