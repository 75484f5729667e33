//! Changes to this machine's network that are undone when the program ends, however it ends.
//!
//! A change is a command and the command that undoes it, both of programs that administrators know (`ip`,
//! `nft`): so what is printed is what is done. Before the first change a *guardian* is started, a shell that
//! waits for the end of a pipe whose other end only this process holds, and then undoes everything. It needs
//! nobody to tell it: when this process is killed the kernel closes the pipe.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::exit::Failure;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What does it.
    pub apply: Vec<String>,
    /// What undoes it; empty if it goes by itself.
    pub undo: Vec<String>,
    /// What `apply` reads on standard input.
    pub input: String,
}

impl Change {
    /// A change by two command lines, in which blanks separate words.
    pub fn new(apply: &str, undo: &str) -> Self {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        Self { apply: words(apply), undo: words(undo), input: String::new() }
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
    /// Makes the changes, in this order. If one fails, those before it are undone.
    pub fn make(changes: &[Change]) -> Result<Self, Failure> {
        let changed = Self::guard(changes)?;
        for change in changes {
            apply(change)?;
        }
        Ok(changed)
    }

    fn guard(changes: &[Change]) -> Result<Self, Failure> {
        // `read` returns at the end of the pipe; nothing is ever written to it.
        let mut script = String::from("trap '' HUP INT TERM; read -r _; ");
        for change in changes.iter().rev().filter(|change| !change.undo.is_empty()) {
            let _ = write!(script, "{} 2>/dev/null; ", Change::line(&change.undo));
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals of the terminal are not for it.
        command.process_group(0);
        let started = command.spawn();
        let mut guardian = started.map_err(|e| Failure::Other(format!("/bin/sh: {e}")))?;
        let pipe = guardian.stdin.take();
        Ok(Self { guardian, pipe })
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
    let [program, arguments @ ..] = change.apply.as_slice() else { return Ok(()) };
    let line = Change::line(&change.apply);
    let broken = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => Failure::Other(format!(
            "`{program}` is needed and not installed (packages iproute2 and nftables have it)"
        )),
        _ => Failure::Other(format!("{line}: {e}")),
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(broken)?;
    if let Some(mut pipe) = child.stdin.take() {
        // What it does not read it complains about itself.
        let _ = pipe.write_all(change.input.as_bytes());
    }
    let output = child.wait_with_output().map_err(broken)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // In the words of nft, ip and sh.
    let is_forbidden = ["not permitted", "ermission denied"].iter().any(|words| said.contains(words));
    let hint = if is_forbidden { " (this needs root, or CAP_NET_ADMIN)" } else { "" };
    Err(Failure::Other(format!("{line}: {}{hint}", crate::units::printable(said.trim()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &std::path::Path) -> Change {
        let path = path.display();
        Change::new(&format!("touch {path}"), &format!("rm {path}"))
    }

    #[test]
    fn changes_are_undone_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let changed = Changed::make(&[touch(&a), touch(&b)]).unwrap();
        assert!(a.exists() && b.exists());
        drop(changed);
        assert!(!a.exists() && !b.exists());
    }

    #[test]
    fn half_a_change_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let a = folder.path().join("a");
        let fails = Change::new("sh -c", "").with_input(String::new());
        let failure = Changed::make(&[touch(&a), fails]).unwrap_err();
        assert!(failure.to_string().starts_with("sh -c: "), "{failure}");
        assert!(!a.exists());
        let absent = Changed::make(&[Change::new("no-such-program-here", "")]).unwrap_err();
        assert!(absent.to_string().contains("not installed"), "{absent}");
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
