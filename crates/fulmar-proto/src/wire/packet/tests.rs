//! docs/internals/wire.md, section 1.

use super::*;
use proptest::prelude::*;

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::from_bytes(bytes).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(char::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(&d.iter().collect::<String>(), 16).unwrap()).collect()
}

/// Appends a packet as long as it would be if it were sealed.
fn put_packet(header: &PacketHeader<'_>, payload_bytes: usize, out: &mut Vec<u8>) -> HeaderSpan {
    let before = out.len();
    let span = header.put(PacketNumber(7), out);
    assert_eq!(out.len() - before, header.wire_bytes());
    out.resize(out.len() + payload_bytes + TAG_BYTES, 0xee);
    if let Some(offset) = span.length_offset {
        let length = (out.len() - span.pn_offset) as u16 | 0x4000;
        out[offset..offset + 2].copy_from_slice(&length.to_be_bytes());
    }
    span
}

/// 1.2, 1.3: the first bytes are what the specification says.
#[test]
fn layouts_are_as_specified() {
    let mut out = Vec::new();
    let (dcid, scid) = (cid(&[1; 10]), cid(&[9; 8]));
    let span =
        PacketHeader::Initial { dcid, scid, token: &[0xaa, 0xbb] }.put(PacketNumber(0x1_0203_0405), &mut out);
    let expected = hex("c3 464c4d01 0a 01010101010101010101 08 0909090909090909 02 aabb 0000 02030405");
    assert_eq!(out, expected);
    assert_eq!((span.start(), span.payload_start()), (0, expected.len()));

    out.clear();
    PacketHeader::Handshake { dcid, scid }.put(PacketNumber(5), &mut out);
    assert_eq!(out, hex("e3 464c4d01 0a 01010101010101010101 08 0909090909090909 0000 00000005"));

    out.clear();
    PacketHeader::OneRtt { dcid: ConnectionId::new([8; 8]) }.put(PacketNumber(5), &mut out);
    assert_eq!(out, [0x43, 8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 5]);
    assert_eq!(out.len(), short_header_bytes(8));
}

/// 1.1.5: long packets share a datagram, a short one ends it.
#[test]
fn coalesced_packets_come_apart_in_order() {
    let (dcid, scid) = (ConnectionId::new([1; 8]), ConnectionId::new([2; 8]));
    let mut datagram = Vec::new();
    put_packet(&PacketHeader::Initial { dcid, scid, token: b"token" }, 30, &mut datagram);
    let handshake_at = datagram.len();
    put_packet(&PacketHeader::Handshake { dcid, scid }, 0, &mut datagram);
    let short_at = datagram.len();
    put_packet(&PacketHeader::OneRtt { dcid }, 100, &mut datagram);

    assert_eq!(peek(&datagram, 8), Ok(Peeked::Long { ty: LongType::Initial, dcid, scid }));
    let total = datagram.len();
    let packets: Vec<_> = split(&mut datagram, 8).map(|(packet, bytes)| (packet, bytes.to_vec())).collect();
    assert_eq!(packets.len(), 3);
    let PacketKind::Initial { scid: from, token } = packets[0].0.kind.clone() else { panic!("{packets:?}") };
    assert_eq!((from, &packets[0].1[token]), (scid, b"token".as_slice()));
    assert_eq!(packets[1].0.kind, PacketKind::Handshake { scid });
    assert_eq!(packets[2].0.kind, PacketKind::OneRtt);
    let lengths: Vec<_> = packets.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [handshake_at, short_at - handshake_at, total - short_at]);
}

/// 1.1.5: a packet for somebody else in the same datagram is left alone, and so is what follows it.
#[test]
fn packets_of_another_connection_end_the_datagram() {
    let (dcid, scid) = (ConnectionId::new([1; 8]), ConnectionId::new([2; 8]));
    let mut datagram = Vec::new();
    put_packet(&PacketHeader::Handshake { dcid, scid }, 5, &mut datagram);
    put_packet(&PacketHeader::OneRtt { dcid: scid }, 5, &mut datagram);
    assert_eq!(split(&mut datagram, 8).count(), 1);
}

/// 1.1.6: every packet cut short is malformed, never a panic.
#[test]
fn truncated_packets_are_malformed() {
    let (dcid, scid) = (ConnectionId::new([1; 8]), ConnectionId::new([2; 8]));
    for header in
        [PacketHeader::Initial { dcid, scid, token: b"tok" }, PacketHeader::Handshake { dcid, scid }]
    {
        let mut bytes = Vec::new();
        put_packet(&header, 3, &mut bytes);
        assert!(parse(&bytes, 8).is_ok());
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len], 8), Err(Malformed), "{len} of {}", bytes.len());
        }
    }
    let mut bytes = Vec::new();
    put_packet(&PacketHeader::OneRtt { dcid }, 0, &mut bytes);
    assert_eq!(bytes.len(), SHORT_PACKET_BYTES_MIN);
    assert!(parse(&bytes, 8).is_ok());
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len], 8), Err(Malformed));
    }
}

/// 1.1.6: types and clear bits that are never sent.
#[test]
fn bits_never_sent_are_malformed() {
    let (dcid, scid) = (ConnectionId::new([1; 8]), ConnectionId::new([2; 8]));
    let mut long = Vec::new();
    put_packet(&PacketHeader::Handshake { dcid, scid }, 30, &mut long);
    for first in [0b1101_0011, 0b1010_0011] {
        long[0] = first;
        assert_eq!((peek(&long, 8), parse(&long, 8)), (Err(Malformed), Err(Malformed)));
    }
    let mut short = Vec::new();
    put_packet(&PacketHeader::OneRtt { dcid }, 30, &mut short);
    for first in [0b0000_0011, 0b0110_0011] {
        short[0] = first;
        assert_eq!((peek(&short, 8), parse(&short, 8)), (Err(Malformed), Err(Malformed)));
    }
}

/// 1.2.3: connection ids of this version have their lengths; other versions may have any.
#[test]
fn connection_ids_have_the_lengths_of_their_version() {
    for (dcid, scid, is_valid) in [
        (8, 8, true),
        (20, 8, true),
        (7, 8, false),
        (21, 8, false),
        (8, 7, false),
        (8, 20, true),
        (8, 21, false),
    ] {
        let mut bytes = Vec::new();
        put_long(0xe3, VERSION, &vec![7; dcid], &vec![1; scid], &mut bytes);
        bytes.extend_from_slice(&[0x40, 20]);
        bytes.resize(bytes.len() + 20, 0);
        assert_eq!(
            (peek(&bytes, 8).is_ok(), parse(&bytes, 8).is_ok()),
            (is_valid, is_valid),
            "{dcid} {scid}"
        );
    }
    let mut bytes = Vec::new();
    put_long(0x80, 0x0a0a_0a0a, &[7; 255], &[1], &mut bytes);
    assert_eq!(
        peek(&bytes, 8),
        Ok(Peeked::UnknownVersion { version: 0x0a0a_0a0a, dcid: &[7; 255], scid: &[1] })
    );
}

/// 2.1: version negotiation says what is spoken, to whoever asked, with ids exchanged.
#[test]
fn version_negotiation_reads_back() {
    let mut bytes = Vec::new();
    put_version_negotiation(&[1; 30], &[2; 4], 0x15, &mut bytes);
    assert_eq!(bytes[0] & 0xc0, 0xc0);
    let Ok(Peeked::VersionNegotiation { dcid, scid, versions: body }) = peek(&bytes, 8) else { panic!() };
    assert_eq!((dcid, scid), ([1; 30].as_slice(), [2; 4].as_slice()));
    assert_eq!(versions(body).collect::<Vec<_>>(), [VERSION]);
    assert_eq!(versions(&[1, 2, 3]).count(), 0);
}

proptest! {
    /// Nothing that comes in makes the parser panic, and what it says lies inside the datagram.
    #[test]
    fn any_bytes_are_parsed_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), first in any::<u8>(), own in any::<bool>()) {
        if let Some(byte) = bytes.first_mut() { *byte = first; }
        if own && bytes.len() > 5 { bytes[1..5].copy_from_slice(&VERSION.to_be_bytes()); }
        let total = bytes.len();
        let _ = peek(&bytes, 8);
        let mut seen = 0;
        for (packet, this) in split(&mut bytes, 8) {
            seen += this.len();
            prop_assert_eq!(packet.end, this.len());
            prop_assert!(packet.pn_offset + PacketNumber::WIRE_BYTES + TAG_BYTES <= packet.end);
            if let PacketKind::Initial { token, .. } = packet.kind { prop_assert!(token.end < packet.pn_offset); }
        }
        prop_assert!(seen <= total);
    }
}
