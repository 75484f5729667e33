//! What the programs of one session take of the processor.

use std::fs;
use std::time::{Duration, Instant as Clock};

/// How often it is asked: what a program takes after the last time is not known.
const EVERY: Duration = Duration::from_millis(100);
/// Makes and counts the data of other programs, and is no part of them.
const METER: &str = "iperf3";

/// Processor time of a session, as far as its processes live or were waited for by those that do.
#[derive(Debug)]
pub(super) struct ProcessorTime {
    session: u32,
    looked_at: Clock,
    taken: Duration,
}

impl ProcessorTime {
    pub(super) fn of_session(session: u32) -> Self {
        Self { session, looked_at: Clock::now(), taken: Duration::ZERO }
    }

    /// Looks again, if that is due: all processes of a session may end at once, and cannot be asked then.
    pub(super) fn look(&mut self) {
        if self.looked_at.elapsed() >= EVERY {
            self.taken = self.taken.max(session_time(self.session));
            self.looked_at = Clock::now();
        }
    }

    /// All that is known.
    pub(super) fn taken(&self) -> Duration {
        self.taken
    }
}

fn session_time(session: u32) -> Duration {
    let ticks: u64 = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter_map(|stat| ticks(&stat, session))
        .sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What one process of the session has taken, with the children it has waited for: proc_pid_stat(5).
fn ticks(stat: &str, session: u32) -> Option<u64> {
    // The name stands in parentheses, and may have some of its own.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let is_counted = name != METER && fields.get(3)?.parse() == Ok(session);
    // utime, stime, cutime, cstime.
    is_counted.then(|| fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::thread;

    #[test]
    fn processes_of_the_session_count_and_the_meter_does_not() {
        let stat = |name: &str, session: u32| {
            format!("71 ({name}) S 70 71 {session} 0 -1 4194304 90 0 0 0 100 20 3 4 20 0 1 0 555 1 1")
        };
        assert_eq!(ticks(&stat("a (b) c", 70), 70), Some(127));
        assert_eq!(ticks(&stat("a (b) c", 71), 70), None);
        assert_eq!(ticks(&stat("iperf3", 70), 70), None);
        assert_eq!(ticks("71 (cut off", 70), None);
    }

    /// In a session of its own, as programs are run: where this process is in a namespace that did not start
    /// its session, that session has no number here.
    #[test]
    fn work_is_seen() {
        let mut busy = Command::new("setsid").args(["sh", "-c", "while :; do :; done"]).spawn().unwrap();
        let mut processor = ProcessorTime::of_session(busy.id());
        let until = Clock::now() + Duration::from_secs(20);
        while processor.taken() < EVERY && Clock::now() < until {
            thread::sleep(EVERY);
            processor.look();
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(processor.taken() >= EVERY);
    }
}
