//! One client of the local proxy that speaks SOCKS 5 (RFC 1928, RFC 1929).

use std::net::{Ipv4Addr, SocketAddr};

use fast_socks5::server::{Socks5ServerProtocol, SocksServerError};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command};
use tokio::net::TcpStream;

use super::client::Client;
use super::halves::split_tcp;
use super::pump::{Way, pump};
use super::target::{Place, Target};
use super::traffic::Traffic;

/// Serves one client to its end.
pub async fn serve(stream: TcpStream, client: &Client, traffic: &Traffic) -> Result<(), SocksServerError> {
    let protocol = Socks5ServerProtocol::accept_no_auth(stream).await?;
    let (protocol, command, address) = protocol.read_command().await?;
    match command {
        Socks5Command::TCPConnect => {}
        _ => return protocol.reply_error(&ReplyError::CommandNotSupported).await,
    }
    let target = Target::Tcp(place(address));
    let opened = async {
        let mut flow = client.open(&target, &[]).await?;
        let address = flow.answered().await?;
        Ok::<_, super::OpenError>((flow, address))
    };
    match opened.await {
        Ok((flow, address)) => {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            let stream = protocol.reply_success(address.unwrap_or(any)).await?;
            pump(split_tcp(stream), (flow.recv, flow.send), Way::Up, traffic).await;
            Ok(())
        }
        Err(error) => {
            tracing::info!("{target}: {error}");
            protocol.reply_error(&error.code.socks_reply()).await
        }
    }
}

fn place(address: TargetAddr) -> Place {
    let (host, port) = address.into_string_and_port();
    Place::new(host, port)
}
