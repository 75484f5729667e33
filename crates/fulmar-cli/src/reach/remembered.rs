//! What is known of servers that were reached before, in files of the user's home, a line for each server:
//! which were not within reach by UDP, for a day, and at which ports they listen.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::way::Way;
use crate::listen::Ports;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A server that was not heard of for so long may have other ports.
const PORTS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// Lines that are kept.
const LINES_MAX: usize = 256;

/// The files.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    by_tcp: Book,
    ports: Book,
}

impl Remembered {
    /// Those of a home.
    pub(super) fn of(home: &Path) -> Self {
        Self {
            by_tcp: Book { path: home.join("by_tcp"), kept_for: DAY },
            ports: Book { path: home.join("ports"), kept_for: PORTS_KEPT_FOR },
        }
    }

    /// By which way a server was reached last, as far as that is known.
    pub(super) fn way(&self, server: &str) -> Way {
        if self.by_tcp.find(server).is_some() { Way::Tcp } else { Way::Udp }
    }

    /// A server was reached. What cannot be written is not remembered.
    pub(super) fn remember(&self, server: &str, way: Way) {
        self.by_tcp.note(server, (way == Way::Tcp).then_some(""));
    }

    /// The ports of a server, as far as they are known.
    pub(super) fn ports(&self, server: &str) -> Ports {
        self.ports.find(server).and_then(|line| line.words.parse().ok()).unwrap_or_default()
    }

    /// A server has told of its ports: of none if it has one.
    pub(super) fn remember_ports(&self, server: &str, ports: &Ports) {
        let words = ports.to_string();
        let words = Some(words.as_str()).filter(|words| !words.is_empty());
        let is_known = self
            .ports
            .find(server)
            .is_some_and(|line| Some(line.words.as_str()) == words && line.at + DAY.as_secs() > now());
        if !is_known {
            self.ports.note(server, words);
        }
    }
}

/// One of them.
#[derive(Debug, Clone)]
struct Book {
    path: PathBuf,
    /// After so long it is as if nothing was known.
    kept_for: Duration,
}

/// `SERVER SECONDS`, or `SERVER SECONDS WORDS`.
#[derive(Debug)]
struct Line {
    server: String,
    /// Seconds since 1970.
    at: u64,
    words: String,
}

impl Book {
    fn find(&self, server: &str) -> Option<Line> {
        self.lines().into_iter().find(|line| line.server == server)
    }

    /// The line of a server is this from now on.
    fn note(&self, server: &str, words: Option<&str>) {
        let mut lines = self.lines();
        let before = lines.len();
        lines.retain(|line| line.server != server);
        match words {
            None if lines.len() == before => return,
            None => {}
            Some(words) => lines.push(Line { server: server.into(), at: now(), words: words.into() }),
        }
        if let Err(error) = self.write(&lines) {
            tracing::debug!("{}: {error}", self.path.display());
        }
    }

    fn lines(&self) -> Vec<Line> {
        let now = now();
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let (server, rest) = line.split_once(' ')?;
            let (at, words) = rest.split_once(' ').unwrap_or((rest, ""));
            let at = at.parse().ok()?;
            let is_young = now.checked_sub(at).is_some_and(|age| age < self.kept_for.as_secs());
            is_young.then(|| Line { server: server.into(), at, words: words.into() })
        });
        lines.collect()
    }

    /// All of it or nothing: others may read it meanwhile.
    fn write(&self, lines: &[Line]) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        for Line { server, at, words } in &lines[lines.len().saturating_sub(LINES_MAX)..] {
            writeln!(file, "{}", format!("{server} {at} {words}").trim_end())?;
        }
        file.persist(&self.path)?;
        Ok(())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_worked_is_known_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let remembered = Remembered::of(folder.path());
        assert_eq!(remembered.way("a:1"), Way::Udp);
        remembered.remember("a:1", Way::Tcp);
        remembered.remember("b:1", Way::Tcp);
        remembered.remember("b:1", Way::Udp);
        assert_eq!((remembered.way("a:1"), remembered.way("b:1")), (Way::Tcp, Way::Udp));
        let (day, at) = (DAY.as_secs(), now());
        let lines = format!("old:1 {}\nyoung:1 {}\nbroken\nahead:1 {}\n", at - day, at - day + 60, at + 999);
        std::fs::write(&remembered.by_tcp.path, lines).unwrap();
        let ways = ["old:1", "young:1", "broken", "ahead:1", "a:1"].map(|server| remembered.way(server));
        assert_eq!(ways, [Way::Udp, Way::Tcp, Way::Udp, Way::Udp, Way::Udp]);
        (0..300).for_each(|number| remembered.remember(&format!("{number}:1"), Way::Tcp));
        assert_eq!((remembered.by_tcp.lines().len(), remembered.way("299:1")), (LINES_MAX, Way::Tcp));
    }

    #[test]
    fn ports_are_those_that_were_told_last() {
        let folder = tempfile::tempdir().unwrap();
        let remembered = Remembered::of(folder.path());
        let told: Ports = "443,20000-20100".parse().unwrap();
        remembered.remember_ports("a:443", &told);
        remembered.remember_ports("b:1", &Ports::default());
        assert_eq!((remembered.ports("a:443"), remembered.ports("b:1")), (told, Ports::default()));
        remembered.remember_ports("a:443", &Ports::default());
        assert_eq!(remembered.ports("a:443"), Ports::default());
        std::fs::write(&remembered.ports.path, format!("a:443 {} 9-1\n", now())).unwrap();
        assert_eq!(remembered.ports("a:443"), Ports::default(), "nonsense is nothing");
    }

    #[test]
    fn a_home_that_cannot_be_written_to_is_no_obstacle() {
        let remembered = Remembered::of(Path::new("/no/such/folder"));
        remembered.remember("a:1", Way::Tcp);
        assert_eq!(remembered.way("a:1"), Way::Udp);
    }
}
