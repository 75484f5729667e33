//! The local proxy: SOCKS 5 and HTTP on one port, told apart by the first byte.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::client::Client;
use super::{http, local, socks};

/// How long a client may take to say what it wants (slowloris).
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Clients at the same time; more wait in the listener's queue.
const CLIENTS_MAX: usize = 8192;

/// The first byte of SOCKS 4 and 5.
const SOCKS_4: u8 = 4;
const SOCKS_5: u8 = 5;

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

/// Serves clients until this is dropped; those who are there stay.
pub async fn serve(listener: TcpListener, client: Client, login: Option<Arc<Login>>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = local::accept(&listener).await;
        let (client, login) = (client.clone(), login.clone());
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream, client, login).await {
                tracing::debug!("proxy: {error}");
            }
            drop(place);
        });
    }
}

async fn serve_one(stream: TcpStream, client: Client, login: Option<Arc<Login>>) -> Result<(), String> {
    let mut first = [0];
    let peeked = tokio::time::timeout(REQUEST_TIME_MAX, stream.peek(&mut first)).await;
    match peeked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|e| e.to_string())? {
        0 => Ok(()),
        _ if first[0] == SOCKS_5 => {
            socks::serve(stream, &client, login.as_deref()).await.map_err(|e| e.to_string())
        }
        _ if first[0] == SOCKS_4 => Err("SOCKS 4 is not spoken here: set the program to SOCKS 5".into()),
        _ => http::serve(stream, client, login).await.map_err(|e| e.to_string()),
    }
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
