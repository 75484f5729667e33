//! What the store keeps inside, and what it makes of files that are there in part.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;
use crate::cp::message::Hash;
use crate::cp::walk::Found;

fn meta_of(content: &[u8]) -> Meta {
    Meta { size_bytes: content.len() as u64, mtime_s: 1_700_000_000, mtime_ns: 5, mode: 0o640 }
}

fn receive(store: &Store, path: &str, content: &[u8]) -> Result<Hash, FileError> {
    let mut writer = store.place(path.as_bytes())?.open_partial(&meta_of(content), true)?.start(0)?;
    writer.write(content)?;
    writer.finish(&meta_of(content), blake3::hash(content).as_bytes())
}

#[test]
fn a_complete_file_has_its_name_time_and_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    receive(&store, "a", b"content").unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"content");
    assert_eq!(store.stat(b"a").unwrap(), (Kind::File, meta_of(b"content")));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the part is gone");
}

#[test]
fn a_wrong_hash_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut writer =
        store.place(b"a").unwrap().open_partial(&meta_of(b"abc"), true).unwrap().start(0).unwrap();
    writer.write(b"abX").unwrap();
    let error = writer.finish(&meta_of(b"abc"), blake3::hash(b"abc").as_bytes()).unwrap_err();
    assert_eq!(error.code, FileCode::Mismatch);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_part_is_offered_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let content = b"first half, second half";
    let mut writer =
        store.place(b"a").unwrap().open_partial(&meta_of(content), true).unwrap().start(0).unwrap();
    writer.write(&content[..11]).unwrap();
    drop(writer);
    assert!(!dir.path().join("a").exists(), "the final name only when complete");

    let partial = store.place(b"a").unwrap().open_partial(&meta_of(content), true).unwrap();
    assert_eq!(partial.offset, 11);
    assert_eq!(partial.hasher.finalize(), blake3::hash(b"first half,"));
    let mut writer = partial.start(11).unwrap();
    writer.write(&content[11..]).unwrap();
    writer.finish(&meta_of(content), blake3::hash(content).as_bytes()).unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), content);
}

#[test]
fn a_file_that_is_there_already_is_offered_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    receive(&store, "a", b"content").unwrap();
    let partial = store.place(b"a").unwrap().open_partial(&meta_of(b"content"), true).unwrap();
    assert_eq!(partial.offset, 7);
    let writer = partial.start(7).unwrap();
    writer.finish(&meta_of(b"content"), blake3::hash(b"content").as_bytes()).unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"content");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_part_is_its_owner_s_alone_until_the_file_is_complete() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (part, content) = (dir.path().join(".a.fulmar-part"), b"secret");
    for was_there in [false, true] {
        if was_there {
            fs::write(&part, b"sec").unwrap();
            fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let mut writer =
            store.place(b"a").unwrap().open_partial(&meta_of(content), true).unwrap().start(0).unwrap();
        assert_eq!(mode(&part), 0o600);
        writer.write(content).unwrap();
        assert_eq!(mode(&part), 0o600);
        writer.finish(&meta_of(content), blake3::hash(content).as_bytes()).unwrap();
        assert_eq!(mode(&dir.path().join("a")), 0o640);
    }
}

#[test]
fn a_pipe_is_neither_written_to_nor_waited_for_nor_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(dir.path().join(name)).status();
        assert!(made.unwrap().success());
    };
    pipe("pipe");
    assert_eq!(store.place(b"pipe").unwrap_err().code, FileCode::WrongKind);
    assert_eq!(store.open_file(b"pipe").unwrap_err().code, FileCode::WrongKind);
    // Put there after the place was found, or under the name of the part.
    let place = store.place(b"late").unwrap();
    pipe("late");
    assert_eq!(place.open_partial(&meta_of(b"x"), true).unwrap().offset, 0);
    pipe(".other.fulmar-part");
    let error = store.place(b"other").unwrap().open_partial(&meta_of(b"x"), true).unwrap_err();
    assert!(error.text.contains("in the way"), "{error}");
}

#[test]
fn names_of_parts_are_known_and_not_given_to_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path()).unwrap());
    assert_eq!(store.place(b".a.fulmar-part").unwrap_err().code, FileCode::BadName);
    assert!(store.place(b"a.fulmar-part").is_ok(), "it is the dot that makes the difference");
    fs::write(dir.path().join(".a.fulmar-part"), b"?").unwrap();
    fs::write(dir.path().join("a"), b"!").unwrap();
    symlink("a", dir.path().join("link")).unwrap();
    let mut walk = crate::cp::walk::Walk::begin(store, ".".into()).unwrap();
    assert!(matches!(walk.next(), Some(Found::Part(path, _)) if path == Path::new(".a.fulmar-part")));
    assert!(matches!(walk.next(), Some(Found::Entry(path, Kind::File, _)) if path == Path::new("a")));
    let link = FileError::new(FileCode::WrongKind, "a symbolic link");
    assert_eq!(walk.next(), Some(Found::LeftOut("link".into(), link)));
    assert_eq!(walk.next(), None);
}

#[test]
fn two_receivers_of_one_file_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let first = store.place(b"a").unwrap().open_partial(&meta_of(b"x"), true).unwrap();
    let second = store.place(b"a").unwrap().open_partial(&meta_of(b"x"), true);
    assert_eq!(second.unwrap_err().code, FileCode::Busy);
    drop(first);
    assert!(store.place(b"a").unwrap().open_partial(&meta_of(b"x"), true).is_ok());
}

#[test]
fn nothing_leads_out() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(outer.path().join("secret"), b"s").unwrap();
    symlink("../secret", root.join("link")).unwrap();
    symlink(outer.path(), root.join("up")).unwrap();
    symlink("inside", root.join("fine")).unwrap();
    fs::write(root.join("inside"), b"i").unwrap();
    let store = Store::open(&root).unwrap();

    for path in ["../secret", "a/../../secret", "link", "up/secret", "..", "up"] {
        let error = store.open_file(path.as_bytes()).unwrap_err();
        assert_eq!(error.code, FileCode::Outside, "{path}: {error}");
    }
    assert_eq!(store.place(b"up/new").unwrap_err().code, FileCode::Outside);
    assert_eq!(store.make_folder(b"up/new", 0o755).unwrap_err().code, FileCode::Outside);
    assert!(store.open_file(b"/inside").is_ok(), "a leading slash means the root");
    assert!(store.open_file(b"fine").is_ok(), "a link that stays inside is followed");
}

#[test]
fn a_long_name_gets_a_short_part() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    receive(&store, &"n".repeat(255), b"x").unwrap();
    assert_eq!(store.place(&[b'n'; 256]).unwrap_err().code, FileCode::BadName);
}

#[test]
fn kinds_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.make_folder(b"x/y", 0o500).unwrap();
    assert_eq!(store.stat(b"x/y").unwrap().0, Kind::Folder);
    assert_eq!(store.stat(b"").unwrap().0, Kind::Folder);
    assert_eq!(store.stat(b"nothing").unwrap().0, Kind::Missing);
    assert_eq!(store.open_file(b"x").unwrap_err().code, FileCode::WrongKind);
    assert_eq!(store.open_file(b"nothing").unwrap_err().code, FileCode::NotFound);
    assert_eq!(store.place(b"x").unwrap_err().code, FileCode::WrongKind);
    assert_eq!(store.place(b"missing/a").unwrap_err().code, FileCode::NotFound);
    receive(&store, "x/y/file", b"1").unwrap();
    let names: Vec<_> = store.entries(Path::new("x/y")).unwrap().into_iter().map(|e| e.path).collect();
    assert_eq!(names, [Path::new("x/y/file")]);
}

proptest! {
    /// Clause 3.2: whatever the bytes, a path is refused or stays below the folder.
    #[test]
    fn any_path_is_refused_or_inside(path in prop::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), any::<u8>()], 0..40)) {
        if let Ok(clean) = relative(&path) {
            prop_assert!(clean.is_relative());
            prop_assert!(!clean.components().any(|c| c == Component::ParentDir));
        }
    }
}
