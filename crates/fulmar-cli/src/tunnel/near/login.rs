//! The name and the password of a proxy.

/// A name and a password that clients have to know.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

/// The password is nobody's business.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// From `NAME:PASSWORD`, or `@FILE` with that in its first line, which does not show in the list of
    /// processes.
    pub fn parse(text: &str) -> Result<Self, String> {
        let from_file = |path| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let text = text.strip_prefix('@').map_or_else(|| Ok(text.to_owned()), from_file)?;
        let line = text.lines().next().unwrap_or_default();
        match line.split_once(':') {
            Some((user, password))
                if (1..=255).contains(&user.len()) && (1..=255).contains(&password.len()) =>
            {
                Ok(Self { user: user.into(), password: password.into() })
            }
            _ => Err("a login is NAME:PASSWORD, neither of them empty".into()),
        }
    }

    /// Whether these are right; takes as long for any wrong ones.
    pub fn is_right(&self, user: &str, password: &str) -> bool {
        digest(user, password) == self.digest()
    }

    /// Tells logins apart without showing them.
    pub fn digest(&self) -> blake3::Hash {
        digest(&self.user, &self.password)
    }
}

fn digest(user: &str, password: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(user.len() as u64).to_le_bytes()).update(user.as_bytes()).update(password.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins() {
        let login = Login::parse("me:se:cret").unwrap();
        assert!(login.is_right("me", "se:cret"));
        assert!(
            !login.is_right("me", "") && !login.is_right("mes", "e:cret") && !login.is_right("", "se:cret")
        );
        assert!(!format!("{login:?}").contains("cret"));
        for wrong in ["", "me", "me:", ":x", "@/no/such/file"] {
            assert!(Login::parse(wrong).is_err(), "{wrong}");
        }
    }
}
