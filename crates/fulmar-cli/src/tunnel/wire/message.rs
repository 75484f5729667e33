//! What is said at the beginning of each stream of a tunnel (docs/internals/tunnel-protocol.md, section 3).
//!
//! Written against anything that reads and writes, so that both halves are tested in memory.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::error::{Code, OpenError};
use super::target::Target;
use crate::frames;
use crate::units::printable;

/// Version of the protocol: the number in its ALPN name.
pub const VERSION: u32 = 1;

/// Longest message, in bytes: a host's name, a path, a few numbers.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Longest packet of a UDP flow.
pub const PACKET_BYTES_MAX: usize = 65_535;

/// Kind of a frame with a message, as JSON.
const KIND_MESSAGE: u8 = 0x01;

/// Kind of a frame with one packet of a UDP flow.
const KIND_PACKET: u8 = 0x02;

/// The first message on a stream, from the side that opened it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Client: who I am. The stream stays open; the gateway may say more on it.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Milliseconds after which packets of UDP flows are worth nothing; always something without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u32>,
    },
    /// Client: connect this stream with a target.
    Open {
        /// With which.
        target: Target,
        /// Number of a UDP flow in datagrams; the client's are even.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<u32>,
        /// UDP flows with the same number here leave from one port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        association: Option<u32>,
    },
    /// Client: listen there, as long as this stream is open.
    Listen {
        /// Where; port 0 asks for any.
        at: Target,
        /// The client's number for it.
        listener: u64,
    },
    /// Client: carry IP packets on this connection.
    #[cfg(machine)]
    Tun(super::packets::Wish),
    /// Gateway: somebody has come to a listener; this stream is the connection with them.
    Incoming {
        /// To which.
        listener: u64,
        /// Who.
        peer: String,
        /// Number of a UDP flow in datagrams; the gateway's are odd.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<u32>,
    },
}

/// The answer to a [`Request`], from the other side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Gateway: you are let in.
    Welcome {
        /// [`VERSION`].
        version: u32,
    },
    /// The stream is connected.
    Opened {
        /// With this address; a Unix socket has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<SocketAddr>,
    },
    /// Gateway: listening.
    Listening {
        /// There; a Unix socket has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<SocketAddr>,
    },
    /// Gateway: IP packets are carried.
    #[cfg(machine)]
    Tun(super::packets::Grant),
    /// No.
    Refused {
        /// For programs.
        code: Code,
        /// For people.
        text: String,
    },
}

impl From<OpenError> for Answer {
    fn from(error: OpenError) -> Self {
        Self::Refused { code: error.code, text: error.text }
    }
}

/// A message as a frame, with bytes of the flow behind it.
pub fn with_first(message: &impl Serialize, first: &[u8]) -> Vec<u8> {
    let json = serde_json::to_vec(message).expect("messages have no maps with other keys than text");
    let mut out = Vec::with_capacity(json.len() + first.len() + 8);
    frames::append(&mut out, KIND_MESSAGE, &json);
    out.extend_from_slice(first);
    out
}

/// Says something.
pub async fn say<W: AsyncWrite + Unpin>(writer: &mut W, message: &impl Serialize) -> io::Result<()> {
    writer.write_all(&with_first(message, &[])).await
}

/// Hears a message; `None` if the stream ended instead.
pub async fn hear<R, T>(reader: &mut R) -> io::Result<Option<T>>
where
    R: AsyncRead + Unpin,
    T: DeserializeOwned,
{
    let Some(frame) = frames::read_at_most(reader, MESSAGE_BYTES_MAX).await? else { return Ok(None) };
    if frame.kind != KIND_MESSAGE {
        return Err(malformed("the other side does not speak the tunnel protocol"));
    }
    // What is not understood is quoted in the error, and may end on a terminal.
    let wrong = |e: serde_json::Error| malformed(printable(&format!("not understood: {e}")));
    serde_json::from_slice(&frame.body).map(Some).map_err(wrong)
}

/// Hears the answer to a request; a refusal is an error, and so is silence.
pub async fn hear_answer<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Answer, OpenError> {
    match hear(reader).await.map_err(OpenError::lost)? {
        Some(Answer::Refused { code, text }) => Err(OpenError::new(code, printable(&text))),
        Some(answer) => Ok(answer),
        None => Err(OpenError::lost("the stream ended without an answer")),
    }
}

/// Says one packet of a UDP flow.
pub async fn say_packet<W: AsyncWrite + Unpin>(writer: &mut W, packet: &[u8]) -> io::Result<()> {
    frames::write(writer, KIND_PACKET, packet).await
}

/// Appends one packet of a UDP flow.
pub fn append_packet(out: &mut Vec<u8>, packet: &[u8]) {
    frames::append(out, KIND_PACKET, packet);
}

/// Hears the next packet of a UDP flow; `None` at its end.
pub async fn hear_packet<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Option<Bytes>> {
    match frames::read_at_most(reader, PACKET_BYTES_MAX).await? {
        Some(frame) if frame.kind == KIND_PACKET => Ok(Some(frame.body)),
        Some(_) => Err(malformed("a UDP flow consists of packets")),
        None => Ok(None),
    }
}

fn malformed(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn what_is_said_is_heard_and_data_follow() {
        let open = Request::Open { target: Target::tcp("example.org", 443), flow: None, association: None };
        let wire = with_first(&open, b"hello");
        let mut reader = &wire[..];
        assert_eq!(hear(&mut reader).await.unwrap(), Some(open));
        assert_eq!(reader, b"hello");
    }

    #[tokio::test]
    async fn refusals_are_errors_and_unknown_codes_are_kept() {
        let wire = with_first(&serde_json::json!({"refused": {"code": "later", "text": "no\u{1b}[1m"}}), &[]);
        let error = hear_answer(&mut &wire[..]).await.unwrap_err();
        assert_eq!(error.code, Code::Other);
        assert!(!error.text.contains('\u{1b}'), "{error}");
    }

    #[tokio::test]
    async fn what_is_not_understood_sends_nothing_to_the_terminal() {
        let wire = with_first(&serde_json::json!({"\u{1b}[2J": {}}), &[]);
        let error = hear_answer(&mut &wire[..]).await.unwrap_err();
        assert!(error.text.contains("[2J") && !error.text.contains('\u{1b}'), "{error}");
    }

    #[tokio::test]
    async fn a_long_message_is_refused_before_it_is_read() {
        let mut wire = Vec::new();
        frames::append(&mut wire, KIND_MESSAGE, &[b' '; MESSAGE_BYTES_MAX + 1]);
        let error = hear::<_, Request>(&mut &wire[..]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(kind in 0u8..4, body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut wire = Vec::new();
            frames::append(&mut wire, kind, &body);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(hear::<_, Request>(&mut &wire[..]));
            let _ = runtime.block_on(hear_answer(&mut &wire[..]));
            let _ = runtime.block_on(hear_packet(&mut &wire[..]));
        }
    }
}
