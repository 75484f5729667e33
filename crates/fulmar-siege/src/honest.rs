//! Clients who want nothing but their files, each with a key of its own.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::castle::{Castle, LIBRARY};
use crate::chance::Chance;
use crate::field::Field;
use crate::meter::moved_bytes;
use crate::networks::Networks;

/// A copy that says nothing and moves nothing for so long hangs. (One whose server is killed every twenty
/// seconds may take longer, on a busy machine; it says so each time, and gives up if it gets nowhere. One
/// that a burst of other work slows down says nothing, and moves.)
const PATIENCE: Duration = Duration::from_secs(300);
/// Within [`LOOK_EVERY`] a copy that moves reads or writes a piece of its file; what wakes its tasks is far
/// less.
const MOVED_BYTES_MIN: u64 = 16 << 10;
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Ways to send that the clients ask for.
const PROFILES: [&str; 5] = ["auto", "cubic", "newreno", "ctcp", "tcp-fec"];

/// The key of who is let in and then misbehaves.
pub(crate) const GREEDY: &str = "greedy";

/// Makes a home for the server and each client; all may come in.
pub(crate) fn homes(field: &Field, count: usize) -> io::Result<Vec<PathBuf>> {
    let mut names: Vec<_> = (0..count).map(|index| format!("client{index}")).collect();
    names.extend(["server".to_owned(), GREEDY.to_owned()]);
    let mut keys = String::new();
    for name in &names {
        keys += &(key(field, name)? + "\n");
    }
    fs::write(field.folder.join("server/authorized_keys"), keys)?;
    Ok(names[..count].iter().map(|name| field.folder.join(name)).collect())
}

/// The public key of whoever has this home; it is made where there is none.
pub(crate) fn key(field: &Field, name: &str) -> io::Result<String> {
    let mut command = Command::new(&field.program);
    let output = command.args(["keygen", "--json"]).env("FULMAR_HOME", field.folder.join(name)).output();
    let output = output.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", field.program.display())))?;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(json["public_key"].as_str().unwrap_or_default().to_owned())
}

/// One client, to the end of the siege.
pub(crate) fn copy_all_the_time(
    field: &Arc<Field>,
    castle: &Castle,
    networks: &Networks,
    home: &Path,
    index: usize,
    mut chance: Chance,
) {
    let mut client = Client { field, home, uploaded: Default::default() };
    while !field.is_over() {
        let via = networks.pick(&mut chance);
        let done = match chance.below(3) {
            0 => client.download(castle, via, &mut chance),
            1 if castle.has_small_disk() => client.fill(via, index, &mut chance),
            _ => client.upload(castle, via, index, &mut chance),
        };
        if let Err(error) = done {
            field.verdict.complain(format!("the siege itself fails: {error}"));
            return;
        }
    }
}

/// One client that fetches a small file again and again, straight from the server.
pub(crate) fn fetch_all_the_time(field: &Arc<Field>, castle: &Castle, home: &Path, mut chance: Chance) {
    let client = Client { field, home, uploaded: Default::default() };
    let (name, _) = LIBRARY[1];
    let target = home.join("target").display().to_string();
    while !field.is_over() {
        let via = castle.address();
        if let Err(error) = client.copy(&there(via, name), &target, via, &mut chance) {
            field.verdict.complain(format!("the siege itself fails: {error}"));
            return;
        }
    }
}

struct Client<'a> {
    field: &'a Field,
    home: &'a Path,
    /// What may stand under this client's name on the server.
    uploaded: HashSet<[u8; 32]>,
}

/// How a copy ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Killed,
}

impl Client<'_> {
    fn upload(
        &mut self,
        castle: &Castle,
        via: SocketAddr,
        index: usize,
        chance: &mut Chance,
    ) -> io::Result<()> {
        let bytes = *chance.pick(&[0, 1, 70_000, 1_000_000, 5_000_000]);
        let content = chance.bytes(bytes);
        let (name, hash) = (format!("up/{index}"), *blake3::hash(&content).as_bytes());
        let source = self.home.join("source");
        fs::write(&source, &content)?;
        self.uploaded.insert(hash);
        let end = self.copy(&source.display().to_string(), &there(via, &name), via, chance)?;
        match fs::read(castle.root().join(&name)) {
            Ok(found) => {
                let found = *blake3::hash(&found).as_bytes();
                if !self.uploaded.contains(&found) {
                    self.field
                        .verdict
                        .complain(format!("{name} on the server is nothing that was ever sent"));
                } else if end == End::Done && found != hash {
                    self.field.verdict.complain(format!("{name} was stored, and another is there"));
                }
                if end == End::Done {
                    self.uploaded.retain(|known| *known == hash);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && end != End::Done => {}
            // Between one server and the next there is no way to look.
            Err(_) if !castle.root().exists() => {}
            Err(error) => self.field.verdict.complain(format!("{name} on the server: {error}")),
        }
        Ok(())
    }

    fn download(&self, castle: &Castle, via: SocketAddr, chance: &mut Chance) -> io::Result<()> {
        let (name, bytes) = *chance.pick(&LIBRARY);
        let target = self.home.join("target");
        let _ = fs::remove_file(&target);
        let end = self.copy(&there(via, name), &target.display().to_string(), via, chance)?;
        match fs::read(&target) {
            Ok(found) if found.len() == bytes => {
                // The library does not change, so this can wait until there is a server to look through.
                let original = fs::read(castle.root().join(name));
                if original.is_ok_and(|original| original != found) {
                    self.field.verdict.complain(format!("{name} arrived as something else"));
                }
            }
            Ok(found) => self.field.verdict.complain(format!("{name} arrived with {} bytes", found.len())),
            Err(_) if end != End::Done => {}
            Err(error) => self.field.verdict.complain(format!("{name} did not arrive: {error}")),
        }
        Ok(())
    }

    /// Onto the small disk, which is full most of the time: an error is as good as a file.
    fn fill(&self, via: SocketAddr, index: usize, chance: &mut Chance) -> io::Result<()> {
        let source = self.home.join("source");
        fs::write(&source, chance.bytes(2_000_000))?;
        self.copy(&source.display().to_string(), &there(via, &format!("small/{index}")), via, chance)
            .map(drop)
    }

    /// Runs the program; sometimes it is killed in the middle.
    fn copy(&self, from: &str, to: &str, via: SocketAddr, chance: &mut Chance) -> io::Result<End> {
        let mut command = Command::new(&self.field.program);
        command.args(["cp", "--json", "--accept-new", "--connect-timeout", "10", "--retries", "12"]);
        let profile = *chance.pick(&PROFILES);
        command.args(["--profile", profile, "-p", &via.port().to_string(), from, to]);
        command.env("FULMAR_HOME", self.home).env_remove("RUST_LOG");
        self.field.clock.show(&mut command);
        let begin = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let killed_after = chance.is_one_in(12).then(|| Duration::from_millis(chance.below(2000)));
        let Ended { code, said, complained, is_too_late } = wait(child, killed_after)?;
        if is_too_late {
            let how = format!("{from} to {to} with {profile} by {via}");
            self.field.verdict.complain(format!("a copy hangs: {how}; what it said: {complained}"));
            return Ok(End::Killed);
        }
        let report: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        let message = report["error"]["message"].as_str().unwrap_or_default();
        let verdict = &self.field.verdict;
        Ok(match code {
            Some(0) => {
                verdict.on_arrival(begin.elapsed());
                End::Done
            }
            None if killed_after.is_some() => {
                verdict.count("clients killed (-9)");
                End::Killed
            }
            Some(code) if !message.is_empty() && code != 101 => {
                let kind = report["error"]["kind"].as_str().unwrap_or_default();
                verdict.count(format!(
                    "copies that ended with a named error: {kind}: {}",
                    without_names(message)
                ));
                End::Failed
            }
            code => {
                verdict.complain(format!("a copy ended with {code:?} and no reason: {said} {complained}"));
                End::Failed
            }
        })
    }
}

fn there(via: SocketAddr, name: &str) -> String {
    if via.is_ipv6() { format!("[{}]:{name}", via.ip()) } else { format!("{}:{name}", via.ip()) }
}

/// So that what differs in a number only is counted together.
fn without_names(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    first.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect::<String>().replace("##", "#")
}

/// How a copy ended.
struct Ended {
    /// The exit code, if it was not killed.
    code: Option<i32>,
    said: String,
    complained: String,
    /// It was killed because it did not end.
    is_too_late: bool,
}

/// Waits until it ends, is to be killed, or neither says nor moves anything for too long.
fn wait(mut child: Child, killed_after: Option<Duration>) -> io::Result<Ended> {
    let begin = Instant::now();
    let has_spoken = Arc::new(AtomicBool::new(false));
    let read = |stream: Option<Box<dyn Read + Send>>| {
        let has_spoken = Arc::clone(&has_spoken);
        std::thread::spawn(move || {
            let mut said = String::new();
            for line in
                stream.into_iter().flat_map(|stream| BufReader::new(stream).lines()).map_while(Result::ok)
            {
                has_spoken.store(true, Ordering::Relaxed);
                said += &line;
                said.push('\n');
            }
            said
        })
    };
    let out = read(child.stdout.take().map(|out| Box::new(out) as _));
    let err = read(child.stderr.take().map(|err| Box::new(err) as _));
    let (mut heard_at, mut is_too_late) = (begin, false);
    let (mut looked_at, mut moved) = (begin, 0);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if has_spoken.swap(false, Ordering::Relaxed) {
            heard_at = Instant::now();
        }
        if looked_at.elapsed() > LOOK_EVERY {
            looked_at = Instant::now();
            let before = moved;
            moved = moved_bytes(child.id()).unwrap_or(before);
            if moved - before >= MOVED_BYTES_MIN {
                heard_at = looked_at;
            }
        }
        is_too_late = heard_at.elapsed() > PATIENCE;
        if is_too_late || killed_after.is_some_and(|after| begin.elapsed() > after) {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let (said, complained) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    Ok(Ended { code: status.code(), said, complained, is_too_late })
}
