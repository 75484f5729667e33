//! One run: faults and checks, then no faults and the end.

use std::time::Duration;

use fulmar_net::Direction;
use fulmar_proto::{Connection, ConnectionError, Instant, Side, TransportErrorCode};

use super::app::App;
use super::plan::{Change, End, Plan};
use crate::{Observer, World};

/// How long a connection with nothing to do is watched.
const IDLE: Duration = Duration::from_secs(20);
/// More than every idle or handshake timeout of a plan.
const DRAIN: Duration = Duration::from_secs(400);
/// Code and reason of every end that is not an accident.
const CLOSE: (u64, &[u8]) = (0x7777, b"the end of the plan");

struct Run<'a> {
    plan: &'a Plan,
    world: World,
    app: App,
    started_at: Instant,
    changes_done: usize,
    has_faults: bool,
    is_ended: bool,
}

/// Runs a plan to its end. Returns a summary, which is the same each time.
///
/// # Panics
/// If a rule is broken, with the state of everything.
pub fn run(plan: &Plan) -> String {
    let [client, server] = &plan.ends;
    let links = (plan.forward.clone(), plan.backward.clone());
    let mut world =
        World::with_links(plan.seed, links.0, links.1, client.transport.clone(), server.transport.clone());
    world.segments_max = plan.segments_max;
    world.checks_silence = plan.checks_silence;
    let started_at = world.now;
    let app = App::new(plan, started_at);
    let mut run = Run { plan, world, app, started_at, changes_done: 0, has_faults: true, is_ended: false };
    run.world.connect();
    run.whole()
}

fn connection(world: &mut World, side: Side) -> Option<&mut Connection> {
    let node = if side.is_client() { &mut world.client } else { &mut world.server };
    node.connections.values_mut().next()
}

impl Run<'_> {
    fn whole(&mut self) -> String {
        self.go(self.plan.faults_end, false);
        self.has_faults = false;
        self.set_links();
        let finished = self.go(self.plan.patience(), true);
        assert!(
            finished || self.is_ended,
            "not done within {:?} without faults\n{}\n{}",
            self.plan.patience(),
            self.app.describe(),
            self.world.describe()
        );
        if !self.is_ended {
            self.check_settled();
            self.check_idle();
            self.shutdown();
        }
        self.drain()
    }

    /// Lets time pass, until everything is done if `until_done`. True if that came about.
    fn go(&mut self, time: Duration, until_done: bool) -> bool {
        let Self { plan, world, app, started_at, changes_done, has_faults, is_ended } = self;
        world.run_until(time, |world| {
            let elapsed = world.now - *started_at;
            while *has_faults
                && let Some((_, change)) = plan.changes.get(*changes_done).filter(|(at, _)| *at <= elapsed)
            {
                *changes_done += 1;
                apply(world, change);
            }
            if !*is_ended {
                *is_ended = end_if_due(world, plan, elapsed);
            }
            act(world, app, plan, *is_ended);
            let next_change =
                plan.changes.get(*changes_done).map(|(at, _)| *started_at + *at).filter(|_| *has_faults);
            let end_at = match plan.end {
                End::Close(_, at) | End::Vanish(_, at) if !*is_ended => Some(*started_at + at),
                _ => None,
            };
            let alarms = [app.alarm(world.now), next_change, end_at];
            world.alarm = alarms.into_iter().flatten().filter(|&at| at > world.now).min();
            let is_quiet = [Side::Client, Side::Server]
                .iter()
                .all(|&side| connection(world, side).is_none_or(|c| c.is_closed() || !c.has_unacked()));
            *is_ended || (until_done && app.is_connected() && app.is_done() && is_quiet)
        })
    }

    fn set_links(&mut self) {
        for direction in Direction::BOTH {
            let clean = self.world.path.link(direction).config().without_faults();
            let now = self.world.now;
            self.world.path.link_mut(direction).reconfigure(now, clean);
        }
        self.world.address_lives = None;
        if let Some(observer) = &mut self.world.observer {
            observer.every = 0;
        }
    }

    /// Nothing is left of streams that are done.
    fn check_settled(&mut self) {
        for side in [Side::Client, Side::Server] {
            let connection = connection(&mut self.world, side).expect("nobody has ended it");
            let stats = connection.stats();
            assert_eq!(stats.streams.streams, 0, "{side:?} keeps streams that are done: {stats:?}");
            assert_eq!((stats.streams.queued_bytes, stats.streams.fragments), (0, 0));
        }
    }

    /// A connection with nothing to do is silent, apart from what keeps it alive and looks for its MTU.
    fn check_idle(&mut self) {
        let sent = |run: &mut Self| {
            [Side::Client, Side::Server]
                .map(|side| connection(&mut run.world, side).map_or(0, |c| c.stats().wire.sent_datagrams))
        };
        self.go_idle(IDLE);
        let before = sent(self);
        self.go_idle(IDLE);
        let after = sent(self);
        for side in 0..2 {
            let chatter = after[side] - before[side];
            assert!(chatter <= 120, "{chatter} datagrams in {IDLE:?} of silence: {}", self.world.describe());
        }
    }

    fn go_idle(&mut self, time: Duration) {
        self.world.alarm = None;
        let Self { plan, world, app, .. } = self;
        world.run_until(time, |world| {
            act(world, app, plan, false);
            false
        });
    }

    fn shutdown(&mut self) {
        let End::Shutdown(side) = self.plan.end else {
            // The plan has another end, whose time has come by now or will soon.
            self.go(Duration::from_secs(30), false);
            return;
        };
        let now = self.world.now;
        let connection = connection(&mut self.world, side).expect("nobody has ended it");
        connection.shutdown(now, CLOSE.0, bytes::Bytes::from_static(CLOSE.1));
        self.is_ended = true;
    }

    /// Both ends come to their end and are forgotten.
    fn drain(&mut self) -> String {
        self.world.alarm = None;
        let end = self.world.now + DRAIN;
        let Self { plan, world, app, .. } = self;
        // Without an idle timeout a connection whose peer went, or whose word of farewell was lost, stays as
        // it was told to.
        let is_over = world.run_until(end - world.now, |world| {
            // A client that had not heard of the server may have begun anew with it.
            end_if_due(world, plan, Duration::MAX);
            act(world, app, plan, true);
            world.client.connections.is_empty() && world.server.connections.is_empty()
        });
        let has_timeout = plan.ends.iter().any(|end| end.idle_timeout.is_some());
        let is_told = matches!(plan.end, End::Shutdown(_));
        assert!(is_over || !(has_timeout || is_told), "the connection does not end: {}", world.describe());
        if is_over {
            assert_eq!(
                (world.client.endpoint.connection_count(), world.server.endpoint.connection_count()),
                (0, 0)
            );
        }
        let links = Direction::BOTH.map(|direction| world.path.link(direction).stats().offered);
        format!(
            "seed {} took {:?}, packets {links:?}, ends {:?}",
            plan.seed,
            world.now - self.started_at,
            app.closed
        )
    }
}

fn apply(world: &mut World, change: &Change) {
    match change {
        Change::Links(links) => {
            for (direction, link) in Direction::BOTH.into_iter().zip(links.iter()) {
                world.path.link_mut(direction).reconfigure(world.now, link.clone());
            }
        }
        Change::Rebind => world.rebind(),
        Change::Move => {
            let old = world.client_addr();
            let std::net::IpAddr::V4(ip) = old.ip() else { unreachable!("the world has IPv4 addresses") };
            let moved = std::net::Ipv4Addr::from_bits(ip.to_bits() + 0x100);
            world.move_client((moved, old.port()).into());
            let now = world.now;
            if let Some(connection) = connection(world, Side::Client) {
                connection.handle_path_change(now);
            }
        }
        Change::UpdateKeys(side) => {
            if let Some(connection) = connection(world, *side) {
                connection.initiate_key_update();
            }
        }
        Change::Ping(side) => {
            if let Some(connection) = connection(world, *side) {
                connection.ping();
            }
        }
        Change::Copying { every, ahead, addresses, relays } => {
            let mut observer = Observer::new(*every, *ahead);
            (observer.addresses, observer.relays) = (*addresses, *relays);
            world.observer = Some(observer);
        }
        Change::PortsLive(time) => (world.address_lives, world.takes_fresh_ports) = (Some(*time), true),
        Change::EatsEcn(ways) => {
            world.eats_ecn = Some(match ways {
                [true, true] => |_, _| true,
                [true, false] => |direction, _| direction == Direction::Forward,
                _ => |direction, _| direction == Direction::Backward,
            });
        }
    }
}

/// The abrupt ends. True if one took place.
fn end_if_due(world: &mut World, plan: &Plan, elapsed: Duration) -> bool {
    let now = world.now;
    match plan.end {
        End::Close(side, at) if at <= elapsed => {
            if let Some(connection) = connection(world, side).filter(|c| !c.is_closed()) {
                connection.close(now, CLOSE.0, bytes::Bytes::from_static(CLOSE.1));
                return true;
            }
        }
        End::Vanish(side, at) if at <= elapsed => {
            // A server that goes before the handshake is over is only begun with anew.
            if connection(world, side).is_some_and(|c| side.is_client() || !c.is_handshaking()) {
                let node = if side.is_client() { &mut world.client } else { &mut world.server };
                let (handle, _) = node.connections.pop_first().expect("there is one");
                node.endpoint.handle_event(handle, fulmar_proto::EndpointEvent::Drained);
                return true;
            }
        }
        _ => {}
    }
    false
}

/// Hands events and time to the applications, and looks whether bounds are kept.
fn act(world: &mut World, app: &mut App, plan: &Plan, may_end: bool) {
    let now = world.now;
    for side in [Side::Client, Side::Server] {
        let ended = if side.is_client() { &world.client } else { &world.server };
        if let Some(reason) = ended.events.iter().find_map(|(_, event)| match event {
            fulmar_proto::Event::Closed(reason) => Some(reason),
            _ => None,
        }) {
            let is_right = is_planned(plan, side, reason, may_end);
            assert!(
                is_right,
                "{side:?} ends with {reason:?} ({:?}): {}\n{}",
                plan.end,
                app.describe(),
                world.describe()
            );
        }
        let node = if side.is_client() { &mut world.client } else { &mut world.server };
        while let Some((handle, event)) = node.events.pop_front() {
            if let Some(connection) = node.connections.get_mut(&handle) {
                app.on_event(now, side, connection, event);
            }
        }
        if let Some(connection) = node.connections.values_mut().next() {
            if !connection.is_closed() {
                app.on_time(now, side, connection);
            }
            check_bounds(plan, side, connection);
        }
    }
}

/// A connection ends for no reason but those of the plan.
fn is_planned(plan: &Plan, side: Side, reason: &ConnectionError, may_end: bool) -> bool {
    let is_ours = |code: u64, reason: &[u8]| (code, reason) == CLOSE;
    may_end
        && match (plan.end, reason) {
            (End::Shutdown(by) | End::Close(by, _), ConnectionError::LocallyClosed) => by == side,
            (End::Shutdown(by), ConnectionError::ApplicationClosed { code, reason }) => {
                by != side && is_ours(*code, reason)
            }
            (End::Close(by, _), ConnectionError::ApplicationClosed { code, reason }) => {
                by != side && is_ours(*code, reason)
            }
            // Before the handshake is confirmed the application's reason is not told (RFC 9000 10.2.3).
            (End::Close(by, _), ConnectionError::PeerTransport(error)) => {
                by != side && error.code == TransportErrorCode::NoError
            }
            // The close itself may have been lost, and so may be the one who sent it.
            (_, ConnectionError::TimedOut | ConnectionError::Reset) => true,
            _ => false,
        }
}

/// Memory stays within what the settings allow.
fn check_bounds(plan: &Plan, side: Side, connection: &Connection) {
    let end = &plan.ends[side as usize];
    let stats = connection.stats();
    assert!(
        stats.streams.queued_bytes <= end.send_buffer_bytes.max(1),
        "{side:?} queues too much: {stats:?}"
    );
    let symbol_bytes = u64::from(stats.path.mtu_bytes.max(1472));
    assert!(
        stats.symbols_held_bytes <= end.symbols_held_bytes + symbol_bytes,
        "{side:?} holds too much: {stats:?}"
    );
}
