//! Congestion controllers under the contract that they meet in the product: `Recovery` asks and tells them,
//! and the packets cross a modelled link. Each test has a floor and a ceiling.
#![allow(unreachable_pub, reason = "modules of one program")]

mod bottleneck;
mod bulk;
mod cells;
mod scenarios;
mod sharing;
