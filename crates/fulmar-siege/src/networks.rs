//! The networks between the clients and the server: relays that lose, corrupt, repeat and reorder packets,
//! that swallow large ones, that change the address which the server sees, eat ECN bits, close ports, and
//! copy packets from a false address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use fulmar_cli::relay::{Copying, Meddling, Relay, RelayConfig};
use fulmar_net::{Direction, LinkConfig, Loss, Probability};
use fulmar_units::Rate;

use crate::chance::Chance;

/// Where copies come from, and how long a port is let through where ports die.
const FALSE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
const PORT_LIFE: Duration = Duration::from_secs(4);

/// All of them.
#[derive(Debug)]
pub(crate) struct Networks(Vec<Network>);

#[derive(Debug)]
struct Network {
    relay: Relay,
    /// As it is when nothing is wrong with it.
    usual: LinkConfig,
}

/// Opens the networks to a server that listens at this port of both loopback addresses.
pub(crate) fn open(server: SocketAddr) -> io::Result<Networks> {
    let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), server.port());
    let v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), server.port());
    let clean = LinkConfig::new(Rate::from_bits_per_second(400_000_000), Duration::from_millis(2));
    let part = |percent: u32| Probability::from_ppm(percent * 10_000);
    let lossy = clean.clone().with_loss(Loss::Bernoulli(part(5)));
    let mutating = LinkConfig { corrupt: part(5), duplicate: part(10), ..clean.clone() };
    let mut networks = vec![(v4, clean.clone()), (v4, lossy), (v4, mutating)];
    if std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        networks.push((v6, clean));
    } else {
        println!("no IPv6 here");
    }
    let networks = networks.into_iter().map(|(server, usual)| {
        let config =
            RelayConfig { clients_max: 400, ..RelayConfig::new(server, usual.clone(), usual.clone()) };
        Ok(Network { relay: Relay::start(config)?, usual })
    });
    Ok(Networks(networks.collect::<io::Result<_>>()?))
}

impl Networks {
    /// Where one of them begins.
    pub(crate) fn pick(&self, chance: &mut Chance) -> SocketAddr {
        chance.pick(&self.0).relay.local_addr()
    }

    /// Something happens to one of them.
    pub(crate) fn change(&self, chance: &mut Chance) {
        let network = chance.pick(&self.0);
        // Whoever meddled does so no more.
        network.relay.meddle(Meddling::default());
        let link = match chance.below(8) {
            // A NAT has forgotten everybody.
            0 => return network.relay.rebind(),
            3 => return network.relay.meddle(Meddling { eats_ecn: true, ..Meddling::default() }),
            4 => return network.relay.meddle(Meddling { port_life: Some(PORT_LIFE), ..Meddling::default() }),
            5 => {
                let from = if network.relay.local_addr().is_ipv4() {
                    FALSE_ADDRESS
                } else {
                    Ipv6Addr::LOCALHOST.into()
                };
                let copying = Copying { every: 1 + chance.below(10) as u32, from };
                return network.relay.meddle(Meddling { copying: Some(copying), ..Meddling::default() });
            }
            // A tunnel on the way: what is larger than this vanishes.
            1 => LinkConfig { mtu_bytes: Some(1280), ..network.usual.clone() },
            2 => network.usual.clone().with_loss(Loss::Bernoulli(Probability::from_ppm(200_000))),
            _ => network.usual.clone(),
        };
        for direction in [Direction::Forward, Direction::Backward] {
            network.relay.reconfigure(direction, link.clone());
        }
    }

    /// Nothing is wrong any more.
    pub(crate) fn calm(&self) {
        for network in &self.0 {
            network.relay.meddle(Meddling::default());
            for direction in [Direction::Forward, Direction::Backward] {
                network.relay.reconfigure(direction, network.usual.clone());
            }
        }
    }
}
