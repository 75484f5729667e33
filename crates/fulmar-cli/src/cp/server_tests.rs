//! Requests to a served folder, over a pipe in memory: the good, the forbidden and the malformed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fs, io};

use proptest::prelude::*;
use tempfile::TempDir;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::cp::message::{Kind, Meta};

impl Reply for WriteHalf<DuplexStream> {
    fn give_up(&mut self, why: FileCode) {
        panic!("given up in the middle of a frame: {why:?}");
    }
}

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
            Message::LeftOut(path, error) => {
                (format!("{}: {error}", String::from_utf8_lossy(path)), Kind::Other, 0)
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
            ("link: a symbolic link".into(), Kind::Other, 0),
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
    let (handled, answers) = ask_raw(&served, b"FCP\x03whatever this may mean").await;
    assert!(handled.is_err());
    assert_eq!(code(&answers), Some(FileCode::Version));
    let (_, answers) = ask_raw(&served, b"GET / HTTP/1.1\r\n").await;
    assert_eq!(code(&answers), Some(FileCode::Protocol));
}

/// A client may have a thousand at once. Each had 46 KiB, most of it copies of a hasher.
#[tokio::test]
async fn a_request_that_stands_still_holds_little() {
    let (_dir, served) = served(true);
    let (near, far) = tokio::io::duplex(1);
    drop(near);
    let (mut reader, mut writer) = tokio::io::split(far);
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

/// Clients of version 1 are served as before: they would not understand what came later.
#[tokio::test]
async fn a_client_of_version_1_gets_nothing_that_it_does_not_know() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, served) = served(true);
    fs::set_permissions(dir.path().join("a/b"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(dir.path().join("a/.x.fulmar-part"), b"?").unwrap();
    let mut bytes = b"FCP\x01".to_vec();
    Message::List(b"a".to_vec()).append_to(&mut bytes);
    let (_, answers) = ask_raw(&served, &bytes).await;
    let entries = |answers: &[Result<Message, TransferError>]| -> Vec<(String, Kind, u32)> {
        let entry = |answer: &Result<Message, TransferError>| match answer {
            Ok(Message::Entry(path, kind, meta)) => {
                Some((String::from_utf8_lossy(path).into_owned(), *kind, meta.mode & 0o1000))
            }
            Ok(Message::EndList(_)) => None,
            other => panic!("{other:?}"),
        };
        answers.iter().filter_map(entry).collect()
    };
    let names =
        [(".x.fulmar-part", Kind::Other), ("b", Kind::Folder), ("b/f", Kind::File), ("g", Kind::File)];
    assert_eq!(entries(&answers), names.map(|(name, kind)| (name.to_owned(), kind, 0)));
    assert_eq!(answers.last().unwrap().as_ref().unwrap(), &Message::EndList(1), "the link");
    let newer = ask(&served, &[Message::Stat(b"a/b".to_vec())]).await;
    assert!(matches!(newer[0], Ok(Message::Info(Kind::Folder, Meta { mode: 0o1777, .. }))), "{newer:?}");
}

/// Clause 4.14: the same is what has size, time, mode and, for both to see, content.
#[tokio::test]
async fn a_comparison_names_the_hash_of_what_is_there_like_that() {
    let (_dir, served) = served(true);
    let [Ok(Message::Info(_, meta))] = ask(&served, &[Message::Stat(b"a/b/f".to_vec())]).await[..] else {
        panic!("it is there")
    };
    let asked = |path: &str, meta: Meta| (path.as_bytes().to_vec(), meta);
    let same = Message::Compare(vec![
        asked("a/b/f", meta),
        asked("a/b/f", Meta { size_bytes: 4, ..meta }),
        asked("a/b/f", Meta { mtime_s: 1, ..meta }),
        asked("a/b/f", Meta { mode: meta.mode ^ 0o200, ..meta }),
        asked("a/g", meta),
        asked("a/b", meta),
        asked("missing", meta),
        asked("../x", meta),
    ]);
    let answers = ask(&served, &[same]).await;
    let mut expected = vec![None; 8];
    expected[0] = Some(*blake3::hash(b"hello").as_bytes());
    assert_eq!(answers[0].as_ref().unwrap(), &Message::Same(expected));
}

/// A sender that hashes what it has on a slow disk was given up, each time anew. It says how far it is, and
/// is waited for.
#[tokio::test(start_paused = true)]
async fn a_sender_that_says_that_it_hashes_is_waited_for_and_one_that_is_silent_is_not() {
    for (says, is_waited_for) in [(true, true), (false, false)] {
        let (dir, served) = served(false);
        let content = vec![7; 100_000];
        fs::write(dir.path().join(".f.fulmar-part"), &content[..90_000]).unwrap();
        let (near, far) = tokio::io::duplex(1 << 20);
        let (mut near_read, mut near_write) = tokio::io::split(near);
        let (mut far_read, mut far_write) = tokio::io::split(far);
        let admitted = served.admit("a").await;
        let client = async {
            let meta = Meta { size_bytes: 100_000, mode: 0o600, ..Meta::default() };
            message::write_request(&mut near_write, &Message::Put(b"f".to_vec())).await.unwrap();
            message::write(&mut near_write, &[Message::Meta(meta)]).await.unwrap();
            while !matches!(message::read(&mut near_read).await.unwrap(), Message::Resume(90_000, _)) {}
            for minute in 0..30 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                if says {
                    message::write(&mut near_write, &[Message::Working(minute, 90_000)]).await.unwrap();
                }
            }
            let data = Message::Data(content[90_000..].to_vec().into());
            let end = Message::End(blake3::hash(&content).into());
            let _ = message::write(&mut near_write, &[Message::Start(90_000), data, end]).await;
            message::read(&mut near_read).await
        };
        let (answer, handled) = tokio::join!(client, served.handle(admitted, &mut far_read, &mut far_write));
        assert_eq!(handled.is_ok(), is_waited_for, "{handled:?}");
        let stalled =
            |e: &TransferError| matches!(e, TransferError::GivenUp(e) if e.code == FileCode::Stalled);
        assert!(answer.is_ok() || answer.as_ref().is_err_and(stalled), "{answer:?}");
    }
}

const DOWNLOAD_BYTES: usize = 5_000_000;

/// A client that asks for a file and has heard how large it is.
async fn begin_download(
    folder: &TempDir,
    near_read: &mut ReadHalf<DuplexStream>,
    near_write: &mut WriteHalf<DuplexStream>,
) {
    fs::write(folder.path().join("large"), vec![7; DOWNLOAD_BYTES]).unwrap();
    message::write_request(near_write, &Message::Get(b"large".to_vec())).await.unwrap();
    assert!(matches!(message::read(near_read).await, Ok(Message::Meta(_))));
    message::write(near_write, &[Message::Resume(0, *blake3::hash(b"").as_bytes())]).await.unwrap();
    assert!(matches!(message::read(near_read).await, Ok(Message::Start(0))));
}

/// Every download that took longer than two minutes was given up in the middle: the client takes, and has
/// nothing to say. It ended with "gave up without a reason (early eof)".
#[tokio::test(start_paused = true)]
async fn a_download_may_take_longer_than_the_patience() {
    let (dir, served) = served(true);
    let (near, far) = tokio::io::duplex(1 << 10);
    let (mut near_read, mut near_write) = tokio::io::split(near);
    let (mut far_read, mut far_write) = tokio::io::split(far);
    let admitted = served.admit("a").await;
    let client = async {
        begin_download(&dir, &mut near_read, &mut near_write).await;
        let (mut bytes, begin) = (0, tokio::time::Instant::now());
        let hash = loop {
            match message::read(&mut near_read).await.unwrap() {
                Message::Data(data) => bytes += data.len(),
                Message::End(hash) => break hash,
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(STALL_MAX / 4).await;
        };
        message::write(&mut near_write, &[Message::Done(hash)]).await.unwrap();
        assert_eq!(bytes, DOWNLOAD_BYTES);
        assert!(begin.elapsed() > 2 * STALL_MAX, "{:?}", begin.elapsed());
    };
    let ((), handled) = tokio::join!(client, served.handle(admitted, &mut far_read, &mut far_write));
    handled.unwrap();
}

/// A stream, and why it was let fall.
struct Fallen(WriteHalf<DuplexStream>, Option<FileCode>);

impl Reply for Fallen {
    fn give_up(&mut self, why: FileCode) {
        self.1 = Some(why);
    }
}

impl AsyncWrite for Fallen {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        panic!("an end in the middle of a frame")
    }
}

/// The ERROR went out behind half a frame, as if it were the rest of it, and then the stream ended in order.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_given_up_in_the_middle_of_a_frame_is_no_end() {
    let (dir, served) = served(true);
    let (near, far) = tokio::io::duplex(1 << 10);
    let (mut near_read, mut near_write) = tokio::io::split(near);
    let (mut far_read, far_write) = tokio::io::split(far);
    let mut far_write = Fallen(far_write, None);
    let admitted = served.admit("a").await;
    let client = async {
        begin_download(&dir, &mut near_read, &mut near_write).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = client => {}
        handled = served.handle(admitted, &mut far_read, &mut far_write) => {
            assert!(matches!(handled, Err(TransferError::Local(e)) if e.code == FileCode::Stalled));
        }
    }
    assert_eq!(far_write.1, Some(FileCode::Stalled));
}
