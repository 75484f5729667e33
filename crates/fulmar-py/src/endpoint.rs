//! A socket with connections, both ways.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, TrustKeys, VerifyPeer};
use fulmar::identity::{Home, Host};
use fulmar::{ClientConfig, EndpointConfig, Profile, ServerConfig, TransportConfig};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::connection::Connection;
use crate::error::{Closed, Error, of_connection, of_host, of_store};
use crate::keys::{self, Identity};
use crate::pending::Pending;
use crate::process::{Kept, Process};
use crate::reactor::Reactor;

/// What a stream takes before its writer waits. The thread that drives wakes it when half has left, and that
/// is dear: by the default, for every 128 KiB.
const STREAM_SEND_BUFFER_BYTES: u64 = 1 << 20;

/// What a handshake gives.
type Connected = PyResult<fulmar::Connection>;

struct Inner {
    endpoint: fulmar::Endpoint,
    opens: Opens,
    accepting: Pending<Option<Connected>>,
    connecting: Pending<Connected>,
}

/// How connections are opened.
#[derive(Clone)]
enum Opens {
    WithKeys(ClientConfig),
    WithHome { home: Home, transport: Box<TransportConfig>, trusts_new: bool },
}

/// A socket with any number of connections.
#[pyclass(module = "fulmar", frozen)]
pub(crate) struct Endpoint(Kept<Inner>);

fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

async fn connect(endpoint: fulmar::Endpoint, opens: Opens, host: Host) -> Connected {
    let config = match opens {
        Opens::WithKeys(config) => config,
        Opens::WithHome { home, transport, trusts_new } => {
            let connected = home.connect(&endpoint, &host, *transport, async |_| trusts_new).await;
            return connected.map_err(of_host);
        }
    };
    let addresses = host.resolve().await.map_err(|error| PyOSError::new_err(format!("{host}: {error}")))?;
    let mut last = PyOSError::new_err(format!("{host}: no address"));
    for address in addresses {
        match endpoint.connect_with(&config, address, host.name()) {
            Ok(connecting) => match connecting.await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = of_connection(&error),
            },
            Err(error) => last = Error::new_err(format!("{host}: {error}")),
        }
    }
    Err(last)
}

/// The next client that was let in; one that was not is no reason to stop.
async fn accept(endpoint: fulmar::Endpoint) -> Option<Connected> {
    loop {
        if let Ok(connection) = endpoint.accept().await?.await {
            return Some(Ok(connection));
        }
    }
}

/// Settings, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    bind: Option<String>,
    identity: Option<Py<Identity>>,
    trust: Option<Vec<String>>,
    home: Option<std::path::PathBuf>,
    serve: bool,
    anybody: bool,
    trust_new: bool,
    profile: Option<String>,
    alpn: Option<String>,
    idle_timeout: Option<f64>,
    keep_alive: Option<f64>,
    lose_received: f64,
}

impl Settings {
    fn transport(&self) -> PyResult<TransportConfig> {
        let seconds =
            |seconds: Option<f64>| seconds.map(Duration::try_from_secs_f64).transpose().map_err(wrong);
        let mut transport = TransportConfig::default();
        transport.stream_send_buffer_bytes(STREAM_SEND_BUFFER_BYTES).map_err(wrong)?;
        if let Some(profile) = &self.profile {
            transport.profile(Profile::parse(profile).map_err(wrong)?);
        }
        if let Some(idle) = seconds(self.idle_timeout)? {
            transport.idle_timeout(Some(idle)).map_err(wrong)?;
        }
        if let Some(interval) = seconds(self.keep_alive)? {
            transport.keep_alive(Some(interval)).map_err(wrong)?;
        }
        Ok(transport)
    }

    /// How connections are opened and, if it serves, taken.
    fn crypto(&self) -> PyResult<(Opens, Option<ServerConfig>)> {
        let transport = self.transport()?;
        if let Some(path) = &self.home {
            if self.identity.is_some() || self.trust.is_some() || self.alpn.is_some() || self.anybody {
                return Err(wrong("either home, or identity, trust and alpn"));
            }
            let home =
                if path.as_os_str().is_empty() { Home::locate().map_err(of_store)? } else { Home::at(path) };
            let server =
                self.serve.then(|| home.server_config(transport.clone())).transpose().map_err(of_store)?;
            return Ok((
                Opens::WithHome { home, transport: Box::new(transport), trusts_new: self.trust_new },
                server,
            ));
        }
        let keys = self.trust.iter().flatten().map(|line| keys::parse(line)).collect::<PyResult<Vec<_>>>()?;
        let identity = self.identity.as_ref().map(|identity| &identity.get().0);
        let trusted: Arc<dyn VerifyPeer> = Arc::new(TrustKeys::new(keys.iter().copied()));
        let transport = Arc::new(transport);
        let mut client = crypto::ClientConfig::raw_key(identity, trusted.clone());
        if let Some(alpn) = &self.alpn {
            client = client.with_alpn(&[alpn.as_bytes()]);
        }
        let opens = Opens::WithKeys(ClientConfig { crypto: Arc::new(client), transport: transport.clone() });
        if !self.serve {
            return Ok((opens, None));
        }
        let identity = identity.ok_or_else(|| wrong("a server needs an identity, or home"))?;
        if keys.is_empty() && !self.anybody {
            return Err(wrong("a server has keys that it trusts, or lets anybody in"));
        }
        let mut server = crypto::ServerConfig::raw_key(identity, (!self.anybody).then_some(trusted));
        if let Some(alpn) = &self.alpn {
            server = server.with_alpn(&[alpn.as_bytes()]);
        }
        Ok((opens, Some(ServerConfig { transport, ..ServerConfig::new(Arc::new(server)) })))
    }
}

fn bind(address: Option<&str>) -> PyResult<UdpSocket> {
    match address {
        None => Ok(UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?),
        Some(text) => {
            let address: SocketAddr =
                text.parse().map_err(|_| wrong(format!("{text:?} is no address with a port")))?;
            Ok(UdpSocket::bind(address)?)
        }
    }
}

#[pymethods]
impl Endpoint {
    #[new]
    fn new(settings: Settings) -> PyResult<Self> {
        let process = Process::current()?;
        let (opens, server) = settings.crypto()?;
        let mut config = EndpointConfig::default();
        if !(0.0..=1.0).contains(&settings.lose_received) {
            return Err(wrong("lose_received is a share, 0 to 1"));
        }
        config.lose_received_ppm((settings.lose_received * 1e6) as u32).rebind_on_silence(server.is_none());
        let socket = bind(settings.bind.as_deref())?;
        let _inside = process.runtime().enter();
        let endpoint = fulmar::Endpoint::new(&config, server, socket)?;
        let inner = Inner { endpoint, opens, accepting: Pending::default(), connecting: Pending::default() };
        drop(_inside);
        Ok(Self(Kept::new(inner, process)))
    }

    /// `127.0.0.1:4747`.
    #[getter]
    fn address(&self) -> PyResult<String> {
        Ok(self.0.get()?.endpoint.local_addr()?.to_string())
    }

    /// A connection to `host`, `name:port`.
    fn connect(&self, py: Python<'_>, host: &str, timeout: Option<f64>) -> PyResult<Connection> {
        let (inner, process) = (self.0.get()?, self.0.process());
        let host: Host = host.parse().map_err(wrong)?;
        let connection =
            process.wait(py, timeout, connect(inner.endpoint.clone(), inner.opens.clone(), host))??;
        Ok(Connection::new(connection, process.clone()))
    }

    /// The same, asked once.
    fn poll_connect(&self, host: &str, reactor: &Reactor, token: u64) -> PyResult<Option<Connection>> {
        let (inner, process) = (self.0.get()?, self.0.process());
        let host: Host = host.parse().map_err(wrong)?;
        let begin = || {
            // In a task, for its timers and names are the runtime's.
            let connecting = connect(inner.endpoint.clone(), inner.opens.clone(), host);
            let task = process.runtime().spawn(connecting);
            Box::pin(async move { task.await.unwrap_or_else(|error| Err(Error::new_err(error.to_string()))) })
                as _
        };
        let connected = inner.connecting.poll(&reactor.waker(token), begin).transpose()?;
        Ok(connected.map(|connection| Connection::new(connection, process.clone())))
    }

    /// The next client that was let in.
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Connection> {
        let (inner, process) = (self.0.get()?, self.0.process());
        let accepting = async {
            match inner.accepting.take() {
                Some(asked) => asked.await,
                None => accept(inner.endpoint.clone()).await,
            }
        };
        let accepted = process.wait(py, timeout, accepting)?;
        let connection = accepted.ok_or_else(|| Closed::new_err(("the endpoint is closed", 0u64)))??;
        Ok(Connection::new(connection, process.clone()))
    }

    /// The same, asked once.
    fn poll_accept(&self, reactor: &Reactor, token: u64) -> PyResult<Option<Connection>> {
        let (inner, process) = (self.0.get()?, self.0.process());
        let begin = || Box::pin(accept(inner.endpoint.clone())) as _;
        let Some(accepted) = inner.accepting.poll(&reactor.waker(token), begin) else { return Ok(None) };
        let connection = accepted.ok_or_else(|| Closed::new_err(("the endpoint is closed", 0u64)))??;
        Ok(Some(Connection::new(connection, process.clone())))
    }

    /// Closes all connections at once.
    fn close(&self, code: u64, reason: &[u8]) -> PyResult<()> {
        self.0.get()?.endpoint.close(code, reason);
        Ok(())
    }

    /// Waits until no connection is left.
    fn wait_idle(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.0.process().wait(py, timeout, self.0.get()?.endpoint.wait_idle())
    }
}
