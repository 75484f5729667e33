//! Messages survive the trip, and no bytes make them anything else.

use proptest::prelude::*;

use super::*;

fn meta() -> impl Strategy<Value = Meta> {
    (any::<u64>(), any::<i64>(), 0u32..1_000_000_000, 0u32..=0o777)
        .prop_map(|(size_bytes, mtime_s, mtime_ns, mode)| Meta { size_bytes, mtime_s, mtime_ns, mode })
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

fn what() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::File), Just(Kind::Folder), Just(Kind::Missing), Just(Kind::Other)]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        path().prop_map(Message::Put),
        path().prop_map(Message::Get),
        path().prop_map(Message::Stat),
        path().prop_map(Message::List),
        (path(), 0u32..=FOLDER_MODE_MAX).prop_map(|(p, m)| Message::MakeFolder(p, m)),
        meta().prop_map(Message::Meta),
        (any::<u64>(), any::<Hash>()).prop_map(|(o, h)| Message::Resume(o, h)),
        any::<u64>().prop_map(Message::Start),
        prop::collection::vec(any::<u8>(), 1..300).prop_map(|d| Message::Data(d.into())),
        any::<Hash>().prop_map(Message::End),
        any::<Hash>().prop_map(Message::Done),
        (what(), meta()).prop_map(|(k, m)| Message::Info(k, m)),
        (path(), what(), meta()).prop_map(|(p, k, m)| Message::Entry(p, k, m)),
        any::<u64>().prop_map(Message::EndList),
        (path(), 1u16..=14, "[ -~]{0,50}").prop_map(|(path, code, text)| {
            Message::LeftOut(path, FileError::new(FileCode::from_wire(code), text))
        }),
        (1u16..=14, "[ -~]{0,50}")
            .prop_map(|(code, text)| Message::Note(FileError::new(FileCode::from_wire(code), text))),
        (any::<u64>(), any::<u64>()).prop_map(|(done, total)| Message::Working(done, total)),
        any::<u64>().prop_map(Message::Sparse),
        prop::collection::vec((path(), meta()), 0..5).prop_map(Message::Compare),
        prop::collection::vec(prop::option::of(any::<Hash>()), 0..5).prop_map(Message::Same),
        (1u16..=13, "[ -~]{0,50}")
            .prop_map(|(code, text)| { Message::Error(FileError::new(FileCode::from_wire(code), text)) }),
    ]
}

fn parse_frames(mut wire: &[u8]) -> Option<Result<Message, &'static str>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let frame = runtime.block_on(frames::read(&mut wire)).ok().flatten()?;
    Some(Message::parse(frame))
}

proptest! {
    #[test]
    fn messages_survive_the_trip(message in message()) {
        let mut wire = Vec::new();
        message.append_to(&mut wire);
        prop_assert_eq!(parse_frames(&wire), Some(Ok(message)));
    }

    /// Clause 2.3: any bytes parse or are refused, and what parses is written back as it came.
    #[test]
    fn no_bytes_make_it_panic(kind: u8, body in prop::collection::vec(any::<u8>(), 0..120)) {
        let frame = Frame { kind, body: body.clone().into() };
        match Message::parse(frame) {
            // An error's text is made printable, so it may differ.
            Ok(Message::Error(_) | Message::Note(_) | Message::LeftOut(..)) | Err(_) => {}
            Ok(message) => {
                let mut wire = Vec::new();
                message.append_to(&mut wire);
                prop_assert_eq!(&wire[5..], &body[..]);
            }
        }
    }
}

#[test]
fn a_message_with_a_tail_or_a_hole_is_refused() {
    let mut wire = Vec::new();
    Message::Start(5).append_to(&mut wire);
    let body = Bytes::copy_from_slice(&wire[5..]);
    let long = Bytes::from([&body[..], &[0]].concat());
    assert!(Message::parse(Frame { kind: 0x12, body: long }).is_err());
    assert!(Message::parse(Frame { kind: 0x12, body: body.slice(..7) }).is_err());
    assert!(Message::parse(Frame { kind: 0x13, body: Bytes::new() }).is_err());
    assert!(Message::parse(Frame { kind: 0x01, body: vec![b'a'; PATH_BYTES_MAX + 1].into() }).is_err());
}

#[test]
fn a_long_error_text_is_cut_at_a_character() {
    let mut wire = Vec::new();
    Message::Error(FileError::new(FileCode::Io, "ü".repeat(1000))).append_to(&mut wire);
    let Some(Ok(Message::Error(error))) = parse_frames(&wire) else { panic!("an error came out") };
    assert_eq!(error.text, "ü".repeat(512));
}
