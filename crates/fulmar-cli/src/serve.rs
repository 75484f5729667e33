//! `fulmar serve`: gives and takes files below a folder, to and from clients that are known.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fulmar::AllowedProfiles;
use tokio::sync::Semaphore;

use crate::cp::clients::REQUESTS_PER_CONNECTION;
use crate::cp::error::{FileCode, TransferError};
use crate::cp::message::PREAMBLE;
use crate::cp::server::{Admitted, Handled, Served};
use crate::exit::Failure;
use crate::limits::LimitArgs;
use crate::listen::{Listen, parse_listen_all};
use crate::pair::serving::told;
use crate::reach::{self, Listener, ServerArgs, Service, TcpArgs};
use crate::session::{Session, turn_away};
use crate::tunnel::commands;
use crate::tunnel::commands::watch::{WatchArgs, reload_on_hangup};
use crate::tunnel::config::keep_limits;
use crate::tunnel::far::gateway::Gateway;
use crate::tunnel::flow::halves::{CUT_OFF, Prefixed};
use crate::tunnel::watch::report::{Observed, ObservedGateway};
use crate::{trust, units};

/// How long a stream may take to show what it is for.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Serve a folder for `fulmar cp`: clients can upload and download.
///
/// A client may use it if its key is in authorized_keys here, or if it has the same key as this machine.
/// Three ways to let a client in: `--invite` here and `fulmar pair` there; `fulmar authorize LINE` here, with
/// the line that `fulmar keygen` prints there; or one key copied to both machines.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar serve --root /srv/files
    fulmar serve --root /srv/files --invite        # a code for `fulmar pair`
    fulmar serve --root /srv/files --read-only --listen :443")]
pub struct Args {
    /// Where to listen: an address, a port, or both; and at more ports, for clients to go to when one is
    /// blocked or slowed down: `:4747,20000-20100`
    #[arg(short, long, value_name = "ADDR", default_value = "4747", value_parser = parse_listen_all)]
    listen: Listen,
    #[command(flatten)]
    tcp: TcpArgs,
    /// Folder to serve. Clients cannot reach anything outside it
    #[arg(short, long, value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    root: PathBuf,
    /// Allow downloads only
    #[arg(long)]
    read_only: bool,
    /// Also be a gateway at the same port, like `fulmar gateway`
    #[arg(long)]
    gateway: bool,
    /// Show a one-time code, with which one new client can run `fulmar pair` within ten minutes
    #[arg(long)]
    invite: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[cfg(machine)]
    #[command(flatten)]
    tun: crate::packets::offer::TunArgs,
    /// How to send: a profile, with settings if you want, such as tcp-fec:fmax=5. See `fulmar profiles`
    #[arg(long, default_value = "auto", value_parser = crate::profile_names::ProfileParser, hide_possible_values = true)]
    profile: String,
    /// Extra profiles that clients may request: names separated by commas, or `all`. Profiles with congestion
    /// control are always allowed
    #[arg(long, value_name = "NAMES")]
    allow_profiles: Option<AllowedProfiles>,
    /// Memory limit for all connections, such as 512M. At the limit new clients are refused, and the
    /// connection that uses the most memory is closed [default: half of this machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print events in JSON, one on each line
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    #[cfg(machine)]
    if args.tun.is_wanted() && !args.gateway {
        return Err(Failure::Usage("--tun is a gateway's: it goes with --gateway".into()));
    }
    if args.watch.is_wanted() && !args.gateway {
        return Err(Failure::Usage("--metrics are a gateway's: they go with --gateway".into()));
    }
    keep_limits(&args.limits)?;
    let served = Arc::new(Served::new(&args.root, args.read_only)?);
    let server = ServerArgs {
        listen: args.listen,
        profile: args.profile,
        allowed: args.allow_profiles.unwrap_or_default(),
        memory_bytes: args.memory,
        invites: args.invite,
        tcp: args.tcp,
    };
    let listener = reach::listen_for(&server, services(true, args.gateway))?;
    let gateway = commands::gateway::open()?;
    #[cfg(machine)]
    let _changed = args.tun.offer(&gateway)?;
    let mut watch = args.watch.bind().await?;
    let root = std::fs::canonicalize(&args.root).unwrap_or(args.root);
    let code = listener.invite()?;
    if args.json {
        let event = serde_json::json!({
            "event": "listening",
            "address": listener.address.to_string(),
            "tcp": listener.tcp_address(), "ports": listener.ports(),
            "root": root.display().to_string(),
            "fingerprint": listener.fingerprint,
            "gateway": args.gateway,
            "metrics": watch.metrics_address(),
            "invite": code,
        });
        println!("{event}");
    } else {
        let also = if args.gateway { ", and a gateway" } else { "" };
        println!("Serving {} at {}{also}", units::printable(&root.display().to_string()), listener.places());
        println!("This server's key: {}", listener.fingerprint);
        let keys = trust::home()?.authorized_keys();
        println!("Clients are let in by {}, and by the key of this machine.", keys.path().display());
        if let Some(code) = code {
            println!("{}", told(&code, listener.address.port()));
        }
    }
    let result = if args.gateway {
        commands::raise_descriptor_limit();
        let watched: Vec<Arc<dyn Observed>> =
            vec![ObservedGateway::new(listener.address.to_string(), &gateway)];
        watch.start(watched.clone())?;
        commands::until_told(async {
            tokio::select! {
                () = accept_both(&listener, &served, &gateway, args.json) => {}
                () = reload_on_hangup(&watched) => {}
            }
        })
        .await
    } else {
        let watched: Vec<Arc<dyn Observed>> =
            vec![ObservedGateway::of_files(listener.address.to_string(), &gateway)];
        watch.start(watched.clone())?;
        let work = async {
            tokio::select! {
                failed = accept_files(&listener, &served, &gateway, args.json) => failed,
                () = reload_on_hangup(&watched) => Ok(()),
            }
        };
        commands::until(work).await?.unwrap_or_else(commands::Asked::end)
    };
    // Whoever is there hears it at once, instead of waiting for what does not come.
    listener.close().await;
    result
}

/// What a request takes beside what its connection holds, until it is admitted.
const STREAM_BYTES: usize = 8 << 10;

/// What is offered at one port.
pub fn services(has_files: bool, has_tunnels: bool) -> &'static [Service] {
    match (has_files, has_tunnels) {
        (true, true) => &[Service::Copy, Service::Tunnel],
        (_, true) => &[Service::Tunnel],
        _ => &[Service::Copy],
    }
}

/// Serves files to everybody who comes and may have them.
async fn accept_files(
    listener: &Listener,
    served: &Arc<Served>,
    gateway: &Arc<Gateway>,
    is_json: bool,
) -> Result<(), Failure> {
    while let Some(incoming) = listener.next().await {
        let (served, gateway) = (Arc::clone(served), Arc::clone(gateway));
        tokio::spawn(async move {
            let Some(session) = incoming.await else { return };
            if !gateway.grants_files(&session) {
                while let Ok((mut writer, _)) = session.accept().await {
                    Served::refuse(&mut writer).await;
                }
                return;
            }
            // As long as it is here it counts among the connections of its key.
            let Some(_presence) = gateway.enter(&session) else { return };
            serve(&served, session, move |peer, result| report(peer, result, is_json)).await;
        });
    }
    Err(Failure::Other("the socket has failed".into()))
}

/// Serves files and tunnels to everybody who comes. Which of the two a stream is for shows in its first byte.
pub async fn accept_both(listener: &Listener, served: &Arc<Served>, gateway: &Arc<Gateway>, is_json: bool) {
    while let Some(incoming) = listener.next().await {
        let (served, gateway) = (Arc::clone(served), Arc::clone(gateway));
        tokio::spawn(async move {
            if let Some(session) = incoming.await {
                serve_both(session, &served, &gateway, is_json).await;
            }
        });
    }
}

async fn serve_both(session: Session, served: &Arc<Served>, gateway: &Arc<Gateway>, is_json: bool) {
    let Some(presence) = gateway.enter(&session) else { return };
    let presence = Arc::new(presence);
    let (client, peer) = (session.peer_key(), session.peer());
    let turns = Arc::new(Semaphore::new(REQUESTS_PER_CONNECTION));
    // What has not said anything yet has no place of either kind: few may.
    while let (Ok(turn), Ok((mut send, mut recv))) =
        (Arc::clone(&turns).acquire_owned().await, session.accept().await)
    {
        let (served, presence, session) = (Arc::clone(served), Arc::clone(&presence), session.clone());
        let (client, peer) = (client.clone(), peer.clone());
        let Some(held) = session.connection().hold_memory(STREAM_BYTES) else {
            turn_away(send, recv, FileCode::Crowded);
            continue;
        };
        tokio::spawn(async move {
            let mut first = [0];
            let Ok(Ok(1)) = tokio::time::timeout(REQUEST_TIME_MAX, recv.read(&mut first)).await.map(flatten)
            else {
                return turn_away(send, recv, FileCode::Stalled);
            };
            let is_file = first[0] == PREAMBLE[0];
            let mut recv = Prefixed::new(first[0], recv);
            if is_file && presence.has_files {
                drop(turn);
                let Some(admitted) = admit(&served, &client, &session).await else { return };
                // What waits for admission does not carry what serving needs.
                let result = Box::pin(served.handle(admitted, &mut recv, &mut send)).await;
                report(&peer, &result, is_json);
            } else if is_file {
                Served::refuse(&mut send).await;
            } else if presence.has_tunnels {
                drop(held);
                presence.serve(recv, send).await;
            } else {
                let _ = send.reset(CUT_OFF);
            }
        });
    }
}

/// Room for one more request of this client; nothing if it leaves before there is some.
async fn admit(served: &Served, client: &str, session: &Session) -> Option<Admitted> {
    tokio::select! {
        admitted = served.admit(client) => Some(admitted),
        _ = session.connection().closed() => None,
    }
}

/// The end of a stream is no byte.
fn flatten(read: Result<Option<usize>, fulmar::ReadError>) -> Result<usize, fulmar::ReadError> {
    read.map(Option::unwrap_or_default)
}

/// Serves the streams of one connection, all at the same time; `report` hears what came of each.
pub async fn serve<F>(served: &Arc<Served>, session: Session, report: F)
where
    F: Fn(&str, &Result<Handled, TransferError>) + Clone + Send + 'static,
{
    let (client, peer) = (session.peer_key(), session.peer());
    tracing::debug!("{peer} is here ({client})");
    let room = Arc::new(Semaphore::new(REQUESTS_PER_CONNECTION));
    while let Ok((mut writer, mut reader)) = session.accept().await {
        // What comes behind is not even accepted: it costs what the transport's windows allow, and no more.
        let Some(held) = session.connection().hold_memory(STREAM_BYTES) else {
            turn_away(writer, reader, FileCode::Crowded);
            continue;
        };
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let Some(admitted) = admit(served, &client, &session).await else { break };
        let (served, peer, report) = (Arc::clone(served), peer.clone(), report.clone());
        tokio::spawn(async move {
            let result = served.handle(admitted, &mut reader, &mut writer).await;
            report(&peer, &result);
            drop((place, held));
        });
    }
    tracing::debug!("{peer} has left");
}

fn report(peer: &str, result: &Result<Handled, TransferError>, is_json: bool) {
    if is_json {
        let event = match result {
            Ok(Handled { request, path, path_bytes, bytes }) => {
                let mut event = serde_json::json!({
                    "event": request, "client": peer, "path": path,
                    "bytes": bytes.map(|b| b.0), "resumed_bytes": bytes.map(|b| b.1),
                });
                if let Some(exact) = path_bytes {
                    event["path_bytes"] = exact.as_str().into();
                }
                event
            }
            Err(error) => {
                serde_json::json!({ "event": "failed", "client": peer, "error": error.to_string() })
            }
        };
        println!("{event}");
        return;
    }
    match result {
        Ok(Handled { request, path, bytes: Some((bytes, resumed)), .. }) => {
            let resumed = if *resumed > 0 {
                format!(" ({} there already)", units::bytes(*resumed))
            } else {
                String::new()
            };
            tracing::info!("{peer}: {request} {path}, {}{resumed}", units::bytes(*bytes));
        }
        Ok(Handled { request, path, bytes: None, .. }) => tracing::debug!("{peer}: {request} {path}"),
        Err(error) => tracing::warn!("{peer}: {error}"),
    }
}
