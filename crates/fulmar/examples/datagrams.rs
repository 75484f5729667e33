//! Unreliable datagrams: a sensor that sends its newest reading each 10 ms, and would rather lose one than be
//! late.
//!
//! `cargo run --release --example datagrams -- 100`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::{ClientConfig, Endpoint, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let (sensor, display) = (Identity::generate(), Identity::generate());
    let let_in = Arc::new(TrustKeys::new([sensor.public_key()]));
    let config = ServerConfig::new(Arc::new(crypto::ServerConfig::raw_key(&display, Some(let_in))));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let began = Instant::now();
    let showing = tokio::spawn(show(server, began));

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let trust = Arc::new(TrustKeys::new([display.public_key()]));
    client
        .set_client_config(ClientConfig::new(Arc::new(crypto::ClientConfig::raw_key(Some(&sensor), trust))));
    let connection = client.connect(address, "localhost")?.await?;
    let mut clock = tokio::time::interval(Duration::from_millis(10));
    for number in 0..count {
        clock.tick().await;
        let sent_at_us = u64::try_from(began.elapsed().as_micros())?;
        let mut reading = number.to_be_bytes().to_vec();
        reading.extend_from_slice(&sent_at_us.to_be_bytes());
        // Fails rather than waits when the queue is full: the next reading is better anyway.
        if let Err(error) = connection.try_send_datagram(reading.into()) {
            println!("reading {number} not sent: {error}");
        }
    }
    // Datagrams are not waited for by a shutdown, so the last ones get a moment.
    tokio::time::sleep(Duration::from_millis(100)).await;
    connection.shutdown(0, b"done").await?;
    let seen = showing.await??;
    println!("{seen} of {count} readings arrived");
    Ok(())
}

async fn show(endpoint: Endpoint, began: Instant) -> Result<u32, fulmar::ConnectionError> {
    let Some(incoming) = endpoint.accept().await else { return Ok(0) };
    let connection = incoming.await?;
    let (mut seen, mut slowest) = (0, Duration::ZERO);
    while let Ok(reading) = connection.read_datagram().await {
        let Some((_number, sent_at)) = reading.split_first_chunk::<4>() else { continue };
        let Ok(sent_at) = sent_at.try_into().map(u64::from_be_bytes) else { continue };
        slowest = slowest.max(began.elapsed().saturating_sub(Duration::from_micros(sent_at)));
        seen += 1;
    }
    println!("the slowest reading took {slowest:?}");
    Ok(seen)
}
