//! The enemy in the swarm: one seed draws a server with honest clients, peers with valid keys that lie, and
//! strangers.
//!
//! In some seeds there are strangers who prove their address and go no further: their networks have no more
//! handshakes under way than is theirs, are sent no more than three times what came from them, and are soon
//! forgotten.
//!
//! In some seeds clients come by byte streams in place of UDP, and hostile ends write noise into theirs. The
//! streams of others go on.
//!
//! Hostile ends say in the handshake whatever can be said, forge frames under the right keys, acknowledge
//! what they did not receive or nothing, read nothing, move, repeat and damage packets. In half of the seeds
//! the server is the hostile end.
//!
//! After each datagram that an honest end receives, its memory and the work of its decoder must be within
//! their bounds, and an address that proved nothing is sent no more than three times what came from it.
//! Honest connections meanwhile do what they are for: every byte arrives. In the end nothing is left of the
//! hostile ones.

mod budget;
mod deeds;
mod field;
mod frames;
mod halves;
mod honest;
mod parameters;
mod pipes;
mod service;
mod streams;

use std::time::Duration;

use super::draw::Draw;
pub use budget::{Clock, Worst};
use deeds::Enemy;
use field::{Field, SERVER};
use honest::Errand;

/// How long the enemy is at work.
const SIEGE: (u64, u64) = (300, 3000);
/// Honest errands are done after so long, for nothing is in their way but a few losses.
const PATIENCE: Duration = Duration::from_secs(120);
/// Handshakes of strangers who say no more have ended by then: ten seconds (docs/internals/wire.md 5.2.5),
/// and what it takes until the last that was sent has come.
const HALF_TIME_MAX: Duration = Duration::from_secs(11);
/// By then every hostile connection has been given up: idle timeouts, and three probe timeouts as long as a
/// liar can make them.
const REST: Duration = Duration::from_secs(400);

/// One seed's siege. Returns what cost most, by the code that the hostile ends named. `clock` tells the time
/// that this thread has worked; a siege is the same whatever it says.
///
/// # Panics
/// If a rule is broken.
pub fn besiege(seed: u64, clock: Clock) -> Worst {
    let mut draw = Draw::new(seed, 78);
    let is_server_hostile = draw.one_in(2);
    let mut field = Field::new(seed, &mut draw, is_server_hostile, clock);
    let mut enemies: Vec<Enemy> = field.hostile().map(|party| Enemy::new(&mut draw, party)).collect();
    let mut errands: Vec<Errand> = field.friends().map(|party| Errand::new(&mut draw, party)).collect();
    // Drawn apart, so that a seed is otherwise what it was before there were these.
    let mut apart = Draw::new(seed, 80);
    let has_halves = apart.one_in(2) && !is_server_hostile;
    let mut streams = Draw::new(seed, 81);
    let has_streams = streams.one_in(3) && field.shut_udp(&mut streams);
    let end = field.now + draw.millis(SIEGE.0, SIEGE.1);
    while field.now < end {
        let pause = draw.millis(0, 40);
        run(&mut field, &mut errands, pause, |_| false);
        if draw.one_in(3) {
            field.strange(&mut draw);
        }
        if has_halves && apart.one_in(2) {
            field.half_open(&mut apart);
        }
        if has_streams && streams.one_in(4) {
            field.babble(&mut streams);
        }
        for enemy in &mut enemies {
            enemy.act(&mut draw, &mut field);
        }
    }
    let is_done = run(&mut field, &mut errands, PATIENCE, |errands| errands.iter().all(Errand::is_done));
    assert!(is_done || is_server_hostile, "seed {seed}: honest errands are not done: {errands:?}");
    if has_halves {
        run(&mut field, &mut errands, HALF_TIME_MAX, |_| false);
        field.check_halves(0);
    }
    field.silence();
    for errand in &errands {
        errand.part(&mut field);
    }
    run(&mut field, &mut [], REST, |_| false);
    assert_eq!(
        field.parties[SERVER].node.endpoint.connection_count(),
        0,
        "seed {seed}: connections are left"
    );
    assert_eq!(field.parties[SERVER].node.endpoint.connection_id_count(), 0, "seed {seed}: names are left");
    field.budget.worst
}

/// Lets time pass until `done`, at most for `limit`. True if done.
fn run(field: &mut Field, errands: &mut [Errand], limit: Duration, done: impl Fn(&[Errand]) -> bool) -> bool {
    let end = field.now + limit;
    loop {
        errands.iter_mut().for_each(|errand| errand.go_on(field));
        field.serve();
        if done(errands) {
            return true;
        }
        if !field.step(end) {
            return false;
        }
    }
}
