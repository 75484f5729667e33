//! What an application may set, and what the two ends tell each other in the handshake.

/// Limits of this end. Each bounds memory: what the peer can make this end hold is at most
/// `connection_window_bytes_max` of data (twice that in allocations), `fragments_max` fragments, and one
/// small record per stream; what the application can make it hold is `send_buffer_bytes_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamConfig {
    /// Streams in both directions that the peer may have open at once.
    pub streams_bi_max: u64,
    /// Streams in one direction that the peer may have open at once.
    pub streams_uni_max: u64,
    /// Bytes of one stream that the peer may send unread, at first.
    pub stream_window_bytes: u64,
    /// What that grows to on a fast and long path.
    pub stream_window_bytes_max: u64,
    /// Bytes of all streams that the peer may send unread, at first.
    pub connection_window_bytes: u64,
    /// What that grows to on a fast and long path.
    pub connection_window_bytes_max: u64,
    /// Stretches of bytes beyond a gap, over all streams: about 200 bytes each beside the data. A sound
    /// sender leaves one per lost symbol.
    pub fragments_max: u64,
    /// Bytes of one stream taken from the application and not sent yet: twice what leaves before its writer
    /// has its turn.
    pub stream_send_buffer_bytes_max: u64,
    /// Bytes of all streams taken from the application and not sent yet.
    pub send_buffer_bytes_max: u64,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            streams_bi_max: 256,
            streams_uni_max: 256,
            stream_window_bytes: 512 << 10,
            stream_window_bytes_max: 32 << 20,
            connection_window_bytes: 2 << 20,
            connection_window_bytes_max: 48 << 20,
            fragments_max: 32 << 10,
            stream_send_buffer_bytes_max: 256 << 10,
            send_buffer_bytes_max: 4 << 20,
        }
    }
}

impl StreamConfig {
    /// What the handshake tells the peer.
    pub fn limits(&self) -> PeerStreamLimits {
        PeerStreamLimits {
            max_data: self.connection_window_bytes.clamp(1, crate::wire::VARINT_MAX),
            max_stream_data: self.stream_window_bytes.clamp(1, crate::wire::VARINT_MAX),
            max_streams_bi: self.streams_bi_max.min(STREAMS_MAX),
            max_streams_uni: self.streams_uni_max.min(STREAMS_MAX),
        }
    }
}

/// Most streams of a kind a connection can ever have (RFC 9000 4.6): their numbers must fit a varint.
pub const STREAMS_MAX: u64 = 1 << 60;

/// What one end allows the other from the start of the connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerStreamLimits {
    /// Bytes over all streams.
    pub max_data: u64,
    /// Bytes on each stream.
    pub max_stream_data: u64,
    /// Streams in both directions that may be opened.
    pub max_streams_bi: u64,
    /// Streams in one direction that may be opened.
    pub max_streams_uni: u64,
}
