//! What the server does with the bytes of its clients.

use fulmar_proto::stream::Read;
use fulmar_proto::{Connection, Dir, Instant, Side, StreamId};

/// The server's side: sends back what comes, of which `left` has not found room yet.
pub(super) fn answer(now: Instant, connection: &mut Connection, left: &mut Vec<u8>) {
    let id = StreamId::new(Side::Client, Dir::Bi, 0);
    let mut out = [0; 4096];
    loop {
        if !left.is_empty() {
            let Ok(taken) = connection.write(id, left) else { return };
            left.drain(..taken);
            continue;
        }
        match connection.read(now, id, &mut out) {
            Ok(Read::Data(len)) => left.extend_from_slice(&out[..len]),
            Ok(Read::End) => drop(connection.finish(id)),
            Err(_) => return,
        }
    }
}

/// Reads some of what a hostile client has sent.
pub(super) fn drain(now: Instant, connection: &mut Connection) {
    let mut out = [0; 4096];
    for index in 0..4 {
        for dir in [Dir::Bi, Dir::Uni] {
            let id = StreamId::new(Side::Client, dir, index + u64::from(dir == Dir::Bi));
            while let Ok(Read::Data(_)) = connection.read(now, id, &mut out) {}
        }
    }
}
