//! What the kernel tells about a TCP socket (`TCP_INFO`, linux/tcp.h), of which later kernels fill in more.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys;

/// The part of `struct tcp_info` that the laboratory uses: counts and current values of one connection.
/// Fields the kernel does not know are zero.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Congestion window.
    pub window_segments: u32,
    /// Data in a segment at most.
    pub segment_bytes: u32,
    /// Segments not acknowledged.
    pub unacked_segments: u32,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Segments sent again.
    pub retransmitted_segments: u32,
    /// Bytes of data in segments sent again.
    pub retransmitted_bytes: u64,
    /// Pace of sending.
    pub pacing_bytes_per_second: u64,
    /// Segments sent.
    pub sent_segments: u32,
    /// Of these, the ones with data.
    pub data_segments: u32,
    /// Bytes of data sent, those sent again included.
    pub sent_bytes: u64,
    /// Segments that came back with a congestion mark.
    pub delivered_ce: u32,
    /// Retransmission timeouts.
    pub timeouts: u16,
}

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    /// If it is no TCP socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let (bytes, length) = sys::tcp_info(socket)?;
        Ok(Self::parse(&bytes[..length]))
    }

    /// By the offsets of linux/tcp.h, which are part of the kernel's interface and only ever grow.
    fn parse(bytes: &[u8]) -> Self {
        let field = |at: usize, width: usize| {
            let mut value = [0; 8];
            if let Some(bytes) = bytes.get(at..at + width) {
                value[..width].copy_from_slice(bytes);
            }
            // The kernel's words are the machine's; all machines with TUN that this runs on are little-endian
            // or fill the value from its most significant end.
            if cfg!(target_endian = "big") {
                u64::from_be_bytes(value) >> (64 - 8 * width)
            } else {
                u64::from_le_bytes(value)
            }
        };
        let word = |at| field(at, 4) as u32;
        Self {
            segment_bytes: word(16),
            unacked_segments: word(24),
            rtt: Duration::from_micros(u64::from(word(68))),
            window_segments: word(80),
            retransmitted_segments: word(100),
            pacing_bytes_per_second: field(104, 8),
            sent_segments: word(136),
            data_segments: word(156),
            delivered_ce: word(196),
            sent_bytes: field(200, 8),
            retransmitted_bytes: field(208, 8),
            timeouts: field(240, 2) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_record_of_an_old_kernel_is_read_as_far_as_it_goes() {
        let mut bytes = [0u8; 248];
        bytes[68..72].copy_from_slice(&20_000u32.to_ne_bytes());
        bytes[200..208].copy_from_slice(&5_000_000_000u64.to_ne_bytes());
        bytes[240..242].copy_from_slice(&3u16.to_ne_bytes());
        let whole = TcpInfo::parse(&bytes);
        assert_eq!(
            (whole.rtt, whole.sent_bytes, whole.timeouts),
            (Duration::from_millis(20), 5_000_000_000, 3)
        );
        let old = TcpInfo::parse(&bytes[..104]);
        assert_eq!((old.rtt, old.sent_bytes, old.timeouts), (Duration::from_millis(20), 0, 0));
    }
}
