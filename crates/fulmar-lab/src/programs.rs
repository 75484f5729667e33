//! Any two programs at the ends of the bridge.
//!
//! A command is a line for `sh -c`, in which `{server}` stands for the receiving end's address and `{client}`
//! for the other's; the same is in the environment as FULMAR_LAB_SERVER and FULMAR_LAB_CLIENT. Nothing else
//! is ever put into a line: what varies from run to run is in the environment too. Each runs in a process
//! namespace of its own, so that nothing it has started outlives the run. If the client prints a JSON object,
//! it goes into the result.

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant as Clock};

use serde::Serialize;

use crate::bridge::{Bridge, CLIENT_ADDRESS, End, SERVER_ADDRESS, TcpSettings};
use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::sys;
use processor::ProcessorTime;

mod processor;

/// What is run.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The link between the ends.
    pub link: LinkSpec,
    /// Command line at the receiving end; it is ended when the client has.
    pub server: String,
    /// Command line at the sending end.
    pub client: String,
    /// What both find in their environment beside the addresses.
    pub environment: Vec<(OsString, OsString)>,
    /// From the start of the server to that of the client.
    pub settle: Duration,
    /// The client is ended after this.
    pub limit: Duration,
    /// Settings of the kernel's TCP.
    pub settings: TcpSettings,
    /// Bound on the bridge's lateness.
    pub lateness_p99_max: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Finished {
    /// Links and lateness; goodput as far as the client's own JSON says it.
    pub outcome: Outcome,
    /// The client's exit status; none if a signal ended it.
    pub exit_status: Option<i32>,
    /// How long the client ran.
    pub client_seconds: f64,
    /// What both ends took of the processor meanwhile; iperf3, which makes data for others, left out.
    pub processor_seconds: f64,
    /// The last JSON object the server printed.
    pub server: Option<serde_json::Value>,
    /// The last JSON object the client printed.
    pub client: Option<serde_json::Value>,
    /// What the client printed, whole.
    pub output: String,
}

/// What came of one program.
struct Ended {
    exit_status: Option<i32>,
    output: Vec<u8>,
    processor: Duration,
}

/// A program that is running, and ends when this is dropped.
struct Running {
    /// Told to end it.
    end: mpsc::Sender<()>,
    ended: mpsc::Receiver<io::Result<Ended>>,
}

impl Running {
    /// Starts a command at an end. Its thread lives as long as the command, which dies with it.
    fn start(end: &End, line: &str, environment: &[(OsString, OsString)]) -> Self {
        let (tell_end, told_end) = mpsc::channel::<()>();
        let (tell_ended, ended) = mpsc::channel();
        let (end, line, environment) = (end.clone(), substituted(line), environment.to_owned());
        std::thread::spawn(move || {
            // Nobody listens any more if the run has failed elsewhere.
            let _ = tell_ended.send(run_command(&end, &line, &environment, &told_end));
        });
        Self { end: tell_end, ended }
    }

    fn wait(&self, limit: Duration) -> Option<io::Result<Ended>> {
        self.ended.recv_timeout(limit).ok()
    }

    fn stop(&self) -> io::Result<Ended> {
        // It may have ended already.
        let _ = self.end.send(());
        self.ended.recv().unwrap_or_else(|_| Err(io::Error::other("its thread died")))
    }
}

fn run_command(
    end: &End,
    line: &str,
    environment: &[(OsString, OsString)],
    told_end: &mpsc::Receiver<()>,
) -> io::Result<Ended> {
    end.enter()?;
    let (mut from_command, to_output) = io::pipe()?;
    // Started first: a thread with a process namespace for its children cannot start threads.
    let output = std::thread::spawn(move || {
        let mut output = Vec::new();
        // What can be read before the pipe breaks is all there is.
        let _ = from_command.read_to_end(&mut output);
        output
    });
    let mut child = {
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).stdin(Stdio::null());
        // The writing end is closed here once the command has it, or the output would never end.
        command.stdout(Stdio::from(to_output));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        for (name, address) in [("SERVER", SERVER_ADDRESS), ("CLIENT", CLIENT_ADDRESS)] {
            command.env(format!("FULMAR_LAB_{name}"), Ipv4Addr::from(address).to_string());
        }
        sys::die_together(&mut command)?;
        let child = command.spawn()?;
        sys::prefer_session(child.id());
        child
    };
    let mut processor = ProcessorTime::of_session(child.id());
    let status = loop {
        processor.look();
        if let Some(status) = child.try_wait()? {
            break status;
        }
        match told_end.recv_timeout(Duration::from_millis(5)) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                child.kill()?;
                break child.wait()?;
            }
        }
    };
    let output = output.join().unwrap_or_default();
    Ok(Ended { exit_status: status.code(), output, processor: processor.taken() })
}

fn substituted(line: &str) -> String {
    line.replace("{server}", &Ipv4Addr::from(SERVER_ADDRESS).to_string())
        .replace("{client}", &Ipv4Addr::from(CLIENT_ADDRESS).to_string())
}

/// Folders with programs: this program's own comes first, so that `fulmar` is the one built with it.
pub(crate) fn search_path() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(std::env::split_paths(&path)).collect()
}

/// Runs two programs over one link in real time.
///
/// # Errors
/// If the bridge cannot be, or a program does not start, or the server ends first.
pub fn run(programs: &Programs, seed: u64) -> Result<Finished, String> {
    let bridge = Bridge::start(&programs.link, seed, programs.settings, false)?;
    let words = |who: &str, error: io::Error| format!("the {who} does not run: {error}");
    let server = Running::start(&bridge.server, &programs.server, &programs.environment);
    if let Some(ended) = server.wait(programs.settle) {
        let ended = ended.map_err(|error| words("server", error))?;
        return Err(format!(
            "the server ended at once, with status {}",
            ended.exit_status.map_or("none".into(), |s| s.to_string())
        ));
    }
    let began = Clock::now();
    let client = Running::start(&bridge.client, &programs.client, &programs.environment);
    let (ended, is_late) = match client.wait(programs.limit) {
        Some(ended) => (ended, false),
        None => (client.stop(), true),
    };
    let client = ended.map_err(|error| words("client", error))?;
    let client_seconds = began.elapsed().as_secs_f64();
    let server = server.stop().map_err(|error| words("server", error))?;
    let mut outcome = Outcome { seed, seconds: client_seconds, jain: 1.0, ..Outcome::default() };
    bridge.finish(programs.lateness_p99_max, &mut outcome)?;
    if is_late {
        outcome.remarks.push("the client was ended at the time limit".into());
    }
    let output = String::from_utf8_lossy(&client.output).into_owned();
    let json = last_json(&output);
    outcome.goodput_mbps = json.as_ref().and_then(goodput).unwrap_or(0.0);
    Ok(Finished {
        outcome,
        exit_status: client.exit_status,
        client_seconds,
        processor_seconds: (client.processor + server.processor).as_secs_f64(),
        server: last_json(&String::from_utf8_lossy(&server.output)),
        client: json,
        output,
    })
}

/// The last JSON object of an output that may have other lines.
fn last_json(output: &str) -> Option<serde_json::Value> {
    let whole = serde_json::from_str(output).ok();
    let from_brace = || output.find("\n{").and_then(|at| serde_json::from_str(&output[at..]).ok());
    let by_line = || output.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    whole.or_else(from_brace).or_else(by_line).filter(serde_json::Value::is_object)
}

/// Goodput by the words of `fulmar perf` and of `iperf3 -J` (received).
fn goodput(json: &serde_json::Value) -> Option<f64> {
    let iperf =
        json.pointer("/end/sum_received/bits_per_second").and_then(|v| v.as_f64()).map(|bps| bps / 1e6);
    json.get("goodput_mbps").and_then(serde_json::Value::as_f64).or(iperf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_among_other_lines() {
        assert_eq!(last_json("connected\n{\"goodput_mbps\": 5.5}\n").as_ref().and_then(goodput), Some(5.5));
        let iperf = "{\n \"end\": {\"sum_received\": {\"bits_per_second\": 2e6}}\n}\n";
        assert_eq!(last_json(iperf).as_ref().and_then(goodput), Some(2.0));
        assert_eq!(last_json("nothing 5 here\n5\n"), None);
        assert_eq!(substituted("x {server}:1 {client}"), "x 10.77.0.2:1 10.77.0.1");
    }
}
