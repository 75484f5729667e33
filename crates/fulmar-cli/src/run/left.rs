//! What a program leaves running when it ends: daemons, and what it has started in the background.

use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

/// From now on a process whose parent ends, of those that descend from this one, becomes a child of this one
/// (prctl(2), `PR_SET_CHILD_SUBREAPER`): a daemon can be told from one that has ended.
pub(super) fn adopt() {
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        tracing::debug!("what the program leaves running will not be known: {error}");
    }
}

/// The children that still run, as people know them. Only for when no child is waited for elsewhere any more.
pub(super) fn running() -> Vec<String> {
    // Those that have ended are buried. An error is that there is no child at all.
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => return Vec::new(),
        }
    }
    let own = getpid().as_raw_nonzero().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| child(&stat, &own)).collect()
}

/// A child of `parent` that runs, of a line of `/proc/PID/stat`: pid, name in brackets, state, parent
/// (proc(5)). The name is the process' own choice.
fn child(stat: &str, parent: &str) -> Option<String> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let (state, of) = (fields.next()?, fields.next()?);
    let is_running = !matches!(state, "Z" | "X") && of == parent;
    is_running.then(|| format!("{} ({pid})", crate::units::printable(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_known_by_their_parent_whatever_they_call_themselves() {
        assert_eq!(child("12 (ssh) S 7 12 12 0", "7").as_deref(), Some("ssh (12)"));
        assert_eq!(child("12 (a) S 7) S 9 12", "7"), None);
        assert_eq!(child("12 (a) S 9) S 7 12", "7").as_deref(), Some("a) S 9 (12)"));
        assert_eq!(child("12 (ssh) Z 7 12 12 0", "7"), None);
        assert_eq!(child("", "7"), None);
    }
}
