//! Keys in files, in SSH's manner: who this end is, which servers it knows, whom it lets in.
//!
//! All of it lies in one folder, [`Home`]: `$FULMAR_HOME`, or `fulmar` in the user's configuration folder.
//!
//! | file | holds | written by |
//! |---|---|---|
//! | `identity` | the private key in PEM, mode 0600 | [`Home::create_identity`] |
//! | `known_hosts` | lines `HOST:PORT KEY comment` or `HOST KEY comment` | [`KnownHosts::add`], people |
//! | `authorized_keys` | lines `[options] KEY comment` | [`AuthorizedKeys::add`], people |
//! | `reset_secret` | 32 random bytes, mode 0600: see [`ResetSecret`] | [`Home::reset_secret`] |
//!
//! A KEY is `fulmar-ed25519 BASE64`. Empty lines and lines that begin with `#` are left alone.
//!
//! **Whom to trust.** An identity trusts itself: a peer that holds the same key is let in, and believed,
//! without any entry, so one key copied to two machines is enough, unless `known_hosts` names another key for
//! the server: that goes before everything. Otherwise a client has to be in `authorized_keys`, or it is
//! refused, and a server in `known_hosts`, or somebody has to be asked. A server known under another key is
//! an error that nobody is asked about.
//!
//! An `authorized_keys` or `known_hosts` that others than its owner may write to, or whose folder they may,
//! is refused: it decides who is let in, or believed ([`check_trusted`]).
//!
//! Files are replaced in one step, and changed under a lock, so that any number of processes may use them at
//! once. A server notices changes with the next client.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use fulmar::identity::Home;
//!
//! let home = Home::locate()?;
//! let identity = home.identity_or_create()?;
//! println!("this is {}", identity.public_key());
//!
//! // A server that lets in who is in `authorized_keys`, and who has the same identity.
//! let server = home.server("[::]:4747".parse()?, Default::default())?;
//!
//! // A client that knows servers from `known_hosts`, and trusts new ones at first sight.
//! let client = fulmar::Endpoint::client("[::]:0".parse()?)?;
//! let connection = home.connect(&client, &"example.org:4747".parse()?, Default::default(), async |_| true).await?;
//! # Ok(())
//! # }
//! ```

mod authorized_keys;
mod connect;
mod file;
mod home;
mod host;
mod known_hosts;
mod reset_secret;

pub use authorized_keys::{AuthorizedClients, AuthorizedKey, AuthorizedKeys, KeyOption};
pub use connect::{HostError, UnknownServer};
pub use file::{StoreError, check_trusted};
pub use home::Home;
pub use host::{Host, HostParseError, PORT_DEFAULT};
pub use known_hosts::{KnownHosts, Verdict};
pub use reset_secret::ResetSecret;
