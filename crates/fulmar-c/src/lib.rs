//! Fulmar for C: a driver ([`endpoint`], [`connection`], [`stream`]), with a thread of its own for each
//! endpoint and a descriptor to poll; and the protocol without I/O ([`sans_io`] over [`machine`]).
//!
//! What crosses the boundary: opaque handles, structs that begin with their size, numbers, and memory of the
//! caller. No panic does ([`code::guard`]), and no callback: what happens is an event that the caller takes.
//! The contract of all functions stands once, at the head of `include/fulmar.h` (from `cbindgen.toml`).
#![allow(unsafe_code, reason = "C hands over pointers; `memory` is where most of them are looked at")]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, reason = "the contract is one for all: the head of include/fulmar.h")]
#![allow(unreachable_pub, reason = "C reaches what is public here")]
#![allow(non_camel_case_types, reason = "the names are C's")]

mod address;
mod code;
mod config;
mod connection;
mod datagram;
mod endpoint;
mod event;
mod failure;
mod keys;
mod machine;
mod memory;
mod pending;
mod sans_io;
mod signal;
mod stats;
mod stream;
mod trust;
