//! Rates that this process keeps over all its connections together: what it sends, and what it receives.
//!
//! What is sent waits for its turn before it becomes a packet ([`SendLimit`]); the other side is asked to
//! send no faster than it is to be received ([`ReceiveLimit`]). The command line goes before config.toml,
//! which is read again on `fulmar reload`.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use fulmar::{Rate, ReceiveLimit, SendLimit};

use crate::exit::Failure;
use crate::units;

/// What every command with connections can be told.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LimitArgs {
    /// Rate limit for all connections of this process together, each way, such as 10M (bits per second)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit: Option<u64>,
    /// Rate limit for what this process sends
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit_up: Option<u64>,
    /// Rate limit for what this process receives: the other side is asked to send no faster
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit_down: Option<u64>,
}

impl LimitArgs {
    fn wish(&self) -> Wish {
        Wish::new(self.limit, self.limit_up, self.limit_down)
    }
}

/// The limits that somebody wants, in bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    up: Option<u64>,
    down: Option<u64>,
}

impl Wish {
    /// A limit for both ways holds where none is named for one.
    pub fn new(both: Option<u64>, up: Option<u64>, down: Option<u64>) -> Self {
        Self { up: up.or(both), down: down.or(both) }
    }

    /// Where it says nothing, the other counts.
    fn or(self, other: Self) -> Self {
        Self { up: self.up.or(other.up), down: self.down.or(other.down) }
    }
}

impl std::fmt::Display for Wish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = |bits: Option<u64>| bits.map_or("no limit".into(), |bits| units::rate(bits as f64 / 1e6));
        write!(f, "up {}, down {}", words(self.up), words(self.down))
    }
}

type ReadFile = Box<dyn Fn() -> Result<Wish, Failure> + Send>;

/// What holds in this process.
#[derive(Default)]
struct Limits {
    send: SendLimit,
    receive: ReceiveLimit,
    asked: Mutex<Asked>,
}

/// Who says what holds.
#[derive(Default)]
struct Asked {
    args: Wish,
    file: Option<ReadFile>,
    now: Wish,
}

static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);

impl Limits {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, asked: &mut Asked) -> Result<Wish, Failure> {
        let file = asked.file.as_ref().map_or(Ok(Wish::default()), |file| file())?;
        asked.now = asked.args.or(file);
        self.send.set(asked.now.up.map(Rate::from_bits_per_second));
        self.receive.set(asked.now.down.map(Rate::from_bits_per_second));
        Ok(asked.now)
    }
}

/// Keeps what the command line says, and for the rest what `file` does, now and on each [`reload`].
pub fn keep(
    args: &LimitArgs,
    file: impl Fn() -> Result<Wish, Failure> + Send + 'static,
) -> Result<(), Failure> {
    let mut asked = LIMITS.asked();
    asked.args = args.wish();
    asked.file = Some(Box::new(file));
    LIMITS.read(&mut asked).map(drop)
}

/// Reads the file again. Says what holds, if it is something else than before.
pub fn reload() -> Result<Option<String>, Failure> {
    let mut asked = LIMITS.asked();
    let before = asked.now;
    let now = LIMITS.read(&mut asked)?;
    Ok((now != before).then(|| format!("limits: {now}")))
}

/// The limit of what is sent.
pub fn send() -> SendLimit {
    LIMITS.send.clone()
}

/// The limit of what is received.
pub fn receive() -> ReceiveLimit {
    LIMITS.receive.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_goes_before_the_file_and_one_way_before_both() {
        let args = Wish::new(None, Some(1_000_000), None);
        let file = Wish::new(Some(20_000_000), None, Some(5_000_000));
        assert_eq!(file, Wish { up: Some(20_000_000), down: Some(5_000_000) });
        assert_eq!(args.or(file), Wish { up: Some(1_000_000), down: Some(5_000_000) });
        assert_eq!(args.to_string(), "up 1.0 Mb/s, down no limit");
    }
}
