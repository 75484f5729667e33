//! Whether much less comes, or goes, than before, though more waits: a network may slow down one flow, or one
//! port, instead of closing it.
//!
//! What was is the best of [`NOW`] seconds in a row, halved each minute. What is waiting cannot be seen of a
//! peer; that it is lost on the way can, and a network that lets less through loses what is sent.

use std::collections::VecDeque;

/// What is, is the mean of so many seconds.
const NOW: usize = 3;

/// It is slow below this part of what was ..
const SLOW: f64 = 0.125;

/// .. where that was worth something, in bytes a second: 400 kbit/s.
const WORTH: f64 = 50_000.0;

/// What was is believed less by so much each second: half in a minute.
const FADING: f64 = 0.988_514;

/// After a finding it has so many seconds to become better, then twice as many, and so on.
const PATIENCE: u32 = 4;

/// The finding that is the last one: what is, is what the network carries.
const FINDINGS_MAX: u32 = 3;

/// What a connection has counted in one direction: bytes, and what shows that it could be more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) bytes: u64,
    pub(super) is_wanting: bool,
}

/// The pace of one direction.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<u64>,
    /// Bytes of the last seconds, and whether more was wanted in each.
    recent: VecDeque<(u64, bool)>,
    was: f64,
    /// Findings since it was as before, and for how many seconds there is none.
    findings: u32,
    quiet_for: u32,
}

impl Pace {
    /// A second has passed. The number of the finding, from one, if it is slow.
    pub(super) fn on_second(&mut self, counted: Counted) -> Option<u32> {
        let before = self.last.replace(counted.bytes)?;
        self.recent.push_back((counted.bytes.saturating_sub(before), counted.is_wanting));
        if self.recent.len() > NOW {
            self.recent.pop_front();
        }
        self.quiet_for = self.quiet_for.saturating_sub(1);
        if self.recent.len() < NOW {
            return None;
        }
        let now = self.now();
        self.was = now.max(self.was * FADING);
        if now > self.was / 2.0 {
            self.findings = 0;
        }
        let is_wanting = self.recent.iter().any(|(_, is_wanting)| *is_wanting);
        // Nothing at all is silence, which others look after.
        let is_slow = now > 0.0 && now < self.was * SLOW && self.was >= WORTH && is_wanting;
        if !is_slow || self.quiet_for > 0 {
            return None;
        }
        self.findings += 1;
        self.quiet_for = PATIENCE << self.findings;
        let finding = self.findings;
        if finding == FINDINGS_MAX {
            (self.was, self.findings) = (now, 0);
        }
        Some(finding)
    }

    /// Bytes a second, now.
    pub(super) fn now(&self) -> f64 {
        let bytes: u64 = self.recent.iter().map(|(bytes, _)| bytes).sum();
        bytes as f64 / self.recent.len().max(1) as f64
    }
}

/// Whether a finding is the last one.
pub(super) fn is_last(finding: u32) -> bool {
    finding == FINDINGS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which it was found slow, for stretches of seconds of so many bytes each.
    fn found(stretches: &[(u32, u64, bool)]) -> Vec<(u32, u32)> {
        let (mut pace, mut bytes, mut second) = (Pace::default(), 0, 0);
        let mut findings = Vec::new();
        pace.on_second(Counted::default());
        for (seconds, rate, is_wanting) in stretches {
            for _ in 0..*seconds {
                (bytes, second) = (bytes + rate, second + 1);
                let finding = pace.on_second(Counted { bytes, is_wanting: *is_wanting });
                findings.extend(finding.map(|finding| (second, finding)));
            }
        }
        findings
    }

    #[test]
    fn an_eighth_of_what_was_is_found_after_three_seconds_and_then_ever_more_seldom() {
        let fast = (20, 1_000_000, true);
        assert_eq!(found(&[fast, (40, 50_000, true)]), [(23, 1), (31, 2), (47, 3)]);
        assert_eq!(found(&[fast, (60, 130_000, true)]), [], "a little more than an eighth");
        assert_eq!(found(&[fast, (60, 50_000, false)]), [], "nobody wants more");
        assert_eq!(found(&[fast, (60, 0, true)]), [], "silence is not slow");
        assert_eq!(found(&[(20, 40_000, true), (60, 1000, true)]), [], "it was not much");
        // What was better in between is the first again.
        let again = found(&[fast, (4, 50_000, true), (6, 900_000, true), (10, 50_000, true)]);
        assert_eq!(again, [(23, 1), (33, 1)]);
        // What was minutes ago does not count.
        assert_eq!(found(&[fast, (240, 200_000, true), (40, 30_000, true)]), []);
        // After the last finding it is as it is.
        assert_eq!(found(&[fast, (600, 50_000, true)]).len(), 3);
    }
}
