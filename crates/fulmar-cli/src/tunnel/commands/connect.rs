//! `fulmar connect`: standard input and output as one connection to a target.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
use tokio::sync::oneshot;

use super::{Asked, ClientArgs, until};
use crate::exit::Failure;
use crate::tunnel::flow::halves::{RecvHalf, SendHalf};
use crate::tunnel::flow::pump::{Outcome, pump};
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::near::client::Client;
use crate::tunnel::wire::error::{Code, OpenError};
use crate::tunnel::wire::target::Target;

/// Connect standard input and output to a target behind a gateway, like netcat.
///
/// It serves as ssh's ProxyCommand. Exit code 3 means that something of the data is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar connect server.example.org web:80
    ssh -o ProxyCommand='fulmar connect server.example.org %h:%p' host")]
pub struct Args {
    /// The gateway, and how to reach it.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Target, as the gateway sees it: HOST:PORT, or /path/of/a/socket
    #[arg(value_name = "TARGET:PORT", value_parser = parse_stream)]
    target: Target,
}

/// Packets have no place between standard input and output.
fn parse_stream(text: &str) -> Result<Target, String> {
    match text.parse()? {
        Target::Udp(_) => Err("UDP goes by `fulmar forward -L PORT:HOST:HOSTPORT/udp`".into()),
        target => Ok(target),
    }
}

/// Runs the command: until both directions have ended, or the target's has. Who reads the output sees an end
/// in any case, since a pipe knows no reset; only the code and what is said tell whether it was one.
pub async fn run(args: Args) -> Result<(), Failure> {
    let client = args.client.connect().await?;
    let carried = until(carry(&client, &args.target)).await;
    client.close().await;
    match carried? {
        Ok(result) => result.map_err(|error| match error.code {
            Code::Forbidden => Failure::Untrusted(error.text),
            _ => Failure::Unreachable(error.text),
        }),
        Err(Asked::Interrupt) => Err(Failure::Interrupted),
        Err(Asked::Terminate) => {
            Err(Failure::Unreachable(format!("{}: ended by SIGTERM before it was complete", args.target)))
        }
    }
}

async fn carry(client: &Client, target: &Target) -> Result<(), OpenError> {
    let (recv, send) = client.open_ahead(target).await?;
    let refusal = recv.refusal();
    let outcome = pump(terminal(), (recv, send), Way::Up, client.traffic()).await;
    match (refusal.get(), outcome) {
        (Some(error), _) => Err(error.clone()),
        (None, Outcome::Ended) => Ok(()),
        (None, Outcome::Broken) => {
            Err(OpenError::new(Code::Lost, format!("{target}: the connection was reset")))
        }
    }
}

/// Standard input and output as one thing: when the output has ended, nobody waits for more input.
fn terminal() -> (Input, Output) {
    let (tell, told) = oneshot::channel();
    (
        Input { stdin: tokio::io::stdin(), is_over: told },
        Output { stdout: tokio::io::stdout(), tell: Some(tell) },
    )
}

struct Input {
    stdin: Stdin,
    is_over: oneshot::Receiver<()>,
}

struct Output {
    stdout: Stdout,
    tell: Option<oneshot::Sender<()>>,
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_over.is_terminated() && Pin::new(&mut self.is_over).poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stdin).poll_read(cx, out)
    }
}

impl AsyncWrite for Output {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stdout).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stdout).poll_flush(cx);
        if flushed.is_ready() {
            self.tell.take().map(|tell| tell.send(()));
        }
        flushed
    }
}

/// Whoever reads or writes at the other end of a pipe cannot be told.
impl RecvHalf for Input {
    fn cut_off(&mut self) {}
}

impl SendHalf for Output {
    fn cut_off(&mut self) {}
}
