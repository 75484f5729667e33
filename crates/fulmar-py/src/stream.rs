//! A stream, or the half of one.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fulmar::{ClosedStream, RecvStream, SendStream};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::data::{self, Data};
use crate::error::{StreamStopped, of_connection, of_finish, of_read, of_write};
use crate::pending::poll_once;
use crate::process::{Kept, Process};
use crate::reactor::Reactor;

struct Inner {
    send: Option<Mutex<SendStream>>,
    receive: Option<Mutex<RecvStream>>,
}

/// One end of a stream.
#[pyclass(module = "fulmar", frozen)]
pub(crate) struct Stream(Kept<Inner>);

/// Only one call at a time waits on a half.
fn lock<'a, T>(half: Option<&'a Mutex<T>>, is_missing: &'static str) -> PyResult<MutexGuard<'a, T>> {
    let half = half.ok_or_else(|| PyValueError::new_err(is_missing))?;
    match half.try_lock() {
        Ok(half) => Ok(half),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        Err(std::sync::TryLockError::WouldBlock) => {
            Err(PyRuntimeError::new_err("another thread waits on this half of the stream"))
        }
    }
}

impl Stream {
    pub(crate) fn new((send, receive): (Option<SendStream>, Option<RecvStream>), process: Process) -> Self {
        let inner = Inner { send: send.map(Mutex::new), receive: receive.map(Mutex::new) };
        Self(Kept::new(inner, process))
    }

    fn sending(&self) -> PyResult<MutexGuard<'_, SendStream>> {
        lock(self.0.get()?.send.as_ref(), "this stream only receives")
    }

    fn receiving(&self) -> PyResult<MutexGuard<'_, RecvStream>> {
        lock(self.0.get()?.receive.as_ref(), "this stream only sends")
    }

    /// Up to `bytes_max` bytes; none at the end.
    fn chunk(&self, py: Python<'_>, bytes_max: usize, timeout: Option<f64>) -> PyResult<Bytes> {
        let mut receive = self.receiving()?;
        if bytes_max == 0 {
            return Ok(Bytes::new());
        }
        let read = self.0.process().wait(py, timeout, receive.read_chunk(bytes_max))?;
        Ok(read.map_err(|error| of_read(&error))?.unwrap_or_default())
    }

    fn poll_chunk(&self, bytes_max: usize, reactor: &Reactor, token: u64) -> PyResult<Option<Bytes>> {
        let mut receive = self.receiving()?;
        if bytes_max == 0 {
            return Ok(Some(Bytes::new()));
        }
        let read = poll_once(pin!(receive.read_chunk(bytes_max)), &reactor.waker(token));
        Ok(read.transpose().map_err(|error| of_read(&error))?.map(Option::unwrap_or_default))
    }
}

#[pymethods]
impl Stream {
    /// The stream's number.
    #[getter]
    fn id(&self) -> PyResult<u64> {
        match self.receiving() {
            Ok(receive) => Ok(receive.id().0),
            Err(_) => Ok(self.sending()?.id().0),
        }
    }

    #[getter]
    fn can_send(&self) -> PyResult<bool> {
        Ok(self.0.get()?.send.is_some())
    }

    #[getter]
    fn can_receive(&self) -> PyResult<bool> {
        Ok(self.0.get()?.receive.is_some())
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        bytes_max: usize,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.chunk(py, bytes_max, timeout)?))
    }

    fn poll_read<'py>(
        &self,
        py: Python<'py>,
        bytes_max: usize,
        reactor: &Reactor,
        token: u64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.poll_chunk(bytes_max, reactor, token)?.map(|chunk| PyBytes::new(py, &chunk)))
    }

    fn readinto(&self, py: Python<'_>, buffer: PyBuffer<u8>, timeout: Option<f64>) -> PyResult<usize> {
        // Nothing is read that could not be put.
        data::fill(py, &buffer, &[])?;
        let chunk = self.chunk(py, buffer.len_bytes(), timeout)?;
        data::fill(py, &buffer, &chunk)?;
        Ok(chunk.len())
    }

    fn poll_readinto(
        &self,
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        reactor: &Reactor,
        token: u64,
    ) -> PyResult<Option<usize>> {
        data::fill(py, &buffer, &[])?;
        let Some(chunk) = self.poll_chunk(buffer.len_bytes(), reactor, token)? else { return Ok(None) };
        data::fill(py, &buffer, &chunk)?;
        Ok(Some(chunk.len()))
    }

    /// Writes all of it.
    fn write(&self, py: Python<'_>, data: Data, timeout: Option<f64>) -> PyResult<()> {
        let mut half = self.sending()?;
        let send: &mut SendStream = &mut half;
        let mut written = 0;
        let writing = async {
            while written < data.len() {
                written += send.write(&data[written..]).await?;
            }
            Ok(())
        };
        let result = self.0.process().wait(py, timeout, writing);
        match result {
            Ok(result) => result.map_err(|error| of_write(&error)),
            Err(error) if error.is_instance_of::<PyTimeoutError>(py) => {
                let text = format!("timed out after {written} of {} bytes", data.len());
                Err(PyTimeoutError::new_err((text, written)))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes some, from `offset`.
    fn poll_write(
        &self,
        data: Data,
        offset: usize,
        reactor: &Reactor,
        token: u64,
    ) -> PyResult<Option<usize>> {
        let mut send = self.sending()?;
        let rest = data.get(offset..).unwrap_or_default();
        let written = poll_once(pin!(send.write(rest)), &reactor.waker(token));
        written.transpose().map_err(|error| of_write(&error))
    }

    fn finish(&self) -> PyResult<()> {
        self.sending()?.finish().map_err(|error| of_finish(&error))
    }

    fn reset(&self, code: u64) -> PyResult<()> {
        self.sending()?.reset(code).map_err(|ClosedStream| PyValueError::new_err("the stream is over"))
    }

    fn stop(&self, code: u64) -> PyResult<()> {
        self.receiving()?.stop(code).map_err(|ClosedStream| PyValueError::new_err("the stream is over"))
    }

    fn set_priority(&self, priority: i32) -> PyResult<()> {
        let set = self.sending()?.set_priority(priority);
        set.map_err(|ClosedStream| PyValueError::new_err("the stream is over"))
    }

    /// Waits until the peer has all of a stream that was finished.
    fn delivered(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let mut send = self.sending()?;
        match self.0.process().wait(py, timeout, send.stopped())?.map_err(|error| of_connection(&error))? {
            None => Ok(()),
            Some(code) => Err(StreamStopped::new_err(("stopped by the peer", code))),
        }
    }

    fn poll_delivered(&self, reactor: &Reactor, token: u64) -> PyResult<Option<bool>> {
        let mut send = self.sending()?;
        let fate = poll_once(pin!(send.stopped()), &reactor.waker(token)).transpose();
        match fate.map_err(|error| of_connection(&error))? {
            None => Ok(None),
            Some(None) => Ok(Some(true)),
            Some(Some(code)) => Err(StreamStopped::new_err(("stopped by the peer", code))),
        }
    }
}
