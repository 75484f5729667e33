//! What the server takes of the machine, read from `/proc`.

use std::fmt;

/// Bytes that a process has read and written so far, files and pipes; sockets are not among them.
pub(crate) fn moved_bytes(pid: u32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let counts = io.lines().filter_map(|line| line.strip_prefix("rchar: ").or(line.strip_prefix("wchar: ")));
    counts.map(|count| count.parse::<u64>().ok()).sum()
}

/// Resident memory of a server that may hold so much for its connections (docs/security.md): an eighth more
/// for as long as one ends, and 32 MiB for the program, its threads' buffers and what the allocator keeps.
pub(crate) fn memory_max_kib(budget_mib: u64) -> u64 {
    (budget_mib + budget_mib / 8 + 32) << 10
}

/// A look at a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) memory_kib: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
}

impl Figures {
    /// Nothing if there is no such process.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Some(Self { memory_kib: field("VmRSS:")?, threads: field("Threads:")?, descriptors })
    }

    /// The larger of each.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            memory_kib: self.memory_kib.max(other.memory_kib),
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory_kib, threads, descriptors } = self;
        write!(f, "{} MiB, {threads} threads, {descriptors} descriptors", memory_kib >> 10)
    }
}
