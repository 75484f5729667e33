//! A profile: a named choice of modules on the one engine, with their settings.
//!
//! [`Profile::parse`] reads what a command line or an experiment says: `auto`, `ctcp:proactive=1.5`,
//! `tcp-fec-interleave:g=3,l=30,r=0.7`, `lt-tcp:loss=oracle,p=0.05`. A profile ([`Family`]) is a row of
//! values of settings ([`Setting`]); some settings choose modules, the others belong to a module and can be
//! given only where it is chosen. So every recombination is one line of text, which the other end reads from
//! the handshake.
//!
//! [`ProfileBuilder`] does the same from code, and beneath both a `Profile` is a plain struct of makers:
//! `Profile { code: other.code.clone(), ..Profile::auto() }`.

use std::fmt;
use std::sync::Arc;

use fulmar_control::{CongestionController, Favor, LossEstimator, RedundancyPolicy, Sizing};
use fulmar_fec::Code;
use fulmar_profile::Table;

use crate::recovery::RecoveryConfig;

mod allowed;
mod engine;
mod from_values;
mod table;

pub use allowed::AllowedProfiles;
pub(crate) use engine::WINDOW_SYMBOLS;
pub use fulmar_profile::{
    Family, HandshakeTimer, Kind, Make, MakeContext, ProfileError, Setting, Value, Values,
};
pub(crate) use table::{code_ids, code_numbered};
pub use table::{families, profile_names, settings};

use table::TABLE;

/// The modules a connection uses to send. Local to the sender: the ends may differ.
///
/// The fields that are modules are hidden from the documentation, since their traits may change with any
/// release; `fulmar::modules` has them.
#[derive(Clone)]
pub struct Profile {
    /// What it was made from, `name:setting=value,..`: on the command line, in statistics, and for a server
    /// to follow.
    pub name: String,
    /// The erasure code.
    #[doc(hidden)]
    pub code: Arc<dyn Code>,
    /// The congestion controller.
    #[doc(hidden)]
    pub congestion: Make<dyn CongestionController>,
    /// The loss-rate estimator.
    #[doc(hidden)]
    pub loss: Make<dyn LossEstimator>,
    /// The redundancy policy.
    #[doc(hidden)]
    pub redundancy: Make<dyn RedundancyPolicy>,
    /// How long blocks are, where the code has blocks.
    #[doc(hidden)]
    pub sizing: Make<dyn Sizing>,
    /// Loss detection and timeouts.
    #[doc(hidden)]
    pub recovery: RecoveryConfig,
    /// When a flight of the handshake is repeated; `None`: early, and at an even pace (docs/internals/wire.md
    /// 5.2).
    #[doc(hidden)]
    pub handshake_timer: Option<HandshakeTimer>,
    /// Its congestion controller sends less when packets are lost or delayed: a server sends with it at a
    /// client's wish without being told that it may ([`AllowedProfiles`]).
    pub obeys_congestion: bool,
    /// What it favours: its policy where that heeds it, and how much the repair of datagrams may cost.
    pub favor: Favor,
}

impl Profile {
    /// The default: a sliding-window random linear code and congestion control that tells loss from
    /// congestion.
    pub fn auto() -> Self {
        Self::parse("auto").unwrap_or_else(|_| unreachable!("tests build every profile"))
    }

    /// The same profile, favouring `favor` where the application says nothing else of a stream. An error if
    /// its redundancy policy is another than the default's, or if it says so already.
    pub fn favoring(&self, favor: Favor) -> Result<Self, ProfileError> {
        ProfileBuilder::parse(&self.name)?.set("favor", favor)?.build()
    }

    /// The profile that `spec` describes: a name, or `name:setting=value,setting=value`.
    pub fn parse(spec: &str) -> Result<Self, ProfileError> {
        ProfileBuilder::parse(spec)?.build()
    }
}

/// Makes a profile setting by setting.
///
/// ```
/// # use fulmar_proto::{Profile, ProfileBuilder};
/// let built = ProfileBuilder::new("tcp-fec-interleave")?.set("g", 2)?.set("r", 0.8)?.build()?;
/// assert_eq!(built.name, Profile::parse("tcp-fec-interleave:g=2,r=0.8")?.name);
/// # Ok::<(), fulmar_proto::ProfileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProfileBuilder {
    table: &'static Table,
    family: &'static Family,
    given: Vec<(&'static str, String)>,
}

impl ProfileBuilder {
    /// The profile of that name, as it is.
    pub fn new(name: &str) -> Result<Self, ProfileError> {
        Self::of(&TABLE, name)
    }

    fn of(table: &'static Table, name: &str) -> Result<Self, ProfileError> {
        Ok(Self { table, family: table.family(name)?, given: Vec::new() })
    }

    /// A profile with settings, as [`Profile::parse`] takes it.
    pub fn parse(spec: &str) -> Result<Self, ProfileError> {
        Self::parse_of(&TABLE, spec)
    }

    fn parse_of(table: &'static Table, spec: &str) -> Result<Self, ProfileError> {
        let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
        let mut builder = Self::of(table, name.trim())?;
        for part in settings.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (setting, value) =
                part.split_once('=').ok_or_else(|| ProfileError::NoValue { part: part.into() })?;
            builder = builder.set(setting.trim(), value.trim())?;
        }
        Ok(builder)
    }

    /// One setting. An error if there is none of that name, if it was set before, or if the value is out of
    /// its range.
    pub fn set(mut self, setting: &str, value: impl fmt::Display) -> Result<Self, ProfileError> {
        let known = self.table.setting(setting)?;
        if self.given.iter().any(|(given, _)| *given == known.name) {
            return Err(ProfileError::Twice { setting: known.name });
        }
        let value = value.to_string();
        self.table.read(known, &value)?;
        self.given.push((known.name, value));
        Ok(self)
    }

    /// All settings with their values. An error if one belongs to a module that was not chosen, or if they do
    /// not go together.
    pub fn values(&self) -> Result<Values, ProfileError> {
        self.table.values(self.family, &self.given)
    }

    /// The profile.
    pub fn build(self) -> Result<Profile, ProfileError> {
        let (table, values) = (self.table, self.values()?);
        let settings = self.given.iter().map(|(setting, value)| format!("{setting}={value}"));
        let settings = settings.collect::<Vec<_>>().join(",");
        let separator = if settings.is_empty() { "" } else { ":" };
        let name = format!("{}{separator}{settings}", self.family.name);
        if name.len() > ProfileError::NAME_BYTES_MAX {
            return Err(ProfileError::TooLong { bytes: name.len() });
        }
        let code = table.code(&values);
        Ok(Profile {
            name,
            code: (code.make)(&values)
                .map_err(|error| ProfileError::Conflict(format!("code={}: {error}", code.name)))?,
            congestion: from_values::congestion(table, &values),
            loss: (table.estimator(&values).make)(&values),
            redundancy: (table.policy(&values).make)(&values),
            sizing: (table.sizing(&values).make)(&values),
            recovery: from_values::recovery(&values),
            handshake_timer: table.handshake_timer(&values),
            obeys_congestion: from_values::obeys(table, &values),
            favor: Favor::parse(values.word("favor")).unwrap_or_default(),
        })
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("name", &self.name).field("code", &self.code).finish_non_exhaustive()
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::auto()
    }
}

impl std::str::FromStr for Profile {
    type Err = ProfileError;

    fn from_str(spec: &str) -> Result<Self, ProfileError> {
        Self::parse(spec)
    }
}

#[cfg(test)]
mod tests;
