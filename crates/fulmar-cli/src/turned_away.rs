//! What is logged and remembered of those who are turned away. Strangers can come by the thousand each
//! second, and a log that nobody reads fills its pipe and stops the program.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use fulmar::crypto::PublicKey;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// Keys that are remembered, the latest ones: for `fulmar authorize --last`.
const REMEMBERED_MAX: usize = 16;

/// A key that was turned away.
#[derive(Clone, Debug)]
struct Stranger {
    key: PublicKey,
    /// Where it came from, once that is known.
    peer: Option<String>,
    at: Instant,
}

static STRANGERS: Mutex<VecDeque<Stranger>> = Mutex::new(VecDeque::new());

/// A client that was turned away because its key is not known, as it is told to others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// The line for `authorized_keys`.
    pub key: String,
    /// Where it came from.
    pub peer: String,
    /// How long ago.
    pub seconds_ago: f64,
}

/// Somebody came with this key, which is not known.
pub fn remember(key: PublicKey) {
    let mut strangers = STRANGERS.lock().unwrap_or_else(PoisonError::into_inner);
    strangers.retain(|stranger| stranger.key != key);
    if strangers.len() >= REMEMBERED_MAX {
        strangers.pop_front();
    }
    strangers.push_back(Stranger { key, peer: None, at: Instant::now() });
}

/// Clients that were turned away lately because their key is not known, the last one at the end.
pub fn lately() -> Vec<Refused> {
    let strangers = STRANGERS.lock().unwrap_or_else(PoisonError::into_inner);
    let told = |stranger: &Stranger| Refused {
        key: stranger.key.to_line(""),
        peer: stranger.peer.clone().unwrap_or_default(),
        seconds_ago: stranger.at.elapsed().as_secs_f64(),
    };
    strangers.iter().map(told).collect()
}

/// Logs that a handshake failed: with the line that lets the client in, where its key is not known.
pub fn log_handshake(peer: &str, failure: &Failure) {
    let text = failure.to_string();
    let mut strangers = STRANGERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |stranger: &&mut Stranger| text.contains(&stranger.key.fingerprint().to_string());
    let key = strangers.iter_mut().rev().find(is_it).map(|stranger| {
        stranger.peer = Some(peer.to_owned());
        stranger.key
    });
    drop(strangers);
    match key {
        Some(key) => log(&Failure::Untrusted(format!(
            "{peer}: its key is not in authorized_keys. To let it in: fulmar authorize '{key}'"
        ))),
        None => log(failure),
    }
}

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

static LINES: Mutex<Option<Lines>> = Mutex::new(None);

/// The end of a line that may be written now; `None` if it is one of too many.
fn end_of_line() -> Option<String> {
    let now = Instant::now();
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let left_out = lines.get_or_insert_with(|| Lines::new(now)).next(now)?;
    Some(if left_out == 0 { String::new() } else { format!(" (and {left_out} more, without a line)") })
}

/// Logs that somebody is turned away, and why.
pub fn log(failure: &Failure) {
    if let Some(end) = end_of_line() {
        tracing::warn!("no connection: {failure}{end}");
    }
}

/// Logs that a client that is let in was refused a target.
pub fn log_target(peer: &str, key: &str, why: &str) {
    if let Some(end) = end_of_line() {
        tracing::info!("refused to {peer} ({key}): {why}{end}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_strangers_are_remembered() {
        let key = |seed: u8| fulmar::crypto::Identity::from_seed(&[seed; 32]).public_key();
        for seed in 0..50 {
            remember(key(seed));
        }
        remember(key(40));
        let failure = Failure::Untrusted(format!("unknown key {}", key(40).fingerprint()));
        log_handshake("192.0.2.1:5", &failure);
        let lately = lately();
        assert_eq!(lately.len(), REMEMBERED_MAX);
        let last = &lately[REMEMBERED_MAX - 1];
        assert_eq!((&last.key, last.peer.as_str()), (&key(40).to_line(""), "192.0.2.1:5"));
        assert_eq!(lately.iter().filter(|refused| refused.key == last.key).count(), 1);
    }

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
