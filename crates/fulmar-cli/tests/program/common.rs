//! The program as a program: runs the real binary, each with a home of its own, in folders that go away.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on the slowest machine; only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A user: a `FULMAR_HOME`.
pub(crate) struct Home(TempDir);

impl Home {
    /// A user without a key.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A user with a new key.
    pub(crate) fn new() -> Self {
        let home = Self::empty();
        home.run(&["keygen"]).success();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The line for another's `authorized_keys`.
    pub(crate) fn public_key(&self) -> String {
        self.run(&["keygen", "--json"]).json()["public_key"].as_str().unwrap().to_owned()
    }

    /// Lets a client in.
    pub(crate) fn authorize(&self, client: &Home) {
        fs::write(self.path().join("authorized_keys"), format!("# friends\n{}\n", client.public_key()))
            .unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        command.args(arguments).env("FULMAR_HOME", self.path()).stdin(Stdio::null());
        // The proxy of this machine leads out of it.
        for name in ["RUST_LOG", "SSLKEYLOGFILE", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        let output = self.command(arguments).output().unwrap();
        Finished { output, what: arguments.join(" ") }
    }

    /// Starts the program; it ends with the value that is returned.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Serves a folder at any port of loopback.
    pub(crate) fn serve(&self, root: &Path) -> Server {
        self.serve_at(root, "127.0.0.1:0", &[])
    }

    pub(crate) fn serve_at(&self, root: &Path, listen: &str, more: &[&str]) -> Server {
        let arguments = ["serve", "--json", "--listen", listen, "--root", root.to_str().unwrap()];
        Server::start(self.command(&[&arguments[..], more].concat()))
    }
}

/// A program that has ended.
pub(crate) struct Finished {
    output: Output,
    what: String,
}

impl Finished {
    pub(crate) fn code(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    pub(crate) fn success(self) -> Self {
        self.fails_with(0)
    }

    #[track_caller]
    pub(crate) fn fails_with(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "fulmar {}\n{}\n{}", self.what, self.stdout(), self.stderr());
        self
    }

    /// Fails the test unless the program has said this to people.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        let all = self.stdout() + &self.stderr();
        assert!(all.contains(words), "fulmar {} does not say {words:?}:\n{all}", self.what);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout())
            .unwrap_or_else(|e| panic!("{e} in {:?} {}", self.stdout(), self.stderr()))
    }
}

/// A program that runs. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The first line that it says, as JSON; what it says later is not heard.
    #[track_caller]
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            self.child.stderr.take().unwrap().read_to_string(&mut line).unwrap();
            panic!("it says nothing: {line}");
        }
        serde_json::from_str(&line).unwrap()
    }

    /// As Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// As `kill`.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Finished {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let reading = std::thread::spawn(move || {
            stderr.unwrap().read_to_end(&mut err).unwrap();
            err
        });
        if let Some(mut stdout) = stdout {
            stdout.read_to_end(&mut out).unwrap();
        }
        let status = self.child.wait().unwrap();
        let output = Output { status, stdout: out, stderr: reading.join().unwrap() };
        Finished { output, what: "(in the background)".into() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that has said where it listens.
pub(crate) struct Server {
    running: Running,
    pub(crate) address: SocketAddr,
    /// What it said when it was ready.
    pub(crate) first: Value,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Server {
    pub(crate) fn start(command: Command) -> Self {
        let server = Self::start_any(command);
        assert_ne!(server.address.port(), 0, "{}", server.first);
        server
    }

    /// Also one that listens at several addresses, or none.
    pub(crate) fn start_any(command: Command) -> Self {
        let mut running = Running::start(command);
        let stdout = running.child.stdout.take().unwrap();
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        let first = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let mut error = String::new();
            let _ = running.child.stderr.take().unwrap().read_to_string(&mut error);
            panic!("the server says nothing: {error}")
        });
        let first: Value = serde_json::from_str(&first).unwrap();
        let address = first["address"].as_str().or(first["listening"].as_str());
        let address = address.map_or(SocketAddr::from(([0; 4], 0)), |address| address.parse().unwrap());
        Self { running, address, first, lines }
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }

    pub(crate) fn kill(&mut self) {
        self.running.kill();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A number that `/proc/PID/status` gives: `Threads`, `VmRSS`.
    pub(crate) fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn interrupt(&self) {
        self.running.interrupt();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// The next event that it reports.
    #[track_caller]
    pub(crate) fn event(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).expect("an event")).unwrap()
    }

    /// The next event of this kind.
    #[track_caller]
    pub(crate) fn event_of(&self, kind: &str) -> Value {
        loop {
            let event = self.event();
            if event["event"] == kind {
                return event;
            }
        }
    }

    pub(crate) fn wait(self) -> Finished {
        let Self { mut running, lines, .. } = self;
        let mut err = Vec::new();
        running.child.stderr.take().unwrap().read_to_end(&mut err).unwrap();
        let status = running.child.wait().unwrap();
        let stdout = lines.iter().collect::<Vec<_>>().join("\n").into_bytes();
        Finished { output: Output { status, stdout, stderr: err }, what: "(server)".into() }
    }
}

/// A folder that goes away, with what is needed in it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path of a file as an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        self.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file that nothing compresses, different for each seed.
    pub(crate) fn write(&self, name: &str, bytes: usize, seed: u8) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut content = vec![0; bytes];
        blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut content);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub(crate) fn assert_same(a: &Path, b: &Path) {
    let (left, right) = (fs::read(a).unwrap(), fs::read(b).unwrap());
    assert!(left == right, "{} and {} differ", a.display(), b.display());
}
