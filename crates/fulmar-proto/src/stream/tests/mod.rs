//! Two ends joined by symbols, and single ends that get frames by hand.

mod behaviour;
mod limits;
mod random;
mod violations;

use super::*;
use crate::wire::symbol::{SymbolFrame, SymbolFrames};
use fulmar_units::Instant;
use std::time::Duration;

const RTT: Duration = Duration::from_millis(50);
const SYMBOL_BYTES: usize = 1200;

/// Both ends of a connection.
struct Pair {
    client: Streams,
    server: Streams,
}

impl Pair {
    fn new(client: &StreamConfig, server: &StreamConfig) -> Self {
        let mut pair =
            Self { client: Streams::new(Side::Client, client), server: Streams::new(Side::Server, server) };
        pair.client.set_peer_limits(&server.limits());
        pair.server.set_peer_limits(&client.limits());
        pair
    }

    fn end(&mut self, side: Side) -> &mut Streams {
        if side.is_client() { &mut self.client } else { &mut self.server }
    }

    /// Carries symbols until there are none.
    fn settle(&mut self) {
        while self.client.has_pending() || self.server.has_pending() {
            for side in [Side::Client, Side::Server] {
                while self.end(side).has_pending() {
                    let symbol = fill(self.end(side));
                    deliver(self.end(!side), &symbol);
                }
            }
        }
    }
}

fn fill(streams: &mut Streams) -> Vec<u8> {
    let mut symbol = Vec::new();
    let linked = streams.fill(&mut symbol, SYMBOL_BYTES);
    symbol.extend_from_slice(&linked);
    assert!(!symbol.is_empty() && symbol.len() <= SYMBOL_BYTES, "{}", symbol.len());
    symbol
}

fn deliver(streams: &mut Streams, symbol: &[u8]) {
    for frame in SymbolFrames::new(symbol) {
        streams.on_frame(frame.unwrap()).unwrap();
    }
}

fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| streams.poll_event()).collect()
}

fn frames(symbol: &[u8]) -> Vec<SymbolFrame<'_>> {
    SymbolFrames::new(symbol).collect::<Result<_, _>>().unwrap()
}

/// Reads until nothing comes; the bytes, and why it stopped.
fn read_all(streams: &mut Streams, id: StreamId) -> (Vec<u8>, Result<(), ReadError>) {
    let mut data = Vec::new();
    let mut out = [0; 1000];
    loop {
        match streams.read(id, &mut out, Instant::ZERO, RTT) {
            Ok(Read::Data(len)) => data.extend_from_slice(&out[..len]),
            Ok(Read::End) => return (data, Ok(())),
            Err(error) => return (data, Err(error)),
        }
    }
}
