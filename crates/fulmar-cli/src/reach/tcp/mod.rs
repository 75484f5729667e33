//! The way by TCP: datagrams in TLS 1.3, for networks that let no UDP through.
//!
//! TLS is a coat here and proves nothing: the connection inside has its own handshake, keys and pinning, as
//! over UDP. Whoever looks at the coat sees an ordinary HTTPS server. Inside it a stream begins with
//! datagrams, or asks for a WebSocket first, where proxies let nothing else through.

pub mod coat;
pub mod dial;
pub mod door;
mod http_proxy;
mod kernel;
pub mod places;
pub mod web_socket;
