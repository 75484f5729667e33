//! The local proxy: SOCKS 5 and HTTP on one port, told apart by the first byte.

use std::io;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::client::Client;
use super::local::{self, REQUEST_TIME_MAX};
use super::login::Login;
use super::{http, socks};

/// Clients at the same time; more wait in the listener's queue.
const CLIENTS_MAX: usize = 8192;

/// The first byte of SOCKS 4 and 5.
const SOCKS_4: u8 = 4;
const SOCKS_5: u8 = 5;

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

async fn serve_one(stream: TcpStream, client: Client, login: Option<Arc<Login>>) -> Result<(), String> {
    let mut first = [0];
    let peeked = tokio::time::timeout(REQUEST_TIME_MAX, stream.peek(&mut first)).await;
    match peeked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|e| e.to_string())? {
        0 => Ok(()),
        _ if first[0] == SOCKS_5 => {
            socks::serve(stream, &client, login.as_deref()).await.map_err(|e| e.to_string())
        }
        _ if first[0] == SOCKS_4 => Err("SOCKS 4 is not spoken here: set the program to SOCKS 5".into()),
        _ => http::serve(stream, client, login).await.map_err(|e| e.to_string()),
    }
}
