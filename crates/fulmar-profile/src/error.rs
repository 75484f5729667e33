//! Why some text is no profile.

use crate::kind::Kind;

/// Why some text is no profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is no profile of that name.
    #[error("there is no profile '{name}'; there are {known}{hint}")]
    UnknownProfile {
        /// As it was given.
        name: String,
        /// Those that there are.
        known: String,
        /// That more are left out of this program; empty if none are.
        hint: &'static str,
    },
    /// A part of the settings without a value.
    #[error("'{part}' has no value: settings are name=value, with commas between")]
    NoValue {
        /// As it was given.
        part: String,
    },
    /// There is no setting of that name.
    #[error("there is no setting '{setting}'{hint}")]
    UnknownSetting {
        /// As it was given.
        setting: String,
        /// As above.
        hint: &'static str,
    },
    /// A setting was given twice.
    #[error("'{setting}' is given twice")]
    Twice {
        /// Its name.
        setting: &'static str,
    },
    /// A value out of range, or of the wrong kind.
    #[error("'{setting}' cannot be '{value}': it takes {kind}{hint}")]
    BadValue {
        /// Its name.
        setting: &'static str,
        /// As it was given.
        value: String,
        /// What it takes.
        kind: Kind,
        /// As above, where it is a word.
        hint: &'static str,
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
    /// Longest profile, in bytes (docs/internals/wire.md 7).
    pub const NAME_BYTES_MAX: usize = 255;
}
