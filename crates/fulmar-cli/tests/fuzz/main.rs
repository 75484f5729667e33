//! The fuzz targets' entry points with what is kept in `fuzz/seeds`, changed at random, so that they run in
//! every ordinary test.
#![allow(unreachable_pub, reason = "modules of one program")]

mod drivers;
mod kept;

use kept::fuzz;

#[test]
fn messages() {
    fuzz("cli_messages", 20_000, drivers::messages);
}

#[test]
fn pair() {
    fuzz("cli_pair", 500, drivers::pair);
}

#[test]
fn permits() {
    fuzz("cli_permits", 50_000, drivers::permits);
}

#[test]
fn socks() {
    fuzz("cli_socks", 20_000, drivers::socks_shapes);
}

#[test]
fn stream() {
    fuzz("cli_stream", 5000, drivers::stream);
}

#[test]
fn http() {
    fuzz("cli_http", 10_000, drivers::http_shapes);
}

#[cfg(target_os = "linux")]
#[test]
fn ip() {
    fuzz("cli_ip", 50_000, drivers::ip_packets);
}

#[cfg(target_os = "linux")]
#[test]
fn fence() {
    fuzz("cli_fence", 50_000, drivers::fence);
}

#[test]
fn config() {
    fuzz("cli_config", 5000, drivers::config);
}
