//! What one client may reach through the gateway, and where it may listen.
//!
//! | the client's key | public addresses | private ones | listening |
//! |---|---|---|---|
//! | the gateway's own | yes | yes | yes |
//! | without `permit` | yes | no | by `permit-listen` |
//! | `permit="*"` | yes | yes, unless `deny-private` | by `permit-listen` |
//! | `permit="..."` | what is listed | what is listed by name or network, unless `deny-private` | by `permit-listen` |
//!
//! A pattern that matches many hosts (`*:443`, `*.example.org:443`) opens no private address: who can set the
//! records of a name must not thereby choose a door of the gateway's network.

use std::net::IpAddr;

use super::address;
use super::pattern::{ListenPattern, Pattern};
use crate::tunnel::wire::target::{Place, Target};

/// What a client may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// `None`: every public address.
    pub(super) permits: Option<Vec<Pattern>>,
    pub(super) listens: Vec<ListenPattern>,
    pub(super) denies_private: bool,
}

impl Rules {
    /// For the gateway's own identity.
    pub fn everything() -> Self {
        Self {
            permits: Some(vec![Pattern::Everything]),
            listens: vec![ListenPattern::Everything],
            denies_private: false,
        }
    }

    /// Whether this place may be reached at this address, which is in its plain form; otherwise why not.
    pub fn judge(&self, place: &Place, ip: IpAddr) -> Result<(), String> {
        let private = address::private(ip);
        let no = |private: address::Reason, why: &str| {
            format!("{} is {private}, and not permitted{why}", address_of(place, ip))
        };
        match (private, &self.permits) {
            (None, None) => Ok(()),
            (None, Some(permits)) if permits.iter().any(|p| p.matches(place, ip)) => Ok(()),
            (Some(_), Some(permits))
                if !self.denies_private && permits.iter().any(|p| p.names(place, ip)) =>
            {
                Ok(())
            }
            (None, Some(_)) => Err(format!("this target is not permitted; {}", remedy(place))),
            (Some(private), Some(_)) if self.denies_private => {
                Err(no(private, " by deny-private in authorized_keys"))
            }
            (Some(private), _) => Err(no(private, &format!("; {}", remedy(place)))),
        }
    }

    /// Whether any packets may be sent from the gateway.
    pub fn allows_tun(&self) -> bool {
        !self.denies_private && self.permits.iter().flatten().any(|p| matches!(p, Pattern::Everything))
    }

    /// Whether this Unix socket may be reached.
    pub fn allows_socket(&self, path: &str) -> bool {
        !self.denies_private && self.permits.iter().flatten().any(|p| p.allows_socket(path))
    }

    /// Whether the client may listen there.
    pub fn allows_listening(&self, at: &Target) -> bool {
        self.listens.iter().any(|pattern| pattern.matches(at))
    }
}

/// The address behind a name; of a place that is an address already, no second time.
fn address_of(place: &Place, ip: IpAddr) -> String {
    let is_said = place.host.parse::<IpAddr>().is_ok_and(|said| address::plain(said) == ip);
    if is_said { "it".to_owned() } else { ip.to_string() }
}

/// What lets a client in there.
fn remedy(what: &dyn std::fmt::Display) -> String {
    format!("the gateway's owner can write permit=\"{what}\" before your key in authorized_keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(permits: &str) -> Rules {
        let permits = permits.split(',').map(|p| p.parse().unwrap()).collect();
        Rules { permits: Some(permits), ..Rules::default() }
    }

    fn allows(rules: &Rules, host: &str, port: u16, ip: &str) -> bool {
        rules.judge(&Place::new(host, port), ip.parse().unwrap()).is_ok()
    }

    #[test]
    fn a_plain_key_reaches_the_internet_and_nothing_else() {
        let plain = Rules::default();
        assert!(allows(&plain, "example.org", 80, "1.1.1.1"));
        assert!(!allows(&plain, "example.org", 80, "10.0.0.1"));
        assert!(!allows(&plain, "localhost", 80, "127.0.0.1"));
        assert!(!plain.allows_socket("/run/x"));
        assert!(!plain.allows_listening(&Target::tcp("localhost", 8080)));
    }

    #[test]
    fn a_refusal_names_an_address_once_and_that_of_a_name() {
        let why = |host: &str| {
            Rules::default().judge(&Place::new(host, 80), "10.0.0.1".parse().unwrap()).unwrap_err()
        };
        let literal = why("10.0.0.1");
        assert!(
            literal.starts_with("it is a private address (Private-Use), and not permitted; "),
            "{literal}"
        );
        assert_eq!(why("::ffff:10.0.0.1").split(' ').next(), Some("it"));
        assert_eq!(why("db.example").split(' ').next(), Some("10.0.0.1"));
    }

    #[test]
    fn the_own_key_reaches_everything() {
        let own = Rules::everything();
        assert!(allows(&own, "localhost", 80, "127.0.0.1") && allows(&own, "x", 1, "169.254.169.254"));
        assert!(own.allows_socket("/run/x") && own.allows_listening(&Target::tcp("0.0.0.0", 80)));
    }

    #[test]
    fn a_list_is_all_there_is() {
        let listed = rules("db.internal:5432,*.example.org:443,10.1.0.0/16:*,*:80,/run/app.sock");
        assert!(allows(&listed, "DB.internal.", 5432, "10.0.0.7"), "a name that the owner has listed");
        assert!(!allows(&listed, "db.internal", 5433, "10.0.0.7"));
        assert!(allows(&listed, "a.example.org", 443, "1.1.1.1"));
        assert!(!allows(&listed, "a.example.org", 443, "127.0.0.1"), "a wildcard opens nothing private");
        assert!(!allows(&listed, "evil-example.org", 443, "1.1.1.1"));
        assert!(allows(&listed, "anything", 22, "10.1.2.3"), "a network, whatever the name");
        assert!(!allows(&listed, "anything", 22, "10.2.0.1"));
        assert!(allows(&listed, "x", 80, "1.1.1.1") && !allows(&listed, "x", 80, "192.168.0.1"));
        assert!(!allows(&listed, "x", 81, "1.1.1.1"));
        assert!(listed.allows_socket("/run/app.sock") && !listed.allows_socket("/run/other.sock"));
    }

    #[test]
    fn private_addresses_can_be_denied_after_all() {
        let all = Rules { denies_private: true, ..rules("*,10.0.0.1:22") };
        assert!(allows(&all, "x", 22, "1.1.1.1"));
        assert!(!allows(&all, "10.0.0.1", 22, "10.0.0.1") && !allows(&all, "x", 1, "127.0.0.1"));
        assert!(!all.allows_socket("/run/x"));
    }
}
