//! How fast one connection moves bytes from the client to the server.

use std::error::Error;
use std::time::{Duration, Instant};

use fulmar::{Connection, RecvStream};

use crate::setup::{Sides, cpu_seconds};
use crate::{Figures, Options};

pub(crate) fn run(options: &Options) -> Result<Figures, Box<dyn Error>> {
    let sides = Sides::new(options)?;
    let server = sides.server.clone();
    let receiving = sides.server_runtime.spawn(receive(server));
    let (address, client) = (sides.address, sides.client.clone());
    let (seconds, streams) = (options.seconds, options.streams);
    let before = cpu_seconds();
    let sending = sides.client_runtime.spawn(async move {
        let connection = client.connect(address, "localhost")?.await?;
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let tasks: Vec<_> = (0..streams).map(|_| tokio::spawn(send(connection.clone(), until))).collect();
        for task in tasks {
            task.await??;
        }
        connection.shutdown(0, b"").await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(connection.stats())
    });
    let sent = sides.client_runtime.block_on(sending)?.map_err(|error| error.to_string())?;
    let (bytes, seconds, received) =
        sides.server_runtime.block_on(receiving)?.map_err(|error| error.to_string())?;
    let after = cpu_seconds();
    let gbit = bytes as f64 * 8.0 / 1e9;
    let batches = sides.server.stats().received_batches.max(1) as f64;
    Ok(Figures(vec![
        ("goodput_gbps", gbit / seconds, "Gbit/s"),
        ("bytes", bytes as f64, "bytes"),
        ("seconds", seconds, "s"),
        ("sender_cpu_seconds_per_gbit", (after.1 - before.1) / gbit, "s"),
        ("receiver_cpu_seconds_per_gbit", (after.0 - before.0) / gbit, "s"),
        ("datagrams_per_batch_received", sides.server.stats().received_datagrams as f64 / batches, ""),
        (
            "acks_per_1000_datagrams",
            1e3 * received.wire.sent_datagrams as f64 / sent.wire.sent_datagrams as f64,
            "",
        ),
        ("lost_packets", sent.recovery.lost_packets as f64, "packets"),
        ("loss_before_repair_percent", 100.0 * sent.loss_before_repair(), "%"),
        ("overhead_percent", 100.0 * sent.overhead(), "%"),
        ("mtu_bytes", f64::from(sent.path.mtu_bytes), "bytes"),
        ("window_bytes", sent.path.window_bytes as f64, "bytes"),
        ("rtt_us", sent.path.rtt.as_secs_f64() * 1e6, "us"),
    ]))
}

async fn send(connection: Connection, until: Instant) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut stream = connection.open_uni().await?;
    let data = vec![0x55; 1 << 18];
    while Instant::now() < until {
        stream.write_all(&data).await?;
    }
    stream.finish()?;
    Ok(())
}

type Received = Result<(u64, f64, fulmar::ConnectionStats), Box<dyn Error + Send + Sync>>;

/// Bytes on all streams, and seconds from the first to the last.
async fn receive(endpoint: fulmar::Endpoint) -> Received {
    let connection = endpoint.accept().await.ok_or("closed")?.await?;
    let mut tasks = Vec::new();
    let began = Instant::now();
    while let Ok(stream) = connection.accept_uni().await {
        tasks.push(tokio::spawn(drain(stream)));
    }
    let (mut bytes, mut first, mut last) = (0, None, began);
    for task in tasks {
        let (len, begin, end) = task.await??;
        bytes += len;
        first = Some(first.map_or(begin, |first: Instant| first.min(begin)));
        last = last.max(end);
    }
    Ok((bytes, (last - first.unwrap_or(began)).as_secs_f64(), connection.stats()))
}

async fn drain(mut stream: RecvStream) -> Result<(u64, Instant, Instant), fulmar::ReadError> {
    let mut buffer = vec![0; 1 << 18];
    let (mut bytes, began) = (0, Instant::now());
    while let Some(len) = stream.read(&mut buffer).await? {
        bytes += len as u64;
    }
    Ok((bytes, began, Instant::now()))
}
