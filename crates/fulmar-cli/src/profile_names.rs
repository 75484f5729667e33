//! Profiles on the command line: their names are offered by the shell's completion, and settings may follow
//! them.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use fulmar::{Profile, ProfileError, profile_names};

/// A profile that there is, as it writes itself.
pub fn parse_profile(spec: &str) -> Result<String, ProfileError> {
    Profile::parse(spec).map(|profile| profile.name)
}

/// Reads a profile, and knows the names of all.
#[derive(Clone, Copy, Debug)]
pub struct ProfileParser;

impl TypedValueParser for ProfileParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        TypedValueParser::parse_ref(&parse_profile, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(profile_names().into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_that_there_are() {
        assert_eq!(parse_profile("cubic"), Ok("cubic".into()));
        assert_eq!(parse_profile("ctcp: k=16"), Ok("ctcp:k=16".into()));
        assert!(parse_profile("vegas").unwrap_err().to_string().contains("auto"));
    }
}
