//! How datagrams are cut out of a byte stream that carries them in place of UDP: each is preceded by its
//! length, two bytes, the high one first.
//!
//! No datagram is empty, and none is longer than [`DATAGRAM_BYTES_MAX`]. So a stream of datagrams never
//! begins with a letter, and one that begins with a line of text is none.

use super::Malformed;

/// Far more than any path carries; what a reader has to hold.
pub const DATAGRAM_BYTES_MAX: usize = (1 << 14) - 1;

const LENGTH_BYTES: usize = 2;

/// Room for a datagram and for what came with it.
const BUFFER_BYTES: usize = 2 * (1 << 14);

/// Appends `datagram` to what is to be written. One that is too long is lost, as on a path that does not
/// carry it: false then.
pub fn put(datagram: &[u8], out: &mut Vec<u8>) -> bool {
    match u16::try_from(datagram.len()) {
        Ok(len) if (1..=DATAGRAM_BYTES_MAX).contains(&datagram.len()) => {
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(datagram);
            true
        }
        _ => false,
    }
}

/// What was read of a stream, and not yet taken.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Reader {
    /// Of a stream that begins.
    #[expect(clippy::new_without_default, reason = "it takes memory")]
    pub fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], begin: 0, end: 0 }
    }

    /// Where the next bytes of the stream belong: never empty once [`Self::take`] has given all there was.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        &mut self.buffer[self.end..]
    }

    /// So many came.
    pub fn on_read(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// The datagrams that are complete, in their order. An error if something else stands there: nothing can
    /// be found behind it.
    pub fn take(&mut self) -> Result<Vec<&mut [u8]>, Malformed> {
        let mut datagrams = Vec::new();
        let mut rest = &mut self.buffer[self.begin..self.end];
        while let Some((length, behind)) = rest.split_first_chunk_mut::<LENGTH_BYTES>() {
            let len = usize::from(u16::from_be_bytes(*length));
            if !(1..=DATAGRAM_BYTES_MAX).contains(&len) {
                return Err(Malformed);
            }
            let Some((datagram, behind)) = behind.split_at_mut_checked(len) else { break };
            self.begin += LENGTH_BYTES + len;
            datagrams.push(datagram);
            rest = behind;
        }
        Ok(datagrams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a stream that comes in pieces of these lengths, again and again.
    fn read(stream: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut reader, mut read, mut at) = (Reader::new(), Vec::new(), 0);
        let mut pieces = pieces.iter().cycle();
        while at < stream.len() {
            let room = reader.room();
            assert!(!room.is_empty(), "a stream that goes on can be read");
            let piece = (*pieces.next().unwrap()).clamp(1, room.len()).min(stream.len() - at);
            room[..piece].copy_from_slice(&stream[at..at + piece]);
            at += piece;
            reader.on_read(piece);
            read.extend(reader.take()?.into_iter().map(|datagram| datagram.to_vec()));
        }
        Ok(read)
    }

    fn noise(len: usize, seed: u8) -> Vec<u8> {
        (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
    }

    #[test]
    fn datagrams_come_out_as_they_went_in_however_the_stream_is_cut() {
        let lens = [1, 2, 1200, 1452, 3, DATAGRAM_BYTES_MAX, 40, DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX, 1];
        let datagrams: Vec<_> = lens.iter().zip(1..).map(|(&len, seed)| noise(len, seed)).collect();
        let mut stream = Vec::new();
        assert!(datagrams.iter().all(|datagram| put(datagram, &mut stream)));
        for pieces in [&[1][..], &[2], &[3, 1], &[1460], &[7, 4096, 1], &[usize::MAX]] {
            assert_eq!(read(&stream, pieces).unwrap(), datagrams, "{pieces:?}");
        }
    }

    #[test]
    fn what_cannot_be_carried_is_left_out() {
        let mut stream = Vec::new();
        for len in [0, DATAGRAM_BYTES_MAX + 1, 70_000] {
            assert!(!put(&noise(len, 1), &mut stream));
        }
        assert_eq!(stream, []);
    }

    /// Whatever a stranger says: an error, or datagrams whose bytes are those of the stream, each once.
    #[test]
    fn noise_is_refused_or_cut_into_what_it_says() {
        for seed in 0..=255 {
            let stream: Vec<u8> = noise(40_000, seed).chunks(2).flat_map(|c| [c[0] & 7, c[1]]).collect();
            let whole = read(&stream, &[usize::MAX]);
            let cut = read(&stream, &[1, 700, 13]);
            assert_eq!(whole.is_err(), cut.is_err(), "it matters what is said, not how it is cut");
            let Ok(read) = whole else { continue };
            let mut again = Vec::new();
            assert!(read.iter().all(|datagram| put(datagram, &mut again)));
            assert_eq!(stream[..again.len()], again);
        }
    }

    #[test]
    fn text_and_empty_datagrams_end_a_stream() {
        for stream in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-x\r\n", &[0, 0], &[0xff; 40], &[22, 3, 0, 0, 0]]
        {
            let read = read(stream, &[usize::MAX]);
            // What looks like a record of TLS is a datagram that never comes whole.
            assert!(read.is_err() || (stream[0] < 0x40 && read.unwrap().is_empty()), "{stream:?}");
        }
    }
}
