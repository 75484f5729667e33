//! What the kernel counts for a network namespace as a whole (`/proc/net/netstat`). A run has namespaces of
//! its own, so the counts are the run's.

use std::io;

use crate::bridge::End;

/// Times senders at this end entered fast recovery, by duplicate ACKs or by SACK (tcp_enter_recovery in
/// Linux).
pub(super) fn fast_recoveries(end: &End) -> io::Result<u64> {
    let table = end.spawn(|| std::fs::read_to_string("/proc/thread-self/net/netstat")).join();
    let table = table.unwrap_or_else(|_| Err(io::Error::other("the reading thread died")))?;
    let count = |name| counter(&table, "TcpExt:", name);
    Ok(count("TCPRenoRecovery").unwrap_or(0) + count("TCPSackRecovery").unwrap_or(0))
}

/// A counter of a group: names stand in one line, values in the next, both behind the group's name.
fn counter(table: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_whitespace().position(|n| n == name)?;
    values.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let table = "TcpExt: SyncookiesSent TCPRenoRecovery TCPSackRecovery\nTcpExt: 1 20 300\n\
            IpExt: InNoRoutes TCPSackRecovery\nIpExt: 4000 5000\n";
        assert_eq!(counter(table, "TcpExt:", "TCPRenoRecovery"), Some(20));
        assert_eq!(counter(table, "TcpExt:", "TCPSackRecovery"), Some(300));
        assert_eq!(counter(table, "IpExt:", "InNoRoutes"), Some(4000));
        assert_eq!(counter(table, "TcpExt:", "InNoRoutes"), None);
    }
}
