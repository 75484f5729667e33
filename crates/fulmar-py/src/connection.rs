//! A connection.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use fulmar::crypto::PeerIdentity;
use fulmar::{
    ConnectionError, DatagramClass, DatagramOptions, Dir, RecvStream, SendDatagramError, SendStream,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::data::Data;
use crate::error::{of_connection, of_datagram};
use crate::pending::Pending;
use crate::process::{Kept, Process};
use crate::reactor::Reactor;
use crate::stream::Stream;

type Halves = (Option<SendStream>, Option<RecvStream>);
type Opened = Result<Halves, ConnectionError>;

struct Inner {
    connection: fulmar::Connection,
    opening: [Pending<Opened>; 2],
    accepting: [Pending<Opened>; 2],
    receiving: Pending<Result<Bytes, ConnectionError>>,
    sending: Pending<()>,
    ending: Pending<Result<(), ConnectionError>>,
}

/// A connection to one peer.
#[pyclass(module = "fulmar", frozen)]
pub(crate) struct Connection(Kept<Inner>);

fn dir(both: bool) -> Dir {
    if both { Dir::Bi } else { Dir::Uni }
}

async fn open(connection: fulmar::Connection, dir: Dir) -> Opened {
    match dir {
        Dir::Bi => connection.open_bi().await.map(|(send, receive)| (Some(send), Some(receive))),
        Dir::Uni => connection.open_uni().await.map(|send| (Some(send), None)),
    }
}

async fn accept(connection: fulmar::Connection, dir: Dir) -> Opened {
    match dir {
        Dir::Bi => connection.accept_bi().await.map(|(send, receive)| (Some(send), Some(receive))),
        Dir::Uni => connection.accept_uni().await.map(|receive| (None, Some(receive))),
    }
}

/// What is asked for a datagram: its kind, and the seconds after which it is worth nothing.
type How<'a> = (Option<Cow<'a, str>>, Option<f64>);

/// Nothing if nothing is asked.
fn options((kind, deadline): How<'_>) -> PyResult<Option<DatagramOptions>> {
    if (&kind, deadline) == (&None, None) {
        return Ok(None);
    }
    let class = match kind.as_deref().unwrap_or("once") {
        "once" => DatagramClass::Once,
        "repaired" => DatagramClass::Repaired,
        "in-order" => DatagramClass::RepairedInOrder,
        _ => return Err(PyValueError::new_err("a datagram's kind is 'once', 'repaired' or 'in-order'")),
    };
    let options = DatagramOptions::new(class);
    let Some(seconds) = deadline else { return Ok(Some(options)) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(deadline) if !deadline.is_zero() => Ok(Some(options.deadline(deadline))),
        _ => Err(PyValueError::new_err("a deadline is a time in seconds, more than 0")),
    }
}

fn try_send(
    connection: &fulmar::Connection,
    data: Bytes,
    options: Option<DatagramOptions>,
) -> Result<(), SendDatagramError> {
    match options {
        Some(options) => connection.try_send_datagram_with(data, options),
        None => connection.try_send_datagram(data),
    }
}

async fn send(
    connection: fulmar::Connection,
    data: Bytes,
    options: Option<DatagramOptions>,
) -> Result<(), SendDatagramError> {
    match options {
        Some(options) => connection.send_datagram_with(data, options).await,
        None => connection.send_datagram(data).await,
    }
}

impl Connection {
    pub(crate) fn new(connection: fulmar::Connection, process: Process) -> Self {
        let inner = Inner {
            connection,
            opening: Default::default(),
            accepting: Default::default(),
            receiving: Pending::default(),
            sending: Pending::default(),
            ending: Pending::default(),
        };
        Self(Kept::new(inner, process))
    }

    fn stream(&self, opened: Opened) -> PyResult<Stream> {
        let halves = opened.map_err(|error| of_connection(&error))?;
        Ok(Stream::new(halves, self.0.process().clone()))
    }
}

#[pymethods]
impl Connection {
    fn open(&self, py: Python<'_>, both: bool, timeout: Option<f64>) -> PyResult<Stream> {
        let inner = self.0.get()?;
        let opening = async {
            match inner.opening[dir(both) as usize].take() {
                Some(asked) => asked.await,
                None => open(inner.connection.clone(), dir(both)).await,
            }
        };
        self.stream(self.0.process().wait(py, timeout, opening)?)
    }

    fn poll_open(&self, both: bool, reactor: &Reactor, token: u64) -> PyResult<Option<Stream>> {
        let inner = self.0.get()?;
        let begin = || Box::pin(open(inner.connection.clone(), dir(both))) as _;
        let opened = inner.opening[dir(both) as usize].poll(&reactor.waker(token), begin);
        opened.map(|opened| self.stream(opened)).transpose()
    }

    fn accept(&self, py: Python<'_>, both: bool, timeout: Option<f64>) -> PyResult<Stream> {
        let inner = self.0.get()?;
        let accepting = async {
            match inner.accepting[dir(both) as usize].take() {
                Some(asked) => asked.await,
                None => accept(inner.connection.clone(), dir(both)).await,
            }
        };
        self.stream(self.0.process().wait(py, timeout, accepting)?)
    }

    fn poll_accept(&self, both: bool, reactor: &Reactor, token: u64) -> PyResult<Option<Stream>> {
        let inner = self.0.get()?;
        let begin = || Box::pin(accept(inner.connection.clone(), dir(both))) as _;
        let accepted = inner.accepting[dir(both) as usize].poll(&reactor.waker(token), begin);
        accepted.map(|accepted| self.stream(accepted)).transpose()
    }

    fn send_datagram(&self, py: Python<'_>, data: Data, how: How<'_>, timeout: Option<f64>) -> PyResult<()> {
        let inner = self.0.get()?;
        let (data, options) = (data.to_bytes(), options(how)?);
        match try_send(&inner.connection, data.clone(), options) {
            Err(SendDatagramError::Full) => {}
            result => return result.map_err(|error| of_datagram(&error)),
        }
        let sent = self.0.process().wait(py, timeout, send(inner.connection.clone(), data, options))?;
        sent.map_err(|error| of_datagram(&error))
    }

    /// True once `data` is taken. One that finds the queue full is left to a task, and no other is taken
    /// until that is done.
    fn poll_send_datagram(
        &self,
        data: Data,
        how: How<'_>,
        reactor: &Reactor,
        token: u64,
    ) -> PyResult<Option<bool>> {
        let (inner, options) = (self.0.get()?, options(how)?);
        if inner.sending.is_pending(&reactor.waker(token)) {
            return Ok(None);
        }
        let data = data.to_bytes();
        match try_send(&inner.connection, data.clone(), options) {
            Err(SendDatagramError::Full) => {}
            result => return result.map(|()| Some(true)).map_err(|error| of_datagram(&error)),
        }
        let task = self.0.process().runtime().spawn(send(inner.connection.clone(), data, options));
        // Of a connection that has ended the next call tells.
        inner.sending.keep(Box::pin(async move { drop(task.await) }));
        Ok(Some(true))
    }

    fn receive_datagram<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let inner = self.0.get()?;
        let receiving = async {
            match inner.receiving.take() {
                Some(asked) => asked.await,
                None => inner.connection.read_datagram().await,
            }
        };
        let data = self.0.process().wait(py, timeout, receiving)?.map_err(|error| of_connection(&error))?;
        Ok(PyBytes::new(py, &data))
    }

    fn poll_receive_datagram<'py>(
        &self,
        py: Python<'py>,
        reactor: &Reactor,
        token: u64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let inner = self.0.get()?;
        let begin = || {
            let connection = inner.connection.clone();
            Box::pin(async move { connection.read_datagram().await }) as _
        };
        let received = inner.receiving.poll(&reactor.waker(token), begin).transpose();
        let received = received.map_err(|error| of_connection(&error))?;
        Ok(received.map(|data| PyBytes::new(py, &data)))
    }

    /// Most bytes of a datagram now; None if the peer takes none.
    #[getter]
    fn datagram_bytes_max(&self) -> PyResult<Option<usize>> {
        Ok(self.0.get()?.connection.datagram_bytes_max())
    }

    /// The same for one with a kind or a deadline, which is cut if it fits no packet.
    #[getter]
    fn any_datagram_bytes_max(&self) -> PyResult<Option<usize>> {
        Ok(self.0.get()?.connection.any_datagram_bytes_max())
    }

    #[getter]
    fn remote(&self) -> PyResult<String> {
        Ok(self.0.get()?.connection.remote_address().to_string())
    }

    /// The peer's key, a line; None if it has shown none.
    #[getter]
    fn peer_key(&self) -> PyResult<Option<String>> {
        Ok(match self.0.get()?.connection.peer_identity() {
            Some(PeerIdentity::RawKey(key)) => Some(key.to_line("")),
            _ => None,
        })
    }

    /// Why the connection has ended, None as long as it has not.
    #[getter]
    fn close_reason(&self) -> PyResult<Option<String>> {
        Ok(self.0.get()?.connection.close_reason().map(|error| error.to_string()))
    }

    /// Counts and current values.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.get()?.connection.stats();
        let out = PyDict::new(py);
        let rate = |rate: Option<fulmar::Rate>| rate.map(|rate| rate.bits_per_second());
        out.set_item("profile", &stats.profile)?;
        out.set_item("rtt", stats.path.rtt.as_secs_f64())?;
        out.set_item("rtt_min", stats.path.rtt_min.as_secs_f64())?;
        out.set_item("window_bytes", stats.path.window_bytes)?;
        out.set_item("in_flight_bytes", stats.path.in_flight_bytes)?;
        out.set_item("pacing_bps", rate(stats.path.pacing))?;
        out.set_item("bandwidth_bps", rate(stats.path.bandwidth))?;
        out.set_item("loss", stats.path.loss.rate)?;
        out.set_item("loss_before_repair", stats.loss_before_repair())?;
        out.set_item("loss_after_repair", stats.loss_after_repair())?;
        out.set_item("overhead", stats.overhead())?;
        out.set_item("sent_packets", stats.wire.sent_datagrams)?;
        out.set_item("sent_bytes", stats.wire.sent_bytes)?;
        out.set_item("received_packets", stats.wire.received_datagrams)?;
        out.set_item("received_bytes", stats.wire.received_bytes)?;
        out.set_item("lost_packets", stats.recovery.lost_packets)?;
        out.set_item("datagrams_sent", stats.datagrams_sent)?;
        out.set_item("datagrams_received", stats.datagrams_received)?;
        out.set_item("datagrams_dropped", stats.datagrams_dropped)?;
        out.set_item("datagrams_repaired", stats.datagrams.repaired)?;
        out.set_item("datagrams_late", stats.datagrams.late + stats.datagrams.expired)?;
        out.set_item("mtu_bytes", stats.path.mtu_bytes)?;
        Ok(out)
    }

    /// Closes at once.
    fn close(&self, code: u64, reason: &[u8]) -> PyResult<()> {
        self.0.get()?.connection.close(code, reason);
        Ok(())
    }

    /// Delivers everything, then closes.
    fn shutdown(&self, py: Python<'_>, code: u64, reason: &[u8], timeout: Option<f64>) -> PyResult<()> {
        let inner = self.0.get()?;
        let ended = self.0.process().wait(py, timeout, inner.connection.shutdown(code, reason))?;
        ended.map_err(|error| of_connection(&error))
    }

    /// True once that is done.
    fn poll_shutdown(
        &self,
        code: u64,
        reason: &[u8],
        reactor: &Reactor,
        token: u64,
    ) -> PyResult<Option<bool>> {
        let inner = self.0.get()?;
        let begin = || {
            let (connection, reason) = (inner.connection.clone(), reason.to_vec());
            Box::pin(async move { connection.shutdown(code, &reason).await }) as _
        };
        let ended = inner.ending.poll(&reactor.waker(token), begin).transpose();
        ended.map(|ended| ended.map(|()| true)).map_err(|error| of_connection(&error))
    }
}
