//! Frames come back as they were, stay within their room, and survive whatever bytes come.

use fulmar_fec::{CodeId, RepairKey, SymbolId, Window};

use super::ack::ACK;
use super::coded::SOURCE_PART;
use super::*;
use crate::PacketNumber;

fn ranges(list: &[(u64, u64)]) -> Vec<(PacketNumber, PacketNumber)> {
    list.iter().map(|&(low, high)| (PacketNumber(low), PacketNumber(high))).collect()
}

#[test]
fn wire_5_3_acks_come_back() {
    let list = ranges(&[(90, 100), (70, 80), (0, 68)]);
    let coding = CodingState {
        decoded_below: SymbolId(500),
        seen_below: SymbolId(503),
        windows: OpenWindows::from_slice(&[
            OpenWindow { window: Window { first: SymbolId(500), len: 32 }, deficit: 3 },
            OpenWindow { window: Window { first: SymbolId(540), len: 10 }, deficit: 1 },
        ]),
    };
    let ecn = EcnCounts { ect0: 5, ect1: 0, ce: 1000 };
    let mut out = Vec::new();
    put_ping(&mut out);
    assert!(put_ack(&mut out, list.iter().copied(), 1234, Some(ecn), Some(&coding), 1000));
    let mut frames = Frames::new(&out);
    assert!(matches!(frames.next(), Some(Ok(Frame::Ping))));
    let Some(Ok(Frame::Ack(ack))) = frames.next() else { panic!("no ACK") };
    assert!(frames.next().is_none());
    assert_eq!((ack.delay_us, ack.ecn, ack.coding.as_ref()), (1234, Some(ecn), Some(&coding)));
    assert_eq!(ack.ranges().collect::<Vec<_>>(), list);
}

#[test]
fn wire_5_3_an_ack_takes_no_more_room_than_there_is() {
    let many: Vec<_> = (0..500u64).rev().map(|i| (PacketNumber(i * 3), PacketNumber(i * 3))).collect();
    for space in 0..300 {
        let mut out = Vec::new();
        let put = put_ack(&mut out, many.iter().copied(), 0, None, None, space);
        assert!(out.len() <= space && put != out.is_empty());
        if put {
            let Some(Ok(Frame::Ack(ack))) = Frames::new(&out).next() else { panic!("no ACK") };
            let read: Vec<_> = ack.ranges().collect();
            assert!(read.len() <= ACK_RANGES_MAX);
            assert_eq!(read[..], many[..read.len()]);
        }
    }
}

#[test]
fn wire_5_3_ranges_below_zero_are_malformed() {
    // Largest 5, first range reaches below 0.
    assert!(matches!(Frames::new(&[ACK, 5, 0, 0, 6]).next(), Some(Err(Malformed))));
    // Largest 5, first range 5..=5, then a gap past 0.
    assert!(matches!(Frames::new(&[ACK, 5, 0, 1, 0, 4, 0]).next(), Some(Err(Malformed))));
}

#[test]
fn wire_5_4_repair_over_a_set_names_exactly_its_symbols() {
    let ids = [7u64, 8, 20, 21].map(SymbolId);
    let mut out = Vec::new();
    put_repair_set_header(&mut out, CodeId(4), &ids, RepairKey(9));
    assert!(out.len() <= REPAIR_HEADER_BYTES_MAX);
    out.extend_from_slice(b"payload");
    let Some(Ok(Frame::Repair(repair))) = Frames::new(&out).next() else { panic!("no repair") };
    let RepairSpan::Set(gaps) = repair.span else { panic!("no set") };
    let mut read = Vec::new();
    gaps.resolve(SymbolId(u64::from(repair.first)), &mut read);
    assert_eq!(read, ids);
    assert_eq!((repair.key, repair.payload), (RepairKey(9), &b"payload"[..]));
}

#[test]
fn wire_5_4_5_parts_come_back() {
    let mut out = Vec::new();
    put_part_header(&mut out, SymbolId(3), 65_000, 64_000);
    assert!(out.len() <= PART_HEADER_BYTES_MAX);
    out.extend_from_slice(b"piece");
    let Some(Ok(Frame::SourcePart { id, len, start, piece })) = Frames::new(&out).next() else {
        panic!("no part")
    };
    assert_eq!((id, len, start, piece), (3, 65_000, 64_000, &b"piece"[..]));
    // Longer than any datagram.
    assert!(matches!(Frames::new(&[SOURCE_PART, 0, 0, 0, 0, 0x80, 1, 0, 0, 0]).next(), Some(Err(Malformed))));
}

#[test]
fn wire_5_4_set_headers_stay_within_their_reserve() {
    for stride in [1, 2, 60, 70, 20_000] {
        let ids: Vec<_> = (0..100).map(|i| SymbolId(1 + i * stride)).collect();
        let count = set_prefix_that_fits(&ids, RepairKey(63));
        let mut out = Vec::new();
        put_repair_set_header(&mut out, CodeId(4), &ids[..count], RepairKey(63));
        assert!((1..=SET_SYMBOLS_MAX).contains(&count) && out.len() <= REPAIR_HEADER_BYTES_MAX, "{stride}");
    }
}

#[test]
fn wire_5_close_reasons_are_cut_to_fit() {
    let close = Close::Application { code: 3, reason: Bytes::from(vec![b'x'; 500]) };
    let mut out = Vec::new();
    put_close(&mut out, &close, 100);
    assert!(out.len() <= 100);
    assert!(matches!(Frames::new(&out).next(), Some(Ok(Frame::Close(Close::Application { code: 3, .. })))));
}

#[test]
fn random_bytes_never_panic() {
    use rand_core::{RngCore, SeedableRng};
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let mut ids = Vec::new();
    for _ in 0..20_000 {
        let mut bytes = vec![0; (rng.next_u32() % 80) as usize];
        rng.fill_bytes(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first %= 0x20;
        }
        for frame in Frames::new(&bytes).flatten() {
            match frame {
                Frame::Ack(ack) => assert!(ack.ranges().count() <= ACK_RANGES_MAX),
                Frame::Repair(Repair { span: RepairSpan::Set(gaps), .. }) => {
                    gaps.resolve(SymbolId(0), &mut ids)
                }
                _ => {}
            }
        }
    }
}
