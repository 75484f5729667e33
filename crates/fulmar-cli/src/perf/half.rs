//! The sending and the receiving half of a measurement: streams, and what goes through them. Both ends have
//! both.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::bulk::{Meter, Supply, drain, pour};
use super::clock::Relation;
use super::messages::{collect, tick};
use super::protocol::{Load, Received, lost};
use crate::exit::Failure;
use crate::session::Session;

/// What a half needs to know.
#[derive(Debug)]
pub struct Half {
    load: Load,
    /// The sender's clock, seen from the receiver's.
    clock: Relation,
    /// Counts while a half receives.
    pub meter: Arc<Meter>,
}

impl Half {
    /// A half of this load.
    pub fn new(load: Load, clock: Relation) -> Self {
        Self { load, clock, meter: Arc::default() }
    }
}

/// Sends the whole load.
pub async fn send(session: &Session, half: &Half) -> Result<(), Failure> {
    match half.load {
        Load::Bulk { streams, seconds, bytes } => {
            let supply = Arc::new(Supply::new(seconds.map(Duration::from_secs_f64), bytes));
            let mut running = JoinSet::new();
            for _ in 0..streams {
                let mut writer = session.open_uni().await?;
                let supply = Arc::clone(&supply);
                running.spawn(async move { pour(&mut writer, &supply).await });
            }
            all_of(running).await
        }
        Load::Messages { size_bytes, interval_us, .. } => {
            let mut writer = session.open_uni().await?;
            let interval = Duration::from_micros(interval_us);
            tick(&mut writer, size_bytes, interval, half.load.messages()).await.map_err(lost)
        }
    }
}

/// Receives the whole load.
pub async fn receive(session: &Session, half: &Half) -> Result<Received, Failure> {
    match half.load {
        Load::Bulk { streams, .. } => {
            let mut running = JoinSet::new();
            for _ in 0..streams {
                let mut reader = session.accept_uni().await?;
                let meter = Arc::clone(&half.meter);
                running.spawn(async move { drain(&mut reader, &meter).await });
            }
            all_of(running).await?;
            Ok(half.meter.received())
        }
        Load::Messages { size_bytes, .. } => {
            let mut reader = session.accept_uni().await?;
            let count = half.load.messages();
            let delays =
                collect(&mut reader, size_bytes, count, half.clock, &half.meter).await.map_err(lost)?;
            Ok(Received { messages: Some(delays), ..half.meter.received() })
        }
    }
}

async fn all_of(mut running: JoinSet<std::io::Result<()>>) -> Result<(), Failure> {
    while let Some(finished) = running.join_next().await {
        finished.map_err(|e| Failure::Other(e.to_string()))?.map_err(lost)?;
    }
    Ok(())
}
