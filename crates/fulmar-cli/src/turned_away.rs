//! What is logged of those who are turned away. Strangers can come by the thousand each second, and a log that nobody
//! reads fills its pipe and stops the program.

use std::sync::Mutex;
use std::time::Instant;

use crate::exit::Failure;

/// So many lines at once ..
const BURST: f64 = 20.0;
/// .. and so many each second after them.
const PER_SECOND: f64 = 1.0;

/// Which lines are written, and how many were not.
#[derive(Debug)]
struct Lines {
    tokens: f64,
    filled_at: Instant,
    left_out: u64,
}

impl Lines {
    const fn new(now: Instant) -> Self {
        Self { tokens: BURST, filled_at: now, left_out: 0 }
    }

    /// Whether a line is written now: with the number of those that were left out before it.
    fn next(&mut self, now: Instant) -> Option<u64> {
        let elapsed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * PER_SECOND).min(BURST);
        self.filled_at = now;
        if self.tokens < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Logs that somebody is turned away, and why.
pub fn log(failure: &Failure) {
    static LINES: Mutex<Option<Lines>> = Mutex::new(None);
    let now = Instant::now();
    let written = match LINES.lock() {
        Ok(mut lines) => lines.get_or_insert_with(|| Lines::new(now)).next(now),
        Err(_) => Some(0),
    };
    match written {
        None => {}
        Some(0) => tracing::warn!("turned away: {failure}"),
        Some(left_out) => tracing::warn!("turned away: {failure} (and {left_out} more, without a line)"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_writes_few_lines_and_says_how_many_it_left_out() {
        let begin = Instant::now();
        let mut lines = Lines::new(begin);
        // Ten thousand in ten seconds.
        let written: Vec<u64> =
            (0..10_000).filter_map(|i| lines.next(begin + Duration::from_millis(i))).collect();
        assert_eq!(written.len(), 29, "{written:?}");
        assert_eq!(written.iter().sum::<u64>() + written.len() as u64 + lines.left_out, 10_000);
        assert!(written[..20].iter().all(|&left_out| left_out == 0));
    }
}
