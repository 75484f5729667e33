//! Rates that several connections keep together, at the end that sends and at the end that receives.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_proto::stream::Read;
use fulmar_proto::{
    ConnectionHandle, Dir, Instant, Rate, ReceiveLimit, SendLimit, StreamId, TransportConfig,
};

use crate::common::World;
use crate::work::lossy;

const MS: Duration = Duration::from_millis(1);

fn mbps(mbps: u64) -> Rate {
    Rate::from_bits_per_second(mbps * 1_000_000)
}

/// Clients that send as much as they may, and one that sends a message now and then.
struct Town {
    world: World,
    senders: Vec<(ConnectionHandle, StreamId)>,
    messages: Option<(ConnectionHandle, StreamId)>,
    said_at: Vec<Instant>,
    /// How long each message took.
    took: Vec<Duration>,
}

impl Town {
    fn new(count: usize, send: Option<&SendLimit>, receive: Option<&ReceiveLimit>, percent: u32) -> Self {
        let (mut client, mut server) = (TransportConfig::default(), TransportConfig::default());
        client.send_limit(send.cloned());
        server.receive_limit(receive.cloned());
        let world = World::new(1, lossy(100, 40, percent), client, server);
        let mut town = Self { world, senders: vec![], messages: None, said_at: vec![], took: vec![] };
        for _ in 0..count {
            let sender = town.join();
            town.senders.push(sender);
        }
        town
    }

    fn join(&mut self) -> (ConnectionHandle, StreamId) {
        let handle = self.world.connected();
        let connection = self.world.client.connections.get_mut(&handle).expect("connected");
        (handle, connection.open(Dir::Uni).expect("a stream"))
    }

    fn run(&mut self, time: Duration) {
        let end = self.world.now + time;
        let mut next_message = self.world.now;
        let mut buffer = vec![0; 1 << 16];
        while self.world.now < end {
            for (handle, id) in &self.senders {
                let connection = self.world.client.connections.get_mut(handle).expect("there");
                while connection.write(*id, &buffer).is_ok() {}
            }
            if let Some((handle, id)) = self.messages
                && self.world.now >= next_message
            {
                next_message = self.world.now + MS * 53;
                let connection = self.world.client.connections.get_mut(&handle).expect("there");
                assert_eq!(connection.write(id, &[1; 100]), Ok(100));
                self.said_at.push(self.world.now);
            }
            self.world.run_for(MS);
            let now = self.world.now;
            for connection in self.world.server.connections.values_mut() {
                for id in (0..2).map(|n| StreamId::new(fulmar_proto::Side::Client, Dir::Uni, n)) {
                    while let Ok(Read::Data(count)) = connection.read(now, id, &mut buffer) {
                        // Who says only so much says messages.
                        if count == 100 {
                            self.took.push(now - self.said_at[self.took.len()]);
                        }
                    }
                }
            }
        }
    }

    /// What leaves, or arrives, within five seconds from now.
    fn rate(&mut self, bytes: impl Fn(&World) -> u64) -> f64 {
        let before = bytes(&self.world);
        self.run(MS * 5000);
        (bytes(&self.world) - before) as f64 * 8.0 / 5e6
    }

    fn sent(world: &World) -> u64 {
        world.client.connections.values().map(|connection| connection.stats().wire.sent_bytes).sum()
    }

    fn received(world: &World) -> u64 {
        world.server.connections.values().map(|connection| connection.stats().wire.received_bytes).sum()
    }

    /// By connection.
    fn shares(&self) -> BTreeMap<ConnectionHandle, u64> {
        let all = self.world.server.connections.iter();
        all.map(|(handle, connection)| (*handle, connection.stats().wire.received_bytes)).collect()
    }
}

#[test]
fn what_is_sent_keeps_its_limit_over_all_connections() {
    for percent in [0, 2] {
        for count in [1, 4] {
            let limit = SendLimit::new(Some(mbps(10)));
            let mut town = Town::new(count, Some(&limit), None, percent);
            town.run(MS * 1000);
            let rate = town.rate(Town::sent);
            assert!((9.5..=10.5).contains(&rate), "{count} at {percent} %: {rate} Mb/s");
            limit.set(Some(mbps(20)));
            let rate = town.rate(Town::sent);
            assert!((19.0..=21.0).contains(&rate), "{count} at {percent} %: {rate} Mb/s in place of 20");
            limit.set(None);
            town.run(MS * 2000);
            let rate = town.rate(Town::sent);
            assert!(rate > 80.0, "{count} at {percent} %: {rate} Mb/s without a limit");
        }
    }
}

#[test]
fn what_is_received_keeps_its_limit_over_all_connections() {
    for count in [1, 4] {
        let limit = ReceiveLimit::new(Some(mbps(10)));
        let mut town = Town::new(count, None, Some(&limit), 0);
        town.run(MS * 1000);
        let rate = town.rate(Town::received);
        assert!((9.5..=10.5).contains(&rate), "{count}: {rate} Mb/s");
        limit.set(Some(mbps(20)));
        town.run(MS * 500);
        let rate = town.rate(Town::received);
        assert!((19.0..=21.0).contains(&rate), "{count}: {rate} Mb/s in place of 20");
        // What one does not use the others get.
        let quiet = town.senders.split_off(1);
        town.run(MS * 1500);
        let rate = town.rate(Town::received);
        assert!((19.0..=21.0).contains(&rate), "{count}, all but one quiet: {rate} Mb/s");
        town.senders.extend(quiet);
        limit.set(None);
        town.run(MS * 2000);
        let rate = town.rate(Town::received);
        assert!(rate > 80.0, "{count}: {rate} Mb/s without a limit");
    }
}

#[test]
fn connections_that_keep_a_limit_share_it_evenly_and_messages_among_them_are_quick() {
    let (send, receive) = (SendLimit::new(Some(mbps(10))), ReceiveLimit::new(Some(mbps(10))));
    for (send, receive) in [(Some(&send), None), (None, Some(&receive))] {
        let mut town = Town::new(4, send, receive, 0);
        town.messages = Some(town.join());
        town.run(MS * 1000);
        let before = town.shares();
        town.run(MS * 5000);
        let after = town.shares();
        let mut shares: Vec<u64> = after.iter().map(|(handle, bytes)| bytes - before[handle]).collect();
        shares.sort_unstable();
        assert!(shares[1] * 100 >= shares[4] * 95, "{shares:?}");
        town.took.sort_unstable();
        assert!(town.took.len() > 100, "{}", town.took.len());
        let p99 = town.took[town.took.len() * 99 / 100];
        assert!(p99 < MS * (40 + 10), "{p99:?} of which the path takes 40 ms");
    }
}
