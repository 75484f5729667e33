//! The program that is run: started with the library before its C library, told what we are told, and
//! outlived.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use fulmar_carry::{LIBRARY, SOCKET_VARIABLE};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;

const PRELOAD: &str = "LD_PRELOAD";

/// Signals that the program is told: those that ask a program to do something.
const TOLD: [Signal; 6] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// Finds the preloaded library: beside this program, or in `../lib`.
pub fn library() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let own = own.map_err(|e| Failure::Other(format!("where this program lies is unknown: {e}")))?;
    let beside = own.parent().unwrap_or(Path::new("/")).to_owned();
    let places = [
        beside.join(LIBRARY),
        beside.join("../lib/fulmar").join(LIBRARY),
        beside.join("../lib").join(LIBRARY),
    ];
    let found = places.into_iter().find(|place| place.is_file());
    let missing = || {
        Failure::File(format!(
            "{LIBRARY} is neither in {0} nor in {0}/../lib: it belongs to an installation of fulmar, and `cargo build -p \
             fulmar-preload` makes it",
            beside.display()
        ))
    };
    let library = found.ok_or_else(missing)?;
    // ld.so(8) separates libraries by these, and knows no quotes.
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::File(format!(
            "{}: a path with a space or a colon cannot be preloaded",
            library.display()
        )));
    }
    Ok(library)
}

/// Starts the program.
pub fn start(program: &[OsString], library: &Path, broker: &Path) -> Result<Child, Failure> {
    let [name, arguments @ ..] = program else {
        return Err(Failure::Usage("which program?".into()));
    };
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(name);
    command.args(arguments).env(PRELOAD, preload).env(SOCKET_VARIABLE, broker);
    command.spawn().map_err(|e| Failure::File(format!("{}: {e}", OsStr::display(name))))
}

/// What we are told while the program runs. Made before it starts, so that nothing gets lost.
#[derive(Debug)]
pub struct Told(tokio::sync::mpsc::Receiver<Signal>);

impl Told {
    /// From now on signals do not end this process, but arrive here.
    pub fn listen() -> Result<Self, Failure> {
        let broken = |e: std::io::Error| Failure::Other(format!("signals cannot be heard: {e}"));
        let (send, told) = tokio::sync::mpsc::channel(TOLD.len());
        for kind in TOLD {
            let mut stream = signal(SignalKind::from_raw(kind.as_raw())).map_err(broken)?;
            let send = send.clone();
            tokio::spawn(
                async move { while stream.recv().await.is_some() && send.send(kind).await.is_ok() {} },
            );
        }
        Ok(Self(told))
    }
}

impl Told {
    /// Resolves when we are told anything.
    pub async fn anything(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for the program's end, and passes on what it is to be told.
pub async fn wait(child: &mut Child, told: &mut Told) -> Result<ExitStatus, Failure> {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    loop {
        tokio::select! {
            status = child.wait() => {
                return status.map_err(|e| Failure::Other(format!("the program cannot be watched: {e}")));
            }
            Some(kind) = told.0.recv() => {
                let is_from_keys = matches!(kind, Signal::INT | Signal::QUIT) && is_in_foreground();
                if let (false, Some(pid)) = (is_from_keys, pid) {
                    // One that has just ended needs to be told nothing.
                    let _ = kill_process(pid, kind);
                }
            }
        }
    }
}

/// Does the terminal send its signals to this process and the program alike?
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| rustix::termios::tcgetpgrp(&terminal) == Ok(getpgrp()))
}

/// Ends as the program has ended.
pub fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // Whoever waits for us learns of the signal, as a shell does that runs the program in a loop.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return ExitCode::from(128 + (signal & 0x7f) as u8);
    }
    ExitCode::from(status.code().unwrap_or(1) as u8)
}
