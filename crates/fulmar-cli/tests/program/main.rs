//! The program tested as a program: the real binary, on loopback, with homes and folders of its own.

mod common;
mod copy;
mod interrupted;
mod measure;
mod reach;
mod readme;
mod trust;
mod tunnel;
mod tunnel_liar;
mod tunnel_life;
mod tunnel_trust;
