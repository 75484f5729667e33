//! How many connections one core can accept, and open, in a second.

use std::error::Error;
use std::time::{Duration, Instant};

use crate::setup::{Sides, cpu_seconds};
use crate::{Figures, Options};

/// Handshakes under way at a time.
const PARALLEL: usize = 32;

pub(crate) fn run(options: &Options) -> Result<Figures, Box<dyn Error>> {
    let sides = Sides::new(options)?;
    let server = sides.server.clone();
    sides.server_runtime.spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    connection.closed().await;
                }
            });
        }
    });
    let before = cpu_seconds();
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(options.seconds);
    let tasks: Vec<_> = (0..PARALLEL)
        .map(|_| {
            let (client, address) = (sides.client.clone(), sides.address);
            sides.client_runtime.spawn(async move {
                let mut count = 0u64;
                while Instant::now() < until {
                    let connection = client.connect(address, "localhost")?.await?;
                    connection.close(0, b"");
                    count += 1;
                }
                Ok::<_, Box<dyn Error + Send + Sync>>(count)
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += sides.client_runtime.block_on(task)?.map_err(|error| error.to_string())?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = cpu_seconds();
    let count = count as f64;
    Ok(Figures(vec![
        ("handshakes_per_second", count / seconds, "1/s"),
        ("accepted_per_second_of_cpu", count / (after.0 - before.0), "1/s"),
        ("opened_per_second_of_cpu", count / (after.1 - before.1), "1/s"),
        ("handshakes", count, ""),
    ]))
}
