//! By which way a server is reached: UDP, or TCP where that is shut. Both at the beginning, and one of them
//! later.

use std::fmt;
use std::time::Duration;

use super::tcp::web_socket::WebSocketUrl;
use crate::exit::Failure;
use crate::listen::Ports;
use crate::units::parse_seconds;

/// Head start of the way that is tried first.
const HEAD_START: Duration = Duration::from_millis(300);

/// Where the first way was refused, the other may take so long: nobody waits for long to hear that nobody
/// listens.
const OTHER_TIME_MAX: Duration = Duration::from_secs(3);

/// A port is kept for so long at least.
const HOP_MIN: Duration = Duration::from_secs(1);

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Packets of their own.
    Udp,
    /// In TLS, over TCP, perhaps in a WebSocket.
    Tcp,
}

impl Way {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Udp => Self::Tcp,
            Self::Tcp => Self::Udp,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// Which ways may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WayWanted {
    /// UDP, and TCP while UDP is not answered
    #[default]
    Any,
    /// UDP only
    Udp,
    /// TCP only
    Tcp,
}

/// What a client is told about ways.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
pub struct WayArgs {
    /// How to reach the server: `udp`, `tcp` (the server needs --tcp), or `any`: UDP, and TCP while UDP is
    /// not answered
    #[arg(long, value_name = "WAY", value_enum, default_value_t, hide_possible_values = true)]
    pub way: WayWanted,
    /// The server's TCP port, if it is another than its UDP port
    #[arg(long, value_name = "PORT")]
    pub tcp_port: Option<u16>,
    /// WebSocket that leads to the server's TCP port, as a reverse proxy has it: `wss://HOST[:PORT]/PATH`
    /// [default: one at the TCP port itself, where that takes nothing else]
    #[arg(long, value_name = "URL", conflicts_with = "tcp_port")]
    pub websocket: Option<WebSocketUrl>,
    /// UDP ports of the server to begin at where its first one is not answered for a second, such as
    /// 20000-20100 [default: those that it told of last]
    #[arg(long, value_name = "PORTS")]
    pub other_ports: Option<Ports>,
    /// Go on from another port so often, and to another of the server's where it has several
    /// [default: when nothing is answered, or much less comes than before]
    #[arg(long, value_name = "SECONDS", value_parser = parse_hop)]
    pub hop: Option<Duration>,
}

/// A flow has to last for some round trips to be worth anything.
pub fn parse_hop(text: &str) -> Result<Duration, String> {
    let hop = parse_seconds(text)?;
    if hop < HOP_MIN { Err("at least 1 s".into()) } else { Ok(hop) }
}

impl WayArgs {
    /// These, or others if they say nothing.
    pub fn or(self, others: Self) -> Self {
        if self == Self::default() { others } else { self }
    }
}

/// The first of two attempts that succeeds: `one` by its way, and `two` by the other one a little later.
/// A failure that was answered is everybody's; what nobody answered is left to the other one.
pub(super) async fn race<T>(
    way: Way,
    one: impl Future<Output = Result<T, Failure>>,
    two: impl Future<Output = Result<T, Failure>>,
) -> Result<(Way, T), Failure> {
    let (mut one, mut two) = (std::pin::pin!(one), std::pin::pin!(two));
    let first = tokio::select! {
        done = &mut one => Some(done),
        () = tokio::time::sleep(HEAD_START) => None,
    };
    let first = match first {
        Some(done) => done,
        None => tokio::select! {
            done = &mut one => done,
            done = &mut two => match done {
                // Nobody is there by this way.
                Err(Failure::Unreachable(_)) => return one.await.map(|done| (way, done)),
                done => return done.map(|done| (way.other(), done)),
            }
        },
    };
    match first {
        Err(Failure::Unreachable(why)) => match tokio::time::timeout(OTHER_TIME_MAX, two).await {
            Ok(Err(Failure::Unreachable(_))) | Err(_) => Err(Failure::Unreachable(why)),
            Ok(done) => done.map(|done| (way.other(), done)),
        },
        done => done.map(|done| (way, done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result = std::result::Result<&'static str, Failure>;

    async fn after(ms: u64, result: Result) -> Result {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        result
    }

    fn silence(who: &str) -> Result {
        Err(Failure::Unreachable(who.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_that_is_answered_is_taken() {
        let (near, far) = (Ok("near"), Ok("far"));
        let no = || Err(Failure::Untrusted("no".into()));
        // What comes of either attempt, after how many milliseconds; what comes of both, and when.
        for (one, two, expected, at_ms) in [
            ((100, near), (10, Ok("far")), Ok((Way::Udp, "near")), 100),
            ((400, Ok("near")), (10, Ok("far")), Ok((Way::Tcp, "far")), 310),
            ((400, Ok("near")), (200, far), Ok((Way::Udp, "near")), 400),
            ((0, silence("a")), (10, Ok("far")), Ok((Way::Tcp, "far")), 10),
            ((0, silence("a")), (10, silence("b")), Err("a"), 10),
            ((0, silence("a")), (90_000, Ok("far")), Err("a"), 3000),
            ((15_000, silence("a")), (10, silence("b")), Err("a"), 15_000),
            ((15_000, silence("a")), (10, no()), Err("no"), 310),
            ((50, no()), (10, Ok("far")), Err("no"), 50),
            ((15_000, silence("a")), (14_900, Ok("far")), Ok((Way::Tcp, "far")), 15_200),
        ] {
            let begin = tokio::time::Instant::now();
            let done = race(Way::Udp, after(one.0, one.1), after(two.0, two.1)).await;
            let done = done.map_err(|failure| failure.to_string());
            assert_eq!(done, expected.map_err(str::to_owned));
            assert_eq!(begin.elapsed().as_millis(), at_ms);
        }
    }
}
