//! Fulmar for Python, by hand: what the package `fulmar` is written over.
//!
//! Calls that wait release the interpreter ([`process::wait`]). For asyncio every operation can also be asked
//! once (`poll_...`): what is not there yet wakes a [`reactor`], whose one descriptor the event loop watches.
#![forbid(unsafe_op_in_unsafe_fn)]

mod connection;
mod data;
mod endpoint;
mod error;
mod keys;
mod lab;
mod pending;
mod process;
mod reactor;
mod stream;

/// The module.
#[pyo3::pymodule(name = "_fulmar")]
mod module {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::endpoint::Endpoint;
    #[pymodule_export]
    use crate::error::{Closed, Error, StreamReset, StreamStopped, Untrusted};
    #[pymodule_export]
    use crate::keys::Identity;
    #[pymodule_export]
    use crate::keys::key_fingerprint;
    #[pymodule_export]
    use crate::lab::{run_experiment, simulate, simulate_random, simulate_series};
    #[pymodule_export]
    use crate::reactor::Reactor;
    #[pymodule_export]
    use crate::stream::Stream;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
