//! Systems that are not asked what happens to the machine: a connection finds out by silence.

use std::future::pending;
use std::io;

/// Addresses and routes of this machine.
#[derive(Debug)]
pub struct Routes;

impl Routes {
    /// Nothing is seen.
    pub fn watch() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never resolves.
    pub async fn changed(&mut self) -> io::Result<()> {
        pending().await
    }
}

/// When this machine sleeps.
#[derive(Debug)]
pub struct Sleep;

impl Sleep {
    /// Nothing is seen.
    pub fn watch() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never resolves.
    pub async fn ended(&mut self) -> io::Result<()> {
        pending().await
    }
}
