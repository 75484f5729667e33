//! Frames on a byte stream: a kind, a length, a body. What `cp` and `perf` speak is built from these
//! (docs/internals/cp-protocol.md, section 2).
//!
//! A length above the reader's limit is refused before anything is allocated for it.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Kind (1 byte) and length of the body (4 bytes, big endian).
const HEADER_BYTES: usize = 5;

/// Longest body of any frame, in bytes.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the body is.
    pub kind: u8,
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub body: Bytes,
}

/// Reads one frame; `None` when the stream ended before one began.
pub async fn read<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Option<Frame>> {
    read_at_most(reader, BODY_BYTES_MAX).await
}

/// As [`read`], where no body is longer than `body_bytes_max`.
pub async fn read_at_most<R: AsyncRead + Unpin>(
    reader: &mut R,
    body_bytes_max: usize,
) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER_BYTES];
    let first = reader.read(&mut header).await?;
    if first == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut header[first..]).await?;
    let [kind, length @ ..] = header;
    let length = u32::from_be_bytes(length) as usize;
    if length > body_bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes is too long"),
        ));
    }
    let mut body = BytesMut::zeroed(length);
    reader.read_exact(&mut body).await?;
    Ok(Some(Frame { kind, body: body.freeze() }))
}

/// Writes one frame. Bodies are made here, so a longer one than the other side would take is a mistake of
/// ours.
pub async fn write<W: AsyncWrite + Unpin>(writer: &mut W, kind: u8, body: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    append(&mut frame, kind, body);
    writer.write_all(&frame).await
}

/// Appends one frame to a buffer.
pub fn append(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    assert!(body.len() <= BODY_BYTES_MAX, "a frame body of {} bytes", body.len());
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
}

/// Where a writer of frames is. Behind a frame that was begun and cannot be completed nothing can be said: it
/// would be taken for the rest of that frame.
#[derive(Debug, Default)]
pub struct Boundary {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    body_bytes_left: usize,
}

impl Boundary {
    /// These bytes of frames were written.
    pub fn on_written(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.body_bytes_left > 0 {
                let count = bytes.len().min(self.body_bytes_left);
                self.body_bytes_left -= count;
                bytes = &bytes[count..];
                continue;
            }
            self.header[self.header_bytes] = bytes[0];
            self.header_bytes += 1;
            bytes = &bytes[1..];
            if self.header_bytes == HEADER_BYTES {
                let [_, length @ ..] = self.header;
                self.body_bytes_left = u32::from_be_bytes(length) as usize;
                self.header_bytes = 0;
            }
        }
    }

    /// No frame has been begun that is not complete.
    pub fn is_between_frames(&self) -> bool {
        self.header_bytes == 0 && self.body_bytes_left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_complete_with_its_last_byte() {
        let (mut wire, mut ends) = (Vec::new(), vec![0]);
        for body in [&b"hello"[..], b"", b"x", &[0; 300]] {
            append(&mut wire, 7, body);
            ends.push(wire.len());
        }
        for piece in [1, 2, 5, 7, wire.len()] {
            let (mut boundary, mut written) = (Boundary::default(), 0);
            for bytes in wire.chunks(piece) {
                boundary.on_written(bytes);
                written += bytes.len();
                assert_eq!(boundary.is_between_frames(), ends.contains(&written), "{written} in {piece}s");
            }
        }
    }

    #[tokio::test]
    async fn frames_survive_the_trip() {
        let mut wire = Vec::new();
        write(&mut wire, 7, b"hello").await.unwrap();
        write(&mut wire, 8, b"").await.unwrap();
        let mut reader = &wire[..];
        assert_eq!(
            read(&mut reader).await.unwrap(),
            Some(Frame { kind: 7, body: Bytes::from_static(b"hello") })
        );
        assert_eq!(read(&mut reader).await.unwrap(), Some(Frame { kind: 8, body: Bytes::new() }));
        assert_eq!(read(&mut reader).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_cut_frame_is_an_error_and_a_huge_one_is_refused() {
        let mut wire = Vec::new();
        write(&mut wire, 7, b"hello").await.unwrap();
        for cut in 1..wire.len() {
            assert_eq!(read(&mut &wire[..cut]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let huge = [7, 0xff, 0xff, 0xff, 0xff, 0];
        assert_eq!(read(&mut &huge[..]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
