//! `fulmar serve`: gives and takes files below a folder, to and from clients that are known.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use fulmar::AllowedProfiles;

use crate::cp::error::TransferError;
use crate::cp::server::{Handled, Served};
use crate::cp::work::SHARE;
use crate::exit::Failure;
use crate::reach::{self, DEFAULT_PORT, ServerArgs, Service};
use crate::session::Session;
use crate::units;

/// Gives and takes files below a folder, to and from clients that are known.
///
/// Clients are known by their keys: those in authorized_keys, and this machine's own key. So one key copied to two machines
/// is enough, or `fulmar keygen` on the client and a line in authorized_keys here.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen: an address, a port, or both
    #[arg(short, long, value_name = "ADDR", default_value = "4747", value_parser = parse_listen)]
    listen: SocketAddr,
    /// The folder that is served; nothing outside of it can be reached
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Only give files, take none
    #[arg(long)]
    read_only: bool,
    /// How to send: a profile, with settings if wanted (see `fulmar profiles`)
    #[arg(long, default_value = "auto", value_parser = reach::parse_profile)]
    profile: String,
    /// Profiles that clients may choose for what is sent to them besides those that obey congestion: names
    /// with commas between, or all
    #[arg(long, value_name = "NAMES")]
    allow_profiles: Option<AllowedProfiles>,
    /// Report as JSON on standard output, a line for each event
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    let served = Arc::new(Served::new(&args.root, args.read_only)?);
    let allowed = args.allow_profiles.unwrap_or_default();
    let server = ServerArgs { listen: args.listen, profile: args.profile, allowed };
    let listener = reach::listen(&server, Service::Copy)?;
    let root = std::fs::canonicalize(&args.root).unwrap_or(args.root);
    if args.json {
        let event = serde_json::json!({
            "event": "listening",
            "address": listener.address.to_string(),
            "root": root.display().to_string(),
            "fingerprint": listener.fingerprint,
        });
        println!("{event}");
    } else {
        println!("Serving {} at {}", root.display(), listener.address);
        println!("This server's key: {}", listener.fingerprint);
    }
    while let Some(incoming) = listener.next().await {
        let (served, is_json) = (Arc::clone(&served), args.json);
        tokio::spawn(async move {
            match incoming.await {
                Ok(session) => {
                    serve(&served, session, move |peer, result| report(peer, result, is_json)).await
                }
                Err(failure) => tracing::warn!("turned away: {failure}"),
            }
        });
    }
    Err(Failure::Other("the socket has failed".into()))
}

/// Serves the streams of one connection, all at the same time; `report` hears what came of each.
pub async fn serve<F>(served: &Arc<Served>, session: Session, report: F)
where
    F: Fn(&str, &Result<Handled, TransferError>) + Clone + Send + 'static,
{
    let (client, peer) = (session.peer_key(), session.peer());
    tracing::debug!("{peer} is here ({client})");
    let visit = served.clients.visit(&client);
    while let Ok((mut writer, mut reader)) = session.accept().await {
        // What comes behind is not even accepted: it costs what the transport's windows allow, and no more.
        let Some(admission) = visit.admit().await else { break };
        let (served, client, peer, report) =
            (Arc::clone(served), client.clone(), peer.clone(), report.clone());
        let share = Arc::clone(&visit.client.work);
        tokio::spawn(SHARE.scope(share, async move {
            let result = served.handle(&client, &mut reader, &mut writer).await;
            report(&peer, &result);
            drop(admission);
        }));
    }
    tracing::debug!("{peer} has left");
}

fn report(peer: &str, result: &Result<Handled, TransferError>, is_json: bool) {
    if is_json {
        let event = match result {
            Ok(Handled { request, path, bytes }) => serde_json::json!({
                "event": request, "client": peer, "path": path,
                "bytes": bytes.map(|b| b.0), "resumed_bytes": bytes.map(|b| b.1),
            }),
            Err(error) => {
                serde_json::json!({ "event": "failed", "client": peer, "error": error.to_string() })
            }
        };
        println!("{event}");
        return;
    }
    match result {
        Ok(Handled { request, path, bytes: Some((bytes, resumed)) }) => {
            let resumed = if *resumed > 0 {
                format!(" ({} there already)", units::bytes(*resumed))
            } else {
                String::new()
            };
            tracing::info!("{peer}: {request} {path}, {}{resumed}", units::bytes(*bytes));
        }
        Ok(Handled { request, path, bytes: None }) => tracing::debug!("{peer}: {request} {path}"),
        Err(error) => tracing::warn!("{peer}: {error}"),
    }
}

/// An address with a port, a port alone (on every address), or an address alone (with the usual port).
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let bare = text
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .map(|ip| SocketAddr::new(ip, DEFAULT_PORT));
    let port = text.strip_prefix(':').unwrap_or(text).parse().map(reach::any_address);
    let found = text.parse().or(bare).ok().or(port.ok());
    found.ok_or_else(|| format!("`{text}` is neither an address nor a port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen() {
        assert_eq!(parse_listen("127.0.0.1:5"), Ok("127.0.0.1:5".parse().unwrap()));
        assert_eq!(parse_listen("127.0.0.1"), Ok("127.0.0.1:4747".parse().unwrap()));
        assert_eq!(parse_listen("[::1]:5"), Ok("[::1]:5".parse().unwrap()));
        assert_eq!(parse_listen("::1"), Ok("[::1]:4747".parse().unwrap()));
        assert_eq!(parse_listen("5").map(|a| a.port()), Ok(5));
        assert_eq!(parse_listen(":5").map(|a| a.port()), Ok(5));
        assert!(parse_listen("example").is_err());
    }
}
