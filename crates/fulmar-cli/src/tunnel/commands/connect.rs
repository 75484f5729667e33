//! `fulmar connect`: standard input and output as one connection to a target.

use super::ClientArgs;
use crate::exit::Failure;
use crate::tunnel::pump::{Outcome, Way, pump};
use crate::tunnel::target::Target;
use crate::tunnel::traffic::Traffic;

/// Connects standard input and output with a target beyond a gateway: `ssh -o ProxyCommand='fulmar connect GATEWAY %h:%p'`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    /// The gateway, and how to reach it.
    pub client: ClientArgs,
    /// What to connect with, resolved at the gateway: HOST:PORT, or /path/of/a/socket
    #[arg(value_name = "TARGET:PORT")]
    target: Target,
}

/// Runs the command: until both directions have ended.
pub async fn run(args: Args) -> Result<(), Failure> {
    let client = args.client.connect().await?;
    let opened = async {
        let mut flow = client.open(&args.target, &[]).await?;
        flow.answered().await?;
        Ok::<_, crate::tunnel::OpenError>(flow)
    };
    let flow = match opened.await {
        Ok(flow) => flow,
        Err(error) => {
            client.close().await;
            return Err(Failure::Unreachable(error.to_string()));
        }
    };
    let local = (tokio::io::stdin(), tokio::io::stdout());
    let outcome = pump(local, (flow.recv, flow.send), Way::Up, &Traffic::default()).await;
    client.close().await;
    match outcome {
        Outcome::Ended => Ok(()),
        Outcome::Broken => Err(Failure::Unreachable(format!("{}: the connection was reset", args.target))),
    }
}
