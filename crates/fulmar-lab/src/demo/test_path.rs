//! Bridges of the laboratory as the paths of a demo: one for Fulmar, and one for each TCP beside it, with the
//! same link and the same losses.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread::JoinHandle;

use fulmar_cli::demo::course::Course;
use fulmar_cli::demo::test_path::{Middle, TestPath};
use fulmar_cli::exit::Failure;
use fulmar_net::LinkStats;

use crate::bridge::{Bridge, End, LATENESS_P99_MAX, SERVER_ADDRESS, TcpSettings};
use crate::link::{Back, LinkSpec};
use crate::outcome::Outcome;

/// A bridge with this course's link.
pub(super) fn bridge(course: &Course) -> Result<Bridge, Failure> {
    let [forward, back] = &course.links;
    let link = LinkSpec {
        rate: forward.rate.clone(),
        rtt: course.rtt(),
        forward_delay: Some(forward.delay),
        queue: Some(forward.queue.clone()),
        loss: forward.loss.clone(),
        back: Back {
            back_rate: Some(back.rate.clone()),
            back_loss: Some(back.loss.clone()),
            ..Back::default()
        },
        ..LinkSpec::default()
    };
    Bridge::start(&link, course.seed(), TcpSettings::default(), false).map_err(Failure::Other)
}

/// Does something inside an end of a bridge. A socket made there stays there, whoever uses it.
pub(super) fn inside<T: Send + 'static>(
    end: &End,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    joined(end.spawn(work)).map_err(|e| Failure::Other(format!("kernel TCP: {e}")))
}

/// What a thread comes to.
pub(super) fn joined<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread died")))
}

/// Fulmar's path.
pub(super) fn bridged(course: &Course) -> Result<TestPath, Failure> {
    let bridge = bridge(course)?;
    let server = inside(&bridge.server, || UdpSocket::bind((Ipv4Addr::from(SERVER_ADDRESS), 0)))?;
    let client = inside(&bridge.client, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    let target = server.local_addr().map_err(|e| Failure::Other(e.to_string()))?;
    Ok(TestPath { server, client, target, middle: Box::new(Bridged(bridge)) })
}

/// A bridge between the ends of a path.
#[derive(Debug)]
struct Bridged(Bridge);

impl Middle for Bridged {
    fn forward(&self) -> LinkStats {
        self.0.forward_stats()
    }

    fn stop(self: Box<Self>) -> Result<LinkStats, Failure> {
        stop(self.0)
    }
}

/// Ends a bridge, and says what its forward link did.
pub(super) fn stop(bridge: Bridge) -> Result<LinkStats, Failure> {
    let forward = bridge.forward_stats();
    let mut outcome = Outcome::default();
    bridge.finish(LATENESS_P99_MAX, &mut outcome).map_err(Failure::Other)?;
    for remark in &outcome.remarks {
        eprintln!("fulmar-lab: the bridge could not keep its times: {remark}");
    }
    Ok(forward)
}
