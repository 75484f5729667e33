//! `fulmar proxy`: a proxy on this machine whose connections leave at a gateway.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::ClientArgs;
use crate::exit::Failure;
use crate::tunnel::socks;
use crate::tunnel::traffic::Traffic;

/// Offers a SOCKS 5 and HTTP proxy on this machine whose connections leave at a gateway.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    /// The gateway, and how to reach it.
    pub client: ClientArgs,
    /// Where programs find the proxy
    #[arg(short, long, value_name = "ADDR", default_value = "127.0.0.1:1080")]
    listen: SocketAddr,
}

/// Runs the command: until it is interrupted.
pub async fn run(args: Args) -> Result<(), Failure> {
    let taken = |e: std::io::Error| Failure::Unreachable(format!("cannot listen at {}: {e}", args.listen));
    let listener = TcpListener::bind(args.listen).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    let client = args.client.connect().await?;
    let gateway = client.gateway().map_or_else(String::new, |host| host.to_string());
    if args.client.json {
        let event = serde_json::json!({
            "event": "ready", "command": "proxy", "address": address.to_string(), "gateway": gateway,
        });
        println!("{event}");
    } else {
        println!("Ready: SOCKS 5 and HTTP proxy at {address}, through {gateway}");
    }
    let traffic = Arc::new(Traffic::default());
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (client, traffic) = (client.clone(), Arc::clone(&traffic));
        tokio::spawn(async move {
            if let Err(error) = socks::serve(stream, &client, &traffic).await {
                tracing::debug!("{error}");
            }
        });
    }
}
