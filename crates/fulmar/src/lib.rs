//! Fulmar for tokio: a loss-tolerant, encrypted, multiplexed transport over UDP.
#![forbid(unsafe_code)]

mod buffers;
mod clock;
mod connection;
mod endpoint;
mod error;
pub mod identity;
mod recv_stream;
mod send_stream;
mod socket;

pub use connection::{Connecting, Connection, Incoming};
pub use endpoint::{Endpoint, EndpointConfig, EndpointStats};
pub use error::{
    ClosedStream, ConnectError, FinishError, ReadError, ReadExactError, ReadToEndError, SendDatagramError,
    WriteError,
};
pub use fulmar_proto::{
    ClientConfig, ConnectionError, ConnectionStats, Dir, PROFILE_NAMES, Profile, ServerConfig, Side,
    StreamId, TransportConfig, TransportError, TransportErrorCode, crypto,
};
pub use recv_stream::RecvStream;
pub use send_stream::SendStream;
