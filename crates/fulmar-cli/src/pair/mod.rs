//! Pairing: two machines that do not know each other exchange their keys, with a one-time code that people
//! carry from one to the other. docs/security.md says what the code protects from.
//!
//! | part | decides |
//! |---|---|
//! | [`code`] | what a code looks like, and how a typing mistake is found |
//! | [`exchange`] | what the two ends say to each other (SPAKE2), over anything that reads and writes |
//! | [`invitation`] | when a server takes a code: once, for ten minutes |
//! | [`serving`] | the server's half on a connection |
//! | [`command`] | `fulmar pair` |

pub mod code;
pub mod command;
pub mod exchange;
pub mod invitation;
pub mod serving;
