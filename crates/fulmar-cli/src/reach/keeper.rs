//! A client's connection changes its way: to TCP when UDP is not answered any more, and back when it is.
//!
//! The connection goes on through it all, as it does when its port changes. Nothing is sent by two ways at
//! once: UDP is looked for by a question of its own.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar::{Connection, Endpoint};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep};

use super::remembered::Remembered;
use super::tcp::dial::Dial;
use super::way::{Way, WayWanted};

/// Silence after which another way is looked for: long enough for another port to be tried first, which
/// helps more often ..
const SILENCE_MIN: Duration = Duration::from_millis(1800);
/// .. and so many round trips.
const SILENCE_ROUNDS: u32 = 6;

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
    pub(super) dial: Dial,
    /// Which of both may be used.
    pub(super) wanted: WayWanted,
    /// What is known of servers.
    pub(super) remembered: Remembered,
    /// What the server is called there.
    pub(super) server: String,
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
        }
    }

    /// Goes from one way to the other, again and again.
    async fn change(&self, mut carried: Option<Carried>) {
        let mut look = LOOK.0;
        loop {
            carried = match carried.take() {
                None => {
                    let begin = Instant::now();
                    let stream = self.until_udp_ends().await;
                    let is_sound = begin.elapsed() >= SOUND_AFTER;
                    look = if is_sound { LOOK.0 } else { (4 * look).min(LOOK.1) };
                    Some(stream)
                }
                Some(stream) => self.until_stream_ends(stream, look).await,
            }
        }
    }

    /// How long nothing was answered when another way is looked for.
    fn silence(&self) -> Duration {
        SILENCE_MIN.max(self.connection.rtt() * SILENCE_ROUNDS)
    }

    /// Resolves with the stream that has taken the place of UDP.
    async fn until_udp_ends(&self) -> Carried {
        let mut pause = AGAIN.0;
        loop {
            self.connection.unanswered(self.silence()).await;
            tokio::select! {
                () = self.heard() => pause = AGAIN.0,
                stream = self.dial() => match stream {
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
        let why = tokio::select! {
            () = self.found_udp(look) => None,
            () = end_of(&mut stream) => Some("its stream has ended"),
            () = self.connection.unanswered(self.silence()) => Some("nothing is answered by TCP"),
        };
        if let Some(why) = why {
            tracing::warn!("{}: {why}; looking for another way", self.address);
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
        let stream = match tokio::time::timeout(DIAL_TIME_MAX, self.dial.stream()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, address = %self.dial.address, "no way by TCP");
                return None;
            }
            Err(_) => return None,
        };
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
        self.wanted != WayWanted::Tcp && fulmar::is_heard_by_udp(self.address).await
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
