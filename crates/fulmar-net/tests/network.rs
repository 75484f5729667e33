//! Packets over several links.

mod common;

use common::*;
use fulmar_net::topology::{Access, Dumbbell, ParkingLot, Place};
use fulmar_net::*;
use fulmar_units::Instant;

fn delay(delay_ms: u64) -> LinkConfig {
    LinkConfig { delay: ms(delay_ms), ..LinkConfig::default() }
}

fn everything(network: &mut Network<Probe>) -> Vec<Delivery<Probe>> {
    let mut out = Vec::new();
    while let Some(now) = network.poll_timeout() {
        out.extend(std::iter::from_fn(|| network.poll_deliver(now)));
    }
    out
}

#[test]
fn packets_take_the_way_with_fewest_links() {
    let mut network = Network::new(1);
    let [a, b, c, d] = [(); 4].map(|()| network.add_node());
    network.connect(a, b, delay(1), delay(1));
    network.connect(b, c, delay(2), delay(20));
    network.connect(c, d, delay(4), delay(40));
    let lonely = network.add_node();
    let send = |network: &mut Network<Probe>, from, to| {
        network.send(Instant::ZERO, from, to, Probe::new(0, Instant::ZERO))
    };
    assert_eq!(send(&mut network, a, d), Ok(()));
    assert_eq!(send(&mut network, d, a), Ok(()));
    assert_eq!(send(&mut network, a, lonely), Err(NoRoute { from: a, to: lonely }));
    assert_eq!(send(&mut network, a, a), Err(NoRoute { from: a, to: a }));
    let out = everything(&mut network);
    let arrivals: Vec<_> = out.iter().map(|d| (d.at, d.from, d.node)).collect();
    assert_eq!(arrivals, [(at(ms(7)), a, d), (at(ms(61)), d, a)]);

    // A shortcut is taken, even if it is slow.
    network.connect(a, d, delay(500), delay(500));
    let now = at(ms(100));
    assert_eq!(network.send(now, a, d, Probe::new(0, now)), Ok(()));
    assert_eq!(everything(&mut network)[0].at, at(ms(600)));
}

/// The outcome does not depend on when the network is polled.
#[test]
fn late_polls_change_nothing() {
    let arrivals = |poll_each_time: bool| {
        let mut network = Network::new(7);
        let config =
            LinkConfig::new(mbit(12), ms(3)).with_loss(Loss::bernoulli(Probability::from_percent(10)));
        let lot = ParkingLot::build(
            &mut network,
            [(config.clone(), config.clone()), (config.clone(), config)],
            [(Place::Long, delay(1)), (Place::Short(0), delay(2)), (Place::Short(1), delay(2))],
        );
        let mut out = Vec::new();
        for serial in 0..2000 {
            let now = at(us(700) * serial);
            if poll_each_time {
                out.extend(std::iter::from_fn(|| network.poll_deliver(now)));
            }
            let pair = lot.pairs[serial as usize % 3];
            network.send(now, pair.sender, pair.receiver, Probe::new(u64::from(serial), now)).expect("a way");
        }
        out.extend(everything(&mut network));
        out.into_iter().map(|d| (d.at, d.node, d.packet.serial)).collect::<Vec<_>>()
    };
    let punctual = arrivals(true);
    assert!(punctual.len() > 1500 && punctual.len() < 1900, "{}", punctual.len());
    assert!(punctual.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!(punctual, arrivals(false));
}

#[test]
fn a_dumbbell_shares_one_link_and_keeps_delays_apart() {
    let mut network = Network::new(1);
    let bottleneck =
        LinkConfig::new(mbit(12), ms(10)).with_queue(QueueConfig::DropTail(QueueLimit::Packets(1000)));
    let dumbbell =
        Dumbbell::build(&mut network, bottleneck.clone(), bottleneck, [delay(0), delay(5), delay(50)]);
    for (serial, pair) in dumbbell.pairs.iter().enumerate() {
        for _ in 0..100 {
            network
                .send(Instant::ZERO, pair.sender, pair.receiver, Probe::new(serial as u64, Instant::ZERO))
                .expect("a way");
        }
    }
    let out = everything(&mut network);
    assert_eq!(out.len(), 300);
    // One at a time, 1 ms each; the first pair first, because its access is fastest.
    for (index, delivery) in out.iter().enumerate() {
        assert_eq!(delivery.at, at(ms(11 + index as u64)));
        assert_eq!(delivery.node, dumbbell.pairs[delivery.packet.serial as usize].receiver);
    }
    assert_eq!(network.link(dumbbell.bottleneck.forward).stats().delivered.packets, 300);
    assert_eq!(network.link(dumbbell.bottleneck.backward).stats().offered.packets, 0);
    assert_eq!(network.link_ids().count(), 2 + 3 * 4);
}

/// A burst that a sender's own link spreads does not meet a bottleneck of the same rate as a burst.
#[test]
fn access_links_at_both_ends_have_their_rate_and_delay() {
    let link = |rate, delay| {
        LinkConfig::new(mbit(rate), ms(delay)).with_queue(QueueConfig::DropTail(QueueLimit::Packets(1000)))
    };
    let mut network = Network::new(1);
    let bottleneck =
        LinkConfig::new(mbit(12), ms(10)).with_queue(QueueConfig::DropTail(QueueLimit::Packets(2)));
    let access = Access { sender: link(12, 1), receiver: link(6, 2) };
    let ends = Dumbbell::build(&mut network, bottleneck.clone(), bottleneck, [access]);
    let pair = ends.pairs[0];
    for serial in 0..50 {
        network
            .send(Instant::ZERO, pair.sender, pair.receiver, Probe::new(serial, Instant::ZERO))
            .expect("a way");
    }
    let out = everything(&mut network);
    assert_eq!(out.len(), 50, "no packet found the short queue full");
    // 1500 bytes take 1 ms twice and 2 ms once, and the slowest link sets the pace.
    assert_eq!((out[0].at, out[49].at), (at(ms(17)), at(ms(17 + 2 * 49))));
}

#[test]
fn the_long_flow_of_a_parking_lot_crosses_every_bottleneck() {
    let mut network = Network::new(1);
    let places = [
        (Place::Long, delay(0)),
        (Place::Short(0), delay(0)),
        (Place::Short(1), delay(0)),
        (Place::Short(2), delay(0)),
        (Place::Short(2), delay(1000)),
    ];
    let lot = ParkingLot::build(&mut network, [1, 10, 100].map(|ms| (delay(ms), delay(ms))), places);
    for pair in &lot.pairs {
        network.send(Instant::ZERO, pair.sender, pair.receiver, Probe::new(0, Instant::ZERO)).expect("a way");
        network.send(Instant::ZERO, pair.receiver, pair.sender, Probe::new(1, Instant::ZERO)).expect("a way");
    }
    let out = everything(&mut network);
    for (pair, millis) in lot.pairs.iter().zip([111, 1, 10, 100, 1100]) {
        let times: Vec<_> =
            out.iter().filter(|d| d.from == pair.sender || d.from == pair.receiver).map(|d| d.at).collect();
        assert_eq!(times, [at(ms(millis)); 2]);
    }
    let crossed: Vec<u64> =
        lot.bottlenecks.iter().map(|pipe| network.link(pipe.forward).stats().delivered.packets).collect();
    assert_eq!(crossed, [2, 2, 3]);
}

#[test]
fn a_link_that_is_opened_again_goes_on() {
    let mut network = Network::new(1);
    let (a, b) = (network.add_node(), network.add_node());
    let closed = LinkConfig { rate: fulmar_units::Rate::ZERO.into(), ..LinkConfig::default() };
    let link = network.add_link(a, b, closed);
    network.send(Instant::ZERO, a, b, Probe::new(0, Instant::ZERO)).expect("a way");
    assert_eq!(network.poll_timeout(), None);
    network.reconfigure(at(ms(5)), link, LinkConfig::new(mbit(12), ms(1)));
    assert_eq!(everything(&mut network)[0].at, at(ms(7)));
}
