//! Fulmar for tokio: reliable, encrypted, multiplexed byte streams over UDP that keep their speed where
//! packets get lost.
//!
//! Lost data are decoded from coded packets rather than waited for, and loss is not mistaken for congestion.
//! The shape is quinn's: an [`Endpoint`] owns a UDP socket, a [`Connection`] runs between two endpoints, a
//! [`SendStream`] and a [`RecvStream`] carry bytes in order, datagrams go unreliably beside them.
//!
//! ```
//! use std::sync::Arc;
//! use fulmar::crypto::{self, Identity, PublicKey, Refusal, VerifyPeer};
//! use fulmar::{ClientConfig, Endpoint, ServerConfig};
//!
//! /// Trusts one key. Programs for people rather use the files of `fulmar::identity`.
//! #[derive(Debug)]
//! struct Only(PublicKey);
//!
//! impl VerifyPeer for Only {
//!     fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
//!         if *key == self.0 { Ok(()) } else { Err(Refusal::UnknownKey(key.fingerprint())) }
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (alice, bob) = (Identity::generate(), Identity::generate());
//!
//! // Bob lets Alice in, and sends back what he gets.
//! let crypto = crypto::ServerConfig::raw_key(&bob, Some(Arc::new(Only(alice.public_key()))));
//! let server = Endpoint::server(ServerConfig::new(Arc::new(crypto)), "127.0.0.1:0".parse()?)?;
//! let address = server.local_addr()?;
//! tokio::spawn(async move {
//!     let connection = server.accept().await.unwrap().await.unwrap();
//!     while let Ok((mut send, mut receive)) = connection.accept_bi().await {
//!         tokio::io::copy(&mut receive, &mut send).await.unwrap();
//!     }
//! });
//!
//! // Alice expects Bob, and talks to him.
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! let crypto = crypto::ClientConfig::raw_key(Some(&alice), Arc::new(Only(bob.public_key())));
//! client.set_client_config(ClientConfig::new(Arc::new(crypto)));
//! let connection = client.connect(address, "localhost")?.await?;
//! let (mut send, mut receive) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.finish()?;
//! assert_eq!(receive.read_to_end(100).await?, b"hello");
//! connection.shutdown(0, b"done").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who is who
//!
//! Both ends hold an Ed25519 key and decide whose they trust. [`identity`] does that with files in SSH's
//! manner, and [`identity::Home::connect`] is the shortest way to a server of one's own. X.509 certificates
//! work as well: [`crypto::ClientConfig::x509`], [`crypto::ServerConfig::x509`]. A server asked to know its
//! clients lets nobody else in.
//!
//! # Ends
//!
//! | how | what happens to what was written |
//! |---|---|
//! | [`Connection::shutdown`] | everything is delivered, then the connection closes; resolves when that is done |
//! | dropping the last handle | the same behind the back, for at most 30 seconds and while the runtime runs |
//! | [`Connection::close`], [`Endpoint::close`] | may be lost |
//! | [`SendStream::finish`], dropping a `SendStream` | is delivered; the peer sees a regular end |
//! | [`SendStream::reset`] | may be lost; the peer's reads fail |
//!
//! What has arrived can be read after a connection has ended. Before a program ends it should await
//! [`Endpoint::wait_idle`], so that its last packets leave and lost ones are noticed.
//!
//! # Cancellation
//!
//! Futures may be dropped at any time. `write`, `read`, `read_chunk`, `send_datagram`, `read_datagram`,
//! `open_*`, `accept_*`, `closed` and `stopped` lose nothing by it; `write_all`, `read_exact` and
//! `read_to_end` may have moved a part.
//!
//! # Performance
//!
//! A task per endpoint receives up to 64 datagrams with each system call (GRO) and decrypts them in place; a
//! task per connection sends as many with each (GSO). Read and write in pieces of 64 KiB or more. Socket
//! buffers of 8 MiB are asked for; if the system grants less, one warning (of `tracing`) names the setting.
//! [`Connection::stats`] shows what a connection does: rates, loss before and after repair, what coding
//! costs. `cargo run --release --example bench` measures.
#![forbid(unsafe_code)]

mod alarm;
mod buffers;
mod clock;
mod connection;
mod endpoint;
mod error;
pub mod identity;
mod panics;
mod recv_stream;
mod refusals;
mod send_stream;
mod socket;

pub use connection::{Connecting, Connection, HeldMemory, Incoming, PacketTrace};
pub use endpoint::{Endpoint, EndpointConfig, EndpointStats};
pub use error::{
    ClosedStream, ConnectError, FinishError, ReadError, ReadExactError, ReadToEndError, SendDatagramError,
    WriteError,
};
pub use fulmar_proto::coding::{Content, ReceiverStats, SenderStats};
pub use fulmar_proto::stream::StreamStats;
pub use fulmar_proto::{
    AllowedProfiles, ClientConfig, ConfigError, ConnectionError, ConnectionIds, ConnectionStats, Dir, Favor,
    Instant, LossView, PROFILE_NAMES, Packet, PacketEvent, PacketEventKind, PacketSpace, PathMetrics,
    Profile, ProfileBuilder, ProfileError, Rate, ServerConfig, Side, StreamId, TransportConfig,
    TransportError, TransportErrorCode, crypto, profile,
};
pub use recv_stream::RecvStream;
pub use send_stream::SendStream;
