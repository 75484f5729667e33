//! Pairing in memory: both ends, a wrong code, somebody in between, and anything for a message.

use proptest::prelude::*;
use tokio::io::DuplexStream;

use super::*;

fn key(seed: u8) -> PublicKey {
    fulmar::crypto::Identity::from_seed(&[seed; 32]).public_key()
}

fn channel(joining: u8, inviting: u8, secret: u8) -> Channel {
    Channel { joining: key(joining), inviting: key(inviting), secret: [secret; 32] }
}

type Ended = (Result<(), PairError>, Result<(), PairError>, Vec<(PublicKey, String)>);

/// Both ends, each with what it believes of the connection and of the code.
async fn pair(joining: (Channel, &Code), inviting: (Channel, Option<&Code>)) -> Ended {
    let (near, far): (DuplexStream, DuplexStream) = tokio::io::duplex(1 << 16);
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
        (tokio::io::split(near), tokio::io::split(far));
    let mut accepted = Vec::new();
    let join = join(&mut near_read, &mut near_write, &joining.0, joining.1, "alice@laptop");
    let code = inviting.1.cloned();
    let invite = invite(
        &mut far_read,
        &mut far_write,
        &inviting.0,
        || code,
        |key, name| {
            accepted.push((*key, name.to_owned()));
            true
        },
    );
    let (joined, invited) = tokio::join!(join, invite);
    (joined, invited, accepted)
}

#[tokio::test]
async fn machines_with_the_same_code_pair() {
    let code = Code::draw().unwrap();
    let all = channel(1, 2, 3);
    let (joined, invited, accepted) = pair((all.clone(), &code), (all, Some(&code))).await;
    joined.unwrap();
    invited.unwrap();
    assert_eq!(accepted, [(key(1), "alice@laptop".to_owned())]);
}

/// Another code, another key at either end, another connection: each alone is enough.
#[tokio::test]
async fn anything_that_differs_is_a_wrong_code() {
    let (code, other) = (Code::draw().unwrap(), Code::draw().unwrap());
    let right = channel(1, 2, 3);
    for (seen, typed) in [
        (channel(1, 2, 3), &other),
        (channel(9, 2, 3), &code),
        (channel(1, 9, 3), &code),
        (channel(1, 2, 9), &code),
    ] {
        let (joined, invited, accepted) = pair((seen, typed), (right.clone(), Some(&code))).await;
        assert!(matches!(joined, Err(PairError::WrongCode)), "{joined:?}");
        assert!(matches!(invited, Err(PairError::WrongCode)), "{invited:?}");
        assert!(accepted.is_empty());
    }
}

#[tokio::test]
async fn without_an_invitation_nobody_pairs() {
    let code = Code::draw().unwrap();
    let (joined, invited, accepted) = pair((channel(1, 2, 3), &code), (channel(1, 2, 3), None)).await;
    assert!(matches!(joined, Err(PairError::NoInvitation)), "{joined:?}");
    assert!(matches!(invited, Err(PairError::NoInvitation)), "{invited:?}");
    assert!(accepted.is_empty());
}

/// One that invites and does not know the code is found out as well, by its answer.
#[tokio::test]
async fn a_server_that_does_not_know_the_code_is_found_out() {
    let code = Code::draw().unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
        (tokio::io::split(near), tokio::io::split(far));
    let channel = channel(1, 2, 3);
    let liar = async {
        let mut said = [0; PREAMBLE.len() + ELEMENT_BYTES];
        far_read.read_exact(&mut said).await.unwrap();
        let (_, element) = begin(&channel, &Code::draw().unwrap(), false);
        far_write.write_all(&element).await.unwrap();
        far_write.write_all(&[AGREED]).await.unwrap();
        far_write.write_all(&[7; 32]).await.unwrap();
    };
    let (joined, ()) = tokio::join!(join(&mut near_read, &mut near_write, &channel, &code, ""), liar);
    assert!(matches!(joined, Err(PairError::WrongCode)), "{joined:?}");
}

#[tokio::test]
async fn long_names_are_cut() {
    let (code, all) = (Code::draw().unwrap(), channel(1, 2, 3));
    let (near, far) = tokio::io::duplex(1 << 16);
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) =
        (tokio::io::split(near), tokio::io::split(far));
    let long = "ü".repeat(1000);
    let mut heard = String::new();
    let (joined, invited) = tokio::join!(
        join(&mut near_read, &mut near_write, &all, &code, &long),
        invite(
            &mut far_read,
            &mut far_write,
            &all,
            || Some(code.clone()),
            |_, name| {
                heard = name.to_owned();
                true
            }
        )
    );
    joined.unwrap();
    invited.unwrap();
    assert_eq!(heard, "ü".repeat(NAME_BYTES_MAX / 2));
}

proptest! {
    /// Whatever a stranger says, with or without the right beginning: an error, no panic, and nobody is
    /// accepted.
    #[test]
    fn no_message_pairs_without_the_code(
        said in proptest::collection::vec(any::<u8>(), 0..200), is_begun in any::<bool>(),
    ) {
        let begin = if is_begun { &PREAMBLE[..] } else { &[] };
        let said = [begin, &said].concat();
        let code = Code::draw().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let accept = |_: &PublicKey, _: &str| -> bool { panic!("nobody is to be accepted") };
            let mut out = Vec::new();
            let (take, all) = (|| Some(code.clone()), channel(1, 2, 3));
            assert!(invite(&mut &said[..], &mut out, &all, take, accept).await.is_err());
            let mut out = Vec::new();
            assert!(join(&mut &said[..], &mut out, &all, &code, "x").await.is_err());
        });
    }
}
