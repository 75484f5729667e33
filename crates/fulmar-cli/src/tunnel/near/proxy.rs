//! The local proxy: SOCKS 5 and HTTP on one port, told apart by the first byte.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::client::Client;
use super::login::Login;
use super::{http, socks};
use crate::tunnel::flow::local::{self, REQUEST_TIME_MAX};
use crate::tunnel::flow::tcp::Carried;

/// Clients at the same time; more wait in the listener's queue.
const CLIENTS_MAX: usize = 8192;

/// The first byte of SOCKS 4 and 5.
const SOCKS_4: u8 = 4;
const SOCKS_5: u8 = 5;

/// What SOCKS 4 says no with: request rejected.
const SOCKS_4_NO: [u8; 8] = [0, 91, 0, 0, 0, 0, 0, 0];

/// Serves clients until this is dropped; those who are there stay.
pub async fn serve(listener: TcpListener, client: Client, login: Option<Arc<Login>>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = local::accept(&listener).await;
        let (client, login) = (client.clone(), login.clone());
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream, client, login).await {
                tracing::debug!("proxy: {error}");
            }
            drop(place);
        });
    }
}

async fn serve_one(stream: Carried, client: Client, login: Option<Arc<Login>>) -> Result<(), String> {
    let mut first = [0];
    let peeked = tokio::time::timeout(REQUEST_TIME_MAX, stream.stream().peek(&mut first)).await;
    match peeked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|e| e.to_string())? {
        0 => Ok(()),
        _ if first[0] == SOCKS_5 => {
            socks::serve(stream, &client, login.as_deref()).await.map_err(|e| e.to_string())
        }
        _ if first[0] == SOCKS_4 => refuse_socks_4(stream).await.map_err(|e| e.to_string()),
        _ => http::serve(stream, client, login).await.map_err(|e| e.to_string()),
    }
}

/// SOCKS 4 is the default of some programs (proxychains), whose users look for the reason in the log.
async fn refuse_socks_4(mut stream: Carried) -> io::Result<()> {
    let who = stream.stream().peer_addr().map_or_else(|_| "a client".into(), |peer| peer.to_string());
    tracing::warn!("{who} speaks SOCKS 4, and this proxy SOCKS 5 only: set the program to SOCKS 5");
    stream.write_all(&SOCKS_4_NO).await?;
    // Its request is read away, or closing would be a reset that overtakes the answer.
    let mut request = [0; 512];
    tokio::io::AsyncReadExt::read(&mut stream, &mut request).await?;
    stream.end()
}
