//! The laboratory: every transport over the same links, in virtual time and against real TCP.
//!
//! * [`sim`] moves the network model in virtual time with protocol cores at the ends: a run is a function of
//!   (scenario, seed).
//! * [`bridge`] moves the same model in real time between network namespaces; [`tcp`] runs the kernel's TCP
//!   over it, [`programs`] any two programs, [`peer`] other transports.
//! * Both drivers describe links by [`link::LinkSpec`] and report an [`outcome::Outcome`].

#[cfg(target_os = "linux")]
pub mod applications;
mod better;
#[cfg(target_os = "linux")]
pub mod bridge;
pub mod compare;
#[cfg(target_os = "linux")]
pub mod demo;
#[cfg(target_os = "linux")]
pub mod desk;
pub mod experiment;
mod fairness;
pub mod link;
pub mod outcome;
#[cfg(target_os = "linux")]
pub mod peer;
#[cfg(target_os = "linux")]
pub mod programs;
pub mod random;
pub mod report;
pub mod sample;
pub mod scenario;
pub mod sim;
pub mod statistics;
#[cfg(target_os = "linux")]
pub mod tcp;
pub mod traffic;

mod meter;
#[cfg(target_os = "linux")]
mod sys;

pub mod commands;
