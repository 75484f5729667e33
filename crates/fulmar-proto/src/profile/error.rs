//! Why some text is no profile.

use super::families::PROFILE_NAMES;
use super::kind::Kind;

/// Why some text is no profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is no profile of that name.
    #[error("there is no profile '{name}'; there are {}", PROFILE_NAMES.join(", "))]
    UnknownProfile {
        /// As it was given.
        name: String,
    },
    /// A part of the settings without a value.
    #[error("'{part}' has no value: settings are name=value, with commas between")]
    NoValue {
        /// As it was given.
        part: String,
    },
    /// There is no setting of that name.
    #[error("there is no setting '{setting}'")]
    UnknownSetting {
        /// As it was given.
        setting: String,
    },
    /// A setting was given twice.
    #[error("'{setting}' is given twice")]
    Twice {
        /// Its name.
        setting: &'static str,
    },
    /// A value out of range, or of the wrong kind.
    #[error("'{setting}' cannot be '{value}': it takes {kind}")]
    BadValue {
        /// Its name.
        setting: &'static str,
        /// As it was given.
        value: String,
        /// What it takes.
        kind: Kind,
    },
    /// A setting of a module that was not chosen.
    #[error(
        "'{setting}' has no effect here: it belongs to {selector}={belongs_to}, and {selector} is {chosen}"
    )]
    NotApplicable {
        /// Its name.
        setting: &'static str,
        /// The setting that chooses the module.
        selector: &'static str,
        /// The values that would choose it.
        belongs_to: String,
        /// The value it has.
        chosen: String,
    },
    /// Settings that do not go together.
    #[error("{0}")]
    Conflict(String),
    /// Too long to be told to the other end.
    #[error("{bytes} bytes are too many for a profile: {max} fit into the handshake", max = Self::NAME_BYTES_MAX)]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

impl ProfileError {
    /// Longest profile, in bytes (docs/wire.md 7).
    pub const NAME_BYTES_MAX: usize = 255;
}
