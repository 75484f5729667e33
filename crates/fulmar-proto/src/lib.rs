//! The Fulmar protocol without I/O: no socket, no clock, no thread, no global generator below this line.
//!
//! A driver owns the sockets and the time. It gives datagrams and the passing of time to `handle_*`, takes
//! datagrams, wake-up times and events from `poll_*`, and reads and writes streams in between. The same code
//! runs in virtual time in the tests and the laboratory, where a run is a function of its seed.
#![forbid(unsafe_code)]

mod chance;
mod config;
mod connection;
mod endpoint;
mod error;
mod ids;
mod params;

pub mod coding;
pub mod crypto;
pub mod profile;
pub mod recovery;
pub mod stream;
pub mod wire;

pub use config::{ClientConfig, ConfigError, ConnectionIds, EndpointConfig, ServerConfig, TransportConfig};
pub use connection::{
    Connection, ConnectionStats, DatagramClass, DatagramMeta, DatagramOptions, DatagramStats, EndpointEvent,
    Event, Packet, PacketEvent, PacketEventKind, PacketSpace, PathMetrics, PathStats, SendDatagramError,
    Transmit, WireStats,
};
pub use endpoint::{ClientNetwork, ConnectError, ConnectionHandle, Endpoint, Route};
pub use error::{ConnectionError, TransportError, TransportErrorCode};
pub use fulmar_control::{self as control, Favor, LossView};
pub use fulmar_fec as fec;
pub use fulmar_units::{Instant, Rate};
pub use ids::{ConnectionId, Dir, PacketNumber, Side, StreamId};
pub use params::Parameters;
pub use profile::{AllowedProfiles, Make, MakeContext, Profile, ProfileBuilder, ProfileError, profile_names};
pub use recovery::{Ecn, ReceiveLimit, RecoveryConfig, SendLimit, Timeout};
