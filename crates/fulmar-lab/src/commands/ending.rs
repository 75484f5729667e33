//! How a command ends: what its exit status tells whoever started it (sysexits.h), a scheduler for example.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not come to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// The same command may come to its end later, and goes on where it was: status 75 (`EX_TEMPFAIL`).
    Again(String),
    /// What was asked for cannot be: status 65 (`EX_DATAERR`).
    Never(String),
    /// Anything else: status 1.
    Other(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Again(reason) | Self::Never(reason) | Self::Other(reason)) = self;
        f.write_str(reason)
    }
}

impl Failure {
    const AGAIN: u8 = 75;

    fn status(&self) -> u8 {
        match self {
            Self::Again(_) => Self::AGAIN,
            Self::Never(_) => 65,
            Self::Other(_) => 1,
        }
    }
}

/// The status of a command; a failure is said on standard error.
pub(super) fn status(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fulmar-lab: {failure}");
            ExitCode::from(failure.status())
        }
    }
}

/// From now on SIGTERM and SIGINT end the process with the status that says "again": what has been done so
/// far is on disk at any moment.
#[cfg(unix)]
pub(super) fn end_in_order() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let (mut asked, mut interrupted) =
                (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            tokio::select! { _ = asked.recv() => {} _ = interrupted.recv() => {} }
            eprintln!("\nfulmar-lab: stopped; what was run is kept, and the same command goes on from there");
            std::process::exit(i32::from(Failure::AGAIN))
        })
    };
    // Where signals cannot be listened to they do what they always do.
    std::thread::spawn(move || drop(wait()));
}

/// Where there are no such signals the process ends as it always does.
#[cfg(not(unix))]
pub(super) fn end_in_order() {}
