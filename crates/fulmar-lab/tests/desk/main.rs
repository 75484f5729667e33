//! The operator's desk, from outside: the programs as people start them, asked over HTTP as the page does.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

mod client;
mod interface;
mod machines;
mod real;
