//! `fulmar tun`: IP packets of any protocol through a gateway, so that *unmodified IP traffic is coded below
//! TCP*.
//!
//! | part | decides |
//! |---|---|
//! | [`command`] | the command line |
//! | [`near`] | the client: device, routes, connecting again |
//! | [`far`] | the gateway's half: who gets which addresses |
//! | [`carry`] | how packets travel |
//! | [`clamp`] | how long TCP's segments may be |
//! | [`observed`] | what is told of it to `fulmar status` and Prometheus |
//! | [`route`] | which packets go through the tunnel |

pub mod carry;
pub mod clamp;
pub mod command;
pub mod far;
pub mod near;
pub mod observed;
pub mod pool;
pub mod route;
