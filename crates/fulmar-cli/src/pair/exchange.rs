//! What two machines say to each other to pair: SPAKE2 with the code as password, then a proof in each
//! direction.
//!
//! The two public keys that TLS has proved are the identities of the key exchange, and the proofs cover a
//! secret of the connection (RFC 8446 7.5). So a third in between, who has to show keys of its own, gets
//! other secrets at both ends, and learns nothing about the code but whether its one guess was right.
//!
//! ```text
//! joining -> inviting   "FPR" 1, element (33 bytes), length of the name (1 byte), name
//! inviting -> joining   element (33 bytes), or a refusal: 0 and its reason (1 byte each)
//! joining -> inviting   proof (32 bytes)
//! inviting -> joining   1, proof (32 bytes); or a refusal
//! ```

use std::io;

pub use fulmar::crypto::PublicKey;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::code::Code;

/// How the first message begins: the protocol and its version.
const PREAMBLE: [u8; 4] = *b"FPR\x01";

/// An element of SPAKE2: its side (1 byte) and a point.
const ELEMENT_BYTES: usize = 33;

/// How a refusal begins; an element begins with the letter of its side, an agreement with 1.
const REFUSED: u8 = 0;
const AGREED: u8 = 1;

/// Longest name that a machine gives itself.
const NAME_BYTES_MAX: usize = 64;

/// What the proofs are made for.
const JOINING: &[u8] = b"fulmar-pair/1 joining";
const INVITING: &[u8] = b"fulmar-pair/1 inviting";

/// What the connection knows: the same at both ends, unless somebody is in between.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The key that the machine which joins has proved to hold.
    pub joining: PublicKey,
    /// The key that the machine which invites has proved to hold.
    pub inviting: PublicKey,
    /// A secret of the connection.
    pub secret: [u8; 32],
}

/// Why machines do not pair.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The connection, or the other side, ended before.
    #[error("the other side ended the conversation: {0}")]
    Lost(#[from] io::Error),
    /// What was said is no pairing.
    #[error("the other side does not speak this protocol")]
    Protocol,
    /// The invitation was used, or its time is over, or there is none.
    #[error("no invitation is open there")]
    NoInvitation,
    /// The codes differ, or somebody is in between.
    #[error("the code is not the right one")]
    WrongCode,
    /// The other side could not write the key down.
    #[error("the other side cannot write its authorized_keys")]
    NotWritten,
}

impl PairError {
    fn reason(&self) -> u8 {
        match self {
            Self::NoInvitation => 1,
            Self::WrongCode => 2,
            Self::NotWritten => 3,
            Self::Lost(_) | Self::Protocol => 0,
        }
    }

    fn of(reason: u8) -> Self {
        match reason {
            1 => Self::NoInvitation,
            2 => Self::WrongCode,
            3 => Self::NotWritten,
            _ => Self::Protocol,
        }
    }
}

/// The machine that was given the code. When it returns, the other one has written this one's key down.
pub async fn join<R, W>(
    reader: &mut R,
    writer: &mut W,
    channel: &Channel,
    code: &Code,
    name: &str,
) -> Result<(), PairError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (exchange, element) = begin(channel, code, true);
    let name = shortened(name).as_bytes();
    let length = [name.len() as u8];
    writer.write_all(&[&PREAMBLE[..], &element[..], &length[..], name].concat()).await?;

    let mut theirs = [0; ELEMENT_BYTES];
    theirs[0] = reader.read_u8().await?;
    if theirs[0] == REFUSED {
        return Err(PairError::of(reader.read_u8().await?));
    }
    reader.read_exact(&mut theirs[1..]).await?;
    let key = finish(exchange, &theirs)?;
    writer.write_all(proof(&key, JOINING, channel).as_bytes()).await?;

    match reader.read_u8().await? {
        AGREED => {}
        REFUSED => return Err(PairError::of(reader.read_u8().await?)),
        _ => return Err(PairError::Protocol),
    }
    let mut answer = [0; 32];
    reader.read_exact(&mut answer).await?;
    // The comparison of hashes takes the same time wherever they differ.
    if blake3::Hash::from(answer) != proof(&key, INVITING, channel) {
        return Err(PairError::WrongCode);
    }
    Ok(())
}

/// The machine that shows the code. `take` gives the code for its one guess, where an invitation is open;
/// `accept` writes the other one's key down, with the name it gives itself. On failure the other side has
/// been told.
pub async fn invite<R, W>(
    reader: &mut R,
    writer: &mut W,
    channel: &Channel,
    take: impl FnOnce() -> Option<Code>,
    accept: impl FnOnce(&PublicKey, &str) -> bool,
) -> Result<(), PairError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let result = try_invite(reader, writer, channel, take, accept).await;
    if let Err(error) = &result {
        let _ = writer.write_all(&[REFUSED, error.reason()]).await;
    }
    let _ = writer.shutdown().await;
    result
}

async fn try_invite<R, W>(
    reader: &mut R,
    writer: &mut W,
    channel: &Channel,
    take: impl FnOnce() -> Option<Code>,
    accept: impl FnOnce(&PublicKey, &str) -> bool,
) -> Result<(), PairError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut preamble = [0; PREAMBLE.len()];
    reader.read_exact(&mut preamble).await?;
    if preamble != PREAMBLE {
        return Err(PairError::Protocol);
    }
    let mut theirs = [0; ELEMENT_BYTES];
    reader.read_exact(&mut theirs).await?;
    let mut name = vec![0; usize::from(reader.read_u8().await?)];
    reader.read_exact(&mut name).await?;
    let name = String::from_utf8_lossy(&name);

    // From here on the guess is used, whatever comes.
    let code = take().ok_or(PairError::NoInvitation)?;
    let (exchange, element) = begin(channel, &code, false);
    let key = finish(exchange, &theirs)?;
    writer.write_all(&element).await?;
    let mut claim = [0; 32];
    reader.read_exact(&mut claim).await?;
    if blake3::Hash::from(claim) != proof(&key, JOINING, channel) {
        return Err(PairError::WrongCode);
    }
    if !accept(&channel.joining, shortened(&name)) {
        return Err(PairError::NotWritten);
    }
    let proof = proof(&key, INVITING, channel);
    writer.write_all(&[&[AGREED][..], &proof.as_bytes()[..]].concat()).await?;
    Ok(())
}

fn begin(channel: &Channel, code: &Code, is_joining: bool) -> (Spake2<Ed25519Group>, Vec<u8>) {
    let password = Password::new(code.password());
    let [a, b] = [&channel.joining, &channel.inviting].map(|key| Identity::new(key.as_bytes()));
    if is_joining {
        Spake2::<Ed25519Group>::start_a(&password, &a, &b)
    } else {
        Spake2::<Ed25519Group>::start_b(&password, &a, &b)
    }
}

fn finish(exchange: Spake2<Ed25519Group>, theirs: &[u8]) -> Result<[u8; 32], PairError> {
    let key = exchange.finish(theirs).map_err(|_| PairError::Protocol)?;
    key.try_into().map_err(|_| PairError::Protocol)
}

fn proof(key: &[u8; 32], of: &[u8], channel: &Channel) -> blake3::Hash {
    blake3::Hasher::new_keyed(key).update(of).update(&channel.secret).finalize()
}

/// As much of a name as fits.
fn shortened(name: &str) -> &str {
    let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
