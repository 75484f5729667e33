//! How the gateway connects to targets: names are resolved here, the addresses judged, and exactly those
//! connected to.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};

use super::halves::BoxedHalves;
use super::lookups::Lookups;
use super::{tcp, unix_sockets};
use crate::descriptors::Descriptors;
use crate::reach::any_like;
use crate::tunnel::policy::address;
use crate::tunnel::policy::rules::Rules;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::target::Place;

/// How long a target may take to answer, over all its addresses.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(15);

/// Head start of an address before the next one is tried beside it (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects by TCP to the addresses of a place.
pub async fn tcp(place: &Place, addresses: Vec<SocketAddr>) -> Result<TcpStream, OpenError> {
    let race = race(place, addresses);
    let late = || OpenError::new(Code::TimedOut, format!("{place} does not answer"));
    tokio::time::timeout(CONNECT_TIME_MAX, race).await.unwrap_or_else(|_| Err(late()))
}

/// A socket that exchanges datagrams with the target only.
pub async fn udp(place: &Place, addresses: Vec<SocketAddr>) -> Result<(UdpSocket, SocketAddr), OpenError> {
    let mut last = OpenError::new(Code::NameUnknown, format!("{place} has no address"));
    for address in addresses {
        match udp_socket(address).await {
            Ok(socket) => return Ok((socket, address)),
            Err(error) => last = OpenError::of_connect(&error, address),
        }
    }
    Err(last)
}

/// Connects to a Unix socket.
pub async fn unix(path: &str, rules: &Rules) -> Result<BoxedHalves, OpenError> {
    if !rules.allows_socket(path) {
        let text = format!(
            "{path} is not permitted; the gateway's owner can write permit=\"{path}\" before your key in authorized_keys"
        );
        return Err(OpenError::new(Code::Forbidden, text));
    }
    unix_sockets::connect(path).await.map_err(|error| OpenError::of_connect(&error, path))
}

/// Whether the system knows a way there. Nothing is sent.
pub fn has_way(address: SocketAddr) -> bool {
    std::net::UdpSocket::bind(any_like(address)).is_ok_and(|socket| socket.connect(address).is_ok())
}

async fn udp_socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any_like(address)).await?;
    socket.connect(address).await?;
    Ok(socket)
}

/// The addresses of a place that this client may reach. One that it may not is left out; it is an error if
/// none is left.
pub async fn resolve(place: &Place, rules: &Rules, lookups: &Lookups) -> Result<Vec<SocketAddr>, OpenError> {
    let found = lookups.addresses(place).await?;
    let text = format!("{place}: the name has no address");
    let mut refusal = OpenError::new(Code::NameUnknown, text);
    let mut allowed = Vec::new();
    for address in found {
        let ip = address::plain(address.ip());
        match rules.judge(place, ip) {
            Ok(()) if ip == address.ip() => allowed.push(address),
            Ok(()) => allowed.push(SocketAddr::new(ip, address.port())),
            Err(why) => refusal = OpenError::new(Code::Forbidden, format!("{place}: {why}")),
        }
    }
    if allowed.is_empty() { Err(refusal) } else { Ok(interleaved(allowed)) }
}

/// The families in turns, beginning with that of the first address (RFC 8305, section 4).
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (a, b): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|x| x.is_ipv4() == first_is_v4);
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    let mut out = Vec::new();
    loop {
        let pair = [a.next(), b.next()];
        if pair == [None, None] {
            return out;
        }
        out.extend(pair.into_iter().flatten());
    }
}

/// Tries one address after the other, each with a head start; the first that answers wins. The flow has one
/// descriptor; an attempt beside others needs one more, and waits where there is none.
async fn race(place: &Place, addresses: Vec<SocketAddr>) -> Result<TcpStream, OpenError> {
    let descriptors = Descriptors::of_process();
    let mut attempts = tokio::task::JoinSet::new();
    let mut waiting = addresses.into_iter().peekable();
    let mut last = OpenError::new(Code::Unreachable, format!("{place} has no address"));
    loop {
        let spare = if attempts.is_empty() { None } else { descriptors.try_take(1) };
        let may_begin = attempts.is_empty() || spare.is_some();
        match waiting.next_if(|_| may_begin) {
            Some(address) => {
                attempts.spawn(async move {
                    let stream = tcp::connect(address).await;
                    drop(spare);
                    (address, stream)
                });
            }
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let is_last = waiting.peek().is_none();
        let finished = tokio::select! {
            finished = attempts.join_next() => finished,
            () = tokio::time::sleep(ATTEMPT_DELAY), if !is_last => None,
        };
        match finished {
            Some(Ok((_, Ok(stream)))) => return Ok(stream),
            Some(Ok((address, Err(error)))) => last = OpenError::of_connect(&error, address),
            Some(Err(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tcp(place: &Place, rules: &Rules) -> Result<TcpStream, OpenError> {
        super::tcp(place, resolve(place, rules, &Lookups::default()).await?).await
    }

    async fn udp(place: &Place, rules: &Rules) -> Result<(UdpSocket, SocketAddr), OpenError> {
        super::udp(place, resolve(place, rules, &Lookups::default()).await?).await
    }

    #[test]
    fn families_take_turns() {
        let parse = |list: &[&str]| list.iter().map(|a| a.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let mixed = parse(&["[2::1]:1", "[2::2]:1", "1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1"]);
        let turns = parse(&["[2::1]:1", "1.0.0.1:1", "[2::2]:1", "1.0.0.2:1", "1.0.0.3:1"]);
        assert_eq!(interleaved(mixed), turns);
    }

    #[tokio::test]
    async fn every_spelling_of_loopback_is_refused_to_strangers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let spellings = [
            "127.0.0.1",
            "localhost",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "0",
            "::1",
            "0.0.0.0",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "[::1]",
            "127.0.0.1.",
            "localhost.",
        ];
        for host in spellings {
            let place = Place::new(host, port);
            let error = tcp(&place, &Rules::default()).await.unwrap_err();
            // Some of these are no name to this system's resolver; none may be reached.
            assert!(matches!(error.code, Code::Forbidden | Code::NameUnknown), "{host}: {error:?}");
            assert!(udp(&place, &Rules::default()).await.is_err(), "{host}");
        }
        tcp(&Place::new("localhost", port), &Rules::everything()).await.unwrap();
    }

    #[tokio::test]
    async fn errors_are_told_apart() {
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let everything = Rules::everything();
        let refused = tcp(&Place::new("127.0.0.1", port), &everything).await.unwrap_err();
        assert_eq!(refused.code, Code::Refused);
        let unknown = tcp(&Place::new("no-such-name.invalid", 1), &everything).await.unwrap_err();
        assert_eq!(unknown.code, Code::NameUnknown);
        let socket = unix("/no/such/socket", &everything).await.err().unwrap();
        assert_eq!(socket.code, Code::Refused);
        assert_eq!(unix("/run/x", &Rules::default()).await.err().unwrap().code, Code::Forbidden);
    }
}
