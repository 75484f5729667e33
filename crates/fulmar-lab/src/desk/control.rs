//! What controller and agents say to each other, on one stream of a Fulmar connection.
//!
//! A message is its length and that of the bytes beside it (both 32 bits, big-endian), itself in JSON, and
//! the bytes: parts of a picture, on their way to the sender and back from the receiver.

use std::net::SocketAddr;

use fulmar::crypto::PublicKey;
use fulmar::{RecvStream, SendStream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::types::{Amount, Role};

/// What is spoken; a change of it is another word.
pub(crate) const ALPN: &[u8] = b"fulmar-desk/1";
/// Where a controller waits for agents unless it is told otherwise.
pub const PORT_DEFAULT: u16 = 4748;
/// Longest message, and most bytes beside one.
const LENGTH_MAX: usize = 1 << 20;

/// Which network the data of a job go over.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Network {
    /// The one with the bridge in it.
    Data,
    /// The machine itself, through a relay.
    Loopback,
}

/// One end of one transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) number: u32,
    pub(crate) transport: String,
    pub(crate) network: Network,
    /// Port at the receiver; 0 for any.
    pub(crate) port: u16,
    pub(crate) amount: Amount,
    /// Kernel TCP negotiates ECN.
    pub(crate) ecn: bool,
    /// Public key of the other agent.
    pub(crate) peer_key: String,
}

/// From the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Order {
    Welcome {
        role: Role,
    },
    /// Wait for a connection, and take what comes. `returns` sends it back as it comes.
    Receive {
        job: Job,
        returns: bool,
    },
    /// Connect. `cargo` bytes, sent before, go in place of filler.
    Send {
        job: Job,
        to: SocketAddr,
        has_cargo: bool,
    },
    /// A piece of the picture that is to be sent, beside this message; the first piece begins a new one.
    Cargo {
        is_first: bool,
    },
    /// Handshakes are over, faults are on: data now.
    Go {
        job: u32,
    },
    /// Faults are off: end the connection, in order if all has arrived.
    End {
        job: u32,
    },
    Ping,
}

/// From an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Report {
    Hello {
        name: String,
        version: String,
        role: Option<Role>,
        data_address: String,
        key: String,
    },
    /// The receiver waits here.
    Ready {
        job: u32,
        address: SocketAddr,
    },
    /// The sender's handshake is complete.
    Connected {
        job: u32,
    },
    Sending {
        job: u32,
        view: SenderView,
    },
    Receiving {
        job: u32,
        bytes: u64,
    },
    /// Bytes beside this message are the next that arrived.
    Part {
        job: u32,
    },
    /// The data came to their end, or their time did.
    Received {
        job: u32,
        bytes: u64,
        seconds: f64,
        is_whole: bool,
    },
    /// The connection is gone.
    Ended {
        job: u32,
    },
    Failed {
        job: u32,
        reason: String,
    },
    /// The connection of the agent itself has ended: said by the controller's end of it.
    Lost {
        name: String,
    },
    Pong,
}

/// How a sender is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SenderView {
    pub(crate) sequence_bytes: u64,
    pub(crate) window_bytes: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) rtt_ms: f64,
    pub(crate) pacing_mbps: Option<f64>,
    pub(crate) loss_estimate: Option<f64>,
    pub(crate) repair_packets: u64,
    pub(crate) redundancy: Option<f64>,
}

/// Sends a message with bytes beside it.
pub(crate) async fn send<M: Serialize>(
    stream: &mut SendStream,
    message: &M,
    beside: &[u8],
) -> Result<(), String> {
    let json = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    let mut head = Vec::with_capacity(8 + json.len());
    head.extend((json.len() as u32).to_be_bytes());
    head.extend((beside.len() as u32).to_be_bytes());
    head.extend(json);
    stream.write_all(&head).await.map_err(|error| error.to_string())?;
    stream.write_all(beside).await.map_err(|error| error.to_string())
}

/// The next message with the bytes beside it.
pub(crate) async fn receive<M: DeserializeOwned>(stream: &mut RecvStream) -> Result<(M, Vec<u8>), String> {
    let mut lengths = [0; 8];
    stream.read_exact(&mut lengths).await.map_err(|error| error.to_string())?;
    let number = |at: usize| {
        u32::from_be_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]) as usize
    };
    if number(0) > LENGTH_MAX || number(4) > LENGTH_MAX {
        return Err(format!("a message of {} and {} bytes, at most {LENGTH_MAX} each", number(0), number(4)));
    }
    let (mut json, mut beside) = (vec![0; number(0)], vec![0; number(4)]);
    stream.read_exact(&mut json).await.map_err(|error| error.to_string())?;
    stream.read_exact(&mut beside).await.map_err(|error| error.to_string())?;
    Ok((message(&json)?, beside))
}

/// What one message says.
pub(crate) fn message<M: DeserializeOwned>(json: &[u8]) -> Result<M, String> {
    serde_json::from_slice(json).map_err(|error| format!("a message that is none: {error}"))
}

/// A public key as it is said over the control connection.
pub(crate) fn parse_key(line: &str) -> Result<PublicKey, String> {
    PublicKey::from_line(line).map(|(key, _)| key).map_err(|error| error.to_string())
}
