//! The protocol in virtual time, clause by clause: each test names the clause of docs/internals/wire.md or of
//! an RFC that it checks.
#![allow(unreachable_pub, reason = "modules of one program")]

mod close;
mod connecting;
mod favor;
mod games;
use fulmar_world as common;
mod handshake;
mod hostile;
mod idle;
mod ids;
mod limits;
mod moves;
mod path;
mod rates;
mod recovery;
mod streams;
mod thin;
mod trace;
mod transfer;
mod work;
