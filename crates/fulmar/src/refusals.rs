//! What comes back instead of an answer: ICMP's word that nobody listens at a port.
//!
//! A UDP socket that is bound to no peer hears nothing of it, unless it asks for the queue of errors
//! (`IP_RECVERR`, Linux), in which each error stands with the address it is about. Only endpoints that are
//! not servers ask: a client wants to know at once, and a server has no use for the word of whoever claims
//! that a client is gone.

pub(crate) use system::Refusals;

#[cfg(target_os = "linux")]
mod system {
    use std::io::{self, IoSliceMut};
    use std::net::SocketAddr;
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt::Ipv4RecvErr,
        sockopt::Ipv6RecvErr,
    };
    use tokio::io::Interest;
    use tokio::net::UdpSocket;

    /// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6`: from the network, and not this machine's own opinion.
    const ORIGINS: [u8; 2] = [2, 3];

    /// A socket whose queue of errors is open.
    #[derive(Debug)]
    pub(crate) struct Refusals;

    impl Refusals {
        /// Asks for the queue.
        pub(crate) fn enable(socket: &std::net::UdpSocket, is_ipv6: bool) -> io::Result<()> {
            if is_ipv6 {
                setsockopt(socket, Ipv6RecvErr, &true)?;
            }
            // A dual-stack socket has both.
            match setsockopt(socket, Ipv4RecvErr, &true) {
                Err(_) if is_ipv6 => Ok(()),
                result => Ok(result?),
            }
        }

        /// Waits for errors; the addresses at which nobody listens, as the socket knows them.
        pub(crate) async fn next(socket: &UdpSocket) -> io::Result<Vec<SocketAddr>> {
            socket.ready(Interest::ERROR).await?;
            let mut refused = Vec::new();
            let drain = || {
                loop {
                    // Until the queue is empty.
                    refused.extend(read_one(socket)?);
                }
            };
            match socket.try_io(Interest::ERROR, drain) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                Err(_) => Ok(refused),
                Ok(never) => never,
            }
        }
    }

    fn read_one(socket: &UdpSocket) -> io::Result<Option<SocketAddr>> {
        let mut payload = [0; 64];
        let mut slices = [IoSliceMut::new(&mut payload)];
        let mut control = nix::cmsg_space!([u8; 128]);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
        let is_refusal = message.cmsgs()?.any(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                ORIGINS.contains(&error.ee_origin) && error.ee_errno == nix::errno::Errno::ECONNREFUSED as u32
            }
            _ => false,
        });
        Ok(message.address.filter(|_| is_refusal).and_then(|address| address_of(&address)))
    }

    fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::from((v4.ip(), v4.port())));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::net::SocketAddr;

    use tokio::net::UdpSocket;

    /// Nothing is heard of them here.
    #[derive(Debug)]
    pub(crate) struct Refusals;

    impl Refusals {
        pub(crate) fn enable(_: &std::net::UdpSocket, _: bool) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) async fn next(_: &UdpSocket) -> io::Result<Vec<SocketAddr>> {
            std::future::pending().await
        }
    }
}
