//! Exceptions. Time that runs out is Python's own TimeoutError.

use fulmar::identity::{HostError, StoreError};
use fulmar::{ConnectionError, FinishError, ReadError, SendDatagramError, WriteError};
use pyo3::exceptions::{PyException, PyTimeoutError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(fulmar, Error, PyException, "What Fulmar fails with.");
pyo3::create_exception!(
    fulmar,
    Closed,
    Error,
    "The connection has ended; args are a text and the peer's code."
);
pyo3::create_exception!(
    fulmar,
    StreamReset,
    Error,
    "The peer reset the stream; args are a text and the code."
);
pyo3::create_exception!(
    fulmar,
    StreamStopped,
    Error,
    "The peer wants no more; args are a text and the code."
);
pyo3::create_exception!(
    fulmar,
    Untrusted,
    Error,
    "The server's key is not known, or is another than before."
);

pub(crate) fn of_connection(error: &ConnectionError) -> PyErr {
    match error {
        ConnectionError::TimedOut => PyTimeoutError::new_err("the peer was silent for too long"),
        ConnectionError::ApplicationClosed { code, .. } => Closed::new_err((error.to_string(), *code)),
        _ => Closed::new_err((error.to_string(), 0u64)),
    }
}

pub(crate) fn of_read(error: &ReadError) -> PyErr {
    match error {
        ReadError::Reset(code) => StreamReset::new_err((error.to_string(), *code)),
        ReadError::ConnectionLost(why) => of_connection(why),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn of_write(error: &WriteError) -> PyErr {
    match error {
        WriteError::Stopped(code) => StreamStopped::new_err((error.to_string(), *code)),
        WriteError::ConnectionLost(why) => of_connection(why),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn of_finish(error: &FinishError) -> PyErr {
    match error {
        FinishError::Stopped(code) => StreamStopped::new_err((error.to_string(), *code)),
        FinishError::ConnectionLost(why) => of_connection(why),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn of_datagram(error: &SendDatagramError) -> PyErr {
    match error {
        SendDatagramError::ConnectionLost(why) => of_connection(why),
        SendDatagramError::TooLarge { .. } => PyValueError::new_err(error.to_string()),
        _ => Error::new_err(error.to_string()),
    }
}

pub(crate) fn of_store(error: StoreError) -> PyErr {
    Error::new_err(error.to_string())
}

pub(crate) fn of_host(error: HostError) -> PyErr {
    match &error {
        HostError::KeyChanged { .. } | HostError::NotTrusted(_) => Untrusted::new_err(error.to_string()),
        HostError::Connection { error: ConnectionError::TimedOut, .. } => {
            PyTimeoutError::new_err(error.to_string())
        }
        _ => Error::new_err(error.to_string()),
    }
}
