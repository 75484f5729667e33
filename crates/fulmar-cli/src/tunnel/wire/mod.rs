//! What is said on a stream, and what went wrong: docs/internals/tunnel-protocol.md.
//!
//! | part | decides |
//! |---|---|
//! | [`target`] | what a flow leads to |
//! | [`message`] | requests, answers and the frames around them |
//! | [`packets`] | what is said of a tunnel for packets |
//! | [`error`] | why a flow was not opened |

pub mod error;
pub mod message;
pub mod packets;
pub mod target;
