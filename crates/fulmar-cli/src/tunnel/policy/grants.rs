//! What a line of `authorized_keys` grants.

use std::str::FromStr;

use fulmar::crypto::PublicKey;
use fulmar::identity::{AuthorizedKeys, KeyOption};

use super::rules::Rules;
use crate::units;

/// Streams of one client at the same time, unless its line says otherwise.
const STREAMS_DEFAULT: usize = 4096;

/// How much a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams at the same time.
    pub streams: usize,
    /// Bytes per second in each direction; zero for no limit.
    pub rate_bytes: u64,
    /// Bytes that its connections may hold here.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { streams: STREAMS_DEFAULT, rate_bytes: 0, memory_bytes: u64::MAX }
    }
}

/// What a key is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// Giving and taking files (`fulmar serve`).
    pub has_files: bool,
    /// Tunnels (`fulmar gateway`).
    pub has_tunnels: bool,
    /// Where tunnels may lead.
    pub rules: Rules,
    /// How much they may use.
    pub limits: Limits,
    /// What people call the key: the end of its line.
    pub comment: String,
}

impl Default for Grants {
    fn default() -> Self {
        let (rules, limits, comment) = Default::default();
        Self { has_files: true, has_tunnels: true, rules, limits, comment }
    }
}

impl Grants {
    /// What `key` is granted now: everything to the own one, otherwise what its line says. `None` without a
    /// line; an error if the file or the line cannot be read.
    pub fn of(key: &PublicKey, own: &PublicKey, keys: &AuthorizedKeys) -> Result<Option<Self>, String> {
        if key == own {
            return Ok(Some(Self { rules: Rules::everything(), ..Self::default() }));
        }
        let Some(entry) = keys.find(key).map_err(|error| error.to_string())? else { return Ok(None) };
        let grants = Self::parse(&entry.options);
        let named = grants.map(|grants| Some(Self { comment: entry.comment, ..grants }));
        named.map_err(|why| format!("{}:{}: {why}", keys.path().display(), entry.line))
    }

    /// Whether every line can be read, with its options; otherwise where the first mistake is.
    pub fn check(keys: &AuthorizedKeys) -> Result<(), String> {
        for entry in keys.keys().map_err(|error| error.to_string())? {
            let wrong = |why: String| format!("{}:{}: {why}", keys.path().display(), entry.line);
            Self::parse(&entry.options).map_err(wrong)?;
        }
        Ok(())
    }

    fn parse(options: &[KeyOption]) -> Result<Self, String> {
        let mut grants = Self::default();
        for option in options {
            grants.apply(&option.name, option.value.as_deref())?;
        }
        Ok(grants)
    }

    fn apply(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        match (name, value) {
            ("permit", Some(list)) => {
                self.rules.permits.get_or_insert_default().extend(items(list)?);
            }
            ("permit-listen", Some(list)) => {
                self.rules.listens.extend(items(list)?);
            }
            ("streams", Some(count)) => {
                self.limits.streams =
                    count.parse().map_err(|_| format!("streams: `{count}` is no number"))?;
            }
            ("rate", Some(rate)) => self.limits.rate_bytes = units::parse_rate(rate)?.div_ceil(8),
            ("memory", Some(size)) => self.limits.memory_bytes = units::parse_size(size)?,
            ("deny-private", None) => self.rules.denies_private = true,
            ("no-files", None) => self.has_files = false,
            ("no-tunnel", None) => self.has_tunnels = false,
            ("permit" | "permit-listen" | "streams" | "rate" | "memory", None) => {
                return Err(format!("{name} needs a value, as {name}=\"...\""));
            }
            ("deny-private" | "no-files" | "no-tunnel", Some(_)) => {
                return Err(format!("{name} takes no value"));
            }
            _ => {
                return Err(format!(
                    "there is no option `{name}`; options are permit, permit-listen, deny-private, streams, rate, memory, \
                     no-files, no-tunnel"
                ));
            }
        }
        Ok(())
    }
}

/// What stands between commas. A list of nothing is empty; nothing between two commas is a slip.
fn items<T: FromStr<Err = String>>(list: &str) -> Result<Vec<T>, String> {
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let item = |item: &str| match item.trim() {
        "" => Err(format!("`{list}` has an empty place in it")),
        item => item.parse(),
    };
    list.split(',').map(item).collect()
}

#[cfg(test)]
mod tests {
    use fulmar::crypto::Identity;

    use super::*;

    #[test]
    fn lines_grant_what_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorized_keys");
        let keys = AuthorizedKeys::at(&path);
        let key = |seed| Identity::from_seed(&[seed; 32]).public_key();
        let write = |options: &str| std::fs::write(&path, format!("{options} {}\n", key(1))).unwrap();
        let of = |seed| Grants::of(&key(seed), &key(9), &keys);

        assert_eq!(of(9).unwrap().unwrap().rules, Rules::everything());
        assert_eq!(of(1), Ok(None));
        write("");
        assert_eq!(of(1), Ok(Some(Grants::default())));
        write("permit=\"a:1, b:*\",permit-listen=\"8080\",streams=7,rate=80M,memory=\"64M\",no-files");
        let grants = of(1).unwrap().unwrap();
        let limits = Limits { streams: 7, rate_bytes: 10_000_000, memory_bytes: 64 << 20 };
        assert_eq!((grants.limits, grants.has_files, grants.has_tunnels), (limits, false, true));
        assert_eq!(grants.rules.permits.unwrap().len(), 2);
        // An empty list is a list: nothing.
        write("permit=\"\"");
        assert_eq!(of(1).unwrap().unwrap().rules.permits, Some(Vec::new()));
        for bad in [
            "permit",
            "permit=\"nonsense\"",
            "permit=\"a:1,,b:2\"",
            "permit=\",\"",
            "permit=\"a:443-80\"",
            "permit=\"[::ffff:10.0.0.0/8]:22\"",
            "permit-listen=\"443-80\"",
            "permit-listen=\"[::ffff:127.0.0.1/8]:9000\"",
            "streams=x",
            "rate=fast",
            "deny-private=yes",
            "sudo",
        ] {
            write(bad);
            let error = of(1).unwrap_err();
            assert!(error.contains("authorized_keys:1: "), "{error}");
        }
    }
}
