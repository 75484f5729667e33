//! `fulmar gateway`: the far end of tunnels.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::exit::Failure;
use crate::reach::{self, ServerArgs, Service};
use crate::serve::parse_listen;
use crate::trust;
use crate::tunnel::gateway::Guest;
use crate::tunnel::halves::TunnelSend;
use crate::tunnel::rules::Rules;

/// Lets clients reach other machines from here: the far end of `proxy`, `forward` and `connect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen: an address, a port, or both
    #[arg(short, long, value_name = "ADDR", default_value = "4747", value_parser = parse_listen)]
    listen: SocketAddr,
    /// How to send, to clients that name no profile
    #[arg(long, default_value = "auto", value_parser = reach::parse_profile)]
    profile: String,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    tun: crate::tun::far::TunArgs,
    /// Report as JSON on standard output, a line for each event
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    let own = trust::identity()?.public_key();
    let server = ServerArgs { listen: args.listen, profile: args.profile };
    #[cfg(target_os = "linux")]
    let (pool, _changed) = args.tun.prepare()?;
    let listener = reach::listen(&server, Service::Tunnel)?;
    if args.json {
        let event = serde_json::json!({
            "event": "ready", "command": "gateway",
            "address": listener.address.to_string(), "fingerprint": listener.fingerprint,
        });
        println!("{event}");
    } else {
        println!("Ready: gateway at {}, key {}", listener.address, listener.fingerprint);
    }
    while let Some(incoming) = listener.next().await {
        #[cfg(target_os = "linux")]
        let pool = pool.clone();
        tokio::spawn(async move {
            let session = match incoming.await {
                Ok(session) => session,
                Err(failure) => return tracing::warn!("turned away: {failure}"),
            };
            let is_own = session.peer_public_key() == Some(own);
            let guest = Guest::new(if is_own { Rules::everything() } else { Rules::default() });
            #[cfg(target_os = "linux")]
            let guest = guest.with_tun(pool, session.connection());
            let guest = Arc::new(guest);
            while let Ok((send, recv)) = session.accept().await {
                let guest = Arc::clone(&guest);
                tokio::spawn(async move {
                    if let Err(error) = guest.serve(recv, TunnelSend::from(send)).await {
                        tracing::debug!("{error}");
                    }
                });
            }
        });
    }
    Ok(())
}
