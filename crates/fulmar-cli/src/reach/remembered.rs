//! Which servers were not within reach by UDP, for a day: a file in the user's home, a line for each.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::way::Way;

/// After so long it is as if nothing was known.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// Lines that are kept.
const LINES_MAX: usize = 256;

/// The file.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    path: PathBuf,
}

impl Remembered {
    /// That of a home.
    pub(super) fn of(home: &Path) -> Self {
        Self { path: home.join("by_tcp") }
    }

    /// By which way a server was reached last, as far as that is known.
    pub(super) fn way(&self, server: &str) -> Way {
        let is_by_tcp = self.lines(now()).iter().any(|(known, _)| known == server);
        if is_by_tcp { Way::Tcp } else { Way::Udp }
    }

    /// A server was reached. What cannot be written is not remembered.
    pub(super) fn remember(&self, server: &str, way: Way) {
        let now = now();
        let mut lines = self.lines(now);
        let before = lines.len();
        lines.retain(|(known, _)| known != server);
        match way {
            Way::Udp if lines.len() == before => return,
            Way::Udp => {}
            Way::Tcp => lines.push((server.to_owned(), now)),
        }
        if let Err(error) = self.write(&lines) {
            tracing::debug!("{}: {error}", self.path.display());
        }
    }

    /// Servers, and when each was reached by TCP, in seconds since 1970.
    fn lines(&self, now: u64) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let (server, at) = line.split_once(' ')?;
            let at = at.parse().ok()?;
            now.checked_sub(at).filter(|age| *age < KEPT_FOR.as_secs()).map(|_| (server.to_owned(), at))
        });
        lines.collect()
    }

    /// All of it or nothing: others may read it meanwhile.
    fn write(&self, lines: &[(String, u64)]) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        for (server, at) in &lines[lines.len().saturating_sub(LINES_MAX)..] {
            writeln!(file, "{server} {at}")?;
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
        let (day, at) = (KEPT_FOR.as_secs(), now());
        let lines = format!("old:1 {}\nyoung:1 {}\nbroken\nahead:1 {}\n", at - day, at - day + 60, at + 999);
        std::fs::write(&remembered.path, lines).unwrap();
        let ways = ["old:1", "young:1", "broken", "ahead:1", "a:1"].map(|server| remembered.way(server));
        assert_eq!(ways, [Way::Udp, Way::Tcp, Way::Udp, Way::Udp, Way::Udp]);
        (0..300).for_each(|number| remembered.remember(&format!("{number}:1"), Way::Tcp));
        assert_eq!((remembered.lines(now()).len(), remembered.way("299:1")), (LINES_MAX, Way::Tcp));
    }

    #[test]
    fn a_home_that_cannot_be_written_to_is_no_obstacle() {
        let remembered = Remembered::of(Path::new("/no/such/folder"));
        remembered.remember("a:1", Way::Tcp);
        assert_eq!(remembered.way("a:1"), Way::Udp);
    }
}
