//! `fulmar forward`: ports and sockets here and at the gateway, connected in ssh's manner.

use serde_json::{Value, json};

use super::watch::WatchArgs;
use super::{ClientArgs, gateway_name, raise_descriptor_limit, say_ready, until_told};
use crate::exit::Failure;
use crate::tunnel::near::client::Client;
use crate::tunnel::near::forward::{Entrance, Spec, parse_port, serve_all};
use crate::tunnel::near::reverses::Reverse;
use crate::tunnel::watch::report::ObservedClient;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::target::Place;

/// Forward ports through a gateway, like ssh -L, -R, -D.
///
/// Several can be given. Each end may also be the path of a Unix socket. Add /udp to forward UDP.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar forward server.example.org -L 5432:db:5432        # here to db
    fulmar forward server.example.org -R 8080:localhost:80   # there to here
    fulmar forward server.example.org -L 5353:9.9.9.9:53/udp")]
pub struct Args {
    /// Listen here, connect from the gateway
    #[arg(short = 'L', long = "local", value_name = "[BIND:]PORT:HOST:HOSTPORT")]
    local: Vec<Spec>,
    /// Listen at the gateway, connect from here
    #[arg(short = 'R', long = "remote", value_name = "[BIND:]PORT:HOST:HOSTPORT")]
    remote: Vec<Spec>,
    /// Listen here as a SOCKS 5 and HTTP proxy
    #[arg(short = 'D', long = "dynamic", value_name = "[BIND:]PORT", value_parser = parse_port)]
    dynamic: Vec<Place>,
    /// The gateway, and how to reach it.
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Runs the command: until it is told to end.
pub async fn run(args: Args) -> Result<(), Failure> {
    if args.local.is_empty() && args.remote.is_empty() && args.dynamic.is_empty() {
        return Err(Failure::Usage("nothing to forward: say -L, -R or -D, at least one of them".into()));
    }
    raise_descriptor_limit();
    let entrances = bind(&args).await.map_err(explain_here)?;
    let mut watch = args.watch.clone().bind().await?;
    let metrics = watch.metrics_address();
    let client = args.client.connect().await?;
    let gateway = gateway_name(&client);
    let mut told: Vec<(String, Value)> = entrances
        .iter()
        .map(|(entrance, kind, at, to)| {
            let at = entrance.address().map_or_else(|| at.clone(), |address| address.to_string());
            let line = format!("Ready: {at} -> {to}, through {gateway}");
            (line, json!({ "kind": kind, "at": at, "to": to }))
        })
        .collect();
    match reverse(&client, &args.remote, &gateway).await {
        Ok(more) => told.extend(more),
        Err(error) => {
            client.close().await;
            return Err(explain(error));
        }
    }
    let places: Vec<_> = told.iter().filter_map(|(_, forward)| forward["at"].as_str()).collect();
    watch.start(vec![ObservedClient::new("forward", places.join(", "), &client)])?;
    let (lines, forwards): (Vec<_>, Vec<_>) = told.into_iter().unzip();
    let event = json!({ "gateway": gateway, "forwards": forwards, "metrics": metrics });
    say_ready(args.client.json, "forward", &lines, event);
    let entrances = entrances.into_iter().map(|(entrance, ..)| entrance).collect();
    let serving = async {
        serve_all(entrances, &client).await;
        // With nothing but -R there is nothing to serve here.
        std::future::pending().await
    };
    let result = until_told(serving).await;
    client.close().await;
    result
}

async fn bind(args: &Args) -> Result<Vec<(Entrance, &'static str, String, String)>, OpenError> {
    let mut entrances = Vec::new();
    for spec in &args.local {
        let entrance = Entrance::bind(spec).await?;
        entrances.push((entrance, "local", spec.at.to_string(), spec.to.to_string()));
    }
    for place in &args.dynamic {
        let entrance = Entrance::bind_proxy(place).await?;
        entrances.push((entrance, "dynamic", place.to_string(), "SOCKS 5 and HTTP proxy".into()));
    }
    Ok(entrances)
}

async fn reverse(client: &Client, remote: &[Spec], gateway: &str) -> Result<Vec<(String, Value)>, OpenError> {
    let mut told = Vec::new();
    for spec in remote {
        let address = client.listen(Reverse::from(spec.clone())).await?;
        let at = address.map_or_else(|| spec.at.to_string(), |address| address.to_string());
        let line = format!("Ready: {gateway}'s {at} -> {} from here", spec.to);
        told.push((line, json!({ "kind": "remote", "at": at, "to": spec.to.to_string() })));
    }
    Ok(told)
}

/// What keeps this machine from listening has nothing to do with trust.
fn explain_here(error: OpenError) -> Failure {
    let hint = ": ports below 1024 need root, or CAP_NET_BIND_SERVICE";
    let hint = if error.code == Code::Forbidden { hint } else { "" };
    Failure::Unreachable(format!("{}{hint}", error.text))
}

fn explain(error: OpenError) -> Failure {
    match error.code {
        Code::Malformed => Failure::Usage(error.text),
        Code::Forbidden => Failure::Untrusted(error.text),
        _ => Failure::Unreachable(error.text),
    }
}
