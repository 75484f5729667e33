//! The threads that drive everything: made when first needed, and not there in a child after fork().

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::pending::poll_once;

/// How long a call waits before it looks whether somebody has pressed Ctrl-C.
const TICK: Duration = Duration::from_millis(50);
/// One drives more than a program in Python takes, some 10 Gb/s. Of two, each takes the other's tasks, and a
/// stream of bytes had two thirds of its speed (docs/languages.md).
const THREADS: usize = 1;

/// The threads, and whose they are.
#[derive(Clone)]
pub(crate) struct Process {
    runtime: Arc<Runtime>,
    pid: u32,
}

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

impl Process {
    /// This process's.
    pub(crate) fn current() -> PyResult<Self> {
        let pid = std::process::id();
        let mut current = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = current.as_ref().filter(|process| process.pid == pid) {
            return Ok(process.clone());
        }
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("fulmar").enable_all().build()?;
        let process = Self { runtime: Arc::new(runtime), pid };
        // After fork() the parent's threads are not here, and nothing of theirs may be touched.
        std::mem::forget(current.replace(process.clone()));
        Ok(process)
    }

    /// Fails in a child of the process that made this.
    pub(crate) fn check(&self) -> PyResult<()> {
        if self.pid == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "made before fork(): connections do not survive it; make new ones in the child",
        ))
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What `future` gives; where that takes time the interpreter is released meanwhile. After `limit`
    /// seconds: TimeoutError, and the future is dropped.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        limit: Option<f64>,
        future: impl Future<Output = T> + Send,
    ) -> PyResult<T> {
        self.check()?;
        let seconds =
            limit.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        let deadline = seconds.and_then(|limit| Instant::now().checked_add(limit));
        let mut future = std::pin::pin!(future);
        // To release the interpreter, wait and take it again costs more than to read what is there.
        let entered = self.runtime.enter();
        if let Some(value) = poll_once(future.as_mut(), Waker::noop()) {
            return Ok(value);
        }
        drop(entered);
        loop {
            let left = deadline.map_or(TICK, |at| at.saturating_duration_since(Instant::now()).min(TICK));
            let turn = || self.runtime.block_on(async { tokio::time::timeout(left, future.as_mut()).await });
            if let Ok(value) = py.detach(turn) {
                return Ok(value);
            }
            py.check_signals()?;
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return Err(PyTimeoutError::new_err("timed out"));
            }
        }
    }
}

/// Objects that outlive a fork in the child leave what they hold alone: the threads it belongs to are not
/// there.
pub(crate) struct Kept<T>(Option<T>, Process);

impl<T> Kept<T> {
    pub(crate) fn new(value: T, process: Process) -> Self {
        Self(Some(value), process)
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.1.check()?;
        self.0.as_ref().ok_or_else(|| PyRuntimeError::new_err("closed"))
    }

    pub(crate) fn process(&self) -> &Process {
        &self.1
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if self.1.check().is_err() {
            std::mem::forget((self.0.take(), self.1.clone()));
        }
    }
}
