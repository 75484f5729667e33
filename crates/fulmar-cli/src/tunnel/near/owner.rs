//! Whose sockets are whose on this machine: all its users share its addresses, and an address so tells
//! nothing of who is behind it.

use std::net::SocketAddr;

/// Whether the UDP socket at `udp` is of the same user as the TCP socket at `tcp.0` that is connected with
/// `tcp.1`; both are this machine's. `None` if the system does not tell.
///
/// The kernel's tables are read (proc_pid_net(5)), whole, since sockets can be asked about one by one only
/// over netlink; it is done once for an association.
#[cfg(target_os = "linux")]
pub fn is_same(tcp: (SocketAddr, SocketAddr), udp: SocketAddr) -> Option<bool> {
    let tables = procfs::process::Process::myself().ok()?;
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (tcp, udp) = ((plain(tcp.0), plain(tcp.1)), plain(udp));
    // Where there is no IPv6 there is no table for it.
    let streams = tables.tcp().ok()?.into_iter().chain(tables.tcp6().unwrap_or_default());
    let ends = |entry: &procfs::net::TcpNetEntry| (plain(entry.local_address), plain(entry.remote_address));
    let user = streams.filter(|entry| ends(entry) == tcp).map(|entry| entry.uid).next()?;
    let packets = tables.udp().ok()?.into_iter().chain(tables.udp6().unwrap_or_default());
    let is_there =
        |at: SocketAddr| at.port() == udp.port() && (at.ip().is_unspecified() || at.ip() == udp.ip());
    // Several may share a port: which of them has sent is not known, so all have to be that user's.
    let mut owners =
        packets.filter(|entry| is_there(plain(entry.local_address))).map(|entry| entry.uid).peekable();
    Some(owners.peek().is_some() && owners.all(|owner| owner == user))
}

/// The system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn is_same(_: (SocketAddr, SocketAddr), _: SocketAddr) -> Option<bool> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::process::Command;

    use super::*;

    #[test]
    fn sockets_of_one_user_are_told_from_anothers() {
        for (listen, any) in [("127.0.0.1:0", "0.0.0.0:0"), ("[::]:0", "[::]:0")] {
            let listener = TcpListener::bind(listen).unwrap();
            let at = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
            let client = TcpStream::connect(at).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let tcp = (peer, accepted.local_addr().unwrap());
            for own in ["127.0.0.1:0", any] {
                let socket = UdpSocket::bind(own).unwrap();
                let udp = SocketAddr::from(([127, 0, 0, 1], socket.local_addr().unwrap().port()));
                assert_eq!(is_same(tcp, udp), Some(true), "{own}");
                drop(socket);
                assert_eq!(is_same(tcp, udp), Some(false), "nobody is there: {own}");
            }
            drop(client);
        }
    }

    #[test]
    fn another_users_socket_is_another_users() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let script = "import os, socket, sys\nos.setuid(65534)\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                      s.bind(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()";
        let mut thief = Command::new("python3");
        thief.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut thief = thief.spawn().unwrap();
        let mut line = String::new();
        let out = std::io::BufReader::new(thief.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut { out }, &mut line).unwrap();
        let udp = SocketAddr::from(([127, 0, 0, 1], line.trim().parse().unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        assert_eq!(is_same((peer, accepted.local_addr().unwrap()), udp), Some(false));
        drop(thief.stdin.take());
        thief.wait().unwrap();
    }
}
