//! What a server sends with at the wish of its clients.

use std::str::FromStr;

/// Profiles that clients may choose for what a server sends to them. Some of the published ones do not obey congestion, and
/// settings can keep any from it: those are for the server's owner to allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowedProfiles {
    /// Those that obey congestion, as they are.
    #[default]
    Obeying,
    /// These, with any settings.
    Only(Vec<String>),
    /// Any.
    All,
}

/// Profiles whose windows shrink when packets are lost or delayed.
const OBEYING: [&str; 9] = [
    "auto",
    "newreno",
    "cubic",
    "reno",
    "tcp-fec",
    "tcp-fec-interleave",
    "ctcp",
    "tcp-nc",
    "tcp-nc-adaptive",
];

impl AllowedProfiles {
    /// A connection sends with this profile at the wish of its client; the reason why that cannot be, if so.
    pub fn refusal(&self, profile: &str, own: &str) -> Option<String> {
        let family = profile.split(':').next().unwrap_or_default();
        let is_allowed = match self {
            Self::Obeying => OBEYING.contains(&profile),
            Self::Only(names) => names.iter().any(|name| name == family),
            Self::All => true,
        };
        let why = || format!("this server does not send with {profile}: its --allow-profiles says with what");
        (!is_allowed && profile != own).then(why)
    }
}

impl FromStr for AllowedProfiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match names.iter().find(|name| !fulmar::PROFILE_NAMES.contains(&name.as_str())) {
            Some(unknown) => Err(format!("`{unknown}` is no profile (see `fulmar profiles`), nor `all`")),
            None => Ok(Self::Only(names)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_may_choose() {
        assert_eq!("all".parse(), Ok(AllowedProfiles::All));
        let some: AllowedProfiles = "cubic, ctcp".parse().unwrap();
        assert!("cubic,vegas".parse::<AllowedProfiles>().unwrap_err().contains("vegas"));
        assert_eq!(some.refusal("ctcp:k=16", "auto"), None);
        assert_eq!(some.refusal("auto", "auto"), None, "its own");
        assert!(some.refusal("dfcp:rate=2000", "auto").unwrap().contains("dfcp:rate=2000"));
        assert!(some.refusal("auto:cc=unlimited", "auto").is_some());
        let default = AllowedProfiles::default();
        assert!(OBEYING.iter().all(|name| default.refusal(name, "auto").is_none()));
        for bad in ["dfcp", "dfcp-raptorq:rate=2000,persistent=1", "no-cc", "lt-tcp", "cubic:wmin=900"] {
            assert!(
                default.refusal(bad, "auto").is_some() && AllowedProfiles::All.refusal(bad, "auto").is_none()
            );
        }
    }
}
