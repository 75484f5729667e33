//! A system without Unix sockets: none can be listened at, and none is a target.

use std::io;

use super::halves::BoxedHalves;

/// There is none.
#[derive(Debug)]
pub enum UnixListener {}

impl UnixListener {
    /// Fails.
    pub async fn bind(path: &str) -> io::Result<Self> {
        Err(none(path))
    }

    /// Nobody comes.
    pub async fn accept(&self) -> io::Result<BoxedHalves> {
        match *self {}
    }
}

/// Fails.
pub async fn connect(path: &str) -> io::Result<BoxedHalves> {
    Err(none(path))
}

fn none(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{path}: this system has no Unix sockets"))
}
