//! What an event loop watches: one descriptor for everything that waits, readable once something may go on.
//! However many do, the loop is woken once and takes them all.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

/// Tokens of those that may go on, and the descriptor that says that there are some.
#[derive(Debug)]
struct Ready {
    tokens: Mutex<Vec<u64>>,
    signal: OwnedFd,
}

struct Token {
    ready: Arc<Ready>,
    token: u64,
}

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        let mut tokens = self.ready.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push(self.token);
        if tokens.len() == 1 {
            // The counter is zero.
            let _ = rustix::io::write(&self.ready.signal, &1u64.to_ne_bytes());
        }
    }
}

/// One for each event loop.
#[pyclass(module = "fulmar", frozen)]
pub(crate) struct Reactor(Arc<Ready>);

impl Reactor {
    /// Says `token` when woken.
    pub(crate) fn waker(&self, token: u64) -> Waker {
        Waker::from(Arc::new(Token { ready: self.0.clone(), token }))
    }
}

#[pymethods]
impl Reactor {
    #[new]
    fn new() -> PyResult<Self> {
        let signal =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        Ok(Self(Arc::new(Ready { tokens: Mutex::default(), signal })))
    }

    /// The descriptor.
    fn fileno(&self) -> i32 {
        self.0.signal.as_raw_fd()
    }

    /// Takes the tokens.
    fn drain(&self) -> Vec<u64> {
        let mut tokens = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing to read where it was woken in vain.
        let _ = rustix::io::read(&self.0.signal, &mut [0; 8]);
        std::mem::take(&mut *tokens)
    }
}
