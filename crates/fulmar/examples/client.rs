//! A client with keys in files: sends a request to `server` and prints the answer.
//!
//! `cargo run --release --example client -- HOST:PORT TEXT`; see `server.rs`.

use std::error::Error;
use std::io::Write;

use fulmar::identity::{Home, Host, UnknownServer};
use fulmar::{Endpoint, TransportConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let host: Host = arguments.next().unwrap_or_else(|| "127.0.0.1:4747".into()).parse()?;
    let text = arguments.next().unwrap_or_else(|| "hello".into());

    let home = Home::locate()?;
    println!("this machine: {}", home.identity_or_create()?.public_key());
    let endpoint = Endpoint::client("[::]:0".parse()?)?;
    let connection = home.connect(&endpoint, &host, TransportConfig::default(), ask).await?;

    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(text.as_bytes()).await?;
    send.finish()?;
    println!("{}", String::from_utf8_lossy(&receive.read_to_end(4096).await?));

    let stats = connection.stats();
    println!("round trip {:?}, {:.1} % lost", stats.path.rtt, 100.0 * stats.loss_before_repair());
    connection.shutdown(0, b"done").await?;
    endpoint.wait_idle().await;
    Ok(())
}

/// Whether to trust a server that is new.
async fn ask(server: &UnknownServer) -> bool {
    print!("{} is new. Its key is {}. Trust it? [yes/no] ", server.host, server.fingerprint());
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    // Blocks the thread, which is fine for a program that does nothing else.
    std::io::stdin().read_line(&mut answer).is_ok() && answer.trim() == "yes"
}
