//! The program tested as a program: the real binary, on loopback, with homes and folders of its own.

#[cfg(target_os = "linux")]
mod bounded;
mod common;
mod copy;
mod cut;
mod greedy;
mod interrupted;
#[cfg(target_os = "linux")]
mod left_out;
mod limits;
mod measure;
mod observed;
mod pair;
mod ports;
mod reach;
mod readme;
#[cfg(target_os = "linux")]
mod reverse_proxy;
#[cfg(target_os = "linux")]
mod roaming;
#[cfg(target_os = "linux")]
mod room;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod seats;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod tcp_firewall;
#[cfg(target_os = "linux")]
mod transparent;
mod trust;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(target_os = "linux")]
mod tun_trust;
mod tunnel;
mod tunnel_liar;
mod tunnel_life;
mod tunnel_lost;
#[cfg(target_os = "linux")]
mod tunnel_moved;
#[cfg(target_os = "linux")]
mod tunnel_port;
mod tunnel_trust;
mod tunnel_udp;
mod tunnel_wait;
mod websocket;
