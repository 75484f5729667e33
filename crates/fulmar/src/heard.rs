//! Whether a server answers by UDP: asked beside the connections, at a port of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;

use crate::socket;

/// A version that nobody speaks (RFC 9000 15): who hears it says which he does, and keeps nothing.
const NO_VERSION: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];
const FORM_LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const ID_BYTES: usize = 8;
/// What could open a connection is answered, and shows that the way carries as much (RFC 9000 6.1, 14.1).
const QUESTION_BYTES: usize = 1200;

/// The question is repeated after so long, then after twice as long, and so on.
const REPEAT_AFTER: Duration = Duration::from_millis(250);
const QUESTIONS: u32 = 4;

/// Whether the server at `address` answers by UDP now: some four seconds are enough for a no. A server of
/// this protocol answers whoever asks, and keeps nothing. Somebody on the way could answer for it, and
/// nobody else could.
pub async fn is_heard_by_udp(address: SocketAddr) -> bool {
    ask(socket::plain(address)).await.unwrap_or(false)
}

async fn ask(address: SocketAddr) -> io::Result<bool> {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::from_std({
        let socket = socket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket
    })?;
    socket.connect(address).await?;
    let mut question = vec![0; QUESTION_BYTES];
    getrandom::fill(&mut question)?;
    let ids = begin(&mut question);
    for count in 0..QUESTIONS {
        // A port that nobody listens at may be listened at a moment later.
        let _ = socket.send(&question).await;
        let wait = REPEAT_AFTER * (1 << count);
        if tokio::time::timeout(wait, answer(&socket, &ids)).await.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the head of the question, and returns that of its answer: the names change places.
fn begin(question: &mut [u8]) -> Vec<u8> {
    let first = question[0] | FORM_LONG | FIXED;
    let len = ID_BYTES as u8;
    let mut head = [&[first], &NO_VERSION[..], &[len]].concat();
    head.extend_from_slice(&question[6..6 + ID_BYTES]);
    head.push(len);
    question[..head.len()].copy_from_slice(&head);
    let (dcid, scid) = (&question[6..6 + ID_BYTES], &question[7 + ID_BYTES..7 + 2 * ID_BYTES]);
    [&[0, 0, 0, 0, len], scid, &[len], dcid].concat()
}

/// Resolves when the answer has come.
async fn answer(socket: &UdpSocket, expected: &[u8]) {
    let mut buffer = [0; 256];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(bytes) => {
                if buffer[..bytes].first().is_some_and(|first| first & FORM_LONG != 0)
                    && buffer[1..bytes].starts_with(expected)
                {
                    return;
                }
            }
            // Word that nobody listens, for instance: the next question is a later one.
            Err(_) => std::future::pending().await,
        }
    }
}
