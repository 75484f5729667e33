//! Fulmar for tokio: reliable, encrypted, multiplexed byte streams over UDP that keep their speed where
//! packets get lost.
//!
//! Lost data are decoded from coded packets rather than waited for, and loss is not mistaken for congestion.
//! The shape is quinn's: an [`Endpoint`] owns a UDP socket, a [`Connection`] runs between two endpoints, a
//! [`SendStream`] and a [`RecvStream`] carry bytes in order, datagrams go unreliably beside them.
//!
//! ```
//! use std::sync::Arc;
//! use fulmar::crypto::{self, Identity, TrustKeys};
//! use fulmar::{ClientConfig, Endpoint, ServerConfig};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (alice, bob) = (Identity::generate(), Identity::generate());
//!
//! // Bob lets Alice in, and sends back what he gets.
//! let trusted = Arc::new(TrustKeys::new([alice.public_key()]));
//! let crypto = crypto::ServerConfig::raw_key(&bob, Some(trusted));
//! let server = Endpoint::server(ServerConfig::new(Arc::new(crypto)), "127.0.0.1:0".parse()?)?;
//! let address = server.local_addr()?;
//! tokio::spawn(async move {
//!     let connection = server.accept().await.unwrap().await.unwrap();
//!     while let Ok((mut send, mut receive)) = connection.accept_bi().await {
//!         tokio::io::copy(&mut receive, &mut send).await.unwrap();
//!         send.finish().unwrap();
//!     }
//! });
//!
//! // Alice expects Bob, and talks to him.
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! let trusted = Arc::new(TrustKeys::new([bob.public_key()]));
//! let crypto = crypto::ClientConfig::raw_key(Some(&alice), trusted);
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
//! **The book** ([`book`]) has five short pages: [connect](book::connect), [trust](book::trust),
//! [streams](book::streams), [datagrams](book::datagrams), [tuning](book::tuning). Programs to begin with are
//! `examples/server.rs` and `examples/client.rs`.
//!
//! # Who is who
//!
//! Both ends hold an Ed25519 key and decide whose they trust: [`crypto::TrustKeys`] where the program knows
//! the keys, [`identity`] with files in SSH's manner ([`identity::Home::connect`] is the shortest way to a
//! server of one's own), [`crypto::VerifyPeer`] for anything else. X.509 certificates work as well:
//! [`crypto::ClientConfig::x509`], [`crypto::ServerConfig::x509`].
//!
//! # Ends
//!
//! | how | what happens to what was written |
//! |---|---|
//! | [`SendStream::finish`] | is delivered; the peer sees a regular end |
//! | [`SendStream::reset`], dropping an unfinished `SendStream` | may be lost; the peer's reads fail |
//! | [`Connection::shutdown`] | everything is delivered, then the connection closes; resolves when that is done |
//! | dropping the last handle | finished streams are delivered behind the back, for at most 30 seconds and while the runtime runs |
//! | [`Connection::close`], [`Endpoint::close`] | may be lost |
//!
//! What has arrived can be read after a connection has ended. Before a program ends it should await
//! [`Endpoint::wait_idle`], so that its last packets leave and lost ones are noticed.
//!
//! # Cancellation
//!
//! Futures may be dropped at any time. `write`, `read`, `read_chunk`, `send_datagram`, `send_datagram_with`,
//! `read_datagram`,
//! `open_*`, `accept_*`, `closed` and `stopped` lose nothing by it; `write_all`, `read_exact` and
//! `read_to_end` may have moved a part. A stream that is dropped with its future half-way is reset, so the
//! peer does not take a part for the whole.
//!
//! # From quinn
//!
//! | quinn | here |
//! |---|---|
//! | `Endpoint::client`, `server`, `accept`, `wait_idle`, `rebind`, `local_addr`, `open_connections` | the same names |
//! | `Endpoint::set_default_client_config` | [`Endpoint::set_client_config`] |
//! | `Endpoint::close(VarInt, ..)`, `Connection::close(VarInt, ..)`, all other `VarInt` | `u64` |
//! | `ServerConfig::with_single_cert`, `ClientConfig::with_root_certificates` | [`crypto::ServerConfig::x509`], [`crypto::ClientConfig::x509`] |
//! | a `dangerous()` verifier that knows one key | [`crypto::TrustKeys`] |
//! | `Connection::handshake_data()` | [`Connection::alpn`], [`Connection::server_name`] |
//! | `Connection::peer_identity()`, a `Box<dyn Any>` | [`Connection::peer_identity`], an enum |
//! | `open_bi`, `open_uni`, `accept_bi`, `accept_uni`, `closed`, `close_reason`, `remote_address`, `rtt`, `stats`, `stable_id`, `export_keying_material` | the same names |
//! | `Connection::set_max_concurrent_bi_streams`, `.._uni_streams` | [`Connection::limit_bi_streams`], [`Connection::limit_uni_streams`] |
//! | `send_datagram` (fails or drops), `send_datagram_wait` | [`Connection::try_send_datagram`], [`Connection::send_datagram`] |
//! | `max_datagram_size` | [`Connection::datagram_bytes_max`] |
//! | `force_key_update` | [`Connection::initiate_key_update`] |
//! | **dropping a `SendStream` finishes it** | **resets it**, unless [`Connection::finish_dropped_streams`] says otherwise |
//! | `SendStream::finish`, `reset`, `set_priority`, `stopped`, `write_chunk` | the same names; `reset` and `stop` take `u64` |
//! | `RecvStream::read_chunk(max, ordered)` | [`RecvStream::read_chunk`]`(max)`, in order |
//! | `RecvStream::read_to_end`, `read_exact`, `stop` | the same names |
//! | `TransportConfig::congestion_controller_factory` | [`TransportConfig::profile`], with [`Profile::parse`]`("auto:cc=bbr")` for instance |
//! | `max_idle_timeout`, `keep_alive_interval`, `receive_window`, `stream_receive_window` | [`TransportConfig::idle_timeout`], [`keep_alive`](TransportConfig::keep_alive), [`receive_window_bytes`](TransportConfig::receive_window_bytes), [`stream_receive_window_bytes`](TransportConfig::stream_receive_window_bytes) |
//! | `Incoming::refuse`, `remote_address`; `.await` | the same; `refuse` takes a code and a reason |
//! | 0-RTT, `Incoming::retry`/`ignore`, custom sockets and runtimes, unordered reads | not here |
//!
//! # Performance
//!
//! A task per endpoint receives up to 64 datagrams with each system call (GRO) and decrypts them in place; a
//! task per connection sends as many with each (GSO). [The page about tuning](book::tuning) says what helps.
//!
//! # Features
//!
//! `aws-lc`, on by default: packets, signatures and key exchange by AWS-LC where it is faster than ring,
//! which is there in any case. Off, a program has some hundred kilobytes less.
//!
//! `systems`, on by default: the profiles of five published systems, as the program has them. Off, there are
//! `auto` and the yardsticks; whoever asks for another is told that it is not built in, and a peer can ask
//! for less.
//!
//! `unstable`: the module `modules`, with the congestion controllers, codes and settings of the engine, and
//! their traits for modules of one's own. It may change with any release. All else follows semantic
//! versioning.
#![forbid(unsafe_code)]

mod alarm;
pub mod book;
mod buffers;
mod clock;
mod connection;
pub mod crypto;
mod endpoint;
mod error;
mod heard;
pub mod identity;
#[cfg(feature = "unstable")]
pub mod modules;
mod origins;
mod panics;
mod pipe;
mod recv_stream;
mod refusals;
mod send_stream;
mod socket;

pub use connection::{Connecting, Connection, HeldMemory, Incoming, PacketTrace};
pub use endpoint::{Carrying, Endpoint, EndpointConfig, EndpointStats};
pub use error::{
    ClosedStream, ConnectError, FinishError, ReadError, ReadExactError, ReadToEndError, SendDatagramError,
    WriteError,
};
pub use fulmar_proto::coding::{Content, ReceiverStats, SenderStats};
pub use fulmar_proto::recovery::RecoveryStats;
pub use fulmar_proto::stream::StreamStats;
pub use fulmar_proto::{
    AllowedProfiles, ClientConfig, ClientNetwork, ConfigError, ConnectionError, ConnectionIds,
    ConnectionStats, DatagramClass, DatagramOptions, DatagramStats, Dir, Favor, Instant, LossView, Packet,
    PacketEvent, PacketEventKind, PacketSpace, PathMetrics, PathStats, Profile, ProfileBuilder, ProfileError,
    Rate, ReceiveLimit, SendLimit, ServerConfig, Side, StreamId, TransportConfig, TransportError,
    TransportErrorCode, WireStats, profile_names,
};
pub use heard::is_heard_by_udp;
pub use recv_stream::RecvStream;
pub use send_stream::SendStream;
