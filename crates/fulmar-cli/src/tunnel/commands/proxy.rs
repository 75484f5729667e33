//! `fulmar proxy`: a proxy on this machine whose connections leave at a gateway.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;

use super::watch::WatchArgs;
use super::{ClientArgs, gateway_name, raise_descriptor_limit, say_ready, until_told};
use crate::exit::Failure;
use crate::listen::parse_listen_here;
use crate::reach::cannot_listen;
use crate::tunnel::flow::tcp;
use crate::tunnel::near::login::Login;
use crate::tunnel::near::proxy;
use crate::tunnel::watch::report::ObservedClient;

/// Run a SOCKS 5 and HTTP proxy that connects through a gateway.
///
/// Both are on one port of this machine; SOCKS with CONNECT and UDP ASSOCIATE. The gateway resolves names if
/// the program leaves that to the proxy (curl: socks5h://).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar proxy server.example.org:443
    curl -x socks5h://127.0.0.1:1080 https://example.org/")]
pub struct Args {
    /// Where the proxy listens: an address with a port, or a port on loopback
    #[arg(short, long, value_name = "ADDR", default_value = "127.0.0.1:1080", value_parser = parse_listen_here)]
    listen: SocketAddr,
    /// Require a name and a password. @FILE reads them from the first line of a file
    #[arg(long, value_name = "NAME:PASSWORD", value_parser = Login::parse)]
    user: Option<Login>,
    /// The gateway, and how to reach it.
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs the command: until it is told to end.
pub async fn run(args: Args) -> Result<(), Failure> {
    raise_descriptor_limit();
    if !args.listen.ip().is_loopback() && args.user.is_none() {
        eprintln!(
            "fulmar: everybody who reaches {} can use this proxy; --user demands a password",
            args.listen
        );
    }
    let taken = |e: std::io::Error| cannot_listen(&args.listen, &e);
    let listener = tcp::listen(args.listen).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    let mut watch = args.watch.clone().bind().await?;
    let metrics = watch.metrics_address();
    let client = args.client.connect().await?;
    let gateway = gateway_name(&client);
    let line = format!("Ready: SOCKS 5 and HTTP proxy at {address}, through {gateway}");
    watch.start(vec![ObservedClient::new("proxy", address.to_string(), &client)])?;
    let event = json!({ "address": address.to_string(), "gateway": gateway, "metrics": metrics });
    say_ready(args.client.json, "proxy", &[line], event);
    let result = until_told(proxy::serve(listener, client.clone(), args.user.map(Arc::new))).await;
    client.close().await;
    result
}
