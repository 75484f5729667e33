//! The gateway's half of the tunnel: opens what clients ask for, as far as they may.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::dial;
use super::error::{Code, OpenError};
use super::halves::{BoxedHalves, RecvHalf, SendHalf, boxed_tcp, boxed_unix};
use super::message::{self, Answer, Request, VERSION};
use super::pump::{Way, pump};
use super::rules::Rules;
use super::target::Target;
use super::traffic::Traffic;

/// How long a stream may take to say what it is for.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// One client, on one connection.
#[derive(Debug)]
pub struct Guest {
    rules: Rules,
    traffic: Arc<Traffic>,
    #[cfg(target_os = "linux")]
    tun: Option<(Option<crate::tun::pool::Pool>, fulmar::Connection)>,
}

impl Guest {
    /// A client with these rules.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            traffic: Arc::default(),
            #[cfg(target_os = "linux")]
            tun: None,
        }
    }

    /// Offers tunnels for packets on this connection, with addresses of this pool.
    #[cfg(target_os = "linux")]
    pub fn with_tun(self, pool: Option<crate::tun::pool::Pool>, connection: &fulmar::Connection) -> Self {
        Self { tun: Some((pool, connection.clone())), ..self }
    }

    /// Serves one stream that the client has opened, to its end.
    pub async fn serve<R, W>(&self, mut recv: R, mut send: W) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let request = tokio::time::timeout(REQUEST_TIME_MAX, message::hear(&mut recv)).await;
        let request = match request {
            Ok(Ok(Some(request))) => request,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                return refuse(&mut send, OpenError::new(Code::Malformed, error.to_string())).await;
            }
            Err(_) => return refuse(&mut send, OpenError::new(Code::Malformed, "no request came")).await,
        };
        match request {
            Request::Hello { .. } => {
                message::say(&mut send, &Answer::Welcome { version: VERSION })
                    .await
                    .map_err(OpenError::lost)?;
                // Held open by the client as long as it is there.
                let _ = tokio::io::copy(&mut recv, &mut tokio::io::sink()).await;
                Ok(())
            }
            Request::Open { target, .. } => self.open(&target, recv, send).await,
            #[cfg(target_os = "linux")]
            Request::Tun(wish) => self.open_tun(&wish, recv, send).await,
            _ => refuse(&mut send, OpenError::new(Code::Malformed, "out of turn")).await,
        }
    }

    async fn open<R, W>(&self, target: &Target, recv: R, mut send: W) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let (address, local) = match self.dial(target).await {
            Ok(dialled) => dialled,
            Err(error) => return refuse(&mut send, error).await,
        };
        message::say(&mut send, &Answer::Opened { address }).await.map_err(OpenError::lost)?;
        pump(local, (recv, send), Way::Down, &self.traffic).await;
        Ok(())
    }

    #[cfg(target_os = "linux")]
    async fn open_tun<R, W>(
        &self,
        wish: &crate::tun::far::Wish,
        recv: R,
        mut send: W,
    ) -> Result<(), OpenError>
    where
        R: RecvHalf,
        W: SendHalf,
    {
        let opened = match &self.tun {
            Some((pool, connection)) if self.rules.allows_tun() => {
                crate::tun::far::open(pool.as_ref(), connection, wish)
            }
            _ => Err(OpenError::new(Code::Forbidden, "tunnels for packets are not permitted")),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return refuse(&mut send, error).await,
        };
        message::say(&mut send, &Answer::Tun(opened.grant.clone())).await.map_err(OpenError::lost)?;
        Err(OpenError::lost(opened.carry(recv, send).await))
    }

    async fn dial(&self, target: &Target) -> Result<(Option<std::net::SocketAddr>, BoxedHalves), OpenError> {
        target.check().map_err(|text| OpenError::new(Code::Malformed, text))?;
        match target {
            Target::Tcp(place) => {
                let stream = dial::tcp(place, &self.rules).await?;
                Ok((stream.peer_addr().ok(), boxed_tcp(stream)))
            }
            Target::Unix(path) => Ok((None, boxed_unix(dial::unix(path, &self.rules).await?))),
            Target::Udp(_) => Err(OpenError::new(Code::Other, "no UDP yet")),
        }
    }
}

/// Tells the other side why not.
async fn refuse<W: SendHalf>(send: &mut W, error: OpenError) -> Result<(), OpenError> {
    let told = message::say(send, &Answer::from(error.clone())).await;
    if told.is_ok() {
        let _ = send.shutdown().await;
    }
    Err(error)
}
