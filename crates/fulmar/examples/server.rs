//! A server with keys in files: answers each request with its length and the client's key.
//!
//! ```text
//! cargo run --release --example server -- 127.0.0.1:4747
//! cargo run --release --example client -- 127.0.0.1:4747 hello
//! ```
//!
//! Both use `$FULMAR_HOME`, or `~/.config/fulmar`. On two machines add the line that the client prints to
//! `authorized_keys` in the server's folder.

use std::error::Error;

use fulmar::crypto::PeerIdentity;
use fulmar::identity::Home;
use fulmar::{Connection, TransportConfig};

/// A longer request is refused.
const REQUEST_BYTES_MAX: usize = 1 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "[::]:4747".into());
    let home = Home::locate()?;
    let key = home.identity_or_create()?.public_key();
    let server = home.server(address.parse()?, TransportConfig::default())?;
    println!("listening at {}, key {}", server.local_addr()?, key.fingerprint());
    println!("clients are let in by {}", home.authorized_keys().path().display());
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let from = incoming.remote_address();
            match incoming.await {
                Ok(connection) => serve(connection).await,
                Err(error) => println!("{from} was refused: {error}"),
            }
        });
    }
    Ok(())
}

/// Answers requests until the connection ends, each on a stream of its own.
async fn serve(connection: Connection) {
    let client = match connection.peer_identity() {
        Some(PeerIdentity::RawKey(key)) => key.fingerprint().to_string(),
        _ => "nobody known".into(),
    };
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let client = client.clone();
        tokio::spawn(async move {
            // An error leaves the stream unfinished: it is reset, and the client sees that no answer comes.
            let request = receive.read_to_end(REQUEST_BYTES_MAX).await?;
            send.write_all(format!("{} bytes from {client}", request.len()).as_bytes()).await?;
            send.finish()?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
}
