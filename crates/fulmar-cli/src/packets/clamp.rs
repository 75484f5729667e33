//! TCP connections through the tunnel are told how long its packets may be: the maximum segment size that
//! either end offers is lowered to what the tunnel carries (RFC 4459, section 3.2). So nothing depends on
//! ICMP, which firewalls like to drop.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// Kind and length of the option (RFC 9293, section 3.2).
const MSS_OPTION: [u8; 2] = [2, 4];

/// Kinds of options that have no length.
const END_OPTION: u8 = 0;
const NO_OPTION: u8 = 1;

const TCP_HEADER_BYTES: usize = 20;
const TCP_CHECKSUM_AT: usize = 16;
const IPV6_HEADER_BYTES: usize = 40;
const IPV4_HEADER_BYTES: usize = 20;

/// Lowers the segment size that a packet offers to what fits `mtu`; packets that offer none stay as they are.
pub fn clamp(packet: &mut [u8], mtu: u16) {
    if let Some((tcp_at, option_at, mss)) = offer(packet, mtu) {
        let value_at = option_at + MSS_OPTION.len();
        replace(packet, tcp_at, value_at, mss);
    }
}

/// Where the TCP header and the option are, and what it may say, if it says more.
fn offer(packet: &[u8], mtu: u16) -> Option<(usize, usize, u16)> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let ip_bytes = match sliced.net? {
        NetSlice::Ipv4(_) => IPV4_HEADER_BYTES,
        NetSlice::Ipv6(_) => IPV6_HEADER_BYTES,
        NetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { return None };
    if !tcp.syn() {
        return None;
    }
    let tcp_at = tcp.slice().as_ptr().addr() - packet.as_ptr().addr();
    let option_at = tcp_at + TCP_HEADER_BYTES + find_option(tcp.options())?;
    let offered = u16::from_be_bytes([*packet.get(option_at + 2)?, *packet.get(option_at + 3)?]);
    let mss_max = mtu.saturating_sub((ip_bytes + TCP_HEADER_BYTES) as u16);
    (offered > mss_max).then_some((tcp_at, option_at, mss_max))
}

fn find_option(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at..)? {
            [] | [END_OPTION, ..] => return None,
            [NO_OPTION, ..] => at += 1,
            [kind, length, _, _, ..] if [kind, length] == MSS_OPTION => return Some(at),
            [_, length, ..] if length >= 2 => at += usize::from(length),
            _ => return None,
        }
    }
}

/// Writes a number into a TCP header and makes its checksum right again (RFC 1624: HC' = ~(~HC + ~m + m')).
fn replace(packet: &mut [u8], tcp_at: usize, at: usize, new: u16) {
    let old = u16::from_be_bytes([packet[at], packet[at + 1]]);
    packet[at..at + 2].copy_from_slice(&new.to_be_bytes());
    // The number may lie across two of the words that are summed: then each of its bytes counts in the other
    // half.
    let (old, new) =
        if (at - tcp_at).is_multiple_of(2) { (old, new) } else { (old.swap_bytes(), new.swap_bytes()) };
    let sum_at = tcp_at + TCP_CHECKSUM_AT;
    let checksum = u16::from_be_bytes([packet[sum_at], packet[sum_at + 1]]);
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[sum_at..sum_at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, TcpOptionElement as O};

    use super::*;

    fn packet(is_v4: bool, options: &[O], is_syn: bool) -> Vec<u8> {
        let ip = if is_v4 {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        } else {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        };
        let tcp = ip.tcp(1000, 80, 7, 500).options(options).unwrap();
        let tcp = if is_syn { tcp.syn() } else { tcp.ack(3) };
        let mut out = Vec::new();
        tcp.write(&mut out, b"").unwrap();
        out
    }

    fn checksum_is_right(packet: &[u8]) -> bool {
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
        let right = match sliced.net.unwrap() {
            NetSlice::Ipv4(ip) => tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
            NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()),
            NetSlice::Arp(_) => panic!("no IP"),
        };
        right.unwrap() == tcp.checksum()
    }

    #[test]
    fn offers_that_do_not_fit_are_lowered() {
        for is_v4 in [true, false] {
            for options in [
                &[O::MaximumSegmentSize(1460)][..],
                &[O::Noop, O::WindowScale(7), O::MaximumSegmentSize(9000)],
            ] {
                let mut bytes = packet(is_v4, options, true);
                clamp(&mut bytes, 1280);
                assert!(checksum_is_right(&bytes), "{options:?}");
                let expected = packet(is_v4, &expected(options, is_v4), true);
                assert_eq!(bytes, expected);
            }
        }
    }

    fn expected(options: &[O], is_v4: bool) -> Vec<O> {
        let mss = if is_v4 { 1240 } else { 1220 };
        let lower = |option: &O| match option {
            O::MaximumSegmentSize(_) => O::MaximumSegmentSize(mss),
            other => other.clone(),
        };
        options.iter().map(lower).collect()
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        let fits = packet(true, &[O::MaximumSegmentSize(536)], true);
        let later = packet(true, &[O::MaximumSegmentSize(1460)], false);
        let none = packet(true, &[O::SelectiveAcknowledgementPermitted], true);
        let udp = {
            let mut out = Vec::new();
            PacketBuilder::ipv4([1; 4], [2; 4], 9).udp(1, 2).write(&mut out, b"x").unwrap();
            out
        };
        for bytes in [fits, later, none, udp, Vec::new(), vec![0x45; 20], vec![0xff; 60]] {
            let mut after = bytes.clone();
            clamp(&mut after, 1280);
            assert_eq!(after, bytes);
        }
        // Cut anywhere, it is no packet, and no reason to panic.
        let whole = packet(false, &[O::MaximumSegmentSize(1460)], true);
        for length in 0..whole.len() {
            clamp(&mut whole[..length].to_vec(), 1280);
        }
    }
}
