//! A client's connection changes its way: to TCP when UDP is not answered any more, and back when it is; and
//! to another port, where a network has slowed down the one in use, or its owner wants that again and again,
//! or this machine slept or has another address.
//!
//! The connection goes on through it all, as it does when its port changes. Nothing is sent by two ways at
//! once: UDP is looked for by a question of its own.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fulmar::{Connection, Endpoint};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep};

use super::any_like;
use super::pace::{self, Counted, Pace};
use super::remembered::Remembered;
use super::surroundings::{Change, Surroundings};
use super::tcp::dial::{Dial, Stream};
use super::way::{Way, WayArgs, WayWanted};

/// Silence after which another way is looked for ..
const LOOK_SILENCE: Duration = Duration::from_secs(1);
/// .. and after which it is taken: long enough for another port to be tried first, which helps more often ..
const SILENCE_MIN: Duration = Duration::from_millis(1800);
/// .. and so many round trips.
const SILENCE_ROUNDS: u32 = 3;

/// How long a stream may take to stand.
const DIAL_TIME_MAX: Duration = Duration::from_secs(6);

/// Pause after which a way that was not there is tried again, as long as nothing is answered: the first, and
/// the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// While TCP works, UDP is looked for after so long, then after twice as long: the first pause, and the
/// longest.
const LOOK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// A way by UDP that ends sooner was none: the next is looked for after four times as long.
const SOUND_AFTER: Duration = Duration::from_secs(60);

/// What was under way in a stream that is not used any more has so long to come.
const REST: Duration = Duration::from_secs(10);

/// Looked at so often: who is silent is heard again.
const LISTEN_EVERY: Duration = Duration::from_millis(20);

/// How often it is looked at how much passes.
const SECOND: Duration = Duration::from_secs(1);

/// How long a stream may show that it is faster than UDP.
const TRIAL: Duration = Duration::from_secs(5);

/// A stream at work: what became of it.
pub(super) type Carried = JoinHandle<std::io::Result<()>>;

/// Looks after a connection until this is dropped.
#[derive(Debug)]
pub struct Keeper(AbortHandle);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Another way.
enum Found {
    /// By TCP, which is in use already.
    Stream(Carried),
    Udp,
    Nothing,
}

/// Resolves when a stream has ended, also if it is asked again.
async fn end_of(stream: &mut Carried) {
    if !stream.is_finished() {
        let _ = stream.await;
    }
}

/// A stream is not used any more.
fn rest(stream: Carried) {
    tokio::spawn(async move {
        sleep(REST).await;
        stream.abort();
    });
}

/// A connection and its ways.
pub(super) struct Ways {
    /// The connection.
    pub(super) connection: Connection,
    /// Its socket.
    pub(super) endpoint: Endpoint,
    /// Where the server is by UDP.
    pub(super) address: SocketAddr,
    /// Where it is by TCP.
    pub(super) dial: Arc<Dial>,
    /// What is wanted of them.
    pub(super) args: WayArgs,
    /// What is known of servers.
    pub(super) remembered: Remembered,
    /// What the server is called there.
    pub(super) server: String,
    /// This machine's address is another one: a stream from the one before leads nowhere.
    pub(super) moved: Notify,
}

impl Ways {
    /// Looks after the connection from now on. `carried` is the stream that it is in, if it is in one.
    pub(super) fn keep(self, carried: Option<Carried>) -> Keeper {
        Keeper(tokio::spawn(self.run(carried)).abort_handle())
    }

    async fn run(self, carried: Option<Carried>) {
        tokio::select! {
            _ = self.connection.closed() => {}
            () = self.change(carried) => {}
            () = self.hop() => {}
            () = self.look_around() => {}
        }
    }

    /// Asks at once whether the connection goes on when something has happened around it, from another port:
    /// a NAT may have forgotten this one.
    async fn look_around(&self) {
        let looking = async {
            let mut around = Surroundings::of(self.address)?;
            loop {
                let change = around.changed().await?;
                tracing::info!("{}: {}", self.address, change.words());
                if let Err(error) = self.go_on_after(change) {
                    tracing::debug!(%error, "no other port");
                }
                self.connection.ping();
            }
        };
        let ended: io::Result<Infallible> = looking.await;
        tracing::debug!(?ended, "what happens around here is not seen");
        std::future::pending().await
    }

    fn go_on_after(&self, change: Change) -> io::Result<()> {
        match change {
            Change::Address if self.connection.is_in_stream() => {
                self.moved.notify_waiters();
                Ok(())
            }
            Change::Address => self.endpoint.rebind(UdpSocket::bind(any_like(self.address))?),
            Change::Slept => self.endpoint.change_port(),
        }
    }

    /// Goes from one way to the other, again and again.
    async fn change(&self, mut carried: Option<Carried>) {
        let mut look = LOOK.0;
        loop {
            carried = match carried.take() {
                None => {
                    let begin = Instant::now();
                    tokio::select! {
                        stream = self.until_udp_ends() => {
                            let is_sound = begin.elapsed() >= SOUND_AFTER;
                            look = if is_sound { LOOK.0 } else { (4 * look).min(LOOK.1) };
                            Some(stream)
                        }
                        stream = self.until_udp_is_slow() => {
                            // It is answered, and yet not to be gone back to.
                            look = LOOK.1;
                            Some(stream)
                        }
                    }
                }
                Some(stream) => self.until_stream_ends(stream, look).await,
            }
        }
    }

    /// Goes on from another port again and again, if that is wanted.
    async fn hop(&self) {
        let Some(every) = self.args.hop else { return std::future::pending().await };
        loop {
            sleep(every).await;
            self.change_port("as is wanted");
        }
    }

    fn change_port(&self, why: &str) {
        match self.endpoint.change_port() {
            Ok(()) => tracing::debug!("{}: another port, {why}", self.address),
            Err(error) => tracing::debug!(%error, "no other port"),
        }
    }

    /// Goes on from another port where one has become slow. Resolves with a stream that has taken the place
    /// of UDP because no port helps, and it does.
    async fn until_udp_is_slow(&self) -> Carried {
        let mut paces = [Pace::default(), Pace::default()];
        let mut second = tokio::time::interval(SECOND);
        let mut repaired = 0;
        loop {
            second.tick().await;
            let counted = self.counted(&mut repaired);
            let findings = paces.iter_mut().zip(counted).map(|(pace, counted)| pace.on_second(counted));
            let Some(finding) = findings.flatten().max() else { continue };
            if pace::is_last(finding) && self.args.way == WayWanted::Any {
                let slow = paces.iter().map(Pace::now).sum();
                if let Some(stream) = self.faster(slow).await {
                    return stream;
                }
            } else {
                tracing::info!("{}: much less passes than before; going on from another port", self.address);
                self.change_port("for this one is slow");
            }
        }
    }

    /// What has come so far, and what has left; `repaired` is what was lost and restored when this was asked
    /// last.
    fn counted(&self, repaired: &mut u64) -> [Counted; 2] {
        let stats = self.connection.stats();
        let (coding, streams) = (&stats.coding_received, &stats.streams);
        let before = std::mem::replace(repaired, coding.repairs + coding.recovered);
        let is_lossy = *repaired > before || streams.fragments > 0;
        [
            Counted { bytes: stats.wire.received_bytes, is_wanting: is_lossy },
            Counted { bytes: stats.wire.sent_bytes, is_wanting: streams.queued_bytes > 0 },
        ]
    }

    /// A stream that carries at least twice as much as UDP, which brings `slow` bytes a second now.
    async fn faster(&self, slow: f64) -> Option<Carried> {
        let mut stream = self.dial().await?;
        let bytes = || self.counted(&mut 0).map(|counted| counted.bytes).iter().sum::<u64>();
        let before = bytes();
        tokio::select! {
            () = sleep(TRIAL) => {}
            () = end_of(&mut stream) => {}
        }
        let rate = (bytes() - before) as f64 / TRIAL.as_secs_f64();
        if rate < 2.0 * slow {
            return self.go_to_udp(stream);
        }
        tracing::warn!("{}: UDP is slow at each port; going on by TCP", self.address);
        self.remembered.remember(&self.server, Way::Tcp);
        Some(stream)
    }

    /// How long nothing was answered when another way is looked for.
    fn silence(&self) -> Duration {
        SILENCE_MIN.max(self.connection.rtt() * SILENCE_ROUNDS)
    }

    /// Resolves with the stream that has taken the place of UDP.
    async fn until_udp_ends(&self) -> Carried {
        if self.args.way == WayWanted::Udp {
            return std::future::pending().await;
        }
        let mut pause = AGAIN.0;
        loop {
            self.connection.unanswered(LOOK_SILENCE).await;
            let silence = self.silence().saturating_sub(LOOK_SILENCE);
            // The stream stands when the time has come.
            let found = async { tokio::join!(self.stream(), sleep(silence)).0 };
            tokio::select! {
                () = self.heard() => pause = AGAIN.0,
                stream = found => match stream.and_then(|stream| self.go_to(stream)) {
                    Some(stream) => {
                        let at = self.address;
                        tracing::warn!("{at}: nothing is answered by UDP; going on by TCP, which is slower");
                        self.remembered.remember(&self.server, Way::Tcp);
                        return stream;
                    }
                    None => {
                        sleep(pause).await;
                        pause = (2 * pause).min(AGAIN.1);
                    }
                }
            }
        }
    }

    /// Resolves when UDP has taken the place of the stream, or with the stream that has.
    async fn until_stream_ends(&self, mut stream: Carried, look: Duration) -> Option<Carried> {
        let received = || self.connection.stats().wire.received_datagrams;
        let before = received();
        let why = tokio::select! {
            () = self.found_udp(look) => None,
            () = end_of(&mut stream) => Some("its stream has ended"),
            () = self.moved.notified() => Some("its stream is from an address that was"),
            () = self.connection.unanswered(self.silence()) => Some("nothing is answered by TCP"),
        };
        if let Some(why) = why {
            tracing::warn!("{}: {why}; looking for another way", self.address);
            if received() == before {
                self.dial.change_coat();
            }
            let mut pause = AGAIN.0;
            loop {
                let found = tokio::select! {
                    found = self.find() => found,
                    () = self.heard(), if !stream.is_finished() => return Some(stream),
                };
                match found {
                    Found::Stream(new) => {
                        rest(stream);
                        return Some(new);
                    }
                    Found::Udp => break,
                    Found::Nothing => sleep(pause).await,
                }
                pause = (2 * pause).min(AGAIN.1);
            }
        }
        self.go_to_udp(stream)
    }

    /// Tries all ways that there are.
    async fn find(&self) -> Found {
        tokio::select! {
            Some(stream) = self.dial() => Found::Stream(stream),
            true = self.is_heard_by_udp() => Found::Udp,
            else => Found::Nothing,
        }
    }

    fn go_to_udp(&self, stream: Carried) -> Option<Carried> {
        if let Err(error) = self.endpoint.move_to_udp() {
            tracing::debug!(%error, "no socket");
            return Some(stream);
        }
        tracing::info!("{}: UDP is answered; going on by UDP", self.address);
        self.remembered.remember(&self.server, Way::Udp);
        rest(stream);
        None
    }

    /// Goes on by a new stream, if there is a way to one.
    async fn dial(&self) -> Option<Carried> {
        self.stream().await.and_then(|stream| self.go_to(stream))
    }

    /// A new stream.
    async fn stream(&self) -> Option<Box<dyn Stream>> {
        match tokio::time::timeout(DIAL_TIME_MAX, self.dial.stream()).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, address = %self.dial.address, "no way by TCP");
                None
            }
            Err(_) => None,
        }
    }

    fn go_to(&self, stream: Box<dyn Stream>) -> Option<Carried> {
        let moved = self.endpoint.move_to_stream(stream, self.address);
        moved.map(tokio::spawn).inspect_err(|error| tracing::debug!(%error, "no way by TCP")).ok()
    }

    /// Resolves when something comes.
    async fn heard(&self) {
        let received = || self.connection.stats().wire.received_datagrams;
        let before = received();
        while received() == before {
            sleep(LISTEN_EVERY).await;
        }
    }

    async fn is_heard_by_udp(&self) -> bool {
        self.args.way != WayWanted::Tcp && fulmar::is_heard_by_udp(self.address).await
    }

    /// Resolves when UDP is answered, which is looked for after so long first.
    async fn found_udp(&self, mut look: Duration) {
        loop {
            sleep(look).await;
            if self.is_heard_by_udp().await {
                return;
            }
            look = (2 * look).min(LOOK.1);
        }
    }
}
