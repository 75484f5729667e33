//! The network that an agent's data go over: its own, or a namespace that it enters only to open sockets.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;

use crate::desk::control::Network;
use crate::sys;

/// Where sockets for data are opened.
#[derive(Debug)]
pub struct Ground {
    address: IpAddr,
    namespace: Option<File>,
}

impl Ground {
    /// With an address in it, and a file that stands for the namespace if it is not the agent's own.
    ///
    /// # Errors
    /// If there is no such namespace.
    pub fn new(address: IpAddr, namespace: Option<PathBuf>) -> Result<Self, String> {
        let open = |path: PathBuf| File::open(&path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(Self { address, namespace: namespace.map(open).transpose()? })
    }

    /// Where this end is in a network.
    pub(super) fn address(&self, network: Network) -> IpAddr {
        match network {
            Network::Data => self.address,
            Network::Loopback => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Does something inside the network. A socket made there stays there, whoever uses it.
    fn inside<T: Send>(
        &self,
        network: Network,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let Some(namespace) = self.namespace.as_ref().filter(|_| network == Network::Data) else {
            return work();
        };
        // A thread of its own: whoever has entered a namespace stays there.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                sys::enter_network(namespace.as_fd())?;
                work()
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread inside the network died")))
        })
    }

    pub(super) fn udp(&self, network: Network, port: u16) -> io::Result<UdpSocket> {
        let address = self.address(network);
        self.inside(network, move || UdpSocket::bind((address, port)))
    }

    pub(super) fn listener(&self, network: Network, port: u16) -> io::Result<TcpListener> {
        let address = self.address(network);
        self.inside(network, move || {
            let listener = TcpListener::bind((address, port))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
    }

    /// Connects with a congestion control; blocks until the handshake is complete.
    pub(super) fn connect(&self, congestion: &str, to: (Ipv4Addr, u16)) -> io::Result<TcpStream> {
        self.inside(Network::Data, || {
            let socket = sys::tcp_socket()?;
            sys::set_congestion_control(&socket, congestion).map_err(|error| {
                io::Error::new(error.kind(), format!("congestion control '{congestion}': {error}"))
            })?;
            sys::connect(&socket, to.0.octets(), to.1)?;
            let stream = TcpStream::from(socket);
            stream.set_nonblocking(true)?;
            Ok(stream)
        })
    }

    /// Makes the kernel's TCP negotiate ECN, or not. In a network that is not the agent's own it only looks.
    pub(super) fn set_ecn(&self, is_on: bool) -> io::Result<()> {
        const SETTING: &str = "/proc/sys/net/ipv4/tcp_ecn";
        let wanted = if is_on { "1" } else { "0" };
        if self.namespace.is_some() {
            return self.inside(Network::Data, || std::fs::write(SETTING, wanted));
        }
        let found = std::fs::read_to_string(SETTING)?;
        // 2, the kernel's default: accept, but do not ask for it.
        if (found.trim() == "1") == is_on {
            return Ok(());
        }
        let words = format!("{SETTING} is {} on this machine, and this run needs {wanted}", found.trim());
        Err(io::Error::other(words))
    }
}
