//! Changes to this machine's network that are undone when the program ends, however it ends.
//!
//! A change is a command and the command that undoes it, both of programs that administrators know (`ip`,
//! `nft`): so what is printed is what is done. Before the first change a *guardian* is started, a shell that
//! waits for the end of a pipe whose other end only this process holds, and then undoes everything. It needs
//! nobody to tell it: when this process is killed the kernel closes the pipe.
//!
//! Where the guardian is killed as well, the changes stay. So changes have a name in this network namespace,
//! that of an abstract socket, which process and guardian hold: whoever gets the name knows that what is
//! there of these changes is left over, and undoes it first.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::exit::Failure;

/// How long the guardian of a process that has just been killed may take to undo its changes.
const GUARDIAN_TIME_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether it has.
const GUARDIAN_POLL: Duration = Duration::from_millis(20);

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What does it.
    pub apply: Vec<String>,
    /// What undoes it; empty if it goes by itself.
    pub undo: Vec<String>,
    /// What `apply` reads on standard input.
    pub input: String,
    /// What is there of it already was left by a process that was killed with its guardian.
    is_ours: bool,
}

impl Change {
    /// A change by two command lines, in which blanks separate words.
    pub fn new(apply: &str, undo: &str) -> Self {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        Self { apply: words(apply), undo: words(undo), input: String::new(), is_ours: false }
    }

    /// A digit in a file of `/proc/sys`, and what is there afterwards. The path becomes a part of a shell's
    /// line: it is one of the program's own words.
    pub fn of_setting(path: &'static str, value: u8, afterwards: u8) -> Self {
        let write = |value: u8| vec!["sh".into(), "-c".into(), format!("echo {value} > {path}")];
        Self { apply: write(value), undo: write(afterwards), ..Self::new("", "") }
    }

    /// Nobody but these changes, by their name, makes such a one: what is there of it is undone first.
    pub fn ours(self) -> Self {
        Self { is_ours: true, ..self }
    }

    /// Gives it something to read.
    pub fn with_input(self, input: String) -> Self {
        Self { input, ..self }
    }

    /// As a line for a shell.
    fn line(words: &[String]) -> String {
        let quote = |word: &String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        };
        words.iter().map(quote).collect::<Vec<_>>().join(" ")
    }
}

/// The changes as a shell's script, for people who make them themselves.
pub fn script(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let line = Change::line(&change.apply);
        let _ = match change.input.as_str() {
            "" => writeln!(text, "{line}"),
            input => writeln!(text, "{line} <<'END'\n{}\nEND", input.trim_end()),
        };
    }
    let undo: Vec<_> = changes.iter().rev().filter(|change| !change.undo.is_empty()).collect();
    if !undo.is_empty() {
        text.push_str("# To undo it:\n");
    }
    for change in undo {
        let _ = writeln!(text, "# {}", Change::line(&change.undo));
    }
    text
}

/// Changes that are in force until this is dropped, or the process ends.
#[derive(Debug)]
pub struct Changed {
    guardian: Child,
    pipe: Option<ChildStdin>,
}

impl Changed {
    /// Makes the changes, in this order, that have this name in the network namespace. If one fails, those
    /// before it are undone.
    pub fn make(name: &str, changes: impl FnOnce() -> Vec<Change>) -> Result<Self, Failure> {
        let claim = claim(name)?;
        // What depends on how things are is looked at only now.
        let changes = changes();
        for change in changes.iter().rev().filter(|change| change.is_ours) {
            // Mostly there is nothing.
            let _ = run(&change.undo, "");
        }
        let changed = Self::guard(&changes, claim)?;
        for change in &changes {
            apply(change)?;
        }
        Ok(changed)
    }

    fn guard(changes: &[Change], claim: UnixDatagram) -> Result<Self, Failure> {
        // `read` returns at the end of the pipe; nothing is ever written to it.
        let mut script = String::from("trap '' HUP INT TERM; read -r _; ");
        for change in changes.iter().rev().filter(|change| !change.undo.is_empty()) {
            let _ = write!(script, "{} >/dev/null 2>&1; ", Change::line(&change.undo));
        }
        let mut command = Command::new("/bin/sh");
        // The name is free when its last holder is gone; nothing is written to it.
        let held = Stdio::from(OwnedFd::from(claim));
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(held).stderr(Stdio::null());
        // Signals of the terminal are not for it.
        command.process_group(0);
        let started = command.spawn();
        let mut guardian = started.map_err(|e| Failure::Other(format!("/bin/sh: {e}")))?;
        let pipe = guardian.stdin.take();
        Ok(Self { guardian, pipe })
    }
}

/// Whether changes are in force here whose name begins so, besides those that end with `own`.
pub fn others_have(prefix: &str, own: &str) -> bool {
    // An abstract name is shown with `@` before it.
    let sockets = std::fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let mut names = sockets.lines().filter_map(|line| line.split_once("@fulmar/")?.1.strip_prefix(prefix));
    names.any(|name| name != own)
}

/// Takes a name in this network namespace, as soon as a guardian that holds it has done its work.
fn claim(name: &str) -> Result<UnixDatagram, Failure> {
    let address = SocketAddr::from_abstract_name(format!("fulmar/{name}"));
    let address = address.map_err(|e| Failure::Other(format!("{name}: {e}")))?;
    let mut waited = Duration::ZERO;
    loop {
        match UnixDatagram::bind_addr(&address) {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && waited < GUARDIAN_TIME_MAX => {
                std::thread::sleep(GUARDIAN_POLL);
                waited += GUARDIAN_POLL;
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(Failure::Other(format!(
                    "another fulmar on this machine has made these changes to the network ({name}): it has to end \
                     first"
                )));
            }
            Err(error) => return Err(Failure::Other(format!("{name}: {error}"))),
        }
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.guardian.wait();
    }
}

/// Runs the command of one change.
fn apply(change: &Change) -> Result<(), Failure> {
    let line = Change::line(&change.apply);
    let broken = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => {
            let program = change.apply.first().map_or("", String::as_str);
            Failure::Other(format!(
                "`{program}` is needed and not installed (packages iproute2 and nftables have it)"
            ))
        }
        _ => Failure::Other(format!("{line}: {e}")),
    };
    let Some(said) = run(&change.apply, &change.input).map_err(broken)? else { return Ok(()) };
    // In the words of nft, ip and sh.
    let is_forbidden = ["not permitted", "ermission denied"].iter().any(|words| said.contains(words));
    let hint = if is_forbidden { " (this needs root, or CAP_NET_ADMIN)" } else { "" };
    Err(Failure::Other(format!("{line}: {}{hint}", crate::units::printable(said.trim()))))
}

/// Runs a command, and gives it this to read. If it fails, what it says.
fn run(words: &[String], input: &str) -> io::Result<Option<String>> {
    let [program, arguments @ ..] = words else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // What it does not read it complains about itself.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests beside each other have names of their own.
    fn name(test: &str) -> String {
        format!("test-{test}-{}", std::process::id())
    }

    fn touch(path: &std::path::Path) -> Change {
        let path = path.display();
        Change::new(&format!("touch {path}"), &format!("rm {path}"))
    }

    #[test]
    fn changes_are_undone_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let changed = Changed::make(&name("end"), || vec![touch(&a), touch(&b)]).unwrap();
        assert!(a.exists() && b.exists());
        drop(changed);
        assert!(!a.exists() && !b.exists());
    }

    #[test]
    fn half_a_change_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let a = folder.path().join("a");
        let fails = Change::new("sh -c", "").with_input(String::new());
        let failure = Changed::make(&name("half"), || vec![touch(&a), fails]).unwrap_err();
        assert!(failure.to_string().starts_with("sh -c: "), "{failure}");
        assert!(!a.exists());
        let absent =
            Changed::make(&name("absent"), || vec![Change::new("no-such-program-here", "")]).unwrap_err();
        assert!(absent.to_string().contains("not installed"), "{absent}");
    }

    #[test]
    fn what_was_left_is_undone_first_and_nobody_changes_what_another_has() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let change = || {
            let made = made.display();
            // `mkdir` fails where the folder is there.
            vec![Change::new(&format!("mkdir {made}"), &format!("rmdir {made}")).ours()]
        };
        std::fs::create_dir(&made).unwrap();
        let name = name("left");
        let changed = Changed::make(&name, change).unwrap();
        let second = std::thread::spawn({
            let (name, changes) = (name.clone(), change());
            move || Changed::make(&name, || changes).map(drop)
        });
        std::thread::sleep(Duration::from_millis(200));
        assert!(others_have("test-left-", "") && !others_have("test-left-", &std::process::id().to_string()));
        assert!(made.exists() && !second.is_finished(), "it waits for the guardian of the first");
        drop(changed);
        second.join().unwrap().unwrap();
        assert!(!made.exists());
    }

    #[test]
    fn a_script_tells_both_ways() {
        let nft = Change::new("nft -f -", "nft delete table inet x").with_input("table inet x {\n}\n".into());
        let mut odd = Change::new("ip rule add", "ip rule del");
        odd.apply.push("it's".into());
        let expected = "nft -f - <<'END'\ntable inet x {\n}\nEND\nip rule add 'it'\\''s'\n# To undo it:\n# ip rule del\n\
                        # nft delete table inet x\n";
        assert_eq!(script(&[nft, odd]), expected);
    }
}
