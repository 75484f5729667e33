//! An IP packet as it comes from a TUN device and goes to another: behind a `virtio_net_hdr` (virtio 1.2,
//! 5.1.6), its transport checksum left for later, and cut to what a link carries.
//!
//! The kernel hands over up to 64 KiB at once where it would leave segmentation to a network card. [`split`]
//! does what the card does, so that every packet meets the link alone. A packet whose checksum was not
//! computed yet is written on like that: the receiving kernel then trusts it. A packet that is to be damaged
//! gets its checksum first.

use fulmar_net::{Direction, Ecn, Payload};

/// Length of the `virtio_net_hdr` in front of each packet.
pub(super) const HEADER_BYTES: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpPacket(Vec<u8>);

impl IpPacket {
    /// Header and packet, as the device wants them.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn ip(&self) -> &[u8] {
        &self.0[HEADER_BYTES..]
    }

    fn ip_mut(&mut self) -> &mut [u8] {
        &mut self.0[HEADER_BYTES..]
    }

    /// The port at the receiving end of the path, of a packet that goes this direction.
    pub(super) fn receiving_port(&self, direction: Direction) -> Option<u16> {
        let ports = self.ports()?;
        let at = if direction == Direction::Forward { 2 } else { 0 };
        Some(u16::from_be_bytes([ports[at], ports[at + 1]]))
    }

    /// Source and destination port.
    fn ports(&self) -> Option<&[u8]> {
        let ip = self.ip();
        let (transport, protocol) = match ip.first().map(|first| first >> 4) {
            Some(4) if ip.len() >= 20 => (usize::from(ip[0] & 15) * 4, ip[9]),
            Some(6) if ip.len() >= 40 => (40, ip[6]),
            _ => return None,
        };
        ip.get(transport..transport + 4).filter(|_| matches!(protocol, TCP | UDP))
    }

    /// Computes the transport checksum if that was left for later.
    fn complete_checksum(&mut self) {
        if self.0[0] & NEEDS_CHECKSUM == 0 {
            return;
        }
        let (start, offset) = (usize::from(word(&self.0, 6)), usize::from(word(&self.0, 8)));
        self.0[0] = 0;
        let ip = self.ip_mut();
        if start + offset + 2 <= ip.len() {
            // The field holds the sum of the pseudo-header, so it belongs to what is summed.
            let sum = !fold(sum(&ip[start..]));
            ip[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// A number of the `virtio_net_hdr`, in the machine's byte order.
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

impl Payload for IpPacket {
    fn wire_bytes(&self) -> u32 {
        self.ip().len() as u32
    }

    fn ecn(&self) -> Ecn {
        let class = match self.ip() {
            [first, second, ..] if first >> 4 == 4 => *second,
            [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
            _ => 0,
        };
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(class & 3)]
    }

    fn set_ce(&mut self) {
        let ip = self.ip_mut();
        if ip[0] >> 4 == 4 {
            ip[1] |= 3;
            set_ipv4_checksum(ip);
        } else {
            ip[1] |= 3 << 4;
        }
    }

    fn flow(&self) -> u64 {
        let ip = self.ip();
        let (addresses, protocol) = match ip.first().map(|first| first >> 4) {
            Some(4) if ip.len() >= 20 => (&ip[12..20], ip[9]),
            Some(6) if ip.len() >= 40 => (&ip[8..40], ip[6]),
            _ => return 0,
        };
        let ports = self.ports().unwrap_or(&[]);
        // FNV-1a: flows are few, and the queues hash again.
        let bytes = addresses.iter().chain(ports).chain([&protocol]);
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    fn corrupt(&mut self, random: u64) {
        self.complete_checksum();
        let ip = self.ip_mut();
        let bit = random % (ip.len() as u64 * 8);
        ip[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

/// Hands over the packets that what was read from a device stands for. What is no IP packet is left out.
pub(super) fn split(read: &[u8], mut take: impl FnMut(IpPacket)) {
    let Some(ip) = read.get(HEADER_BYTES..).filter(|ip| ip.len() >= 20) else { return };
    if !matches!(ip[0] >> 4, 4 | 6) {
        return;
    }
    match read[1] & 0x7f {
        0 => take(IpPacket(read.to_vec())),
        GSO_TCP4 | GSO_TCP6 => split_tcp(read, ip, take),
        GSO_UDP => split_udp(read, ip, take),
        _ => {}
    }
}

fn split_tcp(read: &[u8], ip: &[u8], mut take: impl FnMut(IpPacket)) {
    const PUSH_FIN: u8 = 0x08 | 0x01;
    const CWR: u8 = 0x80;
    let (size, transport) = (usize::from(word(read, 4)).max(1), usize::from(word(read, 6)));
    let Some(&offset) = ip.get(transport + 12) else { return };
    let headers = transport + usize::from(offset >> 4) * 4;
    let Some(payload) = ip.get(headers..).filter(|payload| !payload.is_empty()) else { return };
    let sequence =
        u32::from_be_bytes([ip[transport + 4], ip[transport + 5], ip[transport + 6], ip[transport + 7]]);
    let last = payload.len().div_ceil(size) - 1;
    for (index, part) in payload.chunks(size).enumerate() {
        let mut packet = segment(&ip[..headers], part, index as u16, transport, 16);
        let tcp = &mut packet[HEADER_BYTES + transport..];
        tcp[4..8].copy_from_slice(&sequence.wrapping_add((index * size) as u32).to_be_bytes());
        if index < last {
            tcp[13] &= !PUSH_FIN;
        }
        if index > 0 {
            // RFC 3168 6.1.2: "window reduced" is said once.
            tcp[13] &= !CWR;
        }
        finish(&mut packet, transport, 16, TCP);
        take(IpPacket(packet));
    }
}

fn split_udp(read: &[u8], ip: &[u8], mut take: impl FnMut(IpPacket)) {
    let (size, transport) = (usize::from(word(read, 4)).max(1), usize::from(word(read, 6)));
    let headers = transport + 8;
    let Some(payload) = ip.get(headers..) else { return };
    for (index, part) in payload.chunks(size).enumerate() {
        let mut packet = segment(&ip[..headers], part, index as u16, transport, 6);
        let length = (8 + part.len()) as u16;
        packet[HEADER_BYTES + transport + 4..][..2].copy_from_slice(&length.to_be_bytes());
        finish(&mut packet, transport, 6, UDP);
        take(IpPacket(packet));
    }
}

/// Headers and a part of the payload, behind a header that says where the checksum is to go.
fn segment(headers: &[u8], part: &[u8], index: u16, transport: usize, checksum: u16) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER_BYTES + headers.len() + part.len());
    packet.extend([NEEDS_CHECKSUM, 0, 0, 0, 0, 0]);
    packet.extend((transport as u16).to_ne_bytes());
    packet.extend(checksum.to_ne_bytes());
    packet.extend(headers);
    packet.extend(part);
    let ip = &mut packet[HEADER_BYTES..];
    let length = ip.len() as u16;
    if ip[0] >> 4 == 4 {
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index);
        ip[4..6].copy_from_slice(&id.to_be_bytes());
    } else {
        ip[4..6].copy_from_slice(&(length - 40).to_be_bytes());
    }
    packet
}

/// Sets the checksums: of the IP header, and of the pseudo-header in the transport's field.
fn finish(packet: &mut [u8], transport: usize, checksum: usize, protocol: u8) {
    let ip = &mut packet[HEADER_BYTES..];
    let addresses = if ip[0] >> 4 == 4 {
        set_ipv4_checksum(ip);
        &ip[12..20]
    } else {
        &ip[8..40]
    };
    let pseudo = sum(addresses) + u32::from(protocol) + (ip.len() - transport) as u32;
    ip[transport + checksum..][..2].copy_from_slice(&fold(pseudo).to_be_bytes());
}

fn set_ipv4_checksum(ip: &mut [u8]) {
    let header = usize::from(ip[0] & 15) * 4;
    ip[10..12].fill(0);
    let checksum = !fold(sum(&ip[..header.min(ip.len())]));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Sum of 16-bit words (RFC 1071), not folded. No overflow below 128 KiB.
fn sum(bytes: &[u8]) -> u32 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    words.sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet of this payload as the kernel hands it over.
    fn tcp(payload: usize, gso_size: u16) -> Vec<u8> {
        let total = (40 + payload) as u16;
        let mut read = vec![NEEDS_CHECKSUM, if gso_size > 0 { GSO_TCP4 } else { 0 }, 40, 0];
        read.extend(gso_size.to_ne_bytes());
        read.extend(20u16.to_ne_bytes());
        read.extend(16u16.to_ne_bytes());
        read.extend([
            0x45,
            2,
            (total >> 8) as u8,
            total as u8,
            0,
            9,
            0x40,
            0,
            64,
            TCP,
            0,
            0,
            10,
            0,
            0,
            1,
            10,
            0,
            0,
            2,
        ]);
        read.extend([
            0x30, 0x39, 0x14, 0x51, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 1, 0x50, 0x99, 1, 0, 0, 0, 0, 0,
        ]);
        read.extend((0..payload).map(|i| i as u8));
        read
    }

    fn packets(read: &[u8]) -> Vec<IpPacket> {
        let mut packets = Vec::new();
        split(read, |packet| packets.push(packet));
        packets
    }

    #[test]
    fn a_large_segment_becomes_packets_that_make_the_same_stream() {
        let parts = packets(&tcp(3000, 1448));
        assert_eq!(parts.iter().map(|p| p.wire_bytes()).collect::<Vec<_>>(), [1488, 1488, 144]);
        let mut stream = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let ip = part.ip();
            assert_eq!(fold(sum(&ip[..20])), 0xffff, "IP checksum");
            assert_eq!(u16::from_be_bytes([ip[2], ip[3]]), ip.len() as u16);
            let sequence = u32::from_be_bytes([ip[24], ip[25], ip[26], ip[27]]);
            assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(index as u32 * 1448), "wraps around");
            // CWR (0x80) on the first only, PSH and FIN (0x09) on the last only.
            assert_eq!(ip[33], [0x90, 0x10, 0x19][index]);
            stream.extend_from_slice(&ip[40..]);
        }
        assert_eq!(stream, (0..3000).map(|i| i as u8).collect::<Vec<_>>());
    }

    #[test]
    fn the_checksum_that_was_left_for_later_is_right() {
        for mut part in packets(&tcp(2000, 1448)) {
            part.complete_checksum();
            let ip = part.ip();
            let pseudo = sum(&ip[12..20]) + u32::from(TCP) + (ip.len() - 20) as u32;
            assert_eq!(fold(pseudo + sum(&ip[20..])), 0xffff);
            assert_eq!(part.as_bytes()[0], 0);
        }
    }

    #[test]
    fn marks_keep_the_header_sound_and_damage_is_one_bit() {
        let part = packets(&tcp(100, 0)).remove(0);
        assert_eq!((part.wire_bytes(), part.ecn()), (140, Ecn::Ect0));
        let mut marked = packets(&tcp(3000, 1448)).remove(0);
        let flow = marked.flow();
        marked.set_ce();
        assert_eq!((marked.ecn(), fold(sum(&marked.ip()[..20])), marked.flow()), (Ecn::Ce, 0xffff, flow));
        let mut good = marked.clone();
        good.complete_checksum();
        marked.corrupt(12_345);
        let bits: u32 = good.ip().iter().zip(marked.ip()).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
    }

    #[test]
    fn udp_batches_are_cut_as_well() {
        let mut read = tcp(0, 0)[..30].to_vec();
        (read[1], read[10 + 9]) = (GSO_UDP, UDP);
        read[4..6].copy_from_slice(&500u16.to_ne_bytes());
        read[8..10].copy_from_slice(&6u16.to_ne_bytes());
        read.extend([0, 1, 0, 2, 0, 0, 0, 0]);
        read.extend(vec![7; 1200]);
        let parts = packets(&read);
        assert_eq!(parts.iter().map(|p| p.wire_bytes()).collect::<Vec<_>>(), [528, 528, 228]);
        assert!(
            parts
                .iter()
                .all(|p| usize::from(u16::from_be_bytes([p.ip()[24], p.ip()[25]])) == p.ip().len() - 20)
        );
    }

    #[test]
    fn nothing_that_can_be_read_makes_it_panic() {
        let whole = tcp(300, 100);
        for end in 0..whole.len() {
            for first in [0x45, 0x60, 0x4f, 0x00] {
                let mut cut = whole[..end].to_vec();
                if let Some(byte) = cut.get_mut(10) {
                    *byte = first;
                }
                split(&cut, |mut packet| {
                    let _ = (packet.flow(), packet.ecn());
                    packet.corrupt(99);
                });
            }
        }
    }
}
