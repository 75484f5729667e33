//! `fulmar tun`: IP packets of any protocol through a gateway, so that *unmodified IP traffic is coded below
//! TCP*.
//!
//! | part | decides |
//! |---|---|
//! | [`command`] | the command line |
//! | [`near`] | the client: device, routes, connecting again |
//! | [`accept`] | which addresses the client takes |
//! | [`far`] | the gateway's half |
//! | [`offer`] | what the gateway is told of it |
//! | [`pool`] | who gets which addresses |
//! | [`fence`] | which packets may go through: addresses belong to keys |
//! | [`rules`] | what nftables does beside it |
//! | [`carry`] | how packets travel |
//! | [`clamp`] | how long TCP's segments may be |
//! | [`observed`] | what is told of it to `fulmar status` and Prometheus |
//! | [`route`] | which packets go through the tunnel |

pub mod accept;
pub mod carry;
pub mod clamp;
pub mod command;
pub mod far;
pub mod fence;
pub mod near;
pub mod observed;
pub mod offer;
pub mod pool;
pub mod route;
pub mod rules;
