//! Five published systems as profiles of the one engine: each in a folder of its own.
//!
//! | folder | source | profiles |
//! |---|---|---|
//! | `lt_tcp` | Hourt, RPI 2014 | `lt-tcp`, `no-cc` |
//! | `dfcp` | Solymos, BME 2014 | `dfcp`, `dfcp-raptorq` |
//! | `tcp_fec` | Sato, Kitakyushu 2019 | `tcp-fec`, `tcp-fec-interleave` |
//! | `ctcp` | Leith, Medard et al. | `ctcp` |
//! | `tcp_nc` | Medina-Ruiz, Kieffer, Pesquet-Popescu, NetCod 2012 | `tcp-nc`, `tcp-nc-adaptive` |
//!
//! [`SYSTEMS`] is what `fulmar-proto` puts into its table of profiles, with its feature `systems`. Whoever
//! wants the engine alone leaves that feature off, and has none of this in the program.
#![forbid(unsafe_code)]

mod block_repair;
pub mod codes;
pub mod ctcp;
pub mod dfcp;
pub mod lt_tcp;
mod needs;
pub mod tcp_fec;
pub mod tcp_nc;

use fulmar_profile::System;

/// All five.
pub const SYSTEMS: [&System; 5] =
    [&lt_tcp::LT_TCP, &dfcp::DFCP, &tcp_fec::TCP_FEC, &ctcp::CTCP, &tcp_nc::TCP_NC];
