//! Network namespaces of the tests' own, so that nothing leaves the machine and addresses that are not
//! loopback exist.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// Says half of something to whoever comes to 203.0.113.7, and waits.
pub(crate) const HALF: &str = "import socket, time
s = socket.create_server(('203.0.113.7', 9000)); print('{\"address\": \"203.0.113.7:9000\"}', flush=True)
kept = []
while True: kept.append(s.accept()[0]); kept[-1].sendall(bytes(100000))";

/// Gets half of something, and says how it ends.
pub(crate) const GETS: &str = "import socket
s = socket.create_connection(('203.0.113.7', 9000), 30); got = 0
while got < 100000: got += len(s.recv(65536))
print('{\"event\": \"begun\"}', flush=True)
try: how = 'more' if s.recv(1) else 'end'
except ConnectionResetError: how = 'reset'
except TimeoutError: how = 'silence'
print('{\"event\": \"%s\"}' % how, flush=True)";

/// A network namespace; it goes away with the value.
pub(crate) struct Room {
    keeper: Child,
}

impl Room {
    /// A namespace in which `setup`, lines of a shell, was done. `None`, and said so, where that is not
    /// allowed.
    pub(crate) fn new(setup: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may make network namespaces");
            return None;
        }
        let script = format!("set -e\nip link set lo up\n{setup}\necho ready\nexec sleep 600");
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().expect("unshare (util-linux) runs");
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let room = Self { keeper };
        if line == "ready\n" { Some(room) } else { room.explain() }
    }

    fn explain(mut self) -> Option<Self> {
        let mut said = String::new();
        self.keeper.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        // A kernel without what the test needs is no fault of the program.
        eprintln!("skipped: a namespace could not be furnished: {said}");
        None
    }

    pub(crate) fn pid(&self) -> u32 {
        self.keeper.id()
    }

    /// The same command, inside.
    pub(crate) fn inside(&self, command: &Command) -> Command {
        let mut inner = Command::new("nsenter");
        inner.arg(format!("--net=/proc/{}/ns/net", self.pid())).arg("--").arg(command.get_program());
        inner.args(command.get_args()).stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inner.env(name, value),
                None => inner.env_remove(name),
            };
        }
        inner
    }

    /// A shell's command, inside.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        self.inside(command.args(["-c", script]))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Is there such a program? Says so if not.
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}
