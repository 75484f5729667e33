//! What a connection costs that does nothing: both ends of it are in this process.

use std::error::Error;
use std::time::{Duration, Instant};

use crate::setup::{Sides, cpu_seconds, resident_bytes};
use crate::{Figures, Options};

/// Opened at a time.
const PARALLEL: usize = 64;

pub(crate) fn run(options: &Options) -> Result<Figures, Box<dyn Error>> {
    let sides = Sides::new(options)?;
    let server = sides.server.clone();
    let accepted = sides.server_runtime.spawn(async move {
        let mut connections = Vec::new();
        while let Some(incoming) = server.accept().await {
            connections.extend(incoming.await);
        }
        connections
    });
    let before = resident_bytes();
    let began = Instant::now();
    let mut connections = Vec::new();
    while connections.len() < options.connections {
        let count = PARALLEL.min(options.connections - connections.len());
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let (client, address) = (sides.client.clone(), sides.address);
                sides.client_runtime.spawn(async move {
                    let connection = client.connect(address, "localhost")?.await?;
                    // Used once, as connections are.
                    let mut stream = connection.open_uni().await?;
                    stream.write_all(b"hello").await?;
                    stream.finish()?;
                    stream.stopped().await?;
                    Ok::<_, Box<dyn Error + Send + Sync>>(connection)
                })
            })
            .collect();
        for task in tasks {
            connections.push(sides.client_runtime.block_on(task)?.map_err(|error| error.to_string())?);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    // What was only needed for the handshakes is given back.
    std::thread::sleep(Duration::from_secs(2));
    let bytes = resident_bytes() - before;
    let cpu_before = cpu_seconds();
    std::thread::sleep(Duration::from_secs(5));
    let cpu = cpu_seconds();
    let ends = 2.0 * connections.len() as f64;
    let figures = Figures(vec![
        ("connections", connections.len() as f64, ""),
        ("kib_per_end", bytes / ends / 1024.0, "KiB"),
        ("resident_mib", bytes / 1024.0 / 1024.0, "MiB"),
        ("seconds_to_open", seconds, "s"),
        ("idle_cpu_percent", 100.0 * (cpu.0 + cpu.1 - cpu_before.0 - cpu_before.1) / 5.0, "%"),
    ]);
    sides.server.close(0, b"");
    drop(sides.server_runtime.block_on(accepted)?);
    Ok(figures)
}
