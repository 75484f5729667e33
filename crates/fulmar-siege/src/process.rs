//! Programs that say when they are ready.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Starts a program whose first line is JSON and says that it is ready. What it says from then on is not read
/// by anybody, but does not fill the pipe.
pub(crate) fn ready(command: &mut Command) -> io::Result<(Child, Value)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::NotConnected)?).lines();
    let said = lines.next();
    let line = said.as_ref().and_then(|line| serde_json::from_str(line.as_ref().ok()?).ok());
    let Some(line) = line else {
        let _ = child.kill();
        let _ = child.wait();
        let mut complained = String::new();
        let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut complained));
        return Err(io::Error::other(format!("it does not start: {said:?} {complained}")));
    };
    std::thread::spawn(move || lines.for_each(drop));
    Ok((child, line))
}
