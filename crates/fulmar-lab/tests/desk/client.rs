//! A program that serves a page, and what asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(90);

/// A started `fulmar-lab operator` or `controller`; stopped when dropped.
pub(crate) struct Desk {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) folder: PathBuf,
    _temp: Option<tempfile::TempDir>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
}

/// The clone that the tests run in.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

impl Desk {
    /// An operator with results of its own.
    pub(crate) fn operator() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("desk");
        let mut command = lab();
        command.args(["operator", "--listen", "127.0.0.1:0", "--no-open"]);
        Self::start(command, folder, Some(temp))
    }

    /// Whatever serves a page, with its runs in `folder`.
    pub(crate) fn start(mut command: Command, folder: PathBuf, temp: Option<tempfile::TempDir>) -> Self {
        command.arg("--out").arg(&folder).arg("--experiments").arg(root().join("experiments"));
        command.arg("--report").arg(root().join("docs/results")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (base, token) = line.trim().split_once("/?token=").expect("a URL with a token");
        let address = base.strip_prefix("http://").unwrap().to_owned();
        Self { child, address, token: token.to_owned(), folder, _temp: temp }
    }

    /// A request with headers of the caller's choice.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {}\r\n", self.address);
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("the end of a head");
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: all[end + 4..].to_vec() }
    }

    fn with_token(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.ask(method, path, &[("authorization", &bearer)], body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.with_token("GET", path, b"")
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        self.with_token(method, path, body.as_bytes())
    }

    /// Starts a run, and returns its id.
    pub(crate) fn run(&self, spec: &Value) -> String {
        let answer = self.send("POST", "/api/runs", &spec.to_string());
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Asks until it is so.
    pub(crate) fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = self.get(path).json();
            if is_so(&found) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the end of a run.
    pub(crate) fn finished(&self, id: &str) -> Value {
        let is_over = |run: &Value| !matches!(run["status"].as_str(), Some("queued" | "running"));
        self.until(&format!("/api/runs/{id}"), is_over)
    }

    /// Listens to events. Each is a name and what it says.
    pub(crate) fn events(&self) -> impl Iterator<Item = (String, Value)> + use<> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, token) = (&self.address, &self.token);
        write!(
            stream,
            "GET /api/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        let mut name = String::new();
        // The lengths of chunks stand in lines between.
        BufReader::new(stream).lines().map_while(Result::ok).filter_map(move |line| {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            }
            Some((name.clone(), serde_json::from_str(line.strip_prefix("data: ")?).ok()?))
        })
    }

    /// Whether the bridge can be; tests that need it pass without it, and say so.
    pub(crate) fn has_bridge(&self) -> bool {
        let state = self.until("/api/state", |state| {
            let agents = state["agents"].as_array().unwrap();
            agents.iter().filter(|agent| agent["connected"] == true).count() == 2
        });
        let real = &state["drivers"][0];
        if real["available"] != true {
            println!("skipped: {}", real["missing"]);
        }
        real["available"] == true
    }

    /// Processes that the program has started, by a word of their command line.
    pub(crate) fn children(&self, word: &str) -> Vec<u32> {
        let parent = self.child.id().to_string();
        let numbers = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_child = |number: &u32| {
            let read =
                |file: &str| std::fs::read_to_string(format!("/proc/{number}/{file}")).unwrap_or_default();
            let stat = read("stat");
            let of = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1).map(str::to_owned));
            of.as_deref() == Some(&parent) && read("cmdline").split('\0').any(|part| part == word)
        };
        numbers.filter(is_child).collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        signal("TERM", self.child.id());
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(name: &str, process: u32) {
    let _ =
        Command::new("kill").args([format!("-{name}"), process.to_string()]).stderr(Stdio::null()).status();
}

pub(crate) fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // One that nobody has waited for is gone all the same.
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
