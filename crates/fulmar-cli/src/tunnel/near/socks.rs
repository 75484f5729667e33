//! One client of the local proxy that speaks SOCKS 5 (RFC 1928, RFC 1929).

use std::net::{Ipv4Addr, SocketAddr};

use fast_socks5::server::{
    AuthMethodSuccessState, PasswordAuthentication, Socks5ServerProtocol, SocksServerError, states,
};
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::Client;
use super::login::Login;
use super::socks_udp::{self, Asked, place};
use crate::tunnel::flow::local::REQUEST_TIME_MAX;
use crate::tunnel::flow::pump::pump;
use crate::tunnel::flow::tcp::Carried;
use crate::tunnel::flow::traffic::Way;
use crate::tunnel::wire::target::{Place, Target};

/// What a reply says where no address is known.
const NO_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A client that has said what it wants, and waits for the reply.
pub type Asking<T> = Socks5ServerProtocol<T, states::CommandRead>;

/// Serves one client to its end.
pub async fn serve(stream: Carried, client: &Client, login: Option<&Login>) -> Result<(), SocksServerError> {
    let kept = stream.clone();
    let served = converse(stream, client, login).await;
    if !matches!(served, Ok(true)) {
        // Nothing was carried, and the last reply is the end. A client that is gone needs none.
        let _ = kept.end();
    }
    served.map(drop)
}

/// Hears a client and does what it wants; tells whether a flow was carried, which has ends of its own.
async fn converse(stream: Carried, client: &Client, login: Option<&Login>) -> Result<bool, SocksServerError> {
    let peer = stream.stream().peer_addr().ok();
    let local = stream.stream().local_addr().ok();
    let Ok(asked) = tokio::time::timeout(REQUEST_TIME_MAX, hear(stream, login)).await else {
        tracing::debug!("a SOCKS client did not say what it wants");
        return Ok(false);
    };
    let (asking, command, address) = asked?;
    match command {
        Socks5Command::TCPConnect => return connect(asking, place(address), client).await,
        Socks5Command::UDPAssociate => match (peer, local) {
            (Some(peer), Some(local)) => {
                let asked = Asked { peer, local, named: address, has_password: login.is_some() };
                socks_udp::serve(asking, &asked, client).await?;
            }
            _ => asking.reply_error(&ReplyError::GeneralFailure).await?,
        },
        Socks5Command::TCPBind => asking.reply_error(&ReplyError::CommandNotSupported).await?,
    }
    Ok(false)
}

/// What a client says until it has said what it wants, and where.
pub async fn hear<T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    login: Option<&Login>,
) -> Result<(Asking<T>, Socks5Command, TargetAddr), SocksServerError> {
    let Some(login) = login else {
        return Socks5ServerProtocol::accept_no_auth(stream).await?.read_command().await;
    };
    let protocol = Socks5ServerProtocol::start(stream).negotiate_auth(&[PasswordAuthentication]).await?;
    let (user, password, answering) = protocol.read_username_password().await?;
    if !login.is_right(&user, &password) {
        answering.reject().await?;
        return Err(SocksServerError::AuthenticationRejected);
    }
    answering.accept().await?.finish_auth().read_command().await
}

async fn connect(asking: Asking<Carried>, place: Place, client: &Client) -> Result<bool, SocksServerError> {
    let target = Target::Tcp(place);
    match client.open(&target).await {
        Ok(flow) => {
            let stream = asking.reply_success(flow.address.unwrap_or(NO_ADDRESS)).await?;
            pump(stream.split(), (flow.recv, flow.send), Way::Up, client.traffic()).await;
            Ok(true)
        }
        Err(error) => {
            error.log(&target);
            asking.reply_error(&error.code.socks_reply()).await?;
            Ok(false)
        }
    }
}
