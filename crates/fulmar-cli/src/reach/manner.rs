//! What a client is told of how to connect, and to send.

use std::time::Duration;

use fulmar::Favor;
use fulmar::identity::PORT_DEFAULT;

use super::quiet::KeepAliveArgs;
use super::way::WayArgs;
use crate::limits::LimitArgs;
use crate::profile_names::ProfileParser;
use crate::units::parse_seconds;

/// What every client can be told of how to connect.
#[derive(Debug, Clone, clap::Args)]
pub struct MannerArgs {
    /// How to send: a profile, with settings if you want, such as tcp-fec:fmax=5. See `fulmar profiles`
    /// [default: auto]
    #[arg(long, value_parser = ProfileParser, hide_possible_values = true)]
    profile: Option<String>,
    /// What matters most, in both directions: `latency` sends repair data in advance for low-rate traffic
    /// (two to four times its volume), `throughput` sends none [default: balanced]
    #[arg(long, value_parser = Favor::NAMES)]
    favor: Option<String>,
    /// Trust an unknown server without asking, and remember its key
    #[arg(long)]
    accept_new: bool,
    /// Time to wait for an answer, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "15")]
    connect_timeout: Duration,
    #[command(flatten)]
    quiet: KeepAliveArgs,
    #[command(flatten)]
    way: WayArgs,
}

impl MannerArgs {
    /// How to connect. What is not said may be known of the server: a profile, or that a new key is trusted.
    pub fn manner(&self, profile: Option<String>, accept_new: bool) -> Manner {
        let profile = self.profile.clone().or(profile).unwrap_or_else(|| "auto".into());
        Manner {
            profile: favoring(&profile, self.favor.as_deref()),
            accept_new: self.accept_new || accept_new,
            connect_timeout: self.connect_timeout,
            keep_alive: self.quiet.keep_alive,
            is_quiet: false,
            deadline: None,
            way: self.way.clone(),
        }
    }
}

/// What every client of a server at one port can be told.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientArgs {
    /// The server's port
    #[arg(short, long, default_value_t = PORT_DEFAULT)]
    pub port: u16,
    #[command(flatten)]
    manner: MannerArgs,
    /// Rates that are kept.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Say nothing while a server is being reached.
    #[arg(skip)]
    pub is_quiet: bool,
}

impl ClientArgs {
    /// Name of the profile.
    pub fn profile(&self) -> String {
        self.manner().profile
    }

    pub(super) fn manner(&self) -> Manner {
        Manner { is_quiet: self.is_quiet, ..self.manner.manner(None, false) }
    }
}

/// How a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manner {
    /// A profile, with settings if wanted.
    pub profile: String,
    /// Trust a server that is not known yet without asking.
    pub accept_new: bool,
    /// How long to wait for an answer.
    pub connect_timeout: Duration,
    /// Longest silence, if it is not to be found out.
    pub keep_alive: Option<Duration>,
    /// Say nothing while waiting.
    pub is_quiet: bool,
    /// After so long packets of UDP flows are worth nothing.
    pub deadline: Option<Duration>,
    /// By which ways.
    pub way: WayArgs,
}

/// The profile `spec` with what is favoured among its settings. Whether it has that setting is found when it
/// is used.
pub fn favoring(spec: &str, favor: Option<&str>) -> String {
    let separator = if spec.contains(':') { ',' } else { ':' };
    favor.map_or_else(|| spec.into(), |favor| format!("{spec}{separator}favor={favor}"))
}

#[cfg(test)]
mod tests {
    use fulmar::Profile;

    use super::*;

    #[test]
    fn what_is_favoured_is_a_setting() {
        let favors = |spec: &str| Profile::parse(&favoring(spec, Some("latency")));
        assert_eq!(favors("auto").unwrap().name, "auto:favor=latency");
        assert_eq!(favors("auto:reordering=5").unwrap().name, "auto:reordering=5,favor=latency");
        assert!(favors("cubic").unwrap_err().to_string().contains("favor"));
    }
}
