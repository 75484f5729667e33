//! `fulmar run`: a program as it is, its TCP connections through a gateway.
//!
//! | part | decides |
//! |---|---|
//! | [`program`] | whether the program can be carried |
//! | [`child`] | how it is started, told, and outlived |
//! | [`broker`] | what the preloaded library hears |
//! | `door` | when the program's sockets become connected |
//! | `names` | which addresses stand in for names |

pub mod broker;
pub mod child;
pub mod command;
mod door;
pub mod errno;
mod left;
mod names;
pub mod program;
