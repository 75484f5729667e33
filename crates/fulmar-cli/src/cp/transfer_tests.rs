//! Both halves of the exchange against each other, and each against a peer that misbehaves, over a pipe in
//! memory.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::super::progress::Progress;
use super::super::send::send;
use super::super::source::Source;
use super::super::store::Store;
use super::*;

type Pipe = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

fn pipes() -> (Pipe, Pipe) {
    let (a, b) = tokio::io::duplex(64 * 1024);
    (tokio::io::split(a), tokio::io::split(b))
}

fn source(folder: &Path, name: &str) -> Source {
    Source::open(&Store::open(folder).unwrap(), name.as_bytes(), name).unwrap()
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
    tokio::join!(send(&mut ar, &mut aw, source, &sending, Version::Two), async move {
        // The stream ends with its side, as it does when a connection is dropped.
        let result = receive(&mut br, &mut bw, place, &receiving, Version::Two).await;
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
    let sent = send(&mut reader, &mut writer, source(folder.path(), "f"), &progress(), Version::Two).await;
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
    let (sent, received) = tokio::join!(
        send(&mut ar, &mut aw, source, &sending, Version::Two),
        receive(&mut br, &mut bw, place, &receiving, Version::Two)
    );
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
    let (sent, ()) = tokio::join!(send(&mut ar, &mut aw, source, &sending, Version::Two), async {
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
    let result = receive(&mut br, &mut bw, place, &progress(), Version::Two).await;
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

/// Appends to a file while it is sent; what comes of it at either side.
async fn copy_growing(bytes: usize) -> (Outcome, Outcome, Vec<u8>) {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = a.path().join("f");
    fs::write(&path, content(bytes)).unwrap();
    let (file, meta) = Store::open(a.path()).unwrap().open_file(b"f").unwrap();
    let grow = || fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[1; 1000]).unwrap();
    // A small file is read when it is opened, a large one later.
    grow();
    let source = Source::new(file, meta, "f").unwrap();
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    let place = Store::open(b.path()).unwrap().place(b"f").unwrap();
    let (sending, receiving) = (progress(), progress());
    let (sent, received) = tokio::join!(
        send(&mut ar, &mut aw, source, &sending, Version::Two),
        receive(&mut br, &mut bw, place, &receiving, Version::Two)
    );
    (sent.unwrap(), received.unwrap(), fs::read(b.path().join("f")).unwrap())
}

/// A log that somebody writes to could never be copied: "changed while it was read", each time.
#[tokio::test]
async fn a_file_that_grows_is_copied_as_it_was_and_said_to_have_grown() {
    for bytes in [0, 1000, 1_000_000] {
        let (sent, received, copy) = copy_growing(bytes).await;
        assert!(copy == content(bytes), "{bytes}: {} bytes", copy.len());
        for outcome in [sent, received] {
            let note = outcome.note.expect("it is said");
            assert!(note.code == FileCode::Changed && note.text.contains("f grew"), "{note}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_changed_in_its_middle_is_not_copied() {
    for bytes in [1000, 1_000_000] {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = a.path().join("f");
        fs::write(&path, content(bytes)).unwrap();
        let (file, meta) = Store::open(a.path()).unwrap().open_file(b"f").unwrap();
        let mut other = content(bytes);
        other[10] ^= 1;
        fs::write(&path, other).unwrap();
        let sent = match Source::new(file, meta, "f") {
            Err(error) => Err(TransferError::Local(error)),
            Ok(source) => {
                let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
                let place = Store::open(b.path()).unwrap().place(b"f").unwrap();
                let (sending, receiving) = (progress(), progress());
                let both = tokio::join!(
                    send(&mut ar, &mut aw, source, &sending, Version::Two),
                    receive(&mut br, &mut bw, place, &receiving, Version::Two)
                );
                both.0
            }
        };
        assert!(matches!(sent, Err(TransferError::Local(e)) if e.code == FileCode::Changed), "{bytes}");
        assert!(!b.path().join("f").exists());
    }
}

/// `/proc` says of all its files that they are empty: they arrived so, "verified".
#[tokio::test]
async fn a_file_whose_length_is_not_what_the_system_says_is_read_to_its_end() {
    let b = tempfile::tempdir().unwrap();
    let (sent, received) = copy(Path::new("/proc"), b.path(), "version").await;
    assert_eq!(sent.unwrap(), received.unwrap());
    let (original, copied) =
        (fs::read("/proc/version").unwrap(), fs::read(b.path().join("version")).unwrap());
    assert!(!copied.is_empty() && copied == original);
}

/// They hashed one after the other, and whoever was first heard nothing of the other for as long.
#[tokio::test]
async fn the_sender_hears_how_much_is_there_before_it_is_hashed() {
    let b = tempfile::tempdir().unwrap();
    let all = content(3_000_000);
    fs::write(b.path().join(".f.fulmar-part"), &all[..2_000_000]).unwrap();
    let meta = Meta { size_bytes: 3_000_000, mode: 0o600, ..Meta::default() };
    for version in [Version::Two, Version::One] {
        let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
        let place = Store::open(b.path()).unwrap().place(b"f").unwrap();
        message::write(&mut aw, &[Message::Meta(meta)]).await.unwrap();
        let receiving = progress();
        let heard = async {
            let mut heard = Vec::new();
            loop {
                let message = message::read(&mut ar).await.unwrap();
                let is_last = matches!(message, Message::Resume(..));
                heard.push(message);
                if is_last {
                    return heard;
                }
            }
        };
        let heard = tokio::select! {
            heard = heard => heard,
            early = receive(&mut br, &mut bw, place, &receiving, version) => panic!("{early:?}"),
        };
        let resume = Message::Resume(2_000_000, blake3::hash(&all[..2_000_000]).into());
        match version {
            Version::Two => assert!(matches!(heard[0], Message::Working(_, 2_000_000)), "{heard:?}"),
            Version::One => assert_eq!(heard.len(), 1, "it would not understand"),
        }
        assert_eq!(heard.last(), Some(&resume));
    }
}

/// The sender began only when the receiver had come to its end: two readings of a large file one after the
/// other.
#[tokio::test]
async fn the_sender_goes_through_its_file_while_the_receiver_does() {
    let a = tempfile::tempdir().unwrap();
    let all = content(3_000_000);
    fs::write(a.path().join("f"), &all).unwrap();
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    let shown = Arc::<Progress>::default();
    let sending = FileProgress::new(&shown);
    let receiver = async {
        assert!(matches!(message::read(&mut br).await, Ok(Message::Meta(_))));
        message::write(&mut bw, &[Message::Working(0, 2_000_000)]).await.unwrap();
        // The receiver is not through; the sender does not wait for that.
        while shown.checked_bytes() < 2_000_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let resume = Message::Resume(2_000_000, blake3::hash(&all[..2_000_000]).into());
        message::write(&mut bw, &[resume]).await.unwrap();
        message::read(&mut br).await
    };
    let source = source(a.path(), "f");
    tokio::select! {
        started = receiver => assert!(matches!(started, Ok(Message::Start(2_000_000))), "{started:?}"),
        early = send(&mut ar, &mut aw, source, &sending, Version::Two) => panic!("{early:?}"),
    }
    assert_eq!(shown.checked_bytes(), 2_000_000, "once, not twice");
}

/// It went back to the beginning without a word.
#[tokio::test]
async fn a_copy_that_starts_anew_says_so_on_both_sides() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(a.path().join("f"), content(1_000_000)).unwrap();
    fs::write(b.path().join(".f.fulmar-part"), [7; 600_000]).unwrap();
    let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
    let place = Store::open(b.path()).unwrap().place(b"f").unwrap();
    let (sending, receiving) = (Arc::<Progress>::default(), Arc::<Progress>::default());
    let (near, far) = (FileProgress::new(&sending), FileProgress::new(&receiving));
    let (sent, received) = tokio::join!(
        send(&mut ar, &mut aw, source(a.path(), "f"), &near, Version::Two),
        receive(&mut br, &mut bw, place, &far, Version::Two)
    );
    assert_eq!((sent.unwrap().discarded_bytes, received.unwrap().discarded_bytes), (600_000, 600_000));
    for progress in [sending, receiving] {
        let remarks = progress.take_remarks();
        assert!(remarks.len() == 1 && remarks[0].contains("f starts anew"), "{remarks:?}");
    }
}

/// A sender that has sent all hears that it arrives: over a thin path, or onto a slow disk, that may take
/// longer than its patience.
#[tokio::test(start_paused = true)]
async fn the_sender_hears_that_the_data_come() {
    for (version, word_count) in [(Version::One, 0), (Version::Two, 9)] {
        let folder = tempfile::tempdir().unwrap();
        let ((mut ar, mut aw), (mut br, mut bw)) = pipes();
        let all = content(100_000);
        let place = Store::open(folder.path()).unwrap().place(b"f").unwrap();
        let progress = progress();
        let sending = async {
            let meta = Meta { size_bytes: all.len() as u64, mode: 0o600, ..Meta::default() };
            message::write(&mut aw, &[Message::Meta(meta)]).await.unwrap();
            assert!(matches!(message::read(&mut ar).await, Ok(Message::Resume(0, _))));
            message::write(&mut aw, &[Message::Start(0)]).await.unwrap();
            for piece in all.chunks(10_000) {
                tokio::time::sleep(Duration::from_millis(9990)).await;
                message::write(&mut aw, &[Message::Data(Bytes::copy_from_slice(piece))]).await.unwrap();
            }
            message::write(&mut aw, &[Message::End(blake3::hash(&all).into())]).await.unwrap();
            let mut words = Vec::new();
            loop {
                match message::read(&mut ar).await.unwrap() {
                    Message::Working(done, 100_000) => words.push(done),
                    Message::Done(_) => return words,
                    other => panic!("{other:?}"),
                }
            }
        };
        let (words, received) = tokio::join!(sending, receive(&mut br, &mut bw, place, &progress, version));
        received.unwrap();
        assert_eq!(words, (1..=word_count).map(|n| n * 10_000).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn a_sparse_file_stays_sparse_and_a_file_full_of_zeros_does_not_become_so() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    const BYTES: u64 = 8 << 20;
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sparse = fs::File::create(a.path().join("sparse")).unwrap();
    sparse.set_len(BYTES).unwrap();
    sparse.write_all_at(&content(100_000), 3 << 20).unwrap();
    fs::write(a.path().join("full"), vec![0; BYTES as usize]).unwrap();
    for (name, is_sparse) in [("sparse", true), ("full", false)] {
        copy(a.path(), b.path(), name).await.1.unwrap();
        let copied = fs::metadata(b.path().join(name)).unwrap();
        assert!(fs::read(a.path().join(name)).unwrap() == fs::read(b.path().join(name)).unwrap());
        assert_eq!(copied.blocks() * 512 < BYTES / 4, is_sparse, "{name}: {} blocks", copied.blocks());
    }
}
