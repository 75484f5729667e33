//! Requests to a served folder, over a pipe in memory: the good, the forbidden and the malformed.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::cp::message::{Kind, Meta};

/// Sends raw bytes as a request stream; returns what the server says about it and the messages that came
/// back.
async fn ask_raw(
    served: &Served,
    bytes: &[u8],
) -> (Result<Handled, TransferError>, Vec<Result<Message, TransferError>>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (mut near_read, mut near_write) = tokio::io::split(near);
    let (mut far_read, mut far_write) = tokio::io::split(far);
    near_write.write_all(bytes).await.unwrap();
    near_write.shutdown().await.unwrap();
    let handled = served.handle(served.admit("a").await, &mut far_read, &mut far_write).await;
    drop((far_read, far_write));
    let mut answers = Vec::new();
    loop {
        match message::read(&mut near_read).await {
            Err(TransferError::Connection(_)) => return (handled, answers),
            answer => answers.push(answer),
        }
    }
}

async fn ask(served: &Served, messages: &[Message]) -> Vec<Result<Message, TransferError>> {
    let mut bytes = PREAMBLE.to_vec();
    messages.iter().for_each(|m| m.append_to(&mut bytes));
    ask_raw(served, &bytes).await.1
}

fn code(answers: &[Result<Message, TransferError>]) -> Option<FileCode> {
    match answers.last() {
        Some(Err(TransferError::Remote(error))) => Some(error.code),
        _ => None,
    }
}

fn served(is_read_only: bool) -> (TempDir, Served) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/f"), b"hello").unwrap();
    fs::write(dir.path().join("a/g"), b"").unwrap();
    std::os::unix::fs::symlink("g", dir.path().join("a/link")).unwrap();
    let served = Served::new(dir.path(), is_read_only).unwrap();
    (dir, served)
}

#[tokio::test]
async fn a_listing_names_everything_below() {
    let (_dir, served) = served(true);
    let answers = ask(&served, &[Message::List(b"a".to_vec())]).await;
    let names: Vec<_> = answers
        .iter()
        .map(|a| match a.as_ref().unwrap() {
            Message::Entry(path, kind, meta) => {
                (String::from_utf8(path.clone()).unwrap(), *kind, meta.size_bytes)
            }
            Message::EndList(skipped) => ("end".into(), Kind::Other, *skipped),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        names,
        [
            ("b".into(), Kind::Folder, 0),
            ("b/f".into(), Kind::File, 5),
            ("g".into(), Kind::File, 0),
            ("end".into(), Kind::Other, 1)
        ]
    );
}

#[tokio::test]
async fn what_is_forbidden_is_refused_with_its_reason() {
    let (_dir, served) = served(true);
    let meta = Meta { size_bytes: 1, ..Meta::default() };
    assert_eq!(
        code(&ask(&served, &[Message::Put(b"x".to_vec()), Message::Meta(meta)]).await),
        Some(FileCode::Denied)
    );
    assert_eq!(
        code(&ask(&served, &[Message::MakeFolder(b"x".to_vec(), 0o700)]).await),
        Some(FileCode::Denied)
    );
    assert_eq!(code(&ask(&served, &[Message::Get(b"../x".to_vec())]).await), Some(FileCode::Outside));
    assert_eq!(code(&ask(&served, &[Message::Stat(b"a/../../x".to_vec())]).await), Some(FileCode::Outside));
    assert_eq!(code(&ask(&served, &[Message::Get(b"nothing".to_vec())]).await), Some(FileCode::NotFound));
    assert_eq!(code(&ask(&served, &[Message::Get(b"a".to_vec())]).await), Some(FileCode::WrongKind));
    assert_eq!(code(&ask(&served, &[Message::List(b"a/g".to_vec())]).await), Some(FileCode::WrongKind));
    assert_eq!(code(&ask(&served, &[Message::Start(0)]).await), Some(FileCode::Protocol));
}

#[tokio::test]
async fn another_version_is_told_so() {
    let (_dir, served) = served(false);
    let (handled, answers) = ask_raw(&served, b"FCP\x02whatever this may mean").await;
    assert!(handled.is_err());
    assert_eq!(code(&answers), Some(FileCode::Version));
    let (_, answers) = ask_raw(&served, b"GET / HTTP/1.1\r\n").await;
    assert_eq!(code(&answers), Some(FileCode::Protocol));
}

/// A client may have a thousand at once. Each had 46 KiB, most of it copies of a hasher.
#[tokio::test]
async fn a_request_that_stands_still_holds_little() {
    let (_dir, served) = served(true);
    let (near, mut far) = tokio::io::duplex(1);
    drop(near);
    let (mut reader, mut writer) = tokio::io::split(&mut far);
    let serving = served.handle(served.admit("a").await, &mut reader, &mut writer);
    assert!(size_of_val(&serving) <= 8 << 10, "{}", size_of_val(&serving));
}

#[tokio::test]
async fn a_client_that_comes_again_replaces_its_own_request_and_no_other_s() {
    let (dir, served) = served(false);
    let served = Arc::new(served);
    let content = [7; 10];
    let meta = Meta { size_bytes: 10, mode: 0o600, ..Meta::default() };

    // A request that was cut off: it has said what it sends, and then nothing more.
    let (near, far) = tokio::io::duplex(1 << 16);
    let (mut near_read, mut near_write) = tokio::io::split(near);
    let put = Message::Put(b"f".to_vec());
    message::write_request(&mut near_write, &put).await.unwrap();
    message::write(&mut near_write, &[Message::Meta(meta)]).await.unwrap();
    let waiting = tokio::spawn({
        let served = Arc::clone(&served);
        async move {
            let (mut far_read, mut far_write) = tokio::io::split(far);
            served.handle(served.admit("a").await, &mut far_read, &mut far_write).await
        }
    });
    assert!(
        matches!(message::read(&mut near_read).await, Ok(Message::Resume(0, _))),
        "it holds the file now"
    );

    let data = Message::Data(content.to_vec().into());
    let all =
        [put, Message::Meta(meta), Message::Start(0), data, Message::End(*blake3::hash(&content).as_bytes())];
    let answers = ask(&served, &all).await;
    assert!(matches!(answers.last(), Some(Ok(Message::Done(_)))), "{answers:?}");
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), content);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, TransferError::Local(e) if e.code == FileCode::Replaced));
    assert!(served.receiving.lock().unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Clause 2.3: no bytes from a client make the server panic, hang, or write outside the file it names.
    #[test]
    fn any_request_bytes_end_in_an_answer(kind in prop_oneof![0u8..8, any::<u8>()], body in prop::collection::vec(any::<u8>(), 0..60), tail in prop::collection::vec(any::<u8>(), 0..60)) {
        let (_dir, served) = served(true);
        let mut bytes = PREAMBLE.to_vec();
        crate::frames::append(&mut bytes, kind, &body);
        bytes.extend(tail);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _ = runtime.block_on(ask_raw(&served, &bytes));
    }
}
