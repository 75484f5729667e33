//! A server that sends back what it gets, and a client that asks it, in one process.
//!
//! `cargo run --release --example echo -- hello`

use std::error::Error;
use std::sync::Arc;

use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::{ClientConfig, Endpoint, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let message = std::env::args().nth(1).unwrap_or_else(|| "hello over a storm".into());
    let (alice, bob) = (Identity::generate(), Identity::generate());

    // Bob serves, and lets only Alice in.
    let let_in = Arc::new(TrustKeys::new([alice.public_key()]));
    let config = ServerConfig::new(Arc::new(crypto::ServerConfig::raw_key(&bob, Some(let_in))));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(serve(server));

    // Alice connects, and expects Bob.
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let trust = Arc::new(TrustKeys::new([bob.public_key()]));
    client.set_client_config(ClientConfig::new(Arc::new(crypto::ClientConfig::raw_key(Some(&alice), trust))));
    let connection = client.connect(address, "localhost")?.await?;
    println!("connected to {address}, {:?}", connection.peer_identity());

    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(message.as_bytes()).await?;
    send.finish()?;
    let answer = receive.read_to_end(64 << 10).await?;
    println!("answer: {}", String::from_utf8_lossy(&answer));
    println!("round trip: {:?}", connection.rtt());

    connection.shutdown(0, b"done").await?;
    serving.await??;
    Ok(())
}

/// Serves one client until it leaves.
async fn serve(endpoint: Endpoint) -> Result<(), fulmar::ConnectionError> {
    let Some(incoming) = endpoint.accept().await else { return Ok(()) };
    let connection = incoming.await?;
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            // Without its end, the client sees that the answer is not complete.
            if tokio::io::copy(&mut receive, &mut send).await.is_ok() {
                let _ = send.finish();
            }
        });
    }
    println!("server: {}", connection.closed().await);
    Ok(())
}
