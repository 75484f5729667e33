//! The fuzz target of the desk with what is kept in `fuzz/seeds`, changed at random, so that it runs in every
//! ordinary test.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, reason = "modules of one program")]

mod drivers;
#[path = "../../../fulmar-cli/tests/fuzz/kept.rs"]
mod kept;

#[test]
fn desk() {
    kept::fuzz("lab_desk", 5000, drivers::desk);
}
