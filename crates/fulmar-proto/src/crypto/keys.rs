//! Packet and header protection with one set of keys (RFC 9001 5). docs/internals/wire.md, section 3.
//!
//! Decides whether a packet is authentic, and takes off or puts on its protection in place: nothing is
//! allocated as long as the buffer has room for the tag. Invariant: a packet that opens was sealed by the
//! peer, byte for byte.

use super::suites;
use crate::error::{TransportError, TransportErrorCode};
use crate::ids::{ConnectionId, PacketNumber, Side};
use crate::wire::packet::{self, HeaderSpan, LONG_REST_BYTES_MAX, SAMPLE_BYTES, TAG_BYTES};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, Version};
use std::fmt;
use std::ops::Range;

/// The salts and labels of the key derivation. Those of QUIC v1 (RFC 9001 5.2): its published vectors then
/// test ours.
pub(super) const KEY_DERIVATION: Version = Version::V1;

/// Why a packet could not be sealed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A packet with a long header holds at most [`LONG_REST_BYTES_MAX`] bytes after its length.
    #[error("packet too long for its length field")]
    TooLong,
    /// The keys protected as many packets as they may, and the peer acknowledged none that would allow new
    /// ones.
    #[error("keys used up")]
    KeysUsedUp,
    /// The cipher refused; only a payload of gigabytes makes it.
    #[error("the cipher refused")]
    Cipher,
}

impl From<SealError> for TransportError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::KeysUsedUp => Self::new(TransportErrorCode::KeyUpdate, "keys used up"),
            error => Self::internal(error.to_string()),
        }
    }
}

/// Why a packet could not be opened.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Forged, damaged, for keys that are gone or for keys that are not there yet: to be discarded in
    /// silence.
    #[error("not authentic")]
    NotAuthentic,
    /// Authentic, but bits have values that no packet may have.
    #[error("reserved header bits")]
    ReservedBits,
    /// Authentic, but under keys that the peer may not use for this packet number (RFC 9001 6.4) or not yet
    /// (6.2).
    #[error("keys were updated out of turn")]
    KeyUpdate,
    /// More forgeries were tried than these keys withstand (RFC 9001 6.6).
    #[error("too many packets failed authentication")]
    IntegrityLimit,
}

impl OpenError {
    /// The error to close the connection with; `None` if the packet is only to be discarded.
    pub fn violation(self) -> Option<TransportError> {
        match self {
            Self::NotAuthentic => None,
            Self::ReservedBits => Some(TransportError::protocol_violation(self.to_string())),
            Self::KeyUpdate | Self::IntegrityLimit => {
                Some(TransportError::new(TransportErrorCode::KeyUpdate, self.to_string()))
            }
        }
    }
}

/// The keys of the Initial or the Handshake packets of one connection, for both directions.
pub struct PacketKeys {
    local: DirectionalKeys,
    remote: DirectionalKeys,
}

impl PacketKeys {
    /// The keys of Initial packets: they follow from the destination connection id of the client's first
    /// packet, or of its first after a Retry (RFC 9001 5.2). They keep out accidents and the blind; they are
    /// no secret.
    pub fn initial(dcid: &ConnectionId, side: Side) -> Self {
        Self::from_rustls(suites::initial().keys(dcid.as_bytes(), rustls_side(side), KEY_DERIVATION))
    }

    pub(super) fn from_rustls(keys: Keys) -> Self {
        Self { local: keys.local, remote: keys.remote }
    }

    /// Protects the packet that starts at `span` and ends with `buf`: fills in its length, encrypts the
    /// frames, appends the tag and covers the packet number. `number` is the one the header was put with, and
    /// never used twice.
    pub fn seal(&self, number: PacketNumber, buf: &mut Vec<u8>, span: HeaderSpan) -> Result<(), SealError> {
        seal(&*self.local.header, &*self.local.packet, number, buf, span)
    }

    /// Takes off the protection of `packet`, which has its number at `pn_offset`; `expected` is one more than
    /// the highest received in its space. Gives the full number and where the frames stand. On an error the
    /// content of `packet` is lost.
    pub fn open(
        &self,
        packet: &mut [u8],
        pn_offset: usize,
        expected: PacketNumber,
    ) -> Result<(PacketNumber, Range<usize>), OpenError> {
        let number = uncover(&*self.remote.header, packet, pn_offset, expected)?;
        Ok((number, open(&*self.remote.packet, packet, pn_offset, number)?))
    }
}

impl fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketKeys").finish_non_exhaustive()
    }
}

pub(super) fn rustls_side(side: Side) -> rustls::Side {
    match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    }
}

pub(super) fn seal(
    header_key: &dyn HeaderProtectionKey,
    packet_key: &dyn PacketKey,
    number: PacketNumber,
    buf: &mut Vec<u8>,
    span: HeaderSpan,
) -> Result<(), SealError> {
    if let Some(at) = span.length_offset {
        let length = buf.len() - span.pn_offset + TAG_BYTES;
        if length > LONG_REST_BYTES_MAX {
            return Err(SealError::TooLong);
        }
        // A varint of two bytes starts with the bits 01 (RFC 9000 16).
        buf[at..at + 2].copy_from_slice(&(0x4000 | length as u16).to_be_bytes());
    }
    let (header, payload) = buf[span.start..].split_at_mut(span.payload_start() - span.start);
    let tag = packet_key.encrypt_in_place(number.0, header, payload).map_err(|_| SealError::Cipher)?;
    buf.extend_from_slice(tag.as_ref());

    // RFC 9001 5.4.2: the sample starts four bytes after the packet number does, which is where our payload
    // starts.
    let (header, payload) = buf[span.start..].split_at_mut(span.payload_start() - span.start);
    let (first, rest) = header.split_first_mut().ok_or(SealError::Cipher)?;
    let covered = &mut rest[span.pn_offset - span.start - 1..];
    header_key.encrypt_in_place(&payload[..SAMPLE_BYTES], first, covered).map_err(|_| SealError::Cipher)
}

/// Takes off header protection and tells the packet's number. Neither is to be trusted before the packet
/// opens.
pub(super) fn uncover(
    header_key: &dyn HeaderProtectionKey,
    packet: &mut [u8],
    pn_offset: usize,
    expected: PacketNumber,
) -> Result<PacketNumber, OpenError> {
    let payload_start = pn_offset.saturating_add(PacketNumber::WIRE_BYTES);
    let (header, payload) = packet.split_at_mut_checked(payload_start).ok_or(OpenError::NotAuthentic)?;
    let sample = payload.get(..SAMPLE_BYTES).ok_or(OpenError::NotAuthentic)?;
    let (first, rest) = header.split_first_mut().ok_or(OpenError::NotAuthentic)?;
    let covered =
        pn_offset.checked_sub(1).and_then(|at| rest.get_mut(at..)).ok_or(OpenError::NotAuthentic)?;
    header_key.decrypt_in_place(sample, first, covered).map_err(|_| OpenError::NotAuthentic)?;
    let truncated = covered.try_into().map(u32::from_be_bytes).map_err(|_| OpenError::NotAuthentic)?;
    Ok(PacketNumber::expand(truncated, expected))
}

/// Decrypts what [`uncover`] uncovered.
pub(super) fn open(
    packet_key: &dyn PacketKey,
    packet: &mut [u8],
    pn_offset: usize,
    number: PacketNumber,
) -> Result<Range<usize>, OpenError> {
    let payload_start = pn_offset + PacketNumber::WIRE_BYTES;
    let (header, payload) = packet.split_at_mut(payload_start);
    let plain =
        packet_key.decrypt_in_place(number.0, header, payload).map_err(|_| OpenError::NotAuthentic)?;
    let plain_len = plain.len();
    // RFC 9000 17.2: values other than these MUST be an error, but only after protection was removed.
    if !packet::covered_bits_are_valid(header[0]) {
        return Err(OpenError::ReservedBits);
    }
    Ok(payload_start..payload_start + plain_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::PacketHeader;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    fn pair() -> (PacketKeys, PacketKeys, ConnectionId) {
        let dcid = ConnectionId::from_bytes(&hex("8394c8f03e515708")).unwrap();
        (PacketKeys::initial(&dcid, Side::Client), PacketKeys::initial(&dcid, Side::Server), dcid)
    }

    /// A pair for each suite that can be negotiated.
    fn pairs() -> impl Iterator<Item = (PacketKeys, PacketKeys, ConnectionId)> {
        use rustls::crypto::ring::cipher_suite as suites;
        let suites = [
            suites::TLS13_AES_128_GCM_SHA256,
            suites::TLS13_AES_256_GCM_SHA384,
            suites::TLS13_CHACHA20_POLY1305_SHA256,
        ];
        suites.into_iter().map(|suite| {
            let keys = |side| {
                let suite = suite.tls13().unwrap().quic_suite().unwrap();
                PacketKeys::from_rustls(suite.keys(&[7; 8], rustls_side(side), KEY_DERIVATION))
            };
            (keys(Side::Client), keys(Side::Server), ConnectionId::new([7; 8]))
        })
    }

    /// 3.1: RFC 9001 A.2, the client's first packet: our keys and our sealing give its bytes.
    #[test]
    fn the_clients_initial_packet_of_rfc_9001_a2() {
        let (client, server, _) = pair();
        let mut packet = hex("c300000001088394c8f03e5157080000449e00000002");
        let span = HeaderSpan { start: 0, length_offset: Some(16), pn_offset: 18 };
        packet.extend(hex("
            060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c000004130113
            02010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d00170018001000070005
            04616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce1
            5d43e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c0002400100
            3900320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e515708
            06048000ffff"));
        packet.resize(22 + 1162, 0);
        let plain = packet.clone();
        client.seal(PacketNumber(2), &mut packet, span).unwrap();
        assert_eq!(
            packet[..38],
            hex("c000000001088394c8f03e5157080000449e7b9aec34 d1b1c98dd7689fb8ec11d242b123dc9b")
        );
        assert_eq!(packet[packet.len() - 16..], hex("e221af44860018ab0856972e194cd934"));

        let (number, frames) = server.open(&mut packet, 18, PacketNumber(0)).unwrap();
        assert_eq!((number, &packet[frames]), (PacketNumber(2), &plain[22..]));
    }

    /// 3.2: what is sealed opens at the other end only, whatever stands before it in the buffer.
    #[test]
    fn a_sealed_packet_opens_at_the_other_end() {
        for (client, server, dcid) in pairs() {
            for payload in [0, 1, 100, 1400] {
                let mut buf = b"an earlier segment".to_vec();
                let header = PacketHeader::Initial { dcid, scid: dcid, token: b"tok" };
                let span = header.put(PacketNumber(1 << 33), &mut buf);
                buf.resize(buf.len() + payload, 0x5a);
                client.seal(PacketNumber(1 << 33), &mut buf, span).unwrap();
                let packet = packet::parse(&buf[span.start()..], 8).unwrap();
                assert_eq!(packet.end, header.wire_bytes() + payload + TAG_BYTES);

                let mut copy = buf[span.start()..].to_vec();
                assert_eq!(
                    client.open(&mut copy, packet.pn_offset, PacketNumber(1 << 33)),
                    Err(OpenError::NotAuthentic)
                );
                let sealed = &mut buf[span.start()..];
                let (number, frames) = server.open(sealed, packet.pn_offset, PacketNumber(1 << 33)).unwrap();
                assert_eq!((number, frames.len()), (PacketNumber(1 << 33), payload));
                assert!(sealed[frames].iter().all(|b| *b == 0x5a));
            }
        }
    }

    /// 3.2: no byte can change, and no byte can be missing.
    #[test]
    fn tampering_with_any_byte_is_noticed() {
        for (client, server, dcid) in pairs() {
            let mut good = Vec::new();
            let span = PacketHeader::Handshake { dcid, scid: dcid }.put(PacketNumber(9), &mut good);
            good.extend_from_slice(b"some frames");
            client.seal(PacketNumber(9), &mut good, span).unwrap();
            for at in 0..good.len() {
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[at] ^= 1 << bit;
                    assert_eq!(
                        server.open(&mut bad, span.pn_offset, PacketNumber(9)),
                        Err(OpenError::NotAuthentic)
                    );
                }
            }
            for len in 0..good.len() {
                let mut short = good[..len].to_vec();
                assert_eq!(
                    server.open(&mut short, span.pn_offset, PacketNumber(9)),
                    Err(OpenError::NotAuthentic)
                );
            }
            assert!(server.open(&mut good, span.pn_offset, PacketNumber(9)).is_ok());
        }
    }

    /// 3.4: an authentic packet with reserved bits set is a violation, a forged one is not.
    #[test]
    fn reserved_bits_are_a_violation() {
        let (client, server, dcid) = pair();
        let mut packet = Vec::new();
        let span = PacketHeader::Handshake { dcid, scid: dcid }.put(PacketNumber(9), &mut packet);
        packet[0] |= 0b0000_1000;
        client.seal(PacketNumber(9), &mut packet, span).unwrap();
        let error = server.open(&mut packet, span.pn_offset, PacketNumber(9)).unwrap_err();
        assert_eq!(error.violation().unwrap().code, TransportErrorCode::ProtocolViolation);
        assert_eq!(OpenError::NotAuthentic.violation(), None);
    }

    #[test]
    fn a_long_packet_has_a_longest_length() {
        let (client, _, dcid) = pair();
        let mut packet = Vec::new();
        let span = PacketHeader::Handshake { dcid, scid: dcid }.put(PacketNumber(0), &mut packet);
        packet
            .resize(span.payload_start() + LONG_REST_BYTES_MAX - TAG_BYTES - PacketNumber::WIRE_BYTES + 1, 0);
        assert_eq!(client.seal(PacketNumber(0), &mut packet, span), Err(SealError::TooLong));
        packet.pop();
        assert_eq!(client.seal(PacketNumber(0), &mut packet, span), Ok(()));
    }

    proptest! {
        /// Any bytes, with their number anywhere: refused, not a panic.
        #[test]
        fn any_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0usize..110) {
            let (client, _, _) = pair();
            prop_assert_eq!(client.open(&mut bytes, at, PacketNumber(0)), Err(OpenError::NotAuthentic));
            prop_assert_eq!(client.open(&mut bytes, usize::MAX, PacketNumber(0)), Err(OpenError::NotAuthentic));
        }
    }
}
