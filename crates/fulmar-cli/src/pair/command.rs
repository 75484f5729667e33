//! `fulmar pair`: exchanges keys with a server that shows a code.

use std::time::Duration;

use fulmar::identity::Host;

use super::code::Code;
use super::exchange::{self, PairError};
use super::serving::{channel_of, no_invitation};
use crate::exit::Failure;
use crate::host_names::HostParser;
use crate::keygen;
use crate::reach::{self, DEFAULT_PORT};
use crate::trust;
use crate::units::parse_seconds;

/// How long the conversation may take, once connected.
const CONVERSATION_MAX: Duration = Duration::from_secs(30);

/// Exchange keys with a server, by a code that it shows.
///
/// On the server run `fulmar serve --invite` or `fulmar gateway --invite`. It shows a code that is good for
/// ten minutes and one attempt. Afterwards the server knows this machine's key, and this machine knows the
/// server's.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar serve --root /srv/files --invite         # there; it shows a code
    fulmar pair server.example.org 7k2m-p9xd        # here
    fulmar cp report.pdf server.example.org:        # from now on")]
pub struct Args {
    /// The server
    #[arg(value_name = "HOST[:PORT]", value_parser = HostParser, hide_possible_values = true)]
    host: String,
    /// The code that the server shows
    code: String,
    /// The server's port, unless HOST has one
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Time to wait for an answer, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "15")]
    connect_timeout: Duration,
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Failure> {
    let code: Code = args.code.parse().map_err(|e: super::code::CodeError| Failure::Usage(e.to_string()))?;
    let host = match args.host.parse::<Host>() {
        // A port of its own goes before -p.
        Ok(host) if host.port() != DEFAULT_PORT => host,
        Ok(host) => Host::new(host.name(), args.port).map_err(|e| Failure::Usage(e.to_string()))?,
        Err(error) => return Err(Failure::Usage(error.to_string())),
    };
    let (session, key) = reach::connect_to_pair(&host, args.connect_timeout).await?;
    let channel = channel_of(&session)?;
    let talk = async {
        let (mut send, mut receive) =
            session.open().await.map_err(|error| PairError::Lost(std::io::Error::other(error)))?;
        exchange::join(&mut receive, &mut send, &channel, &code, &keygen::comment()).await?;
        let _ = send.finish();
        Ok(())
    };
    let paired = tokio::time::timeout(CONVERSATION_MAX, talk).await;
    let paired = paired.unwrap_or_else(|_| Err(PairError::Lost(std::io::ErrorKind::TimedOut.into())));
    paired.map_err(|error| match (&error, session.close_reason()) {
        // The server judges a client after the client has judged the server.
        (PairError::Lost(_), Some(Failure::Untrusted(_) | Failure::Other(_))) => {
            Failure::Untrusted(no_invitation(&host))
        }
        _ => explain(&error, &host),
    })?;
    let known = trust::home()?.known_hosts();
    known.add(&host, &key, "")?;
    session.close().await;
    if args.json {
        let report = serde_json::json!({ "ok": true, "host": host.to_string(), "fingerprint": key.fingerprint().to_string() });
        println!("{report}");
    } else {
        println!("Paired with {host}, whose key is {}.", key.fingerprint());
        println!("It knows this machine's key now, and its own is in {}.", known.path().display());
    }
    Ok(())
}

fn explain(error: &PairError, host: &Host) -> Failure {
    match error {
        PairError::NoInvitation => Failure::Untrusted(no_invitation(host)),
        PairError::WrongCode => Failure::Untrusted(format!(
            "{host}: the code is not the one that it shows, or somebody is in between. That code is void now: run \
             `fulmar serve --invite` (or `gateway --invite`) there again, and compare the letters"
        )),
        PairError::NotWritten => Failure::Untrusted(format!("{host}: {error}; its log says why")),
        PairError::Lost(_) => {
            Failure::Unreachable(format!("{host}: {error}. Its code is void: ask for a new one"))
        }
        PairError::Protocol => Failure::Other(format!("{host}: {error}")),
    }
}
