//! How one flow is carried, from a local socket to a stream or the reverse; both ends use it.
//!
//! | part | decides |
//! |---|---|
//! | [`halves`] | what can be read and written, whatever it is |
//! | [`local`] | where programs come in |
//! | [`lookups`], [`dial`] | how names are resolved and targets reached |
//! | [`tcp`], [`unix_sockets`], [`pump`] | how bytes are carried |
//! | [`udp`], [`datagrams`], [`waiting`] | how the packets of UDP are carried |
//! | [`shared_socket`], [`peers`] | how one socket of UDP serves many |
//! | [`drops`], [`traffic`] | what is counted, and held back |

pub mod datagrams;
pub mod dial;
pub mod drops;
pub mod halves;
pub mod local;
pub mod lookups;
pub mod mapped;
pub mod peers;
pub mod pump;
pub mod shared_socket;
pub mod tcp;
pub mod traffic;
pub mod udp;
#[cfg(unix)]
pub mod unix_sockets;
#[cfg(not(unix))]
#[path = "no_unix_sockets.rs"]
pub mod unix_sockets;
pub mod waiting;
