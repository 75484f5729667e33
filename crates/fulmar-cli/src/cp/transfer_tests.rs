//! Both halves of the exchange against each other, and each against a peer that misbehaves, over a pipe in
//! memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::super::progress::Progress;
use super::super::send::{Source, send};
use super::super::store::Store;
use super::*;

type Pipe = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

fn pipes() -> (Pipe, Pipe) {
    let (a, b) = tokio::io::duplex(64 * 1024);
    (tokio::io::split(a), tokio::io::split(b))
}

fn source(folder: &Path, name: &str) -> Source {
    let (file, meta) = Store::open(folder).unwrap().open_file(name.as_bytes()).unwrap();
    Source { file, meta, shown: name.into() }
}

fn progress() -> FileProgress {
    FileProgress::new(&Arc::new(Progress::default()))
}

/// Copies `from/name` to `to/name`.
async fn copy(
    from: &Path,
    to: &Path,
    name: &str,
) -> (Result<Outcome, TransferError>, Result<Outcome, TransferError>) {
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    let (sending, receiving) = (progress(), progress());
    let source = source(from, name);
    let place = Store::open(to).unwrap().place(name.as_bytes()).unwrap();
    tokio::join!(send(&mut ar, &mut aw, source, &sending), async move {
        // The stream ends with its side, as it does when a connection is dropped.
        let result = receive(&mut br, &mut bw, place, &receiving).await;
        let _ = bw.shutdown().await;
        result
    })
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A refusal may be there before the first word of the file is out.
#[tokio::test]
async fn one_who_stopped_listening_at_once_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), content(10)).unwrap();
    let ((mut reader, mut writer), (theirs, mut told)) = pipes();
    let reason = FileError::new(FileCode::NotFound, "No such file");
    message::write(&mut told, &[Message::Error(reason)]).await.unwrap();
    drop((theirs, told));
    let sent = send(&mut reader, &mut writer, source(folder.path(), "f"), &progress()).await;
    assert!(matches!(sent, Err(TransferError::Remote(error)) if error.code == FileCode::NotFound));
}

#[tokio::test]
async fn files_of_all_sizes_arrive() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for bytes in [0, 1, 65536, 65537, 3_000_000] {
        fs::write(a.path().join("f"), content(bytes)).unwrap();
        let (sent, received) = copy(a.path(), b.path(), "f").await;
        assert_eq!(sent.unwrap(), received.unwrap());
        assert!(fs::read(b.path().join("f")).unwrap() == content(bytes), "{bytes} bytes");
    }
}

#[tokio::test]
async fn a_part_is_resumed_only_from_the_same_source() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let all = content(1_000_000);
    fs::write(a.path().join("f"), &all).unwrap();
    fs::write(b.path().join(".f.fulmar-part"), &all[..600_000]).unwrap();
    let (sent, received) = copy(a.path(), b.path(), "f").await;
    assert_eq!(sent.unwrap().resumed_bytes, 600_000);
    assert_eq!(received.unwrap().resumed_bytes, 600_000);
    assert!(fs::read(b.path().join("f")).unwrap() == all);

    let mut other = all[..600_000].to_vec();
    other[599_999] ^= 1;
    fs::write(b.path().join(".f.fulmar-part"), &other).unwrap();
    fs::remove_file(b.path().join("f")).unwrap();
    let (sent, _) = copy(a.path(), b.path(), "f").await;
    assert_eq!(sent.unwrap().resumed_bytes, 0, "one bit differs: another source");
    assert!(fs::read(b.path().join("f")).unwrap() == all);
}

#[tokio::test]
async fn what_is_there_already_is_not_sent_again() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(a.path().join("f"), content(1_000_000)).unwrap();
    copy(a.path(), b.path(), "f").await.0.unwrap();
    let (sent, _) = copy(a.path(), b.path(), "f").await;
    assert_eq!(sent.unwrap().resumed_bytes, 1_000_000);
}

#[tokio::test]
async fn a_source_that_changes_is_reported_to_both_sides() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(a.path().join("f"), content(1_000_000)).unwrap();
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    let source = source(a.path(), "f");
    fs::OpenOptions::new().write(true).open(a.path().join("f")).unwrap().set_len(500_000).unwrap();
    let place = Store::open(b.path()).unwrap().place(b"f").unwrap();
    let (sending, receiving) = (progress(), progress());
    let (sent, received) =
        tokio::join!(send(&mut ar, &mut aw, source, &sending), receive(&mut br, &mut bw, place, &receiving));
    assert!(matches!(sent.unwrap_err(), TransferError::Local(e) if e.code == FileCode::Changed));
    assert!(matches!(received.unwrap_err(), TransferError::Remote(e) if e.code == FileCode::Changed));
    assert!(!b.path().join("f").exists());
}

#[tokio::test]
async fn the_receiver_s_error_ends_the_sending_at_once() {
    let a = tempfile::tempdir().unwrap();
    fs::write(a.path().join("f"), content(5_000_000)).unwrap();
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    let source = source(a.path(), "f");
    let sending = progress();
    let (sent, ()) = tokio::join!(send(&mut ar, &mut aw, source, &sending), async {
        message::read(&mut br).await.unwrap();
        let full = FileError::new(FileCode::Full, "f: No space left on device");
        message::write(&mut bw, &[Message::Resume(0, [0; 32]), Message::Error(full)]).await.unwrap();
        // Nothing is read any more, as when the stream is stopped.
        std::future::ready(()).await;
    });
    assert!(matches!(sent.unwrap_err(), TransferError::Remote(e) if e.code == FileCode::Full));
}

/// What the receiver answers to a sender that says these messages about a file of 10 bytes, and what it
/// leaves behind.
async fn receive_script(messages: &[Message]) -> (Result<Outcome, TransferError>, usize) {
    let b = tempfile::tempdir().unwrap();
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    message::write(&mut aw, messages).await.unwrap();
    aw.shutdown().await.unwrap();
    let place = Store::open(b.path()).unwrap().place(b"f").unwrap();
    let result = receive(&mut br, &mut bw, place, &progress()).await;
    drop(bw);
    drop(br);
    // An error of the sender's making is told to the sender.
    if matches!(result, Err(TransferError::Protocol(_) | TransferError::Local(_))) {
        let mut told = false;
        while let Ok(_) | Err(TransferError::Remote(_)) = message::read(&mut ar).await.inspect_err(|e| {
            told |= matches!(e, TransferError::Remote(_));
        }) {}
        assert!(told, "the sender was told");
    }
    let is_stored = b.path().join("f").exists();
    (result, usize::from(is_stored))
}

#[tokio::test]
async fn a_sender_that_breaks_the_rules_is_refused() {
    let meta = Meta { size_bytes: 10, mode: 0o600, ..Meta::default() };
    let data = |n: usize| Message::Data(Bytes::from(vec![1; n]));
    let hash = *blake3::hash(&[1; 10]).as_bytes();
    let scripts: &[&[Message]] = &[
        &[Message::Start(0)],
        &[Message::Meta(meta), Message::Start(5)],
        &[Message::Meta(meta), data(10)],
        &[Message::Meta(meta), Message::Start(0), data(11)],
        &[Message::Meta(meta), Message::Start(0), data(9), Message::End(hash)],
        &[Message::Meta(meta), Message::Start(0), data(10), Message::End([0; 32])],
        &[Message::Meta(meta), Message::Start(0), data(5), Message::Done(hash)],
        &[Message::Meta(meta), Message::Start(0), data(10)],
    ];
    for script in scripts {
        let (result, files) = receive_script(script).await;
        assert!(result.is_err(), "{script:?}");
        assert_eq!(files, 0, "{script:?}");
    }
    let good = [Message::Meta(meta), Message::Start(0), data(4), data(6), Message::End(hash)];
    let (result, files) = receive_script(&good).await;
    assert_eq!((result.unwrap().hash, files), (hash, 1));
}
