//! A connection as the subcommands see it: streams, counters, and reasons in words that lead to an exit code.

use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{PeerIdentity, PublicKey};
use fulmar::{
    Connection, ConnectionError, ConnectionStats, Endpoint, FinishError, ReadError, RecvStream, SendStream,
    TransportErrorCode, WriteError,
};
use serde::{Deserialize, Serialize};

use crate::cp::error::{FileCode, FileError, TransferError};
use crate::cp::patience::Reply;
use crate::exit::Failure;
use crate::reach::{Keeper, Way};

/// IP and UDP headers of a datagram: 20 + 8 bytes with IPv4, 40 + 8 with IPv6.
const HEADER_BYTES_V4: u64 = 28;
const HEADER_BYTES_V6: u64 = 48;

/// How long the end of a connection may take to reach the other side before the program ends.
const FAREWELL: Duration = Duration::from_secs(3);

/// TLS alerts (RFC 8446, section 6) that are about trust.
const ALERTS_OF_TRUST: [u8; 6] = [42, 43, 46, 48, ALERT_ACCESS_DENIED, 116];

/// TLS alert `access_denied`: a server does not let a client in.
const ALERT_ACCESS_DENIED: u8 = 49;

/// The application's code with which a server closes the connection of a client whose key it does not know,
/// where the handshake has let it in (docs/internals/tunnel-protocol.md).
pub const NOT_KNOWN: u64 = 49;

/// TLS alert `no_application_protocol` (RFC 7301).
const ALERT_NO_PROTOCOL: u8 = 120;

/// A connection. Cloning gives another handle to the same one.
#[derive(Debug, Clone)]
pub struct Session {
    connection: Connection,
    /// Keeps the socket of a client; a server's is shared by all its connections.
    endpoint: Endpoint,
    /// This side's public key, as a line of `authorized_keys`.
    own_key: Option<String>,
    /// What looks after the way of a client's connection.
    _keeper: Option<Arc<Keeper>>,
}

impl Session {
    /// A connection of this endpoint.
    pub fn new(connection: Connection, endpoint: Endpoint) -> Self {
        crate::qlog::follow(&connection);
        Self { connection, endpoint, own_key: None, _keeper: None }
    }

    /// Remembers this side's line for `authorized_keys`, for a server that does not know it.
    pub fn with_own_key(self, own_key: Option<String>) -> Self {
        Self { own_key, ..self }
    }

    /// Is looked after, as long as anybody has it.
    pub fn with_keeper(self, keeper: Keeper) -> Self {
        Self { _keeper: Some(Arc::new(keeper)), ..self }
    }

    /// The connection and its socket.
    pub fn parts(&self) -> (Connection, Endpoint) {
        (self.connection.clone(), self.endpoint.clone())
    }

    /// By which way it goes now.
    pub fn way(&self) -> Way {
        if self.connection.is_in_stream() { Way::Tcp } else { Way::Udp }
    }

    /// Opens a stream in both directions.
    pub async fn open(&self) -> Result<(SendStream, RecvStream), TransferError> {
        self.connection.open_bi().await.map_err(lost)
    }

    /// The next stream in both directions that the peer opens.
    pub async fn accept(&self) -> Result<(SendStream, RecvStream), TransferError> {
        self.connection.accept_bi().await.map_err(lost)
    }

    /// Opens a stream to send on.
    pub async fn open_uni(&self) -> Result<SendStream, TransferError> {
        self.connection.open_uni().await.map_err(lost)
    }

    /// The next stream that the peer opens to send on.
    pub async fn accept_uni(&self) -> Result<RecvStream, TransferError> {
        self.connection.accept_uni().await.map_err(lost)
    }

    /// Delivers what has been said, and says goodbye. When all is delivered there is nothing to wait for: the
    /// goodbye is repeated for one round trip, for what the other side sent before it came. Should it be
    /// lost, the other side finds out by itself.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(FAREWELL, self.connection.shutdown(0, b"done")).await;
        self.abandon();
        let round_trip = self.connection.rtt().min(FAREWELL);
        let _ = tokio::time::timeout(round_trip, self.endpoint.wait_idle()).await;
    }

    /// Resolves when nothing has been answered from now on for so long.
    pub async fn silent_for(&self, time: Duration) {
        self.connection.unanswered(time).await;
    }

    /// Datagrams that have come.
    pub fn received_datagrams(&self) -> u64 {
        self.connection.stats().wire.received_datagrams
    }

    /// Closes at once: what is under way is lost.
    pub fn abandon(&self) {
        self.connection.close(0, b"done");
    }

    /// Waits until the peer has closed; closes after so long if it has not.
    pub async fn wait_until_closed(&self, time_max: Duration) {
        if tokio::time::timeout(time_max, self.connection.closed()).await.is_err() {
            self.abandon();
        }
    }

    /// Whether it has neither ended nor been lost.
    pub fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }

    /// The peer's address.
    pub fn peer(&self) -> String {
        self.connection.remote_address().to_string()
    }

    /// The fingerprint of the peer's key.
    pub fn peer_key(&self) -> String {
        match self.connection.peer_identity() {
            Some(PeerIdentity::RawKey(key)) => key.fingerprint().to_string(),
            _ => "no key".into(),
        }
    }

    /// The peer's key.
    pub fn peer_public_key(&self) -> Option<PublicKey> {
        match self.connection.peer_identity() {
            Some(PeerIdentity::RawKey(key)) => Some(key),
            _ => None,
        }
    }

    /// Bytes of streams that have arrived and were not read.
    pub fn unread_bytes(&self) -> u64 {
        self.connection.stats().streams.unread_bytes
    }

    /// The connection itself.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Why the connection has ended; `None` as long as it has not.
    pub fn close_reason(&self) -> Option<Failure> {
        self.connection.close_reason().map(|why| explain(&why, &self.peer(), self.own_key.as_deref()))
    }

    /// What this side of the connection has counted.
    pub fn wire_stats(&self) -> WireStats {
        let header =
            if self.connection.remote_address().is_ipv6() { HEADER_BYTES_V6 } else { HEADER_BYTES_V4 };
        WireStats::new(&self.connection.stats(), header)
    }

    /// What it means for the request about `name` that its stream has ended while the connection goes on: the
    /// other side let it fall, and its code says why. Without one there is nothing to hope for from another
    /// try.
    pub fn end_of_stream(&self, error: TransferError, name: &str) -> TransferError {
        match error {
            TransferError::Connection(why) if self.is_open() => fallen(&why, name),
            error => error,
        }
    }

    /// What a failed transfer means for the whole command: a lost connection has a reason of its own.
    pub fn explain(&self, error: TransferError) -> Failure {
        match (error, self.connection.close_reason()) {
            (TransferError::Connection(_), Some(reason)) => {
                explain(&reason, &self.peer(), self.own_key.as_deref())
            }
            (error, _) => error.into(),
        }
    }

    /// As [`explain`](Self::explain), for what has become a failure already.
    pub fn explain_failure(&self, failure: Failure) -> Failure {
        match (failure, self.connection.close_reason()) {
            (Failure::Unreachable(_), Some(reason)) => {
                explain(&reason, &self.peer(), self.own_key.as_deref())
            }
            (failure, _) => failure,
        }
    }
}

impl Reply for SendStream {
    fn give_up(&mut self, why: FileCode) {
        // One that the client has stopped, or whose connection is lost, is closed already.
        let _ = self.reset(why.to_reset());
    }
}

/// What is not even looked at is let fall in both directions, with the reason as its code.
pub fn turn_away(mut send: SendStream, mut recv: RecvStream, why: FileCode) {
    send.give_up(why);
    let _ = recv.stop(why.to_reset());
}

/// The code with which the other side let a stream fall.
fn stream_code(why: &std::io::Error) -> Option<u64> {
    let cause = why.get_ref()?;
    if let Some(ReadError::Reset(code)) = cause.downcast_ref() {
        return Some(*code);
    }
    match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(WriteError::Stopped(code)), _) | (_, Some(FinishError::Stopped(code))) => Some(*code),
        _ => None,
    }
}

fn fallen(why: &std::io::Error, name: &str) -> TransferError {
    let code = stream_code(why);
    if let Some(known) = code.and_then(FileCode::from_reset) {
        return TransferError::from_peer(FileError::new(known, known.words()).about(name));
    }
    let how = match code {
        Some(code) => format!("let the request fall without a reason (code {code})"),
        None if why.kind() == std::io::ErrorKind::UnexpectedEof => "ended in the middle of its answer".into(),
        None => format!("does not go on: {why}"),
    };
    FileError::new(FileCode::Io, format!("the other side {how}")).about(name).into()
}

fn lost(error: ConnectionError) -> TransferError {
    TransferError::Connection(std::io::Error::other(error))
}

/// Why a connection ended, or did not begin, in words for people. A client that is not let in hears what to
/// do about it: `own_key` is its line for `authorized_keys`.
pub fn explain(reason: &ConnectionError, peer: &str, own_key: Option<&str>) -> Failure {
    match reason {
        ConnectionError::TimedOut => Failure::Unreachable(format!("{peer} does not answer")),
        ConnectionError::PeerTransport(error)
            if error.code == TransportErrorCode::Tls(ALERT_ACCESS_DENIED) =>
        {
            not_known(peer, own_key)
        }
        ConnectionError::ApplicationClosed { code: NOT_KNOWN, .. } => not_known(peer, own_key),
        ConnectionError::PeerTransport(error) if is_about_trust(error.code) => {
            Failure::Untrusted(format!("{peer} does not trust this machine's key"))
        }
        ConnectionError::Transport(error) | ConnectionError::PeerTransport(error) => match error.code {
            code if is_about_trust(code) => Failure::Untrusted(format!("{peer}: {}", error.reason)),
            TransportErrorCode::Tls(ALERT_NO_PROTOCOL) => Failure::Other(format!(
                "{peer} offers another service: `fulmar cp` needs `fulmar serve` there, `fulmar perf -c` needs `fulmar perf -s`, \
                 all others need `fulmar gateway`"
            )),
            TransportErrorCode::ConnectionRefused if matches!(reason, ConnectionError::Transport(_)) => {
                Failure::Unreachable(format!(
                    "{peer}: nobody listens at this UDP port. Is `fulmar serve` or `fulmar gateway` running there? Another port: \
                     -p PORT, or HOST:PORT"
                ))
            }
            TransportErrorCode::ConnectionRefused => {
                Failure::Unreachable(format!("{peer} takes no connections"))
            }
            _ => Failure::Unreachable(format!("{peer}: {}", crate::units::printable(&reason.to_string()))),
        },
        ConnectionError::ApplicationClosed { .. } => {
            Failure::Unreachable(format!("{peer} has closed the connection"))
        }
        ConnectionError::Reset => Failure::Unreachable(format!("{peer} was restarted")),
        _ => Failure::Unreachable(format!("{peer}: {reason}")),
    }
}

/// What a client can do that is not let in.
fn not_known(peer: &str, own_key: Option<&str>) -> Failure {
    let hint = own_key.map_or(String::new(), |line| {
        format!(
            "\nTo be let in, send this line to the owner of the server, who adds it to authorized_keys there\n\
             (`fulmar authorize LINE`), or ask for a code (`fulmar serve --invite` there, `fulmar pair` here):\n{line}"
        )
    });
    Failure::Untrusted(format!("{peer} does not know this machine's key.{hint}"))
}

fn is_about_trust(code: TransportErrorCode) -> bool {
    matches!(code, TransportErrorCode::Tls(alert) if ALERTS_OF_TRUST.contains(&alert))
}

/// What one side of a connection has counted since it began, for reports and for the other side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WireStats {
    /// Profile that this side sends with.
    pub profile: String,
    /// Congestion controller, and the phase it is in.
    pub controller: String,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Smallest round-trip time.
    pub rtt_min_ms: f64,
    /// Congestion window.
    pub window_bytes: u64,
    /// Pace of sending; 0 if the controller sets none.
    pub pacing_mbps: f64,
    /// Estimated rate of the bottleneck; 0 if the controller estimates none.
    pub bandwidth_mbps: f64,
    /// Largest UDP payload that the path carries.
    pub mtu_bytes: u16,
    /// Datagrams sent.
    pub packets: u64,
    /// Bytes sent, IP and UDP headers included.
    pub wire_bytes: u64,
    /// Datagrams received.
    pub received_packets: u64,
    /// Bytes received, IP and UDP headers included.
    pub received_wire_bytes: u64,
    /// Packets declared lost, without those that arrived after all.
    pub lost_packets: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_packets: u64,
    /// Packets that came back with a congestion mark.
    pub ecn_ce_packets: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Symbols sent: source symbols, combinations and copies.
    pub symbols: u64,
    /// Source symbols sent.
    pub source_symbols: u64,
    /// Combinations and copies sent.
    pub repair_symbols: u64,
    /// Source symbols whose first packet was lost, in percent: loss before repair.
    pub loss_before_repair_percent: f64,
    /// Source symbols for which repair had to be asked for, in percent: loss that proactive repair did not
    /// cover.
    pub loss_after_repair_percent: f64,
    /// Symbols this side decoded from combinations.
    pub decoded_symbols: u64,
    /// Repair symbols that arrived here.
    pub received_repair_symbols: u64,
    /// Symbols that arrived here and told nothing new.
    pub redundant_symbols: u64,
    /// Repair symbols per source symbol that the policy aims at now.
    pub redundancy: f64,
}

impl WireStats {
    fn new(stats: &ConnectionStats, header_bytes: u64) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mbps = |rate: Option<fulmar::Rate>| rate.map_or(0.0, |r| r.bits_per_second() as f64 / 1e6);
        let sent = &stats.coding_sent;
        Self {
            profile: stats.profile.clone(),
            controller: format!("{} {}", stats.controller, stats.phase).trim_end().to_owned(),
            rtt_ms: ms(stats.path.rtt),
            rtt_min_ms: ms(stats.path.rtt_min),
            window_bytes: stats.path.window_bytes,
            pacing_mbps: mbps(stats.path.pacing),
            bandwidth_mbps: mbps(stats.path.bandwidth),
            mtu_bytes: stats.path.mtu_bytes,
            packets: stats.wire.sent_datagrams,
            wire_bytes: stats.wire.sent_bytes + header_bytes * stats.wire.sent_datagrams,
            received_packets: stats.wire.received_datagrams,
            received_wire_bytes: stats.wire.received_bytes + header_bytes * stats.wire.received_datagrams,
            lost_packets: stats.recovery.lost_packets.saturating_sub(stats.recovery.spurious_packets),
            spurious_packets: stats.recovery.spurious_packets,
            ecn_ce_packets: stats.recovery.ecn_ce_packets,
            probe_timeouts: stats.recovery.probe_timeouts,
            symbols: sent.symbols_sent() + sent.probes,
            source_symbols: sent.sources,
            repair_symbols: sent.repairs_sent() + sent.probes,
            loss_before_repair_percent: 100.0 * stats.loss_before_repair(),
            loss_after_repair_percent: 100.0 * stats.loss_after_repair(),
            decoded_symbols: stats.coding_received.recovered,
            received_repair_symbols: stats.coding_received.repairs,
            redundant_symbols: stats.coding_received.redundant,
            redundancy: stats.redundancy,
        }
    }

    /// Packets lost on the wire, of those sent, in percent.
    pub fn loss_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { 100.0 * self.lost_packets as f64 / self.packets as f64 }
    }
}

#[cfg(test)]
mod tests {
    use fulmar::TransportError;

    use super::*;

    /// They ended with "gave up without a reason (early eof)" and "(stopped by the peer with code 0)".
    #[test]
    fn a_request_that_was_let_fall_says_why_and_comes_again_if_that_may_pass() {
        let stalled = FileCode::Stalled.to_reset();
        for why in [ReadError::Reset(stalled).into(), WriteError::Stopped(stalled).into()] {
            let error = fallen(&why, "f");
            assert!(error.is_interruption(), "{error:?}");
            assert_eq!(error.to_string(), "the other side gave up: f: nothing has moved for too long");
            assert_eq!(Failure::from(error).exit_code(), 3);
        }
        let full = fallen(&FinishError::Stopped(FileCode::Full.to_reset()).into(), "f");
        assert_eq!(full.to_string(), "the other side says: f: no space left");
        assert_eq!((full.is_interruption(), Failure::from(full).exit_code()), (false, 5));
        let without = [
            (ReadError::Reset(7).into(), "f: the other side let the request fall without a reason (code 7)"),
            (std::io::ErrorKind::UnexpectedEof.into(), "f: the other side ended in the middle of its answer"),
        ];
        for (why, words) in without {
            let error = fallen(&why, "f");
            assert_eq!((error.to_string(), error.is_interruption()), (words.to_owned(), false));
        }
    }

    #[test]
    fn reasons_lead_to_exit_codes() {
        let tls =
            |alert| ConnectionError::PeerTransport(TransportError::new(TransportErrorCode::Tls(alert), ""));
        assert_eq!(explain(&tls(ALERT_ACCESS_DENIED), "h", None).exit_code(), 4);
        assert_eq!(explain(&tls(46), "h", None).exit_code(), 4);
        assert_eq!(explain(&tls(ALERT_NO_PROTOCOL), "h", None).exit_code(), 1);
        assert_eq!(explain(&ConnectionError::TimedOut, "h", None).exit_code(), 3);
        assert_eq!(explain(&ConnectionError::Reset, "h", None).exit_code(), 3);
    }
}
