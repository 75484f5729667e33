//! What honest clients want: to send something to the server and to get it back.

use fulmar_proto::stream::Read;
use fulmar_proto::{Connection, Dir, Event, Instant, StreamId};

use super::super::draw::Draw;
use super::field::Field;

/// An errand of one client: bytes on one stream, which the server sends back.
#[derive(Debug)]
pub(super) struct Errand {
    party: usize,
    bytes: u64,
    stream: Option<StreamId>,
    written: u64,
    read: u64,
    is_finished: bool,
    /// The end of what came back was read.
    is_read: bool,
}

fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 16) as u8
}

impl Errand {
    pub(super) fn new(draw: &mut Draw, party: usize) -> Self {
        let bytes = draw.log_between(1, 60_000);
        Self { party, bytes, stream: None, written: 0, read: 0, is_finished: false, is_read: false }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_read
    }

    /// As far as it goes now: no further if nothing has happened.
    pub(super) fn go_on(&mut self, field: &mut Field) {
        if !field.parties[self.party].is_stirred() {
            return;
        }
        let now = field.now;
        let is_server_hostile = field.parties[super::SERVER].is_hostile;
        field.parties[self.party].node.events.retain(|(_, event)| matches!(event, Event::Closed(_)));
        let Some(connection) = field.connection(self.party) else { return };
        if connection.is_closed() {
            assert!(is_server_hostile, "an honest connection ends: {:?}", connection.close_reason());
            if field.connect(self.party) {
                *self = Self { stream: None, written: 0, read: 0, is_finished: false, ..*self };
            }
            return;
        }
        if connection.is_handshaking() {
            return;
        }
        if self.stream.is_none() {
            self.stream = connection.open(Dir::Bi);
        }
        let Some(id) = self.stream else { return };
        self.write(connection, id);
        self.read(now, connection, id, is_server_hostile);
        while connection.recv_datagram().is_some() {}
    }

    fn write(&mut self, connection: &mut Connection, id: StreamId) {
        while self.written < self.bytes {
            let end = self.bytes.min(self.written + 4096);
            let data: Vec<u8> = (self.written..end).map(byte).collect();
            let Ok(taken) = connection.write(id, &data) else { return };
            self.written += taken as u64;
        }
        if !self.is_finished {
            self.is_finished = connection.finish(id).is_ok();
        }
    }

    fn read(&mut self, now: Instant, connection: &mut Connection, id: StreamId, is_anything_right: bool) {
        let mut out = [0; 4096];
        loop {
            match connection.read(now, id, &mut out) {
                Ok(Read::Data(len)) => {
                    let is_right = out[..len].iter().zip(self.read..).all(|(got, at)| *got == byte(at));
                    assert!(is_right || is_anything_right, "wrong bytes come back from {}", self.read);
                    self.read += len as u64;
                }
                Ok(Read::End) => {
                    assert!(self.read == self.bytes || is_anything_right, "{} bytes come back", self.read);
                    self.is_read = true;
                }
                Err(_) => return,
            }
        }
    }

    /// It is over.
    pub(super) fn part(&self, field: &mut Field) {
        let now = field.now;
        if let Some(connection) = field.connection(self.party) {
            connection.close(now, 0, bytes::Bytes::new());
            field.parties[self.party].stir();
        }
    }
}
