//! How a client keeps a connection that nobody uses.

use std::time::Duration;

use fulmar::{ConfigError, TransportConfig};

use crate::units::parse_seconds;

/// Silence after which a client sends a sign of life while a connection is in use ..
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// .. when it is not: NATs forget after 30 s at the earliest (RFC 4787 4.3 wants two minutes) ..
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(26);
/// .. and where the NAT on the way is found to remember, at most.
const KEEP_ALIVE_TRIAL: Duration = Duration::from_secs(90);

/// The longest silence that can be asked for: half of what ends a connection.
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(90);

/// How long a client may be silent.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct KeepAliveArgs {
    /// Longest silence before a sign of life is sent to keep NATs and firewalls open, in seconds, at most 90
    /// [default: 26, and longer where the NAT is found to remember]
    #[arg(long, value_name = "SECONDS", value_parser = parse_keep_alive)]
    pub keep_alive: Option<Duration>,
}

fn parse_keep_alive(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        time if (Duration::from_secs(1)..=KEEP_ALIVE_MAX).contains(&time) => Ok(time),
        _ => Err(format!("it takes 1 to {} seconds", KEEP_ALIVE_MAX.as_secs())),
    }
}

/// A client keeps its connections; servers only answer. `longest` is what its user says.
pub fn keep_alive(transport: &mut TransportConfig, longest: Option<Duration>) -> Result<(), ConfigError> {
    transport.keep_alive(Some(KEEP_ALIVE.min(longest.unwrap_or(KEEP_ALIVE))))?;
    transport.keep_alive_idle(Some(longest.unwrap_or(KEEP_ALIVE_IDLE)))?;
    transport.keep_alive_trial(Some(longest.unwrap_or(KEEP_ALIVE_TRIAL)))?;
    Ok(())
}
