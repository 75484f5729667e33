//! Connections as the subcommands see them (temporary backend).

use std::net::SocketAddr;

use crate::cp::error::TransferError;
use crate::exit::Failure;

/// A connection.
#[derive(Debug, Clone)]
pub struct Session {
    connection: fulmar::Connection,
}

impl Session {
    /// Opens a stream.
    pub async fn open(&self) -> Result<(fulmar::SendStream, fulmar::RecvStream), TransferError> {
        self.connection.open_bi().await.map_err(|e| TransferError::Connection(e.into()))
    }
}

/// connect
pub async fn connect(remote: SocketAddr, alpn: &[u8]) -> Result<Session, Failure> {
    let endpoint = fulmar::client("0.0.0.0:0".parse().unwrap(), alpn)
        .map_err(|e| Failure::Unreachable(e.to_string()))?;
    let connection = endpoint
        .connect(remote, "localhost")
        .map_err(|e| Failure::Unreachable(e.to_string()))?
        .await
        .map_err(|e| Failure::Unreachable(e.to_string()))?;
    Ok(Session { connection })
}
