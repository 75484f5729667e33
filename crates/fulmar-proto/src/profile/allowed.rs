//! What a server sends with at the wish of its clients.

use std::str::FromStr;

use super::table::TABLE;
use super::{Profile, ProfileError};

/// Profiles that a server follows its clients in, besides those that obey congestion. Some of the published
/// ones do not, and settings can keep any from it: a client that names such a one has the server flood
/// whoever holds the client's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedProfiles {
    /// None.
    #[default]
    Obeying,
    /// Those of these names, with any settings.
    Named(Vec<String>),
    /// Any.
    All,
}

impl AllowedProfiles {
    /// A client may have the server send with this.
    pub fn allows(&self, profile: &Profile) -> bool {
        let name = profile.name.split(':').next().unwrap_or_default();
        profile.obeys_congestion
            || match self {
                Self::Obeying => false,
                Self::Named(names) => names.iter().any(|allowed| allowed == name),
                Self::All => true,
            }
    }
}

/// `all`, or names of profiles with commas between.
impl FromStr for AllowedProfiles {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        if text == "all" {
            return Ok(Self::All);
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        names.iter().try_for_each(|name| TABLE.family(name).map(drop))?;
        Ok(Self::Named(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(allowed: &AllowedProfiles, profile: &str) -> bool {
        allowed.allows(&Profile::parse(profile).expect("a profile"))
    }

    #[test]
    fn what_clients_may_choose() {
        let default = AllowedProfiles::default();
        for good in ["auto", "newreno", "cubic:wmin=4", "reno", "tcp-fec", "tcp-fec-interleave", "ctcp:k=16"]
        {
            assert!(allows(&default, good), "{good}");
        }
        assert!(allows(&default, "tcp-nc") && allows(&default, "tcp-nc-adaptive"));
        let some: AllowedProfiles = "lt-tcp, dfcp".parse().unwrap();
        for bad in
            ["dfcp", "bbr", "no-cc", "lt-tcp", "cubic:wmin=900", "newreno:iw=1000", "auto:cc=unlimited"]
        {
            assert!(!allows(&default, bad) && allows(&AllowedProfiles::All, bad), "{bad}");
            assert_eq!(allows(&some, bad), ["dfcp", "lt-tcp"].contains(&bad), "{bad}");
        }
        assert!(allows(&some, "cubic") && allows(&some, "dfcp:rate=2000"));
        assert!(matches!("cubic,vegas".parse::<AllowedProfiles>(),
            Err(ProfileError::UnknownProfile { name, .. }) if name == "vegas"));
        assert_eq!("all".parse(), Ok(AllowedProfiles::All));
    }
}
