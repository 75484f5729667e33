//! docs/internals/wire.md, section 3: updates of keys.

use super::*;
use crate::crypto::tests::connected;
use crate::ids::ConnectionId;
use crate::wire::packet::{self, PacketHeader};
use proptest::prelude::*;

const PTO: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// One end with its packet numbers.
struct End {
    keys: KeySchedule,
    next: u64,
    expected: u64,
}

impl End {
    fn pair() -> (Self, Self) {
        let (client, server) = connected().into_schedules();
        let end = |keys| Self { keys, next: 0, expected: 0 };
        (end(client), end(server))
    }

    fn seal(&mut self) -> Vec<u8> {
        self.try_seal().unwrap()
    }

    fn try_seal(&mut self) -> Result<Vec<u8>, SealError> {
        let number = PacketNumber(self.next);
        let mut packet = Vec::new();
        let span = PacketHeader::OneRtt { dcid: ConnectionId::new([6; 8]) }.put(number, &mut packet);
        packet.extend_from_slice(&self.next.to_be_bytes());
        self.keys.seal(number, &mut packet, span)?;
        self.next += 1;
        Ok(packet)
    }

    fn open(&mut self, packet: &[u8], now: Instant) -> Result<u64, OpenError> {
        let mut packet = packet.to_vec();
        let pn_offset = packet::parse(&packet, 8).unwrap().pn_offset;
        let opened = self.keys.open(&mut packet, pn_offset, PacketNumber(self.expected), now, PTO)?;
        assert_eq!(packet[opened.frames], opened.number.0.to_be_bytes());
        self.expected = self.expected.max(opened.number.0 + 1);
        Ok(opened.number.0)
    }

    fn ack(&mut self, number: u64) {
        self.keys.on_acked(PacketNumber(number));
    }
}

/// One packet each way, both acknowledged.
fn exchange(a: &mut End, b: &mut End, now: Instant) {
    let (from_a, from_b) = (a.seal(), b.seal());
    let number = b.open(&from_a, now).unwrap();
    a.ack(number);
    let number = a.open(&from_b, now).unwrap();
    b.ack(number);
}

/// 3.3: either end may begin, the other follows, again and again.
#[test]
fn both_ends_update_their_keys() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    for round in 1..=6 {
        let (begins, follows) =
            if round % 2 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
        begins.keys.initiate_update().unwrap();
        let packet = begins.seal();
        follows.open(&packet, at(round)).unwrap();
        assert_eq!((begins.keys.generation(), follows.keys.generation()), (round, round));
        exchange(&mut client, &mut server, at(round));
        exchange(&mut client, &mut server, at(round));
    }
}

/// 3.3: an end that rests makes the next keys when they are needed.
#[test]
fn keys_of_an_end_that_rests_are_made_again() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    assert!(server.keys.next.is_none());
    for round in 1..=3 {
        server.keys.prepare_update();
        assert!(server.keys.next.is_some());
        server.keys.release_memory();
        client.keys.initiate_update().unwrap();
        let packet = client.seal();
        server.open(&packet, at(round)).unwrap();
        assert_eq!(server.keys.generation(), round);
        exchange(&mut client, &mut server, at(round));
    }
}

/// 3.3: both ends begin at once; they meet in the same generation.
#[test]
fn updates_may_cross() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    client.keys.initiate_update().unwrap();
    server.keys.initiate_update().unwrap();
    exchange(&mut client, &mut server, at(1));
    assert_eq!((client.keys.generation(), server.keys.generation()), (1, 1));
}

/// 3.3: not before the peer acknowledged a packet under the current keys.
#[test]
fn an_update_waits_for_an_acknowledgement() {
    let (mut client, mut server) = End::pair();
    assert_eq!(client.keys.initiate_update(), Err(UpdateTooEarly));
    client.seal();
    assert_eq!(client.keys.initiate_update(), Err(UpdateTooEarly));
    exchange(&mut client, &mut server, at(0));
    client.keys.initiate_update().unwrap();
    // Acknowledgements of packets under the old keys do not count.
    client.ack(0);
    client.seal();
    client.ack(1);
    assert_eq!(client.keys.initiate_update(), Err(UpdateTooEarly));
    client.ack(2);
    assert_eq!(client.keys.initiate_update(), Ok(()));
}

/// 3.3: packets that were overtaken by an update open for three probe timeouts, then no more.
#[test]
fn old_keys_are_kept_for_a_while() {
    for peer_begins in [true, false] {
        let (mut client, mut server) = End::pair();
        exchange(&mut client, &mut server, at(0));
        let late: Vec<_> = (0..4).map(|_| client.seal()).collect();
        if peer_begins {
            client.keys.initiate_update().unwrap();
        } else {
            server.keys.initiate_update().unwrap();
            // Before the client is seen under the new keys, old ones do not age.
            assert!(server.open(&late[3], at(5_000)).is_ok());
            let update = server.seal();
            client.open(&update, at(5_000)).unwrap();
        }
        let newer = client.seal();
        server.open(&newer, at(10_000)).unwrap();
        assert!(server.open(&late[1], at(10_000)).is_ok());
        // What comes later under the new keys does not put it off.
        let newest = client.seal();
        server.open(&newest, at(10_200)).unwrap();
        assert!(server.open(&late[0], at(10_299)).is_ok());
        assert_eq!(server.open(&late[2], at(10_300)), Err(OpenError::NotAuthentic));
        assert_eq!(server.keys.generation(), 1);
    }
}

/// 3.3: under loss and reordering of everything around an update, what arrives in time opens.
#[test]
fn the_first_packets_of_an_update_may_be_lost() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    let before = client.seal();
    client.keys.initiate_update().unwrap();
    let (lost, early, later) = (client.seal(), client.seal(), client.seal());
    drop(lost);
    assert!(server.open(&later, at(1)).is_ok());
    assert!(server.open(&before, at(2)).is_ok());
    assert!(server.open(&early, at(3)).is_ok());
    assert_eq!(server.keys.generation(), 1);
}

/// 3.3: newer keys for a lower packet number than one under older keys are a violation, whichever arrived
/// first.
#[test]
fn newer_keys_for_a_lower_number_are_a_violation() {
    for older_arrives_late in [false, true] {
        let (mut client, mut server) = End::pair();
        exchange(&mut client, &mut server, at(0));
        client.next = 5;
        let older = client.seal();
        client.next = 7;
        client.keys.initiate_update().unwrap();
        let update = client.seal();
        client.next = 4;
        let newer = client.seal();
        let packets = if older_arrives_late { [&update, &older] } else { [&older, &update] };
        for packet in packets {
            server.open(packet, at(1)).unwrap();
        }
        let error = server.open(&newer, at(1)).unwrap_err();
        assert_eq!(error, OpenError::KeyUpdate);
        assert_eq!(error.violation().unwrap().code, crate::TransportErrorCode::KeyUpdate);
    }
}

/// 3.3: an update that starts below a number under older keys is one as well, and so is one that nobody can
/// have acknowledged.
#[test]
fn updates_out_of_turn_are_violations() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    client.next = 5;
    let older = client.seal();
    server.open(&older, at(1)).unwrap();
    client.next = 3;
    client.keys.initiate_update().unwrap();
    let update = client.seal();
    assert_eq!(server.open(&update, at(1)), Err(OpenError::KeyUpdate));

    let (mut client, mut server) = End::pair();
    let first = client.seal();
    server.open(&first, at(0)).unwrap();
    // The server has sent nothing, so this acknowledgement is a lie.
    client.ack(0);
    client.keys.initiate_update().unwrap();
    let packet = client.seal();
    assert_eq!(server.open(&packet, at(0)), Err(OpenError::KeyUpdate));
}

/// 3.3: keys are renewed before they are used up, by whichever end gets there, without being told.
#[test]
fn keys_renew_themselves() {
    let (mut client, mut server) = End::pair();
    client.keys.update_after(10);
    for i in 0..100 {
        exchange(&mut client, &mut server, at(i));
    }
    assert_eq!((client.keys.generation(), server.keys.generation()), (9, 9));
}

/// 3.3: without an acknowledgement the keys go on to their limit, then sealing ends.
#[test]
fn a_key_is_not_used_beyond_its_limit() {
    let (mut client, _) = End::pair();
    client.seal();
    let limit = client.keys.local.confidentiality_limit();
    assert!(limit <= 1 << 23);
    client.keys.sending.sealed_packets = limit - 1;
    client.seal();
    assert_eq!(client.try_seal(), Err(SealError::KeysUsedUp));
    assert_eq!(client.keys.generation(), 0);
    client.ack(1);
    client.seal();
    assert_eq!(client.keys.generation(), 1);
}

/// 3.4: forgeries are counted over all keys and end the connection at the limit.
#[test]
fn forgeries_are_counted() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    let mut forged = client.seal();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert_eq!(server.open(&forged, at(0)), Err(OpenError::NotAuthentic));
    server.keys.receiving.failed_packets = server.keys.remote.integrity_limit() - 2;
    client.keys.initiate_update().unwrap();
    let update = client.seal();
    server.open(&update, at(0)).unwrap();
    assert_eq!(server.open(&forged, at(0)), Err(OpenError::NotAuthentic));
    assert_eq!(server.open(&forged, at(0)), Err(OpenError::IntegrityLimit));
}

/// 3.4: no change to a packet goes unnoticed, the key phase included, and none moves the keys.
#[test]
fn tampering_with_any_byte_is_noticed() {
    let (mut client, mut server) = End::pair();
    exchange(&mut client, &mut server, at(0));
    let good = client.seal();
    for byte in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            let number = PacketNumber(server.expected);
            assert_eq!(server.keys.open(&mut bad, 9, number, at(0), PTO), Err(OpenError::NotAuthentic));
        }
    }
    assert_eq!((server.open(&good, at(0)), server.keys.generation()), (Ok(1), 0));
}

/// What may happen between two ends.
#[derive(Copy, Clone, Debug)]
enum Step {
    Send(bool),
    /// Delivers one of the packets under way, whichever.
    Deliver(proptest::sample::Index),
    Lose(proptest::sample::Index),
    Update(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Send),
        4 => any::<proptest::sample::Index>().prop_map(Step::Deliver),
        1 => any::<proptest::sample::Index>().prop_map(Step::Lose),
        2 => any::<bool>().prop_map(Step::Update),
    ]
}

/// A packet under way, with what it acknowledges: here all its sender has received.
struct UnderWay {
    to_client: bool,
    bytes: Vec<u8>,
    generation: u64,
    acks: Vec<u64>,
}

proptest! {
    /// 3.3: whatever is sent, lost, overtaken and updated when: ends that obey are never accused, never two
    /// generations apart, and every packet opens that is not two generations old.
    #[test]
    fn ends_that_obey_understand_each_other(steps in proptest::collection::vec(step(), 1..200)) {
        let (client, server) = End::pair();
        let (mut ends, mut received) = ([client, server], [Vec::new(), Vec::new()]);
        let mut under_way: Vec<UnderWay> = Vec::new();
        for step in steps {
            match step {
                Step::Send(by_client) => {
                    let from = usize::from(!by_client);
                    let bytes = ends[from].seal();
                    let (generation, acks) = (ends[from].keys.generation(), received[from].clone());
                    under_way.push(UnderWay { to_client: !by_client, bytes, generation, acks });
                }
                Step::Update(by_client) => {
                    let _ = ends[usize::from(!by_client)].keys.initiate_update();
                }
                Step::Lose(index) if !under_way.is_empty() => {
                    under_way.swap_remove(index.index(under_way.len()));
                }
                Step::Deliver(index) if !under_way.is_empty() => {
                    let packet = under_way.swap_remove(index.index(under_way.len()));
                    let to = usize::from(!packet.to_client);
                    let opened = ends[to].open(&packet.bytes, at(0));
                    let generation = ends[to].keys.generation();
                    if packet.generation + 2 <= generation {
                        prop_assert_eq!(opened, Err(OpenError::NotAuthentic));
                        continue;
                    }
                    received[to].push(opened.unwrap());
                    packet.acks.iter().for_each(|number| ends[to].ack(*number));
                }
                Step::Lose(_) | Step::Deliver(_) => {}
            }
            prop_assert!(ends[0].keys.generation().abs_diff(ends[1].keys.generation()) <= 1);
        }
    }
}
